"""Casts of dense tensors on the host, and moves between devices."""

from collections.abc import Callable
from typing import Any, Union

import numpy as np

from mdtensor import dtypes
from mdtensor.device import Device
from mdtensor.dispatch import method
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, checked, type_and_shape
from mdtensor.generics.conversion import astype, to
from mdtensor.kernels.dense import conversion as kernel
from mdtensor.ops.operands import Dense, on_host, spec
from mdtensor.tensor import Tensor

#: What a policy refuses, how the misfits are called, and what it makes of the others.
POLICIES: dict[str, tuple[Callable[..., Any] | None, Callable[..., Any]]] = {
    "exact": (kernel.inexact, kernel.wrapping),
    "check": (kernel.outside, kernel.wrapping),
    "saturate": (None, kernel.saturating),
    "wrap": (None, kernel.wrapping),
}


@method(astype)
def astype(
    x: Dense, dtype: Union[DType, str, type, np.dtype], /, *, casting: str
) -> Tensor:
    on_host("astype", x)
    target = checked("astype", (x, dtype), lambda: _target(x, dtype))
    refuse, convert = _policy(x, target.dtype, casting)
    storage = target.dtype.storage
    if refuse is not None:
        _check(x, target.dtype, refuse(x.buffer, storage), casting)
    return target.wrap(convert(x.buffer, storage))


def _target(x: Tensor, dtype: Any) -> type[Tensor]:
    wanted = dtypes.dtype(dtype)
    if not (wanted.is_integer or wanted.is_floating or wanted.kind == "bool"):
        raise CastError(f"{wanted} is no type of plain numbers", "Use quantize")
    return x.with_dtype(wanted)


def _policy(x: Tensor, dtype: DType, casting: str) -> Any:
    if casting not in POLICIES:
        raise OptionError(
            f"casting is {casting!r}", f"Use {', '.join(POLICIES)}", _call(x, dtype)
        )
    return POLICIES[casting]


def _check(x: Tensor, dtype: DType, misfits: Any, casting: str) -> None:
    count = np.count_nonzero(misfits)
    if not count:
        return
    problem = "not exactly representable" if casting == "exact" else "outside"
    raise CastError(
        f"{count} of {x.size} values {problem}; {dtype} represents "
        f"{dtype.minimum} to {dtype.maximum}",
        'Use casting="saturate" or "wrap", or a wider type',
        _call(x, dtype),
    )


def _call(x: Tensor, dtype: DType) -> str:
    return f"astype({type_and_shape(x)}, {dtype})"


@method(to)
def to(x: Dense, device: Union[Device, str], /) -> Tensor:
    rule = to.operation.rule
    target: type[Tensor] = checked(
        "to", (x, device), lambda: rule(spec(x), device).type
    )
    if target is type(x):
        return x
    host = x.device.to_host(x.buffer)
    return target.wrap(target.device.from_host(host))
