"""Matrix products of codes: an exact accumulator, or rounded once to `out`."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Union

import numpy as np

from mdtensor import (
    FloatingTensor,
    Int64Tensor,
    Tensor,
    TensorSpec,
    linear,
    matmul,
    method,
)
from mdtensor.errors import checked
from mdtensor.extend import linear_shape, matmul_shape, shape_rule
from mdtensor.kernels.cpu.program import attention, products
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
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
from mdtensor.quant.ops.bound import Run, bind_once, bind_product, bind_step
from mdtensor.quant.ops.conv import (
    Bias,
    SignedWeights,
    check_grids,
    finish,
    step_options,
)
from mdtensor.quant.ops.errors import (
    check_out,
    require_per_tensor,
)
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    attempt,
    find_step,
    make_step,
    require_one_grid,
    require_output_grid,
    reuse_or_make,
)
from mdtensor.quant.ops.weight_only import (
    PackedLayer,
    compute_on_numbers,
    float_linear_step,
    is_single,
    linear_layer,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    QInt8Tensor,
    QuantizedTensor,
    ScaledFloatTensor,
    ShortTensor,
    quantized,
    spec_of,
)

#: Quantized operands that a product with floats dequantizes.
Weights = Union[ShortTensor, ScaledFloatTensor]


def linear_step(
    x: TensorSpec, w: ShortTensor, b: Bias, /, *, out: QParams | None = None
) -> products.Linear | products.Repeated:
    """Return the step of packed weights [n, k].

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    options = step_options(x.qparams, w, b, out)
    bias, rows = None if b is None else b.buffer, prod(x.shape[:-1])
    made: products.Linear | products.Repeated = make_step(
        lambda: products.linear(exact.steps_of(w), bias, rows=rows, **options)
    )
    return made


@method(linear, deduce=rounded_linear, prepare=linear_step)
@bind_once
def linear(
    x: ShortTensor, w: ShortTensor, b: Bias, /, *, out: QParams | None = None
) -> Run:
    _check_linear(x, w, b, out)
    if rounding_rule("linear", out):
        return lambda x, w, b: rounding_rule("linear", out)(x, w, b, out)
    # `check_grids` has raised for such scales without `out`.
    if out is not None and not w.qparams.is_along(None, 0):
        return lambda x, w, b: quantized(blockwise.linear_codes(x, w, b, out), out)
    by_integers = partial(_by_integers, out=out)
    return _with_weights(linear_step, x, w, out, by_integers)


def _with_weights(
    prepare: Callable[..., Any],
    x: QuantizedTensor,
    w: QuantizedTensor,
    out: QParams | None,
    by_integers: Run,
) -> Run:
    """Bind a product to the step that `prepare` packs, or to `by_integers`."""
    spec = spec_of(x)
    grid = combine.of_products(x.qparams, w.qparams, x.ndim - 1)
    return bind_product(
        lambda w, b: attempt(prepare, spec, w, b, out=out),
        x,
        grid if out is None else out,
        by_integers,
    )


@method(linear, deduce=weight_only(shape_rule(linear)), prepare=float_linear_step)
def linear(x: FloatingTensor, w: Weights, b: Union[FloatingTensor, None], /) -> Tensor:
    """Compute with floats and quantized weights, which stay packed codes."""
    _check_shapes(x, w, b)
    if not is_single(x, b):
        return compute_on_numbers(linear, x, w, b)
    dtype = type_of_floats(x, b)
    key = "linear", dtype.name
    layer = reuse_or_make(
        lambda w, b: PackedLayer(linear_layer(w, b), dtype), key, w, b
    )
    return layer(x)


@method(linear, deduce=weight_only(shape_rule(linear)))
def linear(
    x: ScaledFloatTensor, w: ScaledFloatTensor, b: Union[FloatingTensor, None], /
) -> Tensor:
    """Compute products of 8-bit floats, summed in float32."""
    return compute_on_numbers(linear, x, w, b)


def _check_shapes(x: Tensor, w: Tensor, b: Tensor | None) -> None:
    bias = None if b is None else b.shape
    given = (x, w) if b is None else (x, w, b)
    checked("linear", given, lambda: linear_shape(x.shape, w.shape, bias))


def _check_linear(
    x: QuantizedTensor,
    w: QuantizedTensor,
    b: QuantizedTensor | None,
    out: QParams | None,
) -> None:
    _check_shapes(x, w, b)
    check_grids("linear", x, w, b, out)


def _check_matmul(
    x1: QuantizedTensor, x2: QuantizedTensor, out: QParams | None
) -> None:
    checked("matmul", (x1, x2), lambda: matmul_shape(x1.shape, x2.shape))
    require_per_tensor("matmul", x1, others=(x2,))
    if out is not None:
        check_out("matmul", out, x1, x2)
    checked(
        "matmul",
        (x1, x2),
        lambda: check_column_scales(x1, x2, is_rounded=out is not None),
    )


