"""Shape rules of conversions to another element type or device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor import dtypes
from mdtensor.device import device as find_device
from mdtensor.errors import CastError
from mdtensor.spec.options import flag
from mdtensor.spec.spec import TensorSpec
from mdtensor.type_info import isdtype


def cast(
    x: TensorSpec, dtype: Any, *, copy: Any = True, device: Any = None, **_: Any
) -> TensorSpec:
    """Infer another element type, and device if one is given; same shape."""
    flag(copy, "copy")
    wanted = dtypes.dtype(dtype)
    found = x.with_dtype(wanted)
    found.type.of_numbers()
    if not isdtype(wanted, ("bool", "numeric")):
        raise CastError(f"{wanted} is not a type of plain numbers")
    return found if device is None else moved(found, device)


def moved(x: TensorSpec, device: Any, **_: Any) -> TensorSpec:
    """Infer the same element type and shape on another device."""
    return replace(x, type=x.type.with_device(find_device(device)))
