"""Functions of one quantized argument: tables of all codes, each rounded once."""

from collections.abc import Callable
from math import inf, isnan
from numbers import Real
from typing import Any, Union

import numpy as np

from mdtensor import (
    CastError,
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
from mdtensor.generics.activation import bounded
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import RoundingAware, curve, on_grid, on_input_grid
from mdtensor.quant.dtypes import qint16
from mdtensor.quant.grids.combine import by_pieces, singles
from mdtensor.quant.lookup import build, functions, int16
from mdtensor.quant.ops.bound import bound, bound_step
from mdtensor.quant.ops.errors import require_out
from mdtensor.quant.ops.kernels import NotCompiled, narrow, step_of_codes, whole
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    NarrowTensor,
    QInt16Tensor,
    QInt32Tensor,
    ShortTensor,
    quantized,
    spec_of,
    wrap_codes,
)
from mdtensor.spec.elementwise import same
from mdtensor.spec.options import number

#: Codes whose zero point is 0 and stays so.
Symmetric = Union[QInt16Tensor, QInt32Tensor]


def lookup_step(
    function: build.Function, x: TensorSpec, out: QParams | None
) -> steps.Lookup:
    """The table of `function` between two grids."""
    is_partial = isinstance(function, build.Partial)
    if is_partial and build.undefined(function, whole(x)).any():
        raise NotCompiled("a compiled step has a value for every code")
    return _lookup(function, x, out)


