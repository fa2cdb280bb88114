"""Casts as rendered loops; the rules and errors are those of the host."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.dtypes import DType
from mdtensor.generics.conversion import astype, to
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast
from mdtensor.kernels.numpy.conversion import is_exact
from mdtensor.ops.conversion import refusal, require_casting
from mdtensor.rendered.launches import (
    ALL,
    Operands,
    compute,
    count_true,
    launch_counting,
    no_method,
    types_of,
)
from mdtensor.rendered.methods import add
from mdtensor.tensor import Tensor

#: The cast of each casting policy, and the test for values that raise.
POLICIES = {
    "exact": ("wrap", "inexact"),
    "check": ("wrap", "outside"),
    "round": ("wrap", "outside"),
    "saturate": ("saturate", ""),
    "wrap": ("wrap", ""),
}


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    wanted = Union[DType, str, type, np.dtype]
    add(astype, (Union[types_of(device, ALL)], wanted), _astype)


def _astype(
    x: Tensor, dtype: Any, /, *, copy: bool, device: object, casting: str
) -> Any:
    """Convert x; a policy that may raise counts what it refuses, so it waits."""
    spec = infer(astype, x, dtype, copy=copy, device=device)
    require_casting(x, spec.dtype, casting)
    home = x.with_dtype(spec.dtype)
    if spec.type is type(x) and not copy:
        return x
    operands = Operands("astype", (x,))
    value = operands.tensor(x)
    if casting == "round" and spec.dtype.is_integer and x.dtype.is_floating:
        value = apply("rint", value)
    rule, test = POLICIES[casting]
    exact = x.dtype is spec.dtype or is_exact(x.dtype.storage, spec.dtype.storage)
    if not exact:
        _check_parts(x, spec.dtype, rule)
    made = cast(value, spec.dtype.name, "wrap" if exact else rule)
    own = spec.__class__(home, x.shape)
    if exact or not test or (x.dtype.is_complex and spec.dtype.kind == "bool"):
        there = compute(own, operands, made)
    else:
        refused = _any_part(value, spec.dtype, test)
        there = _checked(x, own, operands, made, refused, casting)
    return there if spec.type is home else to(there, spec.type.device)


def _check_parts(x: Tensor, dtype: DType, rule: str) -> None:
    """Raise for complex casts that have no loop yet."""
    to_real = x.dtype.is_complex and not dtype.is_complex and dtype.kind != "bool"
    if to_real or (dtype.is_complex and rule == "saturate"):
        raise no_method("astype", x)


def _checked(
    x: Tensor, spec: Any, operands: Operands, made: Value, refused: Value, casting: str
) -> Any:
    """Return the converted tensor, or raise if values do not fit. Waits."""
    loop = operands.loop(made)
    found, count = launch_counting(x.device, operands, loop, refused, x.shape)
    if not count:
        return spec.type.wrap(found)
    unknown, dtype = 0, spec.dtype
    if dtype.is_integer and x.dtype.is_floating:
        again = Operands("astype", (x,))
        unknown = count_true(again, apply("isnan", again.tensor(x)), x.device)
    raise refusal(x, dtype, casting, count, unknown)


def _any_part(value: Value, dtype: DType, test: str) -> Value:
    """Return the test of a number, or of either part of a complex number."""
    if not dtype.is_complex:
        return cast(value, dtype.name, test)
    part = f"float{dtype.bits // 2}"
    if value.type not in ir.COMPLEX:
        return cast(value, part, test)
    real, imag = (cast(apply(name, value), part, test) for name in ("real", "imag"))
    return apply("bit_or", real, imag)
