"""Functions of one quantized argument: lookup tables, each entry rounded once."""

from functools import reduce
from math import isnan
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import (
    OptionError,
    TensorSpec,
    celu,
    elu,
    gelu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    method,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
)
from mdtensor.errors import checked, shown
from mdtensor.extend import normalize_axis, number, same, shape_rule
from mdtensor.kernels.cpu.generic.row_limits import DIFFERENCES, SOFTMAX_LENGTH
from mdtensor.kernels.cpu.program import attention, steps
from mdtensor.quant import exact
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.deduction import (
    RoundingAware,
    curve,
    on_input_grid,
    reduced_grid,
    rounded_prelu,
    rounded_softmax,
)
from mdtensor.quant.grids.combine import pieces
from mdtensor.quant.lookup import build, functions
from mdtensor.quant.ops.bound import Run, bind_once, bind_step
from mdtensor.quant.ops.errors import require_out
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    find_step,
    make_step,
    require_one_grid,
    require_output_grid,
)
from mdtensor.quant.ops.lookup_calls import (
    bind_clip,
    bind_clip_between,
    bind_lookup,
    clip_step,
    infer_clip,
    lookup_step,
    step_of,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    NarrowTensor,
    QInt32Tensor,
    QuantizedTensor,
    ShortTensor,
    quantized,
    spec_of,
)

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
#: Bound of the relative error of softmax in float64.
ERROR = 2.0**-40


def relu_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(build.relu, x, out or x.qparams)


