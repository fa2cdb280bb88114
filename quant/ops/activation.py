"""Functions of one quantized argument: lookup tables, each entry rounded once."""

from collections.abc import Callable
from math import inf, isnan
from numbers import Real
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    GridError,
    OptionError,
    TensorSpec,
    celu,
    clip,
    elu,
    exp,
    gelu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    method,
    mish,
    neg,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
)
from mdtensor.errors import checked, describe, shown
from mdtensor.generics.activation import infer_hardtanh
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant.deduction import RoundingAware, curve, on_grid, on_input_grid
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.lookup import build, functions
from mdtensor.quant.ops.bound import Run, bind_once
from mdtensor.quant.ops.lookup_calls import (
    bind_lookup,
    bind_table,
    lookup_step,
    step_of,
)
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    NarrowTensor,
    QInt16Tensor,
    QInt32Tensor,
    QuantizedTensor,
    ShortTensor,
    quantized,
    spec_of,
    wrap_codes,
)
from mdtensor.spec.elementwise import same
from mdtensor.spec.options import number

#: Types whose zero point is always 0.
Symmetric = Union[QInt16Tensor, QInt32Tensor]
Array = npt.NDArray[Any]
#: A bound of clip; None does not bound.
Bound = float | None


def _bind_clip(
    operation: Callable[..., Any],
    x: QuantizedTensor,
    low: Bound,
    high: Bound,
    out: QParams | None,
    **options: Any,
) -> Run:
    """Bind relu or clip like `bind_lookup`; without `out` on the grid of `x`."""
    function = build.relu if operation is relu else build.clip(low, high)
    if out is not None:
        return bind_lookup(operation, function, x, out, **options)
    if x.qparams.axis is None:
        return bind_table(operation, function, x, x.qparams, options)
    # The bounds are codes on each grid, or beyond it, so clipping codes clips numbers
    # exactly, without one table for each scale.
    ends = (_codes_at(x.qparams, end) for end in (low, high))
    first, last = (x.qparams.along(end, x.shape) for end in ends)

    def run(x: QuantizedTensor) -> QuantizedTensor:
        given = codes = x.code_array
        if low is not None:
            codes = np.maximum(codes, first)
        if high is not None:
            codes = np.minimum(codes, last)
        return quantized(codes.astype(given.dtype), x.qparams)

    return run


def _codes_at(grid: QParams, bound: Bound) -> Array:
    """Return the code of `bound` on each grid, clipped to its range."""
    zeros = grid.zero_point.reshape(-1).tolist()
    # Fractions: a quotient in float64 could round to a neighbouring code.
    number = build.exactly(0 if bound is None else bound)
    codes = [
        min(max(round(number / scale) + zero, grid.minimum), grid.maximum)
        for scale, zero in zip(grid.fractions, zeros, strict=True)
    ]
    return np.array(codes, np.int64).reshape(grid.scale.shape)


def _read_bounds(low: Any, high: Any) -> tuple[Bound, Bound]:
    """Return both bounds, checked; None for a bound that is infinite or missing."""
    for end in (low, high):
        # Only NaN differs from itself.
        if not isinstance(end, (Real, type(None))) or end != end:
            raise OptionError(f"a bound is {shown(end)}", "Pass numbers, or None")
    low, high = (b.item() if isinstance(b, np.generic) else b for b in (low, high))
    if None not in (low, high) and low > high:
        raise OptionError(f"min {low} is above max {high}", "Swap them")
    # No finite number lies above +inf or below -inf, so nothing could be returned.
    if inf in (low, -high if high is not None else None):
        raise OptionError("all numbers are out of bounds", "Pass finite bounds")
    return None if low == -inf else low, None if high == inf else high


def _require_exact_bounds(grid: QParams, low: Bound, high: Bound) -> None:
    """Raise GridError if a bound that has an effect is not a code of `grid`."""
    for single in singles(grid):
        _require_codes(single, low, high)


