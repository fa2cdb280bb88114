"""Products of 8-bit integers with zero points: exact sums in int32, as on the host."""

from __future__ import annotations

from typing import Any, Union

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.generics import (
    arithmetic,
    conv,
    integer_products,
    manipulation,
    matmul as products,
)
from mdtensor.infer import infer
from mdtensor.rendered.composed import rounded
from mdtensor.rendered.launches import INTEGERS, types_of
from mdtensor.rendered.methods import add
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    here: Any = Union[types_of(device, INTEGERS)]
    zero: Any = Union[(*types_of(device, INTEGERS), type(None))]
    types = (here, here, zero, zero)
    add(integer_products.matmul_integer, types, _matmul_integer)
    add(integer_products.conv2d_integer, types, _conv2d_integer)


def _less_zero(x: Tensor, zero: Tensor | None, shape: tuple[int, ...]) -> Any:
    """Return x minus its zero points in int32, which holds each difference."""
    wide = rounded(x, dtypes.int32)
    if zero is None:
        return wide
    one = (1,) * len(shape) if zero.size == 1 else shape
    along = manipulation.reshape(rounded(zero, dtypes.int32), one)
    return arithmetic.sub(wide, along)


def _matmul_integer(
    x1: Tensor, x2: Tensor, zero1: Tensor | None, zero2: Tensor | None, /
) -> Any:
    infer(integer_products.matmul_integer, x1, x2, zero1, zero2)
    left, right = _less_zero(x1, zero1, (1,)), _less_zero(x2, zero2, (-1,))
    return products.matmul(left, right)


def _conv2d_integer(
    x: Tensor, w: Tensor, zero1: Tensor | None, zero2: Tensor | None, /, **options: Any
) -> Any:
    """Convolve the differences; the border of an image has its zero point."""
    infer(integer_products.conv2d_integer, x, w, zero1, zero2, **options)
    image = _less_zero(x, zero1, (1,))
    filters = _less_zero(w, zero2, (-1, 1, 1, 1))
    return conv.conv2d(image, filters, None, **options)
