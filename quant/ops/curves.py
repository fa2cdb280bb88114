"""Smooth activations of codes: tables of all codes, correctly rounded."""

from math import isnan
from typing import Any

from mdtensor import (
    OptionError,
    TensorSpec,
    celu,
    elu,
    gelu,
    hardtanh,
    leaky_relu,
    logsigmoid,
    method,
    mish,
    selu,
    silu,
    softplus,
    softsign,
)
from mdtensor.errors import checked, shown
from mdtensor.generics.rules.activation import bounded
from mdtensor.kernels.cpu.program import steps
from mdtensor.quant.deduction import Ruled, curve
from mdtensor.quant.lookup import build, functions
from mdtensor.quant.ops.activation import (
    clip_step,
    clipped,
    clipped_spec,
    looked_up,
    lookup_step,
    step_of,
)
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, ShortTensor, spec_of
from mdtensor.spec.options import number


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


@method(leaky_relu, deduce=Ruled(_leaky_relu_spec), prepare=leaky_relu_step)
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


@method(elu, deduce=Ruled(_elu_spec), prepare=elu_step)
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


@method(gelu, deduce=Ruled(_gelu_spec), prepare=gelu_step)
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


@method(celu, deduce=Ruled(_celu_spec), prepare=celu_step)
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


@method(softplus, deduce=Ruled(_softplus_spec), prepare=softplus_step)
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


@method(hardtanh, deduce=Ruled(_hardtanh_spec), prepare=hardtanh_step)
@bound
def hardtanh(
    x: NarrowTensor, /, *, min_val: float, max_val: float, out: Any = None
) -> Any:
    options = {"min_val": min_val, "max_val": max_val}
    checked("hardtanh", (x,), lambda: bounded(spec_of(x), **options))
    return clipped(hardtanh, x, min_val, max_val, out)
