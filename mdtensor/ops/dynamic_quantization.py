"""Methods of products with dynamic grids, for dense tensors on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.operation import method
from mdtensor.dtypes import uint8
from mdtensor.errors import OptionError
from mdtensor.generics.dynamic_quantization import (
    dynamic_conv2d,
    dynamic_matmul,
    dynamic_quantize,
)
from mdtensor.kernels.numpy import dynamic as kernel
from mdtensor.ops.operands import deduced
from mdtensor.ops.packed_bytes import SHIFT, PackedFilters, PackedWeights
from mdtensor.ops.steps import (
    require_constant,
    require_constant_integers,
    require_float32,
    require_sizes,
)
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor

Array = npt.NDArray[Any]
Bytes = Union[IntegerTensor, None]
Floats = Union[FloatingTensor, None]


# One node with NumPy around a kernel: a chain of nodes copies between its parts
# (decision 0094).
class Product:
    """A product of packed weights with floats that are rounded to codes.

    Args:
        packed: a function of codes and their zero point that returns exact sums.
        scale: of the weights, one number or one for each column.
        bias: one for each column, or None.
        column: the shape of `scale` and `bias` next to the sums.
    """

    def __init__(
        self,
        packed: Callable[..., Array],
        scale: Array,
        bias: Array | None,
        column: tuple[int, ...] = (-1,),
    ) -> None:
        self.packed, self.scale = packed, scale.reshape(column)
        self.bias = None if bias is None else bias.reshape(column)

    def __call__(self, x: Array) -> Array:
        """Return float32 in the shape of the sums."""
        scale, zero = kernel.grid(x)
        sums = self.packed(kernel.codes(x, scale, zero), zero)
        found = sums.astype(np.float32)
        # A scale that is NaN or infinite makes the result so, without a warning.
        with np.errstate(all="ignore"):
            found *= scale * self.scale
            if self.bias is not None:
                found += self.bias
        return found


def _parts(
    w: Tensor, scale: Tensor, zero: Tensor | None, bias: Tensor | None
) -> tuple[Array, Array, Array | None, Array | None]:
    """Return the buffers of constants."""
    rest = (None if one is None else one.buffer for one in (zero, bias))
    return w.buffer, scale.buffer, *rest


def _matmul(w: Array, scale: Array, zero: Array | None, bias: Array | None) -> Product:
    return Product(PackedWeights(w, zero), scale, bias)


def _conv2d(
    w: Array,
    scale: Array,
    zero: Array | None,
    bias: Array | None,
    options: dict[str, Any],
) -> Product:
    return Product(PackedFilters(w, zero, options), scale, bias, (-1, 1, 1))


# A plan packs constants once; what is written into them later, it does not see, as in
# compiled steps.
def direct_dynamic_matmul(
    result: TensorSpec, x: TensorSpec, /, *given: Any
) -> Callable[..., Array] | None:
    """Return the function of buffers; None unless all but x are constants."""
    if any(isinstance(one, TensorSpec) for one in given):
        return None
    if 0 in (*result.shape, *x.shape):
        return None
    run = _matmul(*_parts(*given))
    return lambda x, *_: run(x)


# Zero points of weights would be multiplied by the sums of each row (decision 0108).
def dynamic_matmul_step(x: Any, w: Any, scale: Any, zero: Any, bias: Any, /) -> Any:
    """Return the step of a product with constant weights, whose zero point is 0."""
    require_float32(x)
    require_constant_integers(w)
    require_constant(scale, *([] if bias is None else [bias]))
    if not isinstance(x, TensorSpec) or x.ndim < 2:
        raise OptionError("a compiled product has a computed matrix on the left")
    require_sizes(x, w)
    shift = SHIFT if w.dtype is uint8 else 0
    if isinstance(zero, TensorSpec):
        raise OptionError("kernels need a constant zero point")
    if np.any((0 if zero is None else zero.buffer) != np.int64(shift)):
        raise OptionError(f"compiled weights have the zero point {shift}")
    rows = (w.buffer.astype(np.int16) - shift).astype(np.int8).T
    return _program().DynamicLinear(
        rows, scale.buffer, None if bias is None else bias.buffer
    )


def _program() -> Any:
    """Return the module of the step; it loads numba, so it loads on use."""
    from mdtensor.kernels.cpu.program import dynamic

    return dynamic


@method(dynamic_matmul, prepare=dynamic_matmul_step, direct=direct_dynamic_matmul)
def dynamic_matmul(
    x: FloatingTensor,
    w: IntegerTensor,
    scale: FloatingTensor,
    zero: Bytes,
    bias: Floats,
    /,
) -> Tensor:
    result = deduced(dynamic_matmul, x, w, scale, zero, bias)
    if 0 in (*result.shape, *x.shape):
        return x.wrap(_without_products(result.shape, bias, -1))
    return x.wrap(_matmul(*_parts(w, scale, zero, bias))(x.buffer))


def direct_dynamic_conv2d(
    result: TensorSpec, x: TensorSpec, /, *given: Any, **options: Any
) -> Callable[..., Array] | None:
    """Return the function of buffers; None unless all but x are constants."""
    if any(isinstance(one, TensorSpec) for one in given):
        return None
    if 0 in (*result.shape, *x.shape):
        return None
    run = _conv2d(*_parts(*given), options)
    return lambda x, *_: run(x)


@method(dynamic_conv2d, direct=direct_dynamic_conv2d)
def dynamic_conv2d(
    x: FloatingTensor,
    w: IntegerTensor,
    scale: FloatingTensor,
    zero: Bytes,
    bias: Floats,
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> Tensor:
    options: dict[str, Any] = {"stride": stride, "padding": padding}
    options |= {"dilation": dilation, "groups": groups}
    result = deduced(dynamic_conv2d, x, w, scale, zero, bias, **options)
    if 0 in (*result.shape, *x.shape):
        return x.wrap(_without_products(result.shape, bias, 1))
    return x.wrap(_conv2d(*_parts(w, scale, zero, bias), options)(x.buffer))


def _without_products(shape: tuple[int, ...], bias: Any, axis: int) -> Array:
    """Return sums of no products: the bias of each column, which lie along `axis`."""
    found = np.zeros(shape, np.float32)
    if bias is not None:
        columns = [1] * len(shape)
        columns[axis] = -1
        found += bias.buffer.reshape(columns)
    return found


def direct_dynamic_quantize(
    result: TensorSpec, x: TensorSpec, /, *, part: str
) -> Callable[..., Array]:
    """Return the function of buffers."""
    return lambda x: _part(x, part)


@method(dynamic_quantize, direct=direct_dynamic_quantize)
def dynamic_quantize(x: FloatingTensor, /, *, part: str) -> Tensor:
    result = deduced(dynamic_quantize, x, part=part)
    leaf: type[Tensor] = result.type
    return leaf.wrap(_part(x.buffer, part))


def _part(x: Array, part: str) -> Array:
    scale, zero = kernel.grid(x)
    if part == "codes":
        return kernel.codes(x, scale, zero)
    if part == "scale":
        return np.asarray(scale, np.float32)
    return np.asarray(zero, np.uint8)
