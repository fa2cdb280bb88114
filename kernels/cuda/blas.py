"""Float products of matrices by cuBLAS, in the place of a rendered fold.

A loop says what is summed, and the walks of its launch say where. An axis along which
only the left operand moves is one of rows; only the right one, of columns; both, of
groups. If `cublasGemmStridedBatchedEx` takes such a layout, it runs; all else runs as
the text of the loop. Sums are of float32 or float64, and rounded once. cuBLAS chooses
their order: it is the same in each run on one GPU while one stream multiplies.

Source: cuBLAS 13.0 documentation, "Results Reproducibility" and
`cublasGemmStridedBatchedEx`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.ir import Loop, Value
from mdtensor.kernels.loops.kernel import Kernel, Launch, Walk

#: cudaDataType and cublasComputeType of element types; sums of float64 are wider.
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
SUMS_OF_32, SUMS_OF_64 = 68, 70
#: cublasMath_t: no sum of a part is rounded to 16 bits on the way.
NO_SHORT_SUMS = 16
#: Groups of matrices beyond one stride are calls of their own, at most this many.
MOST_CALLS = 16
#: What cuBLAS counts with.
LARGEST = 2**31 - 1

#: Bytes of an element.
SIZES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
_FACTORS = {
    sums: (np.ones((), kind), np.zeros((), kind))
    for sums, kind in ((SUMS_OF_32, np.float32), (SUMS_OF_64, np.float64))
}
#: Where alpha and beta are, for each type of sums.
_PLACES = {sums: [x.ctypes.data for x in pair] for sums, pair in _FACTORS.items()}


class Axis(NamedTuple):
    """An axis of a product, and what each operand steps along it."""

    size: int
    left: int
    right: int
    out: int = 0


class Gemm(NamedTuple):
    """Arguments of cuBLAS for out[m, n] = left[m, k] · right[k, n], by columns.

    Args:
        is_swapped: whether A is the left operand; else A is the right one.
        transposed: whether A and B are transposed.
        sizes: rows of A, columns of B, and what is summed.
        lines: leading dimensions of A, B and C.
        steps: between the groups of A, B and C.
        stack: the number of groups.
        starts: of A, B and C for each call.
    """

    is_swapped: bool
    transposed: tuple[bool, bool]
    sizes: tuple[int, int, int]
    lines: tuple[int, int, int]
    steps: tuple[int, int, int]
    stack: int
    starts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Product(Kernel):
    """A fold that cuBLAS computes where the layout allows it."""

    def _bind(self, arguments: Sequence[Any]) -> Launch:
        launch = super()._bind(arguments)
        return launch._replace(product=gemm_of(*launch.walks))


# A thread for each sum took 45 to 1,250 times as long (decision 0104).
@cache
def product(loop: Loop) -> Kernel:
    """Return the kernel of a loop, which is a `Product` if it multiplies floats."""
    kernel = render(loop)
    if not is_product(loop):
        return kernel
    given = {x.name: getattr(kernel, x.name) for x in fields(kernel) if x.init}
    return Product(**given)


def is_product(loop: Loop) -> bool:
    """Return whether a loop only adds products of two operands of one float type."""
    factors = [_loaded(x) for x in loop.value.arguments]
    types = [one.type for one in loop.inputs]
    finish = loop.finish
    while finish is not None and finish.name == "cast":
        (finish,) = finish.arguments
    return (
        (loop.fold, loop.value.name, factors) == ("dot", "mul", [0, 1])
        and (finish is None or finish.name == "total")
        and len(set(types)) == 1
        and types[0] in TYPES
        and loop.type in (types[0], loop.value.type)
        and loop.start is None
        and not loop.before
    )


def _loaded(value: Value) -> object:
    """Return the number of the operand that a value loads, also converted."""
    while value.name == "cast":
        (value,) = value.arguments
    return value.detail if value.name == "load" else None


def gemm_of(outer: Walk, inner: Walk) -> Gemm | None:
    """Return the arguments of cuBLAS for walks of a product; None if it has none.

    Args:
        outer: over the results: left operand, right operand, result.
        inner: over what is summed: left operand, right operand.
    """
    kept, summed = _axes(outer), _axes(inner)
    if not outer[0] or not inner[0] or len(summed) > 1:
        return None
    depth = summed[0] if summed else Axis(1, 0, 0)
    rows = [x for x in kept if x.left and not x.right]
    columns = [x for x in kept if x.right and not x.left]
    groups = [x for x in kept if x.left and x.right]
    if len(rows) + len(columns) + len(groups) < len(kept):
        return None
    # If there are several axes of rows, the last one is that of the matrix, and the
    # others are groups that share the right operand. So for columns.
    m, n = (x.pop() if x else Axis(1, 0, 0) for x in (rows, columns))
    groups = [*rows, *columns, *groups]
    is_swapped = m.out == 1 and not (n.size > 1 and n.out == 1)
    # By columns: the axis along which results are neighbours comes first.
    first, second = (m, n) if is_swapped else (n, m)
    a = _line(first.size, _step(first), depth.size, _step(depth, not is_swapped))
    b = _line(depth.size, _step(depth, is_swapped), second.size, _step(second))
    line = second.out if second.size > 1 else first.size
    if a is None or b is None or line < first.size:
        return None
    if first.size > 1 and first.out != 1:
        return None
    sizes = first.size, second.size, depth.size
    return _grouped(groups, is_swapped, a, b, sizes, line)


def _step(axis: Axis, is_right: bool | None = None) -> int:
    """Return the step of an operand along an axis; of the one that moves by default."""
    if is_right is None:
        return axis.left or axis.right
    return axis.right if is_right else axis.left


def _grouped(
    groups: list[Axis],
    is_swapped: bool,
    a: tuple[bool, int],
    b: tuple[bool, int],
    sizes: tuple[int, int, int],
    line: int,
) -> Gemm | None:
    """Return the arguments, with one stride of groups and a call for each other one."""
    last = groups.pop() if groups else Axis(1, 0, 0)
    if min(last) < 0:
        return None
    starts = [(0, 0, 0)]
    for axis in groups:
        steps = _of_operands(axis, is_swapped)
        starts = [
            (x + i * steps[0], y + i * steps[1], z + i * steps[2])
            for x, y, z in starts
            for i in range(axis.size)
        ]
        if len(starts) > MOST_CALLS:
            return None
    lines = a[1], b[1], line
    if max(*sizes, *lines, last.size) > LARGEST:
        return None
    return Gemm(
        *(is_swapped, (a[0], b[0]), sizes, lines, _of_operands(last, is_swapped)),
        *(last.size, tuple(starts)),
    )


def _of_operands(axis: Axis, is_swapped: bool) -> tuple[int, int, int]:
    """Return the steps of A, B and C along an axis."""
    pair = (axis.left, axis.right) if is_swapped else (axis.right, axis.left)
    return *pair, axis.out


def _line(rows: int, row: int, columns: int, column: int) -> tuple[bool, int] | None:
    """Return whether a matrix is transposed, and its leading dimension.

    Args:
        rows, columns: sizes.
        row, column: steps along them.
    """
    if rows == 1 or row == 1:
        line = column if columns > 1 else rows
        if line >= rows:
            return False, line
    if columns == 1 or column == 1:
        line = row if rows > 1 else columns
        if line >= columns:
            return True, line
    return None


def _axes(walk: Walk) -> list[Axis]:
    """Return the axes of a walk with more than one element."""
    rank, table = int(walk[1]), walk[2:].reshape(-1, 8)[:, : int(walk[1])]
    columns = (tuple(map(int, table[:, axis])) for axis in range(rank))
    return [Axis(*column) for column in columns if column[0] != 1]


class Blas:
    """cuBLAS with a handle of our own, which other libraries do not change.

    Raises:
        Exception: cuBLAS is not installed, or does not start.
    """

    def __init__(self) -> None:
        self._cublas: Any = import_module("cupy_backends.cuda.libs.cublas")
        self._handle = self._cublas.create()
        self._cublas.setMathMode(self._handle, NO_SHORT_SUMS)
        self._lock = Lock()

    def run(
        self, kernel: Kernel, gemm: Gemm, addresses: Sequence[int], stream: Any
    ) -> None:
        """Put a product into a stream."""
        source, target = (TYPES[x] for x in (kernel.inputs[0].type, kernel.type))
        sums = SUMS_OF_64 if kernel.type == "float64" else SUMS_OF_32
        left, right, out = addresses
        a, b = (left, right) if gemm.is_swapped else (right, left)
        item, wide = SIZES[kernel.inputs[0].type], SIZES[kernel.type]
        one, zero = _PLACES[sums]
        # The stream is a state of the handle.
        with self._lock:
            self._cublas.setStream(self._handle, stream.ptr)
            for x, y, z in gemm.starts:
                self._cublas.gemmStridedBatchedEx(
                    *(self._handle, *map(int, gemm.transposed), *gemm.sizes),
                    one,
                    *(a + x * item, source, gemm.lines[0], gemm.steps[0]),
                    *(b + y * item, source, gemm.lines[1], gemm.steps[1]),
                    zero,
                    *(out + z * wide, target, gemm.lines[2], gemm.steps[2]),
                    *(gemm.stack, sums, -1),
                )
