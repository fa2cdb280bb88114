"""Rules of changes of element type and device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor import dtypes
from mdtensor.device import device as find_device
from mdtensor.generics.spec import TensorSpec


def cast(x: TensorSpec, dtype: Any, **_: Any) -> TensorSpec:
    """Another element type, same shape."""
    return x.with_dtype(dtypes.dtype(dtype))


def moved(x: TensorSpec, device: Any, **_: Any) -> TensorSpec:
    """The same element type and shape on another device."""
    return replace(x, type=x.type.with_device(find_device(device)))
