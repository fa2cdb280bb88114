"""A rendered kernel with the operands that it takes, and the launch of it.

A launch checks its arguments before anything runs: count, types, devices' buffers
against numbers, and shapes. A GPU's launcher checks none of them, and reads a wrong
argument as a number of another size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.loops.ir import Input
from mdtensor.kernels.loops.walk import Ints, jumps_of, walk

Walk = npt.NDArray[np.int64]
#: Threads of a block: of an elementwise kernel, of a fold, and of a tile by its side.
THREADS, FOLDING, TILING = 256, 64, {1: 128, 4: 128, 16: 256, 64: 128, 128: 128}
#: Rows and columns of a block, by the side of its tile, where they are not this side.
BLOCK_SIDES = {1: (512, 1), 4: (4, 1)}
#: The largest number of blocks; further elements are steps of the same threads.
BLOCKS = 65535
#: Layouts of operands for which a kernel keeps its launch.
LAYOUTS = 256


class Launch(NamedTuple):
    """What a launcher passes to a kernel: buffers and numbers in order, and walks.

    Args:
        operands: buffers, and 0-d arrays that are passed by value.
        walks: arrays of int64, passed by value behind the operands.
        grid: blocks.
        block: threads of each.
        product: what a library takes to compute the same, on a device that has one.
    """

    operands: tuple[Any, ...]
    walks: tuple[Walk, ...]
    grid: int
    block: int
    product: Any = None


@dataclass(frozen=True)
class Kernel:
    """The text of one kernel, in the language of a device.

    Args:
        name: the symbol in the compiled text.
        text: CUDA C++, which calls the functions of `scalar.cuh`, or WGSL.
        inputs: the operands before the result.
        type: element type of the result.
        fold: how elements along the folded axes are combined; None has no such axes.
        is_serial: one thread combines the elements of a result, not a block.
        is_scan: the result has each sum on the way.
        title: the name for users, without what makes the symbol unique.
        has_rows: a block folds each row, and then computes its elements.
        is_row: it writes one element for each row.
        tile: rows and columns of the tiles that blocks compute; 0 without tiles.
        factors: the operands that tiles multiply, by number.
        piece: elements of a line that a block folds; 0 folds whole lines.

    Call: `device.launch(kernel, *inputs, out)`; a fold, also one of rows, takes the
    axes behind `out`.
    """

    name: str
    text: str
    inputs: tuple[Input, ...]
    type: str
    fold: str | None = None
    is_serial: bool = False
    is_scan: bool = False
    title: str = ""
    has_rows: bool = False
    is_row: bool = False
    tile: int = 0
    factors: Ints = ()
    piece: int = 0
    #: Walks, grid and block by the layouts of the operands.
    _bound: dict[Any, tuple[Any, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def __name__(self) -> str:
        return self.title or self.name

    def __call__(self, *arguments: Any) -> None:
        """Raise: only a device can run the text."""
        raise TypeError(f"{self.name} is text. Use device.launch(kernel, ...).")

    @property
    def has_barriers(self) -> bool:
        """Return whether threads of a block wait for each other."""
        return "__syncthreads" in self.text

    @property
    def takes_axes(self) -> bool:
        """Return whether a launch names the axes of folds."""
        return self.fold is not None or self.has_rows

    def bind(self, arguments: Sequence[Any]) -> Launch:
        """Return the launch for these arguments.

        Raises:
            TypeError: an argument has another type than the kernel declares.
            ValueError: there are too few or too many, or shapes do not fit.
        """
        # A program launches the same layouts again and again, and a walk takes longer
        # to compute than to launch.
        key = tuple(map(_layout, arguments))
        known = self._bound.get(key)
        if known is not None:
            return Launch(tuple(arguments[: len(self.inputs) + 1]), *known)
        launch = self._bind(arguments)
        if len(self._bound) >= LAYOUTS:
            self._bound.clear()
        self._bound[key] = launch[1:]
        return launch

    def _bind(self, arguments: Sequence[Any]) -> Launch:
        folds = self.takes_axes
        count = len(self.inputs) + 1 + folds
        if len(arguments) != count:
            takes = f"{len(self.inputs)} operands, out{' and axes' * folds}"
            given = f"{self.name} takes {takes}, got {len(arguments)} arguments"
            raise ValueError(f"{given}.")
        operands = tuple(arguments[: len(self.inputs) + 1])
        declared = (*self.inputs, Input(self.type))
        for at, (one, x) in enumerate(zip(declared, operands, strict=True)):
            _check(self.name, at, one, x)
        if not folds:
            return self._elementwise(operands)
        if self.is_scan or (self.has_rows and not self.is_row):
            return self._along(operands, tuple(arguments[-1]))
        return self._fold(operands, tuple(arguments[-1]))

    def _elementwise(self, operands: tuple[Any, ...]) -> Launch:
        shape = tuple(operands[-1].shape)
        found = walk(shape, self._jumps(operands, shape))
        blocks = min(-(-int(found[0]) // THREADS), BLOCKS)
        return Launch(operands, (found,), blocks, THREADS)

    def _fold(self, operands: tuple[Any, ...], axes: Ints) -> Launch:
        *inputs, out = operands
        pairs = zip(self.inputs, inputs, strict=True)
        shape = np.broadcast_shapes(*(x.shape for d, x in pairs if not d.is_table))
        jumps = self._jumps(inputs, shape)
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        rest = tuple(shape[axis] for axis in kept)
        folded = tuple(shape[axis] for axis in axes)
        kept_jumps = [tuple(j[a] for a in kept) for j in jumps]
        if self.piece:
            # Pieces are the last axis of the result, and no operand steps along it.
            rest = (*rest, -(-prod(folded) // self.piece))
            kept_jumps = [(*j, 0) for j in kept_jumps]
        if tuple(n for n in out.shape if n != 1) != tuple(n for n in rest if n != 1):
            problem = f"out has shape {tuple(out.shape)}, the fold gives {rest}"
            raise ValueError(f"{self.name}: {problem}.")
        item = out.dtype.itemsize
        # Sizes of 1 aside, out has the kept axes, with or without the folded ones.
        steps = iter(
            s // item for n, s in zip(out.shape, out.strides, strict=True) if n != 1
        )
        onto = tuple(next(steps) if n != 1 else 0 for n in rest)
        kept_jumps.append(onto)
        inner = walk(folded, [tuple(j[a] for a in axes) for j in jumps])
        if self.tile:
            return self._tiled(operands, rest, kept_jumps, inner)
        outer = walk(rest, kept_jumps)
        count, threads = int(outer[0]), THREADS if self.is_serial else FOLDING
        blocks = -(-count // THREADS) if self.is_serial else count
        return Launch(operands, (outer, inner), min(blocks, BLOCKS), threads)

    # Sorted by who moves, so a place of a window is a row (decision 0093).
    def _tiled(
        self, operands: tuple[Any, ...], shape: Ints, jumps: list[Ints], inner: Walk
    ) -> Launch:
        """Return the launch by tiles: walks of groups, rows, columns and codes."""
        left, right = (jumps[at] for at in self.factors)
        parts: tuple[list[int], ...] = ([], [], [])
        for axis, (a, b) in enumerate(zip(left, right, strict=True)):
            # Rows do not move the second factor, columns not the first.
            parts[1 if b == 0 else 2 if a == 0 else 0].append(axis)
        walks = [
            walk(
                tuple(shape[a] for a in axes),
                [tuple(j[a] for a in axes) for j in jumps],
            )
            for axes in parts
        ]
        groups, rows, columns = (int(one[0]) for one in walks)
        high, wide = BLOCK_SIDES.get(self.tile, (self.tile, self.tile))
        blocks = groups * -(-rows // high) * -(-columns // wide)
        return Launch(operands, (*walks, inner), blocks, TILING[self.tile])

    def _along(self, operands: tuple[Any, ...], axes: Ints) -> Launch:
        """Return the launch of a kernel whose result has the folded axes."""
        shape = tuple(operands[-1].shape)
        jumps = self._jumps(operands, shape)
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        outer = walk(
            tuple(shape[a] for a in kept), [tuple(j[a] for a in kept) for j in jumps]
        )
        inner = walk(
            tuple(shape[a] for a in axes), [tuple(j[a] for a in axes) for j in jumps]
        )
        count = int(outer[0])
        if self.has_rows:
            return Launch(operands, (outer, inner), min(count, BLOCKS), FOLDING)
        blocks = min(-(-count // THREADS), BLOCKS)
        return Launch(operands, (outer, inner), blocks, THREADS)

    def _jumps(self, operands: Sequence[Any], shape: Ints) -> list[Ints]:
        """Return the jumps of operands; tables and counters are in one place."""
        declared = (*self.inputs, Input(self.type))[: len(operands)]
        return [
            (0,) * len(shape) if one.is_table or one.is_counter else jumps_of(x, shape)
            for one, x in zip(declared, operands, strict=True)
        ]


# Launches of one layout differ in addresses only (decision 0103).
def _layout(argument: Any) -> Any:
    """Return all that a launch depends on in an argument: an operand, or axes."""
    try:
        return argument.__class__, argument.dtype, argument.shape, argument.strides
    except AttributeError:
        return tuple(argument) if isinstance(argument, Sequence) else id(argument)


def _check(name: str, at: int, declared: Input, given: Any) -> None:
    """Raise unless an argument is what the kernel declares in its place."""
    type = getattr(getattr(given, "dtype", None), "name", None)
    is_number = isinstance(given, np.ndarray) and given.ndim == 0
    is_buffer = not isinstance(given, np.ndarray) and hasattr(given, "shape")
    fits = is_number if declared.is_number else is_buffer
    if not fits or type != declared.type:
        kind = "a number" if declared.is_number else "a buffer"
        shown = f"{given.__class__.__name__}{f' of {type}' if type else ''}"
        problem = f"argument {at} is {shown}, not {kind} of {declared.type}"
        raise TypeError(f"{name}: {problem}.")
    if declared.is_counter and given.size != 1:
        problem = f"argument {at} is not a counter: it has {given.size} elements"
        raise ValueError(f"{name}: {problem}, not 1.")
    if declared.is_table and given.strides != (given.dtype.itemsize,):
        problem = f"argument {at} is not a table: its shape is {tuple(given.shape)}"
        raise ValueError(f"{name}: {problem}, and it must be contiguous with 1 axis.")
