"""Casts of dense tensors on the host, and moves between devices."""

from collections.abc import Callable
from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.dispatch import method
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, checked, type_and_shape
from mdtensor.generics.conversion import astype, to
from mdtensor.kernels.dense import conversion as kernel
from mdtensor.ops.operands import Dense, on_host, spec
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
    on_host("astype", x)
    rule = astype.operation.rule
    target: type[Tensor] = checked(
        "astype", (x, dtype), lambda: rule(spec(x), dtype, device=device).type
    )
    call = f"astype({type_and_shape(x)}, {target.dtype})"
    if casting not in POLICIES:
        fix = f"Use {', '.join(POLICIES)}"
        raise OptionError(f"casting is {casting!r}", fix, call)
    if target is type(x) and not copy:
        return x
    cast = _cast(x, target.dtype, casting, call)
    there = checked("astype", (x, dtype), lambda: target.device.from_host(cast))
    return target.wrap(there)


def _cast(x: Tensor, dtype: DType, casting: str, call: str) -> Any:
    storage = dtype.storage
    if x.dtype is dtype:
        return x.buffer.copy()
    values = x.buffer
    if x.dtype.is_complex and not dtype.is_complex:
        if dtype.storage.kind == "b" and casting != "exact":
            return kernel.nearest(values, storage)
        values = _real(values, casting, call)
    refuse, convert = POLICIES[casting]
    count = np.count_nonzero(refuse(values, storage)) if refuse else 0
    if count:
        problem = "not exactly representable" if casting == "exact" else "outside"
        raise CastError(
            f"{count} of {x.size} values {problem}; {dtype} represents "
            f"{dtype.minimum} to {dtype.maximum}",
            'Use casting="saturate" or "wrap", or a wider type',
            call,
        )
    return convert(values, storage)


def _real(values: Any, casting: str, call: str) -> Any:
    """The real parts of complex numbers that have no other."""
    if casting in ("saturate", "wrap"):
        problem = f"no real number is what a complex one {casting}s to"
        raise CastError(problem, "Use real(x) or abs(x) first", call)
    count = np.count_nonzero(values.imag)
    if count:
        problem = f"{count} of {values.size} values have an imaginary part"
        raise CastError(problem, "Use real(x) or abs(x) first", call)
    return values.real


@method(to)
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
