"""Smooth activations of codes: tables of all codes, correctly rounded."""

from math import isfinite
from numbers import Real
from typing import Any

from mdtensor import (
    OptionError,
    TensorSpec,
    elu,
    gelu,
    leaky_relu,
    method,
    mish,
    selu,
    silu,
    softsign,
)
from mdtensor.errors import checked, shown
from mdtensor.kernels.cpu import steps
from mdtensor.quant import functions, tables
from mdtensor.quant.deduction import curve
from mdtensor.quant.ops.activation import looked_up, lookup_step
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import ShortTensor


def silu_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(functions.silu, x, out)


@method(silu, deduce=curve, prepare=silu_step)
def silu(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(silu, functions.silu, x, out)


def mish_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(functions.mish, x, out)


@method(mish, deduce=curve, prepare=mish_step)
def mish(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(mish, functions.mish, x, out)


def selu_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(functions.selu, x, out)


@method(selu, deduce=curve, prepare=selu_step)
def selu(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(selu, functions.selu, x, out)


def softsign_step(x: TensorSpec, /, *, out: QParams | None = None) -> steps.Lookup:
    return lookup_step(functions.softsign, x, out)


@method(softsign, deduce=curve, prepare=softsign_step)
def softsign(x: ShortTensor, /, *, out: Any = None) -> Any:
    return looked_up(softsign, functions.softsign, x, out)


def _finite(name: str, value: Any) -> Any:
    if not isinstance(value, Real) or not isfinite(value):
        raise OptionError(f"{name} is {shown(value)}", "Pass a finite number")
    return value


def _leaky_relu(negative_slope: Any) -> tables.Function:
    return functions.leaky_relu(_finite("negative_slope", negative_slope))


def leaky_relu_step(
    x: TensorSpec, /, *, negative_slope: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_leaky_relu(negative_slope), x, out)


def _leaky_relu_spec(
    x: TensorSpec, *, negative_slope: float, **options: Any
) -> TensorSpec:
    _leaky_relu(negative_slope)
    return curve(x, **options)


@method(leaky_relu, deduce=_leaky_relu_spec, prepare=leaky_relu_step)
def leaky_relu(x: ShortTensor, /, *, negative_slope: float, out: Any = None) -> Any:
    function = checked("leaky_relu", (x,), lambda: _leaky_relu(negative_slope))
    return looked_up(leaky_relu, function, x, out, negative_slope=negative_slope)


def _elu(alpha: Any) -> tables.Function:
    return functions.elu(_finite("alpha", alpha))


def elu_step(
    x: TensorSpec, /, *, alpha: float, out: QParams | None = None
) -> steps.Lookup:
    return lookup_step(_elu(alpha), x, out)


def _elu_spec(x: TensorSpec, *, alpha: float, **options: Any) -> TensorSpec:
    _elu(alpha)
    return curve(x, **options)


@method(elu, deduce=_elu_spec, prepare=elu_step)
def elu(x: ShortTensor, /, *, alpha: float, out: Any = None) -> Any:
    function = checked("elu", (x,), lambda: _elu(alpha))
    return looked_up(elu, function, x, out, alpha=alpha)


def _gelu(approximate: Any) -> tables.Function:
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
    return curve(x, **options)


@method(gelu, deduce=_gelu_spec, prepare=gelu_step)
def gelu(x: ShortTensor, /, *, approximate: str, out: Any = None) -> Any:
    function = checked("gelu", (x,), lambda: _gelu(approximate))
    return looked_up(gelu, function, x, out, approximate=approximate)
