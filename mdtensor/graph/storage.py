"""How compiled parts store the tensors of a type.

A compiled part holds bytes of one element type in a fixed order. A type takes part as
soon as it has a `Storage`; an extension adds its own with `add_storage`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor
from mdtensor.types import (
    BoolTensor,
    Float32Tensor,
    Int8Tensor,
    Int16Tensor,
    UInt8Tensor,
    UInt16Tensor,
)

Array = npt.NDArray[Any]
_STORAGES: dict[type[Tensor], Storage] = {}


# Compiled parts know no type but by its storage (decision 0055).
@dataclass(frozen=True)
class Storage:
    """How a compiled part stores the tensors of a type and its subtypes.

    Args:
        dtype: the element type in a compiled part.
        read: returns the elements of a tensor, in any memory order.
        wrap: returns the tensor of a spec for an array of such elements; None if the
            array is the buffer of the tensor.
        has_images: whether values of four axes are channels last in a compiled part
            and outside of it. Others come in and go out in rows.
    """

    dtype: np.dtype[Any]
    read: Callable[[Any], Array]
    wrap: Callable[[Array, TensorSpec], Tensor] | None = None
    has_images: bool = False


def add_storage(kind: type[Tensor], storage: Storage) -> None:
    """Let compiled parts hold tensors of `kind` and its subtypes."""
    _STORAGES[kind] = storage


def storage_of(kind: type[Tensor]) -> Storage | None:
    """Return the storage of a type; None if compiled parts cannot hold it."""
    # A loop over the classes of a type, of which few have a storage.
    return next((_STORAGES[base] for base in kind.__mro__ if base in _STORAGES), None)


def channels_last(image: Array) -> Array:
    """Return [n, c, h, w] as a view [n, h, w, c]."""
    return np.moveaxis(image, 1, -1)


def channels_first(image: Array) -> Array:
    """Return [n, h, w, c] as a view [n, c, h, w]."""
    return np.moveaxis(image, -1, 1)


#: How parts read tensors of float32; `attrgetter` runs in C.
FLOATS: Callable[[Any], Array] = attrgetter("buffer")
add_storage(Float32Tensor, Storage(np.dtype(np.float32), FLOATS))


def _as_floats(x: Tensor) -> Array:
    found: Array = x.buffer.astype(np.float32)
    return found


def _from_floats(array: Array, spec: TensorSpec) -> Tensor:
    found: Tensor = spec.type.wrap(array.astype(spec.dtype.storage))
    return found


#: The types whose values float32 holds exactly. A mask lies beside the numbers that it
#: chooses among (decision 0069), and bytes of an image beside what they become.
AS_FLOATS = (BoolTensor, UInt8Tensor, Int8Tensor, UInt16Tensor, Int16Tensor)
for _kind in AS_FLOATS:
    add_storage(_kind, Storage(np.dtype(np.float32), _as_floats, _from_floats))