def step_of(function: build.Function) -> Callable[..., steps.Lookup]:
    """What prepares the table of `function`."""

    def prepare(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
        return lookup_step(function, x, out)

    return prepare


def _lookup(
    function: build.Function, x: TensorSpec, out: QParams | None
) -> steps.Lookup:
    source, target = unsigned_grid(whole(x)), unsigned_grid(narrow(out))
    return steps.Lookup(build.cached(function, source, target))


def looked_up(
    operation: Any,
    function: build.Function,
    x: Any,
    out: QParams | None,
    **options: Any,
) -> Any:
    """Bind the codes of `function` on `out`, by its rule.

    Args:
        operation: the same, of floats; with `options`.
    """
    name = operation.__name__
    grid = require_out(name, out, x)
    if ruled(name, grid):
        return _by_rule(name, function, grid)
    by_table = _by_table(operation, function, x, grid, options)
    if not isinstance(function, build.Partial):
        return by_table

    def run(x: Any) -> Any:
        _refuse_undefined(name, function, x)
        return by_table(x)

    return run


def _by_rule(name: str, function: build.Function, grid: QParams) -> Any:
    """Bind the codes of `function` on `grid`, by the rule in force."""

    def run(x: Any) -> Any:
        if isinstance(function, build.Partial):
            _refuse_undefined(name, function, x)
        return ruled(name, grid)(function, x, grid)

    return run


def _by_table(
    operation: Any,
    function: build.Function,
    x: Any,
    grid: QParams,
    options: dict[str, Any],
) -> Any:
    """Bind the codes of `function` on `grid`, exact, for any scales of the argument."""
    step, dtype = step_of_codes(_lookup, function, spec_of(x), out=grid), x.dtype
    if step:
        return bound_step(step, x, grid=grid)

    def codes(given: Any, source: QParams) -> Any:
        if dtype is qint16:
            table = int16.steps(operation, function, source, grid, options)
            return exact.to_codes(table[given.astype(np.int64) + 2**15], grid)
        distinct, which = np.unique(given, return_inverse=True)  # a block has few
        steps = build.steps_of(function, distinct.tolist(), source, grid)
        return exact.to_codes(
            np.array(steps, np.int64)[which.reshape(given.shape)], grid
        )

    def run(x: Any) -> Any:
        found = by_pieces(codes, grid.dtype.storage, (x.code_array, x.qparams))
        return quantized(found, grid)

    return run


def _kept(operation: Any, x: Any, low: Any, high: Any, out: Any, **options: Any) -> Any:
    """Bind as `looked_up`, between bounds; without `out` on the grids of `x`."""
    function = build.relu if operation is relu else build.clip(low, high)
    if out is not None:
        return looked_up(operation, function, x, out, **options)
    if x.qparams.axis is None:
        return _by_table(operation, function, x, x.qparams, options)
    ends = (_codes_at(x.qparams, end) for end in (low, high))
    first, last = (x.qparams.along(end, x.shape) for end in ends)

    def run(x: Any) -> Any:
        given = codes = x.code_array
        if low is not None:
            codes = np.maximum(codes, first)
        if high is not None:
            codes = np.minimum(codes, last)
        return quantized(codes.astype(given.dtype), x.qparams)

    return run


def _codes_at(grid: QParams, bound: Any) -> Any:
    """The code of `bound` on each grid, which has it or ends before it."""
    zeros = grid.zero_point.reshape(-1).tolist()
    number = build.exactly(0 if bound is None else bound)
    codes = [
        min(max(round(number / scale) + zero, grid.minimum), grid.maximum)
        for scale, zero in zip(grid.fractions, zeros, strict=True)
    ]
    return np.array(codes, np.int64).reshape(grid.scale.shape)


def _refuse_undefined(name: str, function: build.Partial, x: Any) -> None:
    """Refuse codes of numbers that have no such function."""

    def which(codes: Any, grid: QParams) -> Any:
        return build.undefined(function, grid)[codes.view(np.uint8)]

    codes = x.codes.buffer
    without = by_pieces(which, np.bool_, (codes, x.qparams))
    if without.any():
        number = float(exact.reals(x)[without][0])
        raise CastError(
            f"{name} is of numbers {function.where}; the code {codes[without][0]} "
            f"stands for {number:g}",
            "Use clip, or mask these codes first",
            describe(name, x),
        )


def _bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds as they are, None for those that bound nothing."""
    for end in (low, high):
        if not isinstance(end, (Real, type(None))) or end != end:
            raise OptionError(f"a bound is {shown(end)}", "Pass numbers, or None")
    low, high = (b.item() if isinstance(b, np.generic) else b for b in (low, high))
    if None not in (low, high) and low > high:
        raise OptionError(f"min {low} is above max {high}", "Swap them")
    if inf in (low, -high if high is not None else None):
        raise OptionError("all numbers are out of bounds", "Pass finite bounds")
    return None if low == -inf else low, None if high == inf else high


def _refuse_inexact(grid: QParams, low: Any, high: Any) -> None:
    """Refuse a bound inside the range of `grid`, or past the end, that is no code."""
    for single in singles(grid):
        _refuse_between(single, low, high)


def _refuse_between(grid: QParams, low: Any, high: Any) -> None:
    first, last = grid.range
    effective = [low] if low is not None and low > first else []
    effective += [high] if high is not None and high < last else []
    for end in effective:
        is_code = (build.exactly(end) / grid.fraction).denominator == 1
        if not (is_code and first <= end <= last):
            where = "between two codes" if first <= end <= last else "past the codes"
            raise GridError(
                f"{end} is {where} of ({grid.describe()})", "Pass out=QParams(...)"
            )


def clipped(operation: Any, x: Any, low: Any, high: Any, out: Any) -> Any:
    """The codes of min(max(x, low), high), on the grid of `x` unless on `out`."""
    name = operation.__name__
    low, high = checked(name, (x,), lambda: _bounds(low, high))
    if out is None:
        checked(name, (x,), lambda: _refuse_inexact(x.qparams, low, high))
    options = {"min": low, "max": high} if operation is clip else {}
    return _kept(operation, x, low, high, out, **options)


def relu_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.relu, x, out or x.qparams)


@method(relu, deduce=on_input_grid, prepare=relu_step)
@bound
def relu(x: ShortTensor, /, *, out: Any = None) -> Any:
    return _kept(relu, x, 0, None, out)


@method(relu, deduce=same)
def relu(x: QInt32Tensor, /) -> Any:
    return x.wrap(np.maximum(x.buffer, 0), x.qparams)


def relu6_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return clip_step(x, min=0, max=6, out=out)


def _relu6_spec(x: TensorSpec, /, *, out: QParams | None = None) -> TensorSpec:
    return clipped_spec(x, min=0, max=6, out=out)


@method(relu6, deduce=RoundingAware(_relu6_spec), prepare=relu6_step)
@bound
def relu6(x: ShortTensor, /, *, out: Any = None) -> Any:
    return clipped(relu6, x, 0, 6, out)


def clip_step(
    x: TensorSpec, /, *, min: Any, max: Any, out: QParams | None = None
) -> steps.Lookup:
    low, high = _bounds(min, max)
    if out is None:
        _refuse_inexact(x.qparams, low, high)
    return lookup_step(build.clip(low, high), x, out or x.qparams)


def clipped_spec(
    x: TensorSpec, /, *, min: Any, max: Any, out: QParams | None = None
) -> TensorSpec:
    """On the grid `out`, or the argument's, which holds the bounds exactly."""
    found = on_input_grid.rule(x, out=out)
    low, high = _bounds(min, max)
    if out is None:
        _refuse_inexact(x.qparams, low, high)
    return found


@method(clip, deduce=RoundingAware(clipped_spec), prepare=clip_step)
@bound
def clip(x: ShortTensor, /, *, min: Any, max: Any, out: Any = None) -> Any:
    return clipped(clip, x, min, max, out)


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
@bound
def hardsigmoid(
    x: ShortTensor, /, *, alpha: float, beta: float, out: Any = None
) -> Any:
    line = checked("hardsigmoid", (x,), lambda: _line(alpha, beta))
    return looked_up(hardsigmoid, line, x, out, alpha=alpha, beta=beta)


def hardswish_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.hardswish, x, out)


