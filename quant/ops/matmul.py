"""Matrix products of codes: exact accumulators, or rounded once to `out`."""

from functools import partial
from typing import Any, Union

import numpy as np

from mdtensor import (
    FloatingTensor,
    Int64Tensor,
    LogicalTensor,
    NumericTensor,
    TensorSpec,
    linear,
    matmul,
    method,
)
from mdtensor.errors import checked
from mdtensor.generics.matmul import affine, matrix_product
from mdtensor.kernels.cpu.program import products
from mdtensor.quant import exact
from mdtensor.quant.deduction import (
    check_column_scales,
    has_column_scales,
    rounded_linear,
    rounded_matmul,
    type_of_floats,
    weight_only,
)
from mdtensor.quant.dtypes import qint4, qint8
from mdtensor.quant.grids import combine
from mdtensor.quant.ops import blockwise
from mdtensor.quant.ops.bound import bound, bound_product
from mdtensor.quant.ops.conv import (
    AnyBias,
    Bias,
    SignedWeights,
    check_grids,
    finish,
    rounding_of,
)
from mdtensor.quant.ops.errors import (
    check_out,
    refuse_mixed,
    refused,
    require_per_tensor,
)
from mdtensor.quant.ops.kernels import attempt, compiled, kept
from mdtensor.quant.ops.weight_only import (
    KeptLayer,
    is_single,
    kept_linear,
    linear_layer,
    of_numbers,
)
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    QInt8Tensor,
    QuantizedTensor,
    ScaledFloatTensor,
    ShortTensor,
    quantized,
    spec_of,
)
from mdtensor.spec.shapes import linear_shape, matmul_shape

#: What stands for numbers beside floats.
Weights = Union[ShortTensor, ScaledFloatTensor]


def linear_step(
    x: TensorSpec, w: ShortTensor, b: Bias, /, *, out: QParams | None = None
) -> products.Linear | products.Repeated:
    """Weights [n, k] packed for this CPU."""
    options = rounding_of(x.qparams, w, b, out)
    bias = None if b is None else b.buffer
    made: products.Linear | products.Repeated = compiled(
        lambda: products.linear(exact.steps_of(w), bias, **options)
    )
    return made


@method(linear, deduce=rounded_linear, prepare=linear_step)
@bound
def linear(x: ShortTensor, w: ShortTensor, b: Bias, /, *, out: Any = None) -> Any:
    _check_linear(x, w, b, out)
    if ruled("linear", out):
        return lambda x, w, b: ruled("linear", out)(x, w, b, out)
    if not w.qparams.is_along(None, 0):
        return lambda x, w, b: quantized(blockwise.linear_codes(x, w, b, out), out)
    by_integers = partial(_by_integers, out=out)
    return _with_weights(linear_step, x, w, out, by_integers)


def _with_weights(prepare: Any, x: Any, w: Any, out: Any, by_integers: Any) -> Any:
    """Bind a product to the step that `prepare` packs, or else to integers."""
    spec = spec_of(x)
    grid = combine.of_products(x.qparams, w.qparams, x.ndim - 1)
    return bound_product(
        lambda w, b: attempt(prepare, spec, w, b, out=out),
        x,
        grid if out is None else out,
        by_integers,
    )


@method(linear, deduce=weight_only(affine), prepare=kept_linear)
def linear(x: FloatingTensor, w: Weights, b: Union[FloatingTensor, None], /) -> Any:
    """Weight-only: the weights become numbers."""
    _check_shapes(x, w, b)
    if not is_single(x, b):
        return of_numbers(linear, x, w, b)
    dtype = type_of_floats(x, b)
    key = "linear", dtype.name
    layer = kept(lambda w, b: KeptLayer(linear_layer(w, b), dtype), key, w, b)
    return layer(x)


@method(linear, deduce=weight_only(affine))
def linear(
    x: ScaledFloatTensor, w: ScaledFloatTensor, b: Union[FloatingTensor, None], /
) -> Any:
    """Products of 8-bit floats, summed in float32."""
    return of_numbers(linear, x, w, b)


@method(linear, deduce=refused("linear"))
def linear(
    x: Union[QuantizedTensor, NumericTensor],
    w: Union[QuantizedTensor, NumericTensor],
    b: AnyBias,
    /,
    *,
    out: Any = None,
) -> Any:
    refuse_mixed("linear", x, w, b)


@method(linear, deduce=refused("linear"))
def linear(
    x: QuantizedTensor, w: LogicalTensor, b: AnyBias, /, *, out: Any = None
) -> Any:
    refuse_mixed("linear", x, w, b)


@method(linear, deduce=refused("linear"))
def linear(
    x: LogicalTensor, w: QuantizedTensor, b: AnyBias, /, *, out: Any = None
) -> Any:
    refuse_mixed("linear", x, w, b)