def _by_integers(
    x: QuantizedTensor,
    w: QuantizedTensor,
    b: QuantizedTensor | None,
    out: QParams | None,
) -> QuantizedTensor:
    """Return the result for any zero points, computed slowly with 64-bit integers."""
    left, right = (Int64Tensor.wrap(exact.steps_of(t)) for t in (x, w))
    sums = matmul(left, right.T).buffer
    if b is not None:
        sums = sums + b.buffer
    grid = combine.of_products(x.qparams, w.qparams, x.ndim - 1)
    return finish("linear", sums, grid, out, x, w)


def matmul_step(
    x1: TensorSpec, x2: TensorSpec, /, *, out: QParams | None = None
) -> attention.MatMul:
    """Return the step of two activations, row-major, of any zero points.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    if not (isinstance(x1, TensorSpec) and isinstance(x2, TensorSpec)):
        raise NotCompiled("a compiled matmul takes two activations, not a constant")
    if min(x1.ndim, x2.ndim) < 2:
        raise NotCompiled("a compiled matmul takes matrices, not vectors")
    left, right = (unsigned_grid(require_one_grid(x)) for x in (x1, x2))
    target = unsigned_grid(require_output_grid(out))
    ratio = left.fraction * right.fraction / target.fraction

    def make() -> attention.MatMul:
        step = attention.MatMul(ratio, (left.zero, right.zero), target.zero)
        # Plan now, so that sums that are too long for int32 are not compiled.
        step.prepare(x1.shape, x2.shape)
        return step

    return make_step(make)


@method(matmul, deduce=rounded_matmul, prepare=matmul_step)
@bind_once
def matmul(x1: ShortTensor, x2: ShortTensor, /, *, out: QParams | None = None) -> Run:
    _check_matmul(x1, x2, out)
    if rounding_rule("matmul", out):
        return lambda x1, x2: rounding_rule("matmul", out)(x1, x2, out)
    # `by_columns` has raised for such scales without `out`.
    if out is not None and not has_column_scales(x2):
        return lambda x1, x2: quantized(blockwise.matmul_codes(x1, x2, out), out)
    by_integers = partial(_matmul_by_integers, out=out)
    if _is_weights(x2) and x1.ndim > 1:
        return _with_weights(_weights_step, x1, x2, out, by_integers)
    specs = spec_of(x1), spec_of(x2)
    step = None if out is None else find_step(matmul_step, *specs, out=out)
    if out is None or step is None:
        return by_integers
    return bind_step(step, x1, x2, grid=out)


def _matmul_by_integers(
    x1: QuantizedTensor, x2: QuantizedTensor, out: QParams | None
) -> QuantizedTensor:
    """Return the product for any zero points and shapes, with 64-bit integers."""
    left, right = (Int64Tensor.wrap(exact.steps_of(x)) for x in (x1, x2))
    sums = matmul(left, right).buffer
    grid = combine.of_products(x1.qparams, x2.qparams, sums.ndim - 1)
    return finish("matmul", sums, grid, out, x1, x2)


def _weights_step(
    x: TensorSpec, w: SignedWeights, b: None, /, *, out: QParams | None
) -> products.Linear | products.Repeated:
    """Return the step of packed weights [k, n]."""
    # A step reads rows of outputs, and per-output scales on axis 0, as `linear` has.
    grid = w.qparams.on_axis(0).replace(dtype=qint8)
    rows = QInt8Tensor.wrap(np.ascontiguousarray(w.code_array.T), grid)
    return linear_step(x, rows, b, out=out)


def _is_weights(x: QuantizedTensor) -> bool:
    """Return whether `x` looks like weights: a matrix with zero points of 0."""
    is_signed = x.ndim == 2 and x.dtype in (qint4, qint8)
    return is_signed and not x.qparams.zero_point.any()


@method(matmul, deduce=weight_only(shape_rule(matmul)))
def matmul(x1: FloatingTensor, x2: Weights, /) -> Tensor:
    """Compute with floats and quantized weights, which stay packed codes."""
    checked("matmul", (x1, x2), lambda: matmul_shape(x1.shape, x2.shape))
    # A layer packs one matrix, in float32: stacks and float64 are dequantized.
    if x2.ndim != 2 or not is_single(x1):
        return compute_on_numbers(matmul, x1, x2)
    dtype = x1.dtype
    key = "matmul", dtype.name
    layer = reuse_or_make(lambda w: PackedLayer(linear_layer(w.T), dtype), key, x2)
    return layer(x1)


@method(matmul, deduce=weight_only(shape_rule(matmul)))
def matmul(x1: Weights, x2: FloatingTensor, /) -> Tensor:
    """Compute with dequantized weights on the left, for which no layer is packed."""
    return compute_on_numbers(matmul, x1, x2)


@method(matmul, deduce=weight_only(shape_rule(matmul)))
def matmul(x1: ScaledFloatTensor, x2: ScaledFloatTensor, /) -> Tensor:
    """Compute products of 8-bit floats, summed in float32."""
    return compute_on_numbers(matmul, x1, x2)
