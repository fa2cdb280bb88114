"""Casts of dense tensors on the host, and moves between devices."""

from collections.abc import Callable
from typing import Any, Union

import numpy as np

from mdtensor.device import Device, cpu
from mdtensor.dispatch.operation import method
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, checked, shown, type_and_shape
from mdtensor.generics.conversion import astype, to
from mdtensor.kernels.numpy import conversion as kernel
from mdtensor.ops.operands import Dense, deduced, spec
from mdtensor.tensor import Tensor

#: What a policy refuses, and what it makes of the others.
POLICIES: dict[str, tuple[Callable[..., Any] | None, Callable[..., Any]]] = {
    "exact": (kernel.inexact, kernel.nearest),
    "check": (kernel.outside, kernel.nearest),
    "saturate": (None, kernel.saturating),
    "wrap": (None, kernel.wrapping),
}


@method(astype)
def astype(
    x: Dense,
    dtype: Union[DType, str, type, np.dtype],
    /,
    *,
    copy: bool,
    device: Any,
    casting: str,
) -> Tensor:
    target: type[Tensor] = deduced(astype, x, dtype, copy=copy, device=device).type
    if not isinstance(casting, str) or casting not in POLICIES:
        fix = f"Use {', '.join(POLICIES)}"
        raise OptionError(f"casting is {shown(casting)}", fix, _call(x, target.dtype))
    if target is type(x) and not copy:
        return x
    cast = _cast(x, target.dtype, casting)
    if target.device is cpu:
        return target.wrap(cast)
    there = checked("astype", (x, dtype), lambda: target.device.from_host(cast))
    return target.wrap(there)


def _call(x: Tensor, dtype: DType) -> str:
    return f"astype({type_and_shape(x)}, {dtype})"


def _cast(x: Tensor, dtype: DType, casting: str) -> Any:
    values, storage = x.buffer, dtype.storage
    if x.dtype is dtype or kernel.is_exact(values.dtype, storage):
        return kernel.nearest(values, storage)
    if x.dtype.is_complex and not dtype.is_complex:
        if dtype.storage.kind == "b" and casting != "exact":
            return kernel.nearest(values, storage)
        values = _real(x, dtype, casting)
    refuse, convert = POLICIES[casting]
    count = np.count_nonzero(refuse(values, storage)) if refuse else 0
    if count:
        problem, fix = _refusal(casting, dtype)
        head = f"{count} of {x.size} values {problem}"
        raise CastError(head, fix, _call(x, dtype))
    return convert(values, storage)


def _refusal(casting: str, dtype: DType) -> tuple[str, str]:
    if casting == "exact":
        return f"are not exactly {dtype}", 'Use casting="check" to round them'
    return (
        f"outside; {dtype} represents {dtype.minimum} to {dtype.maximum}",
        'Use casting="saturate" or "wrap", or a wider type',
    )


def _real(x: Tensor, dtype: DType, casting: str) -> Any:
    """The real parts of complex numbers that have no other."""
    fix, call = "Use real(x) or abs(x) first", _call(x, dtype)
    if casting in ("saturate", "wrap"):
        problem = f"no real number is what a complex one {casting}s to"
        raise CastError(problem, fix, call)
    count = np.count_nonzero(x.buffer.imag)
    if count:
        problem = f"{count} of {x.size} values have an imaginary part"
        raise CastError(problem, fix, call)
    return x.buffer.real


@method(to, anywhere=True)
def to(x: Dense, device: Union[Device, str], /) -> Tensor:
    rule = to.operation.rule
    target: type[Tensor] = checked(
        "to", (x, device), lambda: rule(spec(x), device).type
    )
    if target is type(x):
        return x
    host = x.device.to_host(x.buffer)
    there = checked("to", (x, device), lambda: target.device.from_host(host))
    return target.wrap(there)