def _check_shapes(x: Any, w: Any, b: Any) -> None:
    bias = None if b is None else b.shape
    given = (x, w) if b is None else (x, w, b)
    checked("linear", given, lambda: linear_shape(x.shape, w.shape, bias))


def _check_linear(x: Any, w: Any, b: Any, out: Any) -> None:
    _check_shapes(x, w, b)
    check_grids("linear", x, w, b, out)


def _check_matmul(x1: Any, x2: Any, out: Any) -> None:
    checked("matmul", (x1, x2), lambda: matmul_shape(x1.shape, x2.shape))
    require_per_tensor("matmul", x1, beside=(x2,))
    if out is not None:
        check_out("matmul", out, x1, x2)
    checked(
        "matmul",
        (x1, x2),
        lambda: check_column_scales(x1, x2, is_rounded=out is not None),
    )


def _by_integers(x: Any, w: Any, b: Any, out: Any) -> Any:
    """Any zero points, on 64-bit integers: exact, and as slow as that is."""
    left, right = (Int64Tensor.wrap(exact.steps_of(t)) for t in (x, w))
    sums = matmul(left, right.T).buffer
    if b is not None:
        sums = sums + b.buffer
    grid = combine.of_products(x.qparams, w.qparams, x.ndim - 1)
    return finish("linear", sums, grid, out, x, w)


@method(matmul, deduce=rounded_matmul)
@bound
def matmul(x1: ShortTensor, x2: ShortTensor, /, *, out: Any = None) -> Any:
    _check_matmul(x1, x2, out)
    if ruled("matmul", out):
        return lambda x1, x2: ruled("matmul", out)(x1, x2, out)
    if not has_column_scales(x2):
        return lambda x1, x2: quantized(blockwise.matmul_codes(x1, x2, out), out)
    by_integers = partial(_matmul_by_integers, out=out)
    if _is_weights(x2) and x1.ndim > 1:
        return _with_weights(_matmul_step, x1, x2, out, by_integers)
    return by_integers


def _matmul_by_integers(x1: Any, x2: Any, out: Any) -> Any:
    """Return the product of any zero points and shapes, on 64-bit integers."""
    left, right = (Int64Tensor.wrap(exact.steps_of(x)) for x in (x1, x2))
    sums = matmul(left, right).buffer
    grid = combine.of_products(x1.qparams, x2.qparams, sums.ndim - 1)
    return finish("matmul", sums, grid, out, x1, x2)


def _matmul_step(
    x: TensorSpec, w: SignedWeights, b: None, /, *, out: QParams | None
) -> products.Linear | products.Repeated:
    """Weights [k, n] packed for this CPU."""
    grid = w.qparams.on_axis(0).replace(dtype=qint8)
    rows = QInt8Tensor.wrap(np.ascontiguousarray(w.code_array.T), grid)
    return linear_step(x, rows, b, out=out)


def _is_weights(x: Any) -> bool:
    return x.ndim == 2 and x.dtype in (qint4, qint8) and not x.qparams.zero_point.any()


@method(matmul, deduce=weight_only(matrix_product))
def matmul(x1: FloatingTensor, x2: Weights, /) -> Any:
    """Weight-only: the weights become numbers."""
    checked("matmul", (x1, x2), lambda: matmul_shape(x1.shape, x2.shape))
    if x2.ndim != 2 or not is_single(x1):
        return of_numbers(matmul, x1, x2)
    dtype = x1.dtype
    key = "matmul", dtype.name
    layer = kept(lambda w: KeptLayer(linear_layer(w.T), dtype), key, x2)
    return layer(x1)


@method(matmul, deduce=weight_only(matrix_product))
def matmul(x1: Weights, x2: FloatingTensor, /) -> Any:
    """Weight-only, from the left."""
    return of_numbers(matmul, x1, x2)


@method(matmul, deduce=weight_only(matrix_product))
def matmul(x1: ScaledFloatTensor, x2: ScaledFloatTensor, /) -> Any:
    """Products of 8-bit floats, summed in float32."""
    return of_numbers(matmul, x1, x2)


@method(matmul, deduce=refused("matmul"))
def matmul(
    x1: Union[QuantizedTensor, NumericTensor],
    x2: Union[QuantizedTensor, NumericTensor],
    /,
    *,
    out: Any = None,
) -> Any:
    refuse_mixed("matmul", x1, x2)


@method(matmul, deduce=refused("matmul"))
def matmul(x1: QuantizedTensor, x2: LogicalTensor, /, *, out: Any = None) -> Any:
    refuse_mixed("matmul", x1, x2)


@method(matmul, deduce=refused("matmul"))
def matmul(x1: LogicalTensor, x2: QuantizedTensor, /, *, out: Any = None) -> Any:
    refuse_mixed("matmul", x1, x2)
