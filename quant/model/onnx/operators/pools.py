"""Pools of any number of axes and any dilation, by their definition.

    y[o] = max, mean or norm over k of x[o · stride + k · dilation - padding]

Each offset k of the window is a strided slice of the padded input, so a pool is a chain
of elementwise operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.quant.model.onnx.axes import require_between
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import require_fixed_shape

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Window:
    """A window that slides over axes 2, 3, ... of an input with known sizes.

    Args:
        sizes: the sizes of these axes.
        kernel, stride, dilation: size, step and dilation of the window, for each axis.
        before, after: padding on both sides of each axis.
        ceil_mode: whether the last window may reach beyond the padding; its first
            element must be inside.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ceil_mode: bool

    @property
    def reach(self) -> tuple[int, ...]:
        """Return how many elements lie between the ends of a window, with both."""
        pairs = zip(self.kernel, self.dilation, strict=True)
        return tuple((k - 1) * d + 1 for k, d in pairs)

    def require_elements(self, op: Operator) -> None:
        """Require that there are windows, and that each one reads an element.

        Raises:
            ModelError: a window is larger than the padded input, or as small as the
                padding.
        """
        each = zip(self.reach, self.sizes, self.before, self.after, strict=True)
        for reach, size, before, after in each:
            if reach > size + before + after:
                raise op.error(
                    f"has a window of {reach} over {size} elements with pads "
                    f"{before} and {after}",
                    "Use a smaller window",
                )
            if max(before, after) >= reach:
                raise op.error(
                    f"has pads {before} and {after} around a window of {reach}",
                    "Use pads smaller than the window",
                )

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the number of windows along each axis."""
        return tuple(map(self._count, range(len(self.sizes))))

    def _count(self, axis: int) -> int:
        size, stride = self.sizes[axis], self.stride[axis]
        room = size + self.before[axis] + self.after[axis] - self.reach[axis]
        count = (-(-room // stride) if self.ceil_mode else room // stride) + 1
        # The last window must begin inside of the input or of the padding before it.
        if self.ceil_mode and (count - 1) * stride >= size + self.before[axis]:
            count -= 1
        return max(count, 0)

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """Return the padding of each axis of the input, with what ceil_mode adds."""
        found = [(0, 0), (0, 0)]
        for axis, count in enumerate(self.counts):
            last = (count - 1) * self.stride[axis] + self.reach[axis]
            more = last - self.sizes[axis] - self.before[axis]
            found.append((self.before[axis], max(self.after[axis], more)))
        return tuple(found)

    def parts(self) -> Iterator[tuple[slice, ...]]:
        """Yield for each offset the part of the padded input that windows read."""
        for offset in product(*map(range, self.kernel)):
            key = [slice(None), slice(None)]
            for axis, k in enumerate(offset):
                first = k * self.dilation[axis]
                last = first + (self.counts[axis] - 1) * self.stride[axis] + 1
                key.append(slice(first, last, self.stride[axis]))
            yield tuple(key)


def pool_by_definition(g: Builder, op: Operator, window: Window) -> None:
    """Read MaxPool, AveragePool or LpPool as slices of the padded input."""
    if op.kind == "MaxPool":
        _max_pool(g, op, window)
    elif op.kind == "LpPool":
        _norm_pool(g, op, window)
    else:
        _average_pool(g, op, window)


def _max_pool(g: Builder, op: Operator, window: Window) -> None:
    x = str(op.inputs[0])
    parts = _parts(g, op, x, window, _least(g.specs[x]))
    largest = parts[0]
    has_places = len(op.outputs) > 1 and op.outputs[1]
    places = _places(g, op, window) if has_places else []
    place = places[0] if places else ""
    for number, part in enumerate(parts[1:], start=1):
        if places:
            # Only a larger element takes over, so of equal ones the first stays.
            more = g.step(op, f"more{number}", md.greater, part, largest)
            at = places[number]
            place = g.step(op, f"place{number}", md.where, more, at, place)
        largest = g.step(op, f"max{number}", md.maximum, largest, part)
    g.call(op, md.astype, largest, g.specs[x].dtype)
    if places:
        shape = (*g.shape(x)[:2], *window.counts)
        g.call_output(op, 1, md.broadcast_to, place, shape=shape)


def _least(spec: TensorSpec) -> float:
    """Return the smallest number of the element type of a value."""
    # `md.pad` takes the number that a code stands for.
    if (grid := spec.qparams) is not None:
        return float((grid.minimum - grid.zero) * grid.fraction)
    storage = spec.dtype.storage
    return float(np.iinfo(storage).min) if storage.kind in "iu" else -np.inf


def _places(g: Builder, op: Operator, window: Window) -> list[str]:
    """Return constants: for each offset, the index of its element in the flat input."""
    n, c, *sizes = require_fixed_shape(g, op, op.inputs[0])
    inside = np.arange(prod(sizes), dtype=np.int64).reshape(sizes)
    if op.get("storage_order", 0):
        inside = np.arange(prod(sizes), dtype=np.int64).reshape(sizes[::-1]).T
    images = np.arange(n * c, dtype=np.int64).reshape(n, c, *[1] * len(sizes))
    padded = np.pad(images * prod(sizes) + inside, window.widths)
    return [
        g.new_constant(op, f"places{number}", padded[key])
        for number, key in enumerate(window.parts())
    ]


def _norm_pool(g: Builder, op: Operator, window: Window) -> None:
    """Read LpPool: the root of the sum of powers."""
    p = float(op.get("p", 2))
    require_between(op, p, 1, inf, "p")
    sizes = g.step(op, "sizes", md.abs, op.inputs[0])
    total = _sum_of_parts(g, op, g.step(op, "powers", md.pow, sizes, p), window)
    g.call(op, md.pow, total, 1 / p)


def _sum_of_parts(g: Builder, op: Operator, x: str, window: Window) -> str:
    """Add up the elements of each window; the padding is 0."""
    total, *parts = _parts(g, op, x, window, 0.0)
    for number, part in enumerate(parts, start=1):
        total = g.step(op, f"sum{number}", md.add, total, part)
    return total


def _average_pool(g: Builder, op: Operator, window: Window) -> None:
    x = str(op.inputs[0])
    total = _sum_of_parts(g, op, x, window)
    counts = g.new_constant(op, "counts", _counts(op, window, g.specs[x].dtype.storage))
    g.call(op, md.div, total, counts)


def _counts(op: Operator, window: Window, storage: Any) -> Array:
    """Return the divisor of the mean in each window, [1, 1, windows ...]."""
    ones = np.ones((1, 1, *window.sizes), storage)
    given = zip(window.before, window.after, strict=True)
    explicit = [(0, 0), (0, 0), *given]
    if op.get("count_include_pad", 0):
        ones = np.pad(ones, explicit, constant_values=1)
    else:
        ones = np.pad(ones, explicit)
    # What ceil_mode adds is never counted.
    pairs = zip(window.widths, explicit, strict=True)
    ones = np.pad(ones, [(0, whole[1] - own[1]) for whole, own in pairs])
    return np.asarray(sum(ones[key] for key in window.parts()), storage)


def _parts(g: Builder, op: Operator, x: str, window: Window, value: float) -> list[str]:
    """Return the slices of the padded input, one for each offset of the window."""
    if any(map(any, window.widths)):
        x = g.step(op, "padded", md.pad, x, pad_width=window.widths, value=value)
    return [
        g.step(op, f"part{number}", md.getitem, x, key=key)
        for number, key in enumerate(window.parts())
    ]