@method(relu, deduce=on_input_grid, prepare=relu_step)
@bind_once
def relu(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    return bind_clip_between(relu, x, 0, None, out)


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
        OptionError: `value` is not a finite number.
    """
    if not build.is_number(value):
        raise OptionError(f"{name} is {shown(value)}", "Pass a finite number")
    return value


def _require_nonzero(name: str, value: float) -> float:
    """Return `value`, a finite number other than 0.

    Raises:
        OptionError: `value` is 0 or not a finite number.
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


def prelu_step(
    x: TensorSpec, weight: Any, /, *, out: QParams | None = None
) -> steps.Lookup | steps.LookupChannels:
    """Return the lookup step of a constant slope, with a table for each channel.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    if isinstance(weight, TensorSpec):
        raise NotCompiled("compiled slopes are constants")
    source = unsigned_grid(require_one_grid(x))
    require_one_grid(weight)
    target = unsigned_grid(require_output_grid(out))
    codes, slopes = np.arange(256) - source.zero, exact.steps_of(weight).reshape(-1, 1)
    found = _prelu_steps(codes, slopes, source, weight.qparams, target)
    tables = exact.to_codes(np.broadcast_to(found, (len(slopes), 256)), target)
    if len(tables) == 1:
        return steps.Lookup(np.ascontiguousarray(tables[0]))
    # Images are channels last.
    axis = -1 if x.ndim in (2, 4) else 1
    zeros = source.zero, target.zero
    return steps.LookupChannels(np.ascontiguousarray(tables), axis, zeros)


def _prelu_steps(
    a: IntArray, b: IntArray, source: QParams, slopes: QParams, grid: QParams
) -> IntArray:
    """Return a where a > 0, else a · b, as steps of `grid`, rounded once."""
    ratio = source.fraction / grid.fraction
    above = exact.round_sum((a, ratio))
    below = exact.round_sum((a * b, ratio * slopes.fraction))
    return np.where(a > 0, above, below)


@method(prelu, deduce=rounded_prelu, prepare=prelu_step)
@bind_once
def prelu(x: ShortTensor, weight: ShortTensor, /, *, out: QParams | None = None) -> Run:
    specs = [spec_of(one) for one in (x, weight)]
    # Shapes first, as in inference.
    checked("prelu", (x, weight), lambda: rounded_prelu.rule(*specs, out=out))
    grid = require_out("prelu", out, x, weight)
    # Raises for every rule but the exact one, because no library has another.
    rounding_rule("prelu", grid)
    along = (-1,) + (1,) * (x.ndim - 2) if weight.size > 1 else (1,) * x.ndim

    def run(x: QuantizedTensor, weight: QuantizedTensor) -> QuantizedTensor:
        a, b = exact.steps_of(x), exact.steps_of(weight).reshape(along)
        found = _prelu_steps(a, b, x.qparams, weight.qparams, grid)
        return quantized(exact.to_codes(found, grid), grid)

    return run


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
    shape_rule(hardtanh)(x, min_val=min_val, max_val=max_val)
    return infer_clip(x, min=min_val, max=max_val, **options)


@method(hardtanh, deduce=RoundingAware(_hardtanh_spec), prepare=hardtanh_step)
@bind_once
def hardtanh(
    x: NarrowTensor, /, *, min_val: float, max_val: float, out: QParams | None = None
) -> Run:
    options = {"min_val": min_val, "max_val": max_val}
    checked("hardtanh", (x,), lambda: shape_rule(hardtanh)(spec_of(x), **options))
    return bind_clip(hardtanh, x, min_val, max_val, out)


def softmax_step(
    x: TensorSpec, /, *, axis: int, out: QParams | None = None
) -> attention.Softmax:
    """Return the step along the last axis, row-major.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    if x.ndim == 0 or normalize_axis(axis, x.ndim) != x.ndim - 1:
        raise NotCompiled("a compiled softmax runs along the last axis")
    if x.shape[-1] > SOFTMAX_LENGTH:
        raise NotCompiled(f"a compiled softmax takes rows of {SOFTMAX_LENGTH} at most")
    scale = require_one_grid(x).fraction
    target = unsigned_grid(require_output_grid(out))
    powers = [build.decay(scale, steps) for steps in range(DIFFERENCES)]
    return make_step(lambda: attention.Softmax(powers, target.fraction, target.zero))


@method(softmax, deduce=rounded_softmax, prepare=softmax_step)
@bind_once
def softmax(x: ShortTensor, /, *, axis: int, out: QParams | None = None) -> Run:
    at = checked("softmax", (x,), lambda: normalize_axis(axis, x.ndim))
    source = checked("softmax", (x,), lambda: reduced_grid(x, axis=at))
    grid = require_out("softmax", out, x)
    if rounding_rule("softmax", grid):
        return lambda x: rounding_rule("softmax", grid)(x, at, grid)
    step = find_step(softmax_step, spec_of(x), axis=at, out=grid)
    if step is not None:
        return bind_step(step, x, grid=grid)
    return lambda x: _softmax(x, at, source, grid)


def _softmax(
    x: QuantizedTensor, at: int, source: QParams, grid: QParams
) -> QuantizedTensor:
    """Return softmax along the axis `at` on `grid`; `source` is the grid without it."""
    codes = np.moveaxis(x.code_array.astype(np.int64), at, -1)
    if codes.size == 0:
        return quantized(np.empty(x.shape, grid.dtype.storage), grid)
    # Distances to the largest code make every exponent negative: no overflow.
    below = codes.max(axis=-1, keepdims=True) - codes
    rows, steps = below.shape[:-1], np.empty(below.shape, np.int64)
    flat, found = (v.reshape(-1, codes.shape[-1]) for v in (below, steps))
    for places, (one,) in pieces(rows, source):
        found[places] = _softmax_steps(flat[places], one, grid)
    return quantized(exact.to_codes(np.moveaxis(steps, -1, at), grid), grid)


def _softmax_steps(below: IntArray, source: QParams, grid: QParams) -> IntArray:
    """Return round(w / sum(w) / step) with w = e**(-scale * below).

    float64 decides all results except near ties, and decimals with 50 digits decide
    these.
    """
    powers = np.exp(below * -float(source.scale))
    quotients = powers / powers.sum(axis=-1, keepdims=True) / float(grid.scale)
    nearest = np.rint(np.minimum(quotients, exact.LARGE))
    doubt = np.abs(np.abs(quotients - nearest) - 0.5) <= quotients * ERROR
    steps: IntArray = nearest.astype(np.int64)
    for place in zip(*np.nonzero(doubt), strict=True):
        weights = [build.decay(source.fraction, d) for d in below[place[:-1]].tolist()]
        part = weights[place[-1]] / reduce(add, weights)
        steps[place] = round(part / grid.fraction)
    return steps
