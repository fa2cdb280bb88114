"""Weights of 8-bit integers, packed once for the kernels of codes.

    sum (x - zx) * (w - zw) = sum x * w - zx · sum w - zw · (sum x - k · zx)

The sums are over the k terms of a product, or over a window with k elements. The
product of the integers themselves does not depend on zero points, so that weights are
packed once, whatever zero points the data has. The kernel reads uint8 times int8; other
integers are shifted by 128 together with their zero points. All sums are of int32 and
wrap around, and the result, which fits, is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.spec.windows import conv_window

Array = npt.NDArray[Any]
#: What shifts uint8 to int8 and back.
SHIFT = 128


class PackedWeights:
    """Weights [k, n] with their zero points, packed for the kernel.

    Args:
        weight: int8 or uint8.
        zero: one zero point or n of them; None is 0.
    """

    def __init__(self, weight: Array, zero: Array | None) -> None:
        # Imported on use, because numba takes long to import.
        from mdtensor.kernels.cpu.program.products import Linear

        shift = SHIFT if weight.dtype == np.uint8 else 0
        moved = (weight.astype(np.int16) - shift).astype(np.int8)
        self.weight, self.step = weight, Linear(np.ascontiguousarray(moved.T))
        self.sums = moved.sum(axis=0, dtype=np.int32)
        zeros = np.zeros(1) if zero is None else zero.reshape(-1)
        self.zeros = zeros.astype(np.int32) - np.int32(shift)
        self.has_zeros = bool(self.zeros.any())
        self._bound: dict[tuple[int, ...], Callable[[Array], Array]] = {}

    def __call__(self, x: Array, zero: Array | None) -> Array:
        """Return int32 [..., m, n] for x [..., m, k] and its zero point."""
        lifted, start = np.ascontiguousarray(x), 0 if zero is None else int(zero.item())
        if x.dtype == np.int8:
            lifted, start = lifted.view(np.uint8) ^ np.uint8(SHIFT), start + SHIFT
        found = self._run(lifted)
        if start:
            found -= np.int32(start) * self.sums
        if self.has_zeros:
            rows = lifted.sum(axis=-1, dtype=np.int32, keepdims=True)
            found -= (rows - np.int32(x.shape[-1] * start)) * self.zeros
        return found

    def _run(self, x: Array) -> Array:
        """Return the product of uint8 and the packed int8."""
        run = self._bound.get(x.shape)
        if run is None:
            # Only a plan calls this twice, and a plan has one shape.
            run = self._bound[x.shape] = self.step.bound(x.shape)
        return run(x.reshape(-1))


class PackedFilters:
    """Filters [out, c / groups, kh, kw] with their zero points, packed for the kernel.

    The image is continued with its zero point. If weights have zero points, a filter of
    ones next to the others gives the sum of x.

    Args:
        weight: int8 or uint8.
        zero: one zero point or [out]; None is 0.
        options: stride, padding, dilation and groups of `conv2d`.
    """

    def __init__(
        self, weight: Array, zero: Array | None, options: dict[str, Any]
    ) -> None:
        # Imported on use, because numba takes long to import.
        from mdtensor.kernels.cpu.program.products import Conv2d

        shift = SHIFT if weight.dtype == np.uint8 else 0
        moved = (weight.astype(np.int16) - shift).astype(np.int8)
        window = conv_window(
            weight.shape, options["stride"], options["padding"], options["dilation"]
        )
        self.groups, self.padding = options["groups"], window.padding
        self.sums = moved.sum(axis=(1, 2, 3), dtype=np.int32)
        self.terms = prod(weight.shape[1:])
        zeros = np.zeros(1) if zero is None else zero.reshape(-1)
        self.zeros = zeros.astype(np.int32) - np.int32(shift)
        self.has_zeros = bool(self.zeros.any())
        filters = self._with_ones(moved) if self.has_zeros else moved
        self.step = Conv2d(
            np.ascontiguousarray(filters),
            stride=window.stride,
            dilation=window.dilation,
            groups=self.groups,
        )
        self._bound: dict[tuple[int, ...], Callable[[Array], Array]] = {}

    def _with_ones(self, weight: Array) -> Array:
        """Return the filters with one of ones behind those of each group."""
        apart = weight.reshape(self.groups, -1, *weight.shape[1:])
        ones = np.ones_like(apart[:, :1])
        return np.concatenate([apart, ones], axis=1).reshape(-1, *weight.shape[1:])

    def __call__(self, x: Array, zero: Array | None) -> Array:
        """Return int32 [n, out, oh, ow] for x [n, c, h, w] and its zero point."""
        lifted, start = x, 0 if zero is None else int(zero.item())
        if x.dtype == np.int8:
            lifted, start = x.view(np.uint8) ^ np.uint8(SHIFT), start + SHIFT
        image = self._continued(lifted, start)
        run = self._bound.get(image.shape)
        if run is None:
            # Only a plan calls this twice, and a plan has one shape.
            run = self._bound[image.shape] = self.step.bound(image.shape)
        found = run(image.reshape(-1))
        n, oh, ow, columns = found.shape
        # Channels come first before the corrections, whose rows are then long.
        rows = np.ascontiguousarray(found.reshape(n, -1, columns).transpose(0, 2, 1))
        if self.has_zeros:
            rows = self._without_zeros(rows, start)
        if start:
            rows -= np.int32(start) * self.sums[:, None]
        return rows.reshape(n, -1, oh, ow)

    def _without_zeros(self, rows: Array, start: int) -> Array:
        """Return [n, out, pixels], corrected by the zero points of the weights.

        Args:
            rows: [n, columns, pixels]; the last column of a group is the sum of x.
            start: the zero point of x.
        """
        apart = rows.reshape(len(rows), self.groups, -1, rows.shape[2])
        rest = apart[:, :, -1:] - np.int32(self.terms * start)
        if len(self.zeros) > 1:
            less = rest * self.zeros.reshape(self.groups, -1, 1)
        else:
            less = rest * self.zeros
        kept = apart[:, :, :-1]
        kept -= less
        return np.ascontiguousarray(kept).reshape(len(rows), -1, rows.shape[2])

    def _continued(self, x: Array, value: int) -> Array:
        """Return x as [n, h, w, c], continued with the zero point."""
        top, left, bottom, right = self.padding
        n, c, h, w = x.shape
        pixels = x.transpose(0, 2, 3, 1)
        if not any(self.padding):
            return np.ascontiguousarray(pixels)
        shape = (n, top + h + bottom, left + w + right, c)
        image = np.full(shape, value, np.uint8)
        image[:, top : top + h, left : left + w] = pixels
        return image
