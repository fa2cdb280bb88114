"""Convolutions of 8-bit integers on the kernels of codes, for tensors on the host.

    sum (x - zx) * (w - zw) = sum x * w - zx · sum w - zw · (sum x - k · zx)

The sums are over a window with k elements, and the image is continued with zx. As in
`integer_products`, zero points are not packed, and bytes of the other sign are shifted.
A filter of ones next to the others gives the sum of x, where weights have zero points.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.operation import method
from mdtensor.generics.integer_products import conv2d_integer
from mdtensor.ops.integer_products import SHIFT
from mdtensor.ops.operands import deduced
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import conv_window
from mdtensor.tensor import Tensor
from mdtensor.types import IntegerTensor

Array = npt.NDArray[Any]


class PackedFilters:
    """Filters [out, c / groups, kh, kw] with their zero points, packed for the kernel.

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
        filters = self._with_ones(moved) if self.zeros.any() else moved
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
        if self.zeros.any():
            rows = self._without_zeros(rows, start)
        if start:
            rows -= np.int32(start) * self.sums[:, None]
        return rows.reshape(n, -1, oh, ow)

    def _without_zeros(self, rows: Array, start: int) -> Array:
        """Return [n, out, pixels] without zw · (sum x - k · zx), from sums and sum x."""
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


# As in `integer_products`, a plan packs constants once.
def direct_conv2d_integer(
    result: TensorSpec,
    x: TensorSpec,
    w: Tensor | TensorSpec,
    zero1: Tensor | TensorSpec | None,
    zero2: Tensor | TensorSpec | None,
    /,
    **options: Any,
) -> Callable[..., Array] | None:
    """Return the function of buffers; None unless the weights are constants."""
    if isinstance(w, TensorSpec) or isinstance(zero2, TensorSpec):
        return None
    if 0 in (*result.shape, *x.shape, *w.shape):
        return None
    packed = PackedFilters(w.buffer, None if zero2 is None else zero2.buffer, options)
    if zero1 is None:
        return lambda x, *_: packed(x, None)
    return lambda x, w, zero1, *_: packed(x, zero1)


@method(conv2d_integer, direct=direct_conv2d_integer)
def conv2d_integer(
    x: IntegerTensor,
    w: IntegerTensor,
    zero1: Union[IntegerTensor, None],
    zero2: Union[IntegerTensor, None],
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> Tensor:
    options: dict[str, Any] = {"stride": stride, "padding": padding}
    options |= {"dilation": dilation, "groups": groups}
    result = deduced(conv2d_integer, x, w, zero1, zero2, **options)
    leaf: type[Tensor] = result.type
    if 0 in (*result.shape, *x.shape, *w.shape):
        return leaf.wrap(np.zeros(result.shape, np.int32))
    zeros = [None if zero is None else zero.buffer for zero in (zero1, zero2)]
    packed = PackedFilters(w.buffer, zeros[1], options)
    return leaf.wrap(packed(x.buffer, zeros[0]))