@method(hardswish, deduce=curve, prepare=hardswish_step)
@bound
def hardswish(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(hardswish, build.hardswish, x, out)


def sigmoid_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.sigmoid, x, out)


@method(sigmoid, deduce=curve, prepare=sigmoid_step)
@bound
def sigmoid(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(sigmoid, build.sigmoid, x, out)


def tanh_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.tanh, x, out)


@method(tanh, deduce=curve, prepare=tanh_step)
@bound
def tanh(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(tanh, build.tanh, x, out)


def exp_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.exp, x, out)


@method(exp, deduce=curve, prepare=exp_step)
@bound
def exp(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(exp, build.exp, x, out)


def _mirrored(grid: QParams) -> QParams:
    """-(code - zero point) = (ends - code) - (ends - zero point)."""
    zeros = grid.minimum + grid.maximum - grid.zero_point
    return grid.replace(zero_point=zeros)


@method(neg, deduce=lambda x: on_grid(x.shape, _mirrored(x.qparams)))
@bound
def neg(x: NarrowTensor, /) -> Any:
    ends = x.qparams.minimum + x.qparams.maximum
    grid, stored = _mirrored(x.qparams), x.dtype.storage

    def run(x: Any) -> Any:
        codes = ends - x.code_array.astype(np.int16)
        # NumPy makes a scalar of an array without axes.
        return wrap_codes(type(x), np.asarray(codes, stored), grid, None)

    return run


@method(neg)
def neg(x: Symmetric, /) -> Any:
    bits = x.dtype.bits
    if (x.buffer == -(1 << (bits - 1))).any():
        problem = f"-(-2**{bits - 1}) leaves {bits} bits"
        raise GridError(problem, "Requantize first", describe("neg", x))
    return x.wrap(np.negative(x.buffer), x.qparams)


# Smooth activations of codes: tables of all codes, correctly rounded.


@method(silu, deduce=curve, prepare=step_of(functions.silu))
@bound
def silu(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(silu, functions.silu, x, out)


@method(mish, deduce=curve, prepare=step_of(functions.mish))
@bound
def mish(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(mish, functions.mish, x, out)


@method(selu, deduce=curve, prepare=step_of(functions.selu))
@bound
def selu(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(selu, functions.selu, x, out)


@method(softsign, deduce=curve, prepare=step_of(functions.softsign))
@bound
def softsign(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(softsign, functions.softsign, x, out)


def _finite(name: str, value: Any) -> Any:
    if not build.is_number(value):
        raise OptionError(f"{name} is {shown(value)}", "Pass a finite number")
    return value


def _divisor(name: str, value: Any) -> Any:
    if not _finite(name, value):
        raise OptionError(f"{name} is 0", "Use another number")
    return value


def _leaky_relu(negative_slope: Any) -> build.Function:
    return functions.leaky_relu(_finite("negative_slope", negative_slope))


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
@bound
def leaky_relu(x: ShortTensor, /, *, negative_slope: float, out: Any = None) -> Any:
    function = checked("leaky_relu", (x,), lambda: _leaky_relu(negative_slope))
    return looked_up(leaky_relu, function, x, out, negative_slope=negative_slope)


def _elu(alpha: Any) -> build.Function:
    return functions.elu(_finite("alpha", alpha))


def elu_step(
    x: TensorSpec, /, *, alpha: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_elu(alpha), x, out)


def _elu_spec(x: TensorSpec, *, alpha: float, **options: Any) -> TensorSpec:
    _elu(alpha)
    return curve.rule(x, **options)


@method(elu, deduce=RoundingAware(_elu_spec), prepare=elu_step)
@bound
def elu(x: ShortTensor, /, *, alpha: float, out: Any = None) -> Any:
    function = checked("elu", (x,), lambda: _elu(alpha))
    return looked_up(elu, function, x, out, alpha=alpha)


def _gelu(approximate: Any) -> build.Function:
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
@bound
def gelu(x: ShortTensor, /, *, approximate: str, out: Any = None) -> Any:
    function = checked("gelu", (x,), lambda: _gelu(approximate))
    return looked_up(gelu, function, x, out, approximate=approximate)


@method(logsigmoid, deduce=curve, prepare=step_of(functions.logsigmoid))
@bound
def logsigmoid(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(logsigmoid, functions.logsigmoid, x, out)


def _celu(alpha: Any) -> build.Function:
    return functions.celu(_divisor("alpha", alpha))


def celu_step(
    x: TensorSpec, /, *, alpha: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_celu(alpha), x, out)


def _celu_spec(x: TensorSpec, *, alpha: float, **options: Any) -> TensorSpec:
    _celu(alpha)
    return curve.rule(x, **options)


@method(celu, deduce=RoundingAware(_celu_spec), prepare=celu_step)
@bound
def celu(x: NarrowTensor, /, *, alpha: float, out: Any = None) -> Any:
    return looked_up(celu, checked("celu", (x,), lambda: _celu(alpha)), x, out)


def _softplus(beta: Any, threshold: Any) -> build.Function:
    limit = number(threshold, "threshold")
    if isnan(limit):
        raise OptionError("threshold is nan", "Pass a number")
    return functions.softplus(_divisor("beta", beta), limit)


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
@bound
def softplus(
    x: NarrowTensor, /, *, beta: float, threshold: float, out: Any = None
) -> Any:
    function = checked("softplus", (x,), lambda: _softplus(beta, threshold))
    return looked_up(softplus, function, x, out)


def hardtanh_step(
    x: TensorSpec, /, *, min_val: float, max_val: float, out: QParams | None = None
) -> steps.Lookup:
    return clip_step(x, min=min_val, max=max_val, out=out)


def _hardtanh_spec(
    x: TensorSpec, *, min_val: float, max_val: float, **options: Any
) -> TensorSpec:
    bounded(x, min_val=min_val, max_val=max_val)
    return clipped_spec(x, min=min_val, max=max_val, **options)


@method(hardtanh, deduce=RoundingAware(_hardtanh_spec), prepare=hardtanh_step)
@bound
def hardtanh(
    x: NarrowTensor, /, *, min_val: float, max_val: float, out: Any = None
) -> Any:
    options = {"min_val": min_val, "max_val": max_val}
    checked("hardtanh", (x,), lambda: bounded(spec_of(x), **options))
    return clipped(hardtanh, x, min_val, max_val, out)
