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
    """Convert x; a policy that may raise reads one number, so it waits."""
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
        _check(x, operands, value, spec.dtype, test, casting)
    made = operands.loop(cast(value, spec.dtype.name, rule if not exact else "wrap"))
    there = compute(spec.__class__(home, x.shape), operands, made.value)
    return there if spec.type is home else to(there, spec.type.device)


def _check_parts(x: Tensor, dtype: DType, rule: str) -> None:
    """Raise for complex casts that have no loop yet."""
    to_real = x.dtype.is_complex and not dtype.is_complex and dtype.kind != "bool"
    if to_real or (dtype.is_complex and rule == "saturate"):
        raise no_method("astype", x)


def _check(
    x: Tensor, operands: Operands, value: Value, dtype: DType, test: str, casting: str
) -> None:
    """Raise if values do not fit. Waits for the device."""
    if not test or (x.dtype.is_complex and dtype.kind == "bool"):
        return
    count = count_true(operands, _any_part(value, dtype, test), x.device)
    if not count:
        return
    unknown = 0
    if dtype.is_integer and x.dtype.is_floating:
        unknown = count_true(operands, apply("isnan", value), x.device)
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
