"""Matrix products of codes: exact accumulators, or rounded once to `out`."""

from typing import Any, Union

import numpy as np

from mdtensor import (
    FloatingTensor,
    GridError,
    Int64Tensor,
    NumericTensor,
    TensorSpec,
    linear,
    matmul,
    method,
)
from mdtensor.errors import describe
from mdtensor.generics.shapes import linear_shape, matmul_shape
from mdtensor.kernels.cpu import steps
from mdtensor.ops.operands import checked
from mdtensor.quant import rounding
from mdtensor.quant.codes import from_unsigned, unsigned
from mdtensor.quant.deduction import rounded_linear, rounded_matmul
from mdtensor.quant.generics import dequantize
from mdtensor.quant.ops.conv import (
    AnyBias,
    Bias,
    accumulator_grid,
    check_products,
    finish,
    rounding_of,
)
from mdtensor.quant.ops.refusals import refuse_mixed, require_per_tensor
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    QInt8Tensor,
    QInt32Tensor,
    QuantizedTensor,
    spec_of,
)


def linear_step(
    x: TensorSpec, w: QInt8Tensor, b: Bias, /, *, out: QParams | None = None
) -> steps.Linear:
    """Weights [n, k] packed for this CPU."""
    check_products("linear", x.qparams, w, b)
    bias = None if b is None else b.buffer
    return steps.Linear(w.buffer, bias, **rounding_of(x.qparams, w, out))


@method(linear, deduce=rounded_linear, prepare=linear_step)
def linear(x: NarrowTensor, w: QInt8Tensor, b: Bias, /, *, out: Any = None) -> Any:
    _check_linear(x, w, b)
    if w.qparams.zero_point.any():
        return _by_integers(x, w, b, out)
    step = linear_step(spec_of(x), w, b, out=out)
    product = step(np.ascontiguousarray(unsigned(x)))
    if out is not None:
        return from_unsigned(product, out)
    return QInt32Tensor.wrap(product, accumulator_grid(x.qparams, w, x.ndim - 1))


@method(linear, deduce=rounded_linear)
def linear(x: NarrowTensor, w: NarrowTensor, b: Bias, /, *, out: Any = None) -> Any:
    _check_linear(x, w, b)
    return _by_integers(x, w, b, out)


@method(linear)
def linear(
    x: FloatingTensor, w: AffineTensor, b: Union[FloatingTensor, None], /
) -> Any:
    """Weight-only: the weights become numbers."""
    return linear(x, dequantize(w), b)


@method(linear)
def linear(
    x: Union[QuantizedTensor, NumericTensor],
    w: Union[QuantizedTensor, NumericTensor],
    b: AnyBias,
    /,
    *,
    out: Any = None,
) -> Any:
    refuse_mixed("linear", x, w, b)


def _check_linear(x: Any, w: Any, b: Any) -> None:
    bias = None if b is None else b.shape
    checked("linear", (x, w, b), lambda: linear_shape(x.shape, w.shape, bias))
    require_per_tensor("linear", x)
    _check_axis("linear", x, w, 0)


def _check_axis(name: str, x: Any, w: Any, axis: int) -> None:
    if w.qparams.axis not in (None, axis):
        raise GridError(
            f"scales along axis {w.qparams.axis} cannot leave the sum",
            f"Give one scale for each output column: axis={axis}",
            describe(name, x, w),
        )


def _by_integers(x: Any, w: Any, b: Any, out: Any) -> Any:
    """Any zero points, on 64-bit integers: exact, and as slow as that is."""
    sums = rounding.steps_of(x) @ rounding.steps_of(w).T
    if b is not None:
        sums = sums + b.buffer
    grid = accumulator_grid(x.qparams, w, x.ndim - 1)
    return finish("linear", sums, grid, out, x, w)


@method(matmul, deduce=rounded_matmul)
def matmul(x1: NarrowTensor, x2: NarrowTensor, /, *, out: Any = None) -> Any:
    checked("matmul", (x1, x2), lambda: matmul_shape(x1.shape, x2.shape))
    require_per_tensor("matmul", x1)
    _check_axis("matmul", x1, x2, x2.ndim - 1)
    if _is_weights(x2) and x1.ndim > 1:
        rows = QInt8Tensor.wrap(
            np.ascontiguousarray(x2.buffer.T), x2.qparams.on_axis(0)
        )
        return linear(x1, rows, None, out=out)
    left, right = (Int64Tensor.wrap(rounding.steps_of(x)) for x in (x1, x2))
    sums = matmul(left, right).buffer
    grid = accumulator_grid(x1.qparams, x2, sums.ndim - 1)
    return finish("matmul", sums, grid, out, x1, x2)


def _is_weights(x: Any) -> bool:
    return x.ndim == 2 and type(x) is QInt8Tensor and not x.qparams.zero_point.any()


@method(matmul)
def matmul(x1: FloatingTensor, x2: AffineTensor, /) -> Any:
    """Weight-only: the weights become numbers."""
    return matmul(x1, dequantize(x2))


@method(matmul)
def matmul(x1: AffineTensor, x2: FloatingTensor, /) -> Any:
    """Weight-only, from the left."""
    return matmul(dequantize(x1), x2)


@method(matmul)
def matmul(
    x1: Union[QuantizedTensor, NumericTensor],
    x2: Union[QuantizedTensor, NumericTensor],
    /,
    *,
    out: Any = None,
) -> Any:
    refuse_mixed("matmul", x1, x2)
