"""Products and convolutions of 8-bit integers, for tensors on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.operation import method
from mdtensor.generics.integer_products import conv2d_integer, matmul_integer
from mdtensor.ops.operands import deduced
from mdtensor.ops.packed_bytes import PackedFilters, PackedWeights
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor
from mdtensor.types import IntegerTensor

Array = npt.NDArray[Any]


# A plan packs constants once; what is written into them later, it does not see, as in
# compiled steps.
def direct_matmul_integer(
    result: TensorSpec,
    x1: TensorSpec,
    x2: Tensor | TensorSpec,
    zero1: Tensor | TensorSpec | None,
    zero2: Tensor | TensorSpec | None,
    /,
) -> Callable[..., Array] | None:
    """Return the function of buffers; None unless the weights are constants."""
    if isinstance(x2, TensorSpec) or isinstance(zero2, TensorSpec):
        return None
    if 0 in (*result.shape, *x2.shape):
        return None
    packed = PackedWeights(x2.buffer, None if zero2 is None else zero2.buffer)
    if zero1 is None:
        return lambda x1, *_: packed(x1, None)
    return lambda x1, x2, zero1, *_: packed(x1, zero1)


@method(matmul_integer, direct=direct_matmul_integer)
def matmul_integer(
    x1: IntegerTensor,
    x2: IntegerTensor,
    zero1: Union[IntegerTensor, None],
    zero2: Union[IntegerTensor, None],
    /,
) -> Tensor:
    result = deduced(matmul_integer, x1, x2, zero1, zero2)
    zeros = [None if zero is None else zero.buffer for zero in (zero1, zero2)]
    leaf: type[Tensor] = result.type
    if 0 in (*result.shape, *x2.shape):
        return leaf.wrap(np.zeros(result.shape, np.int32))
    return leaf.wrap(PackedWeights(x2.buffer, zeros[1])(x1.buffer, zeros[0]))


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