def _require_codes(grid: QParams, low: Bound, high: Bound) -> None:
    first, last = grid.range
    # A bound beyond the range does not change any code, so it need not be a code.
    effective = [low] if low is not None and low > first else []
    effective += [high] if high is not None and high < last else []
    for end in effective:
        is_code = (build.exactly(end) / grid.fraction).denominator == 1
        if not (is_code and first <= end <= last):
            where = "between two codes" if first <= end <= last else "past the codes"
            raise GridError(
                f"{end} is {where} of ({grid.describe()})", "Pass out=QParams(...)"
            )


def bind_clip(
    operation: Callable[..., Any],
    x: QuantizedTensor,
    low: object,
    high: object,
    out: QParams | None,
) -> Run:
    """Bind min(max(x, low), high), on the grid of `x` or on `out`."""
    name = operation.__name__
    low, high = checked(name, (x,), lambda: _read_bounds(low, high))
    if out is None:
        checked(name, (x,), lambda: _require_exact_bounds(x.qparams, low, high))
    options = {"min": low, "max": high} if operation is clip else {}
    return _bind_clip(operation, x, low, high, out, **options)


def relu_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.relu, x, out or x.qparams)


@method(relu, deduce=on_input_grid, prepare=relu_step)
@bind_once
def relu(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return _bind_clip(relu, x, 0, None, out)


@method(relu, deduce=same)
def relu(x: QInt32Tensor, /) -> QuantizedTensor:
    return x.wrap(np.maximum(x.buffer, 0), x.qparams)


def relu6_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return clip_step(x, min=0, max=6, out=out)


def _relu6_spec(x: TensorSpec, /, *, out: QParams | None = None) -> TensorSpec:
    return infer_clip(x, min=0, max=6, out=out)


@method(relu6, deduce=RoundingAware(_relu6_spec), prepare=relu6_step)
@bind_once
def relu6(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_clip(relu6, x, 0, 6, out)


def clip_step(
    x: TensorSpec, /, *, min: object, max: object, out: QParams | None = None
) -> steps.Lookup:
    low, high = _read_bounds(min, max)
    if out is None:
        _require_exact_bounds(x.qparams, low, high)
    return lookup_step(build.clip(low, high), x, out or x.qparams)


def infer_clip(
    x: TensorSpec, /, *, min: object, max: object, out: QParams | None = None
) -> TensorSpec:
    """Infer clip on the grid `out`, or on the grid of `x` if it holds the bounds."""
    found = on_input_grid.rule(x, out=out)
    low, high = _read_bounds(min, max)
    if out is None:
        _require_exact_bounds(x.qparams, low, high)
    return found


@method(clip, deduce=RoundingAware(infer_clip), prepare=clip_step)
@bind_once
def clip(
    x: ShortTensor, /, *, min: object, max: object, out: QParams | None = None
) -> Run:
    return bind_clip(clip, x, min, max, out)


def hardsigmoid_step(
    x: TensorSpec, /, *, alpha: float, beta: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_line(alpha, beta), x, out)


def _line(alpha: float, beta: float) -> build.Function:
    if not all(map(build.is_number, (alpha, beta))):
        raise OptionError(
            f"alpha is {shown(alpha)}, beta {shown(beta)}", "Pass finite numbers"
        )
    return build.hardsigmoid(alpha, beta)


@method(hardsigmoid, deduce=curve, prepare=hardsigmoid_step)
@bind_once
def hardsigmoid(
    x: ShortTensor, /, *, alpha: float, beta: float, out: QParams | None = None
) -> Run:
    line = checked("hardsigmoid", (x,), lambda: _line(alpha, beta))
    return bind_lookup(hardsigmoid, line, x, out, alpha=alpha, beta=beta)


def hardswish_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.hardswish, x, out)


@method(hardswish, deduce=curve, prepare=hardswish_step)
@bind_once
def hardswish(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(hardswish, build.hardswish, x, out)


def sigmoid_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.sigmoid, x, out)


@method(sigmoid, deduce=curve, prepare=sigmoid_step)
@bind_once
def sigmoid(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(sigmoid, build.sigmoid, x, out)


def tanh_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.tanh, x, out)


@method(tanh, deduce=curve, prepare=tanh_step)
@bind_once
def tanh(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(tanh, build.tanh, x, out)


def exp_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.exp, x, out)


@method(exp, deduce=curve, prepare=exp_step)
@bind_once
def exp(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(exp, build.exp, x, out)


def _mirror_grid(grid: QParams) -> QParams:
    """Return the grid of the negated numbers, with codes counted from the other end.

    -(code - zero point) = (ends - code) - (ends - zero point)
    """
    zeros = grid.minimum + grid.maximum - grid.zero_point
    return grid.replace(zero_point=zeros)


@method(neg, deduce=lambda x: on_grid(x.shape, _mirror_grid(x.qparams)))
@bind_once
def neg(x: NarrowTensor, /) -> Run:
    # The sum of both ends mirrors the range, so no code can overflow.
    ends = x.qparams.minimum + x.qparams.maximum
    grid, stored = _mirror_grid(x.qparams), x.dtype.storage

    def run(x: QuantizedTensor) -> QuantizedTensor:
        codes = ends - x.code_array.astype(np.int16)
        # Arithmetic on a 0-d array returns a NumPy scalar, not an array.
        return wrap_codes(type(x), np.asarray(codes, stored), grid, None)

    return run


@method(neg)
def neg(x: Symmetric, /) -> QuantizedTensor:
    bits = x.dtype.bits
    # These types keep their zero point of 0, so the lowest code lacks a counterpart.
    if (x.buffer == -(1 << (bits - 1))).any():
        problem = f"-(-2**{bits - 1}) does not fit {bits} bits"
        raise GridError(problem, "Requantize first", describe("neg", x))
    return x.wrap(np.negative(x.buffer), x.qparams)


# Smooth activations: lookup tables of all codes, correctly rounded.


@method(silu, deduce=curve, prepare=step_of(functions.silu))
@bind_once
def silu(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(silu, functions.silu, x, out)


@method(mish, deduce=curve, prepare=step_of(functions.mish))
@bind_once
def mish(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(mish, functions.mish, x, out)


@method(selu, deduce=curve, prepare=step_of(functions.selu))
@bind_once
def selu(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(selu, functions.selu, x, out)


@method(softsign, deduce=curve, prepare=step_of(functions.softsign))
@bind_once
def softsign(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(softsign, functions.softsign, x, out)


def _require_finite(name: str, value: float) -> float:
    """Return `value`, a finite number.

    Raises:
        OptionError: it is something else.
    """
    if not build.is_number(value):
        raise OptionError(f"{name} is {shown(value)}", "Pass a finite number")
    return value


def _require_nonzero(name: str, value: float) -> float:
    """Return `value`, a finite number other than 0.

    Raises:
        OptionError: it is something else.
    """
    if not _require_finite(name, value):
        raise OptionError(f"{name} is 0", "Use another number")
    return value


def _leaky_relu(negative_slope: float) -> build.Function:
    return functions.leaky_relu(_require_finite("negative_slope", negative_slope))


def leaky_relu_step(
    x: TensorSpec, /, *, negative_slope: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_leaky_relu(negative_slope), x, out)


def _leaky_relu_spec(
    x: TensorSpec, *, negative_slope: float, **options: Any
) -> TensorSpec:
    _leaky_relu(negative_slope)
    return curve.rule(x, **options)


@method(leaky_relu, deduce=RoundingAware(_leaky_relu_spec), prepare=leaky_relu_step)
@bind_once
def leaky_relu(
    x: ShortTensor, /, *, negative_slope: float, out: QParams | None = None
) -> Run:
    function = checked("leaky_relu", (x,), lambda: _leaky_relu(negative_slope))
    return bind_lookup(leaky_relu, function, x, out, negative_slope=negative_slope)


def _elu(alpha: float) -> build.Function:
    return functions.elu(_require_finite("alpha", alpha))


def elu_step(
    x: TensorSpec, /, *, alpha: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_elu(alpha), x, out)


def _elu_spec(x: TensorSpec, *, alpha: float, **options: Any) -> TensorSpec:
    _elu(alpha)
    return curve.rule(x, **options)


@method(elu, deduce=RoundingAware(_elu_spec), prepare=elu_step)
@bind_once
def elu(x: ShortTensor, /, *, alpha: float, out: QParams | None = None) -> Run:
    function = checked("elu", (x,), lambda: _elu(alpha))
    return bind_lookup(elu, function, x, out, alpha=alpha)


def _gelu(approximate: object) -> build.Function:
    if not isinstance(approximate, str) or approximate not in functions.GELUS:
        fix = "Pass 'none' or 'tanh'"
        raise OptionError(f"approximate is {shown(approximate)}", fix)
    return functions.GELUS[approximate]


def gelu_step(
    x: TensorSpec, /, *, approximate: str, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_gelu(approximate), x, out)


def _gelu_spec(x: TensorSpec, *, approximate: str, **options: Any) -> TensorSpec:
    _gelu(approximate)
    return curve.rule(x, **options)


@method(gelu, deduce=RoundingAware(_gelu_spec), prepare=gelu_step)
@bind_once
def gelu(x: ShortTensor, /, *, approximate: str, out: QParams | None = None) -> Run:
    function = checked("gelu", (x,), lambda: _gelu(approximate))
    return bind_lookup(gelu, function, x, out, approximate=approximate)


@method(logsigmoid, deduce=curve, prepare=step_of(functions.logsigmoid))
@bind_once
def logsigmoid(x: NarrowTensor, /, *, out: QParams | None = None) -> Run:
    return bind_lookup(logsigmoid, functions.logsigmoid, x, out)


def _celu(alpha: float) -> build.Function:
    return functions.celu(_require_nonzero("alpha", alpha))


def celu_step(
    x: TensorSpec, /, *, alpha: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_celu(alpha), x, out)


def _celu_spec(x: TensorSpec, *, alpha: float, **options: Any) -> TensorSpec:
    _celu(alpha)
    return curve.rule(x, **options)


@method(celu, deduce=RoundingAware(_celu_spec), prepare=celu_step)
@bind_once
def celu(x: NarrowTensor, /, *, alpha: float, out: QParams | None = None) -> Run:
    return bind_lookup(celu, checked("celu", (x,), lambda: _celu(alpha)), x, out)


def _softplus(beta: float, threshold: float) -> build.Function:
    limit = number(threshold, "threshold")
    if isnan(limit):
        raise OptionError("threshold is nan", "Pass a number")
    return functions.softplus(_require_nonzero("beta", beta), limit)


def softplus_step(
    x: TensorSpec, /, *, beta: float, threshold: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_softplus(beta, threshold), x, out)


def _softplus_spec(
    x: TensorSpec, *, beta: float, threshold: float, **options: Any
) -> TensorSpec:
    _softplus(beta, threshold)
    return curve.rule(x, **options)


@method(softplus, deduce=RoundingAware(_softplus_spec), prepare=softplus_step)
@bind_once
def softplus(
    x: NarrowTensor, /, *, beta: float, threshold: float, out: QParams | None = None
) -> Run:
    function = checked("softplus", (x,), lambda: _softplus(beta, threshold))
    return bind_lookup(softplus, function, x, out)


def hardtanh_step(
    x: TensorSpec, /, *, min_val: float, max_val: float, out: QParams | None = None
) -> steps.Lookup:
    return clip_step(x, min=min_val, max=max_val, out=out)


def _hardtanh_spec(
    x: TensorSpec, *, min_val: float, max_val: float, **options: Any
) -> TensorSpec:
    infer_hardtanh(x, min_val=min_val, max_val=max_val)
    return infer_clip(x, min=min_val, max=max_val, **options)


@method(hardtanh, deduce=RoundingAware(_hardtanh_spec), prepare=hardtanh_step)
@bind_once
def hardtanh(
    x: NarrowTensor, /, *, min_val: float, max_val: float, out: QParams | None = None
) -> Run:
    options = {"min_val": min_val, "max_val": max_val}
    checked("hardtanh", (x,), lambda: infer_hardtanh(spec_of(x), **options))
    return bind_clip(hardtanh, x, min_val, max_val, out)
