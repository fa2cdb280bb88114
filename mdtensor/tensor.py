"""The root of all tensors, and the registry of its leaves.

A leaf is one element type on one device. It holds its buffer and nothing else; kinds
and leaves of the host are in `leaves`.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.device import Device, cpu
from mdtensor.dtypes import DType
from mdtensor.errors import (
    CastError,
    DeviceError,
    DispatchError,
    PromotionError,
    RegistrationError,
    ShapeError,
    type_and_shape,
)
from mdtensor.generics import conversion, indexing, manipulation
from mdtensor.host import host_array
from mdtensor.operators import Operators

_new = object.__new__
_LEAVES: dict[tuple[DType, str], type[Tensor]] = {}


class Tensor(Operators):
    """The root of all tensors. Not instantiable; see the leaves.

    Args of a leaf:
        values: nested sequences or Python numbers, or an array of exactly the
            leaf's element type (not copied).

    Raises:
        CastError: a value the element type does not hold, or an array of another
            type.
        ShapeError: ragged sequences.
    """

    __slots__ = ("buffer",)

    dtype: ClassVar[DType]
    device: ClassVar[Device]
    buffer: Any

    def __init_subclass__(
        cls, dtype: DType | None = None, device: Device = cpu, **rest: Any
    ) -> None:
        super().__init_subclass__(**rest)
        final = [kind.__name__ for kind in cls.__mro__[1:] if "dtype" in vars(kind)]
        if final:
            raise RegistrationError(
                f"{cls.__name__} derives from {final[0]}, which is final",
                "Derive from a kind, and add methods for the new type",
            )
        if dtype is not None:
            if not isinstance(dtype, DType):
                given = type(dtype).__name__
                raise RegistrationError(
                    f"the dtype of {cls.__name__} is a {given}", "Give a DType"
                )
            if (dtype, device.name) in _LEAVES:
                raise RegistrationError(f"{dtype} on {device} has a tensor type")
            cls.dtype, cls.device = dtype, device
            _LEAVES[dtype, device.name] = cls

    def __init__(self, values: Any) -> None:
        leaf = self._leaf()
        self.buffer = leaf.device.from_host(host_array(values, leaf.dtype))

    @classmethod
    def _leaf(cls) -> type[Self]:
        if not hasattr(cls, "dtype"):
            raise DispatchError(f"{cls.__name__} is a kind, not a type of elements")
        return cls

    @classmethod
    def wrap(cls, buffer: Any) -> Self:
        """A tensor around `buffer`, which is trusted to fit and not copied."""
        new = _new(cls)
        new.buffer = buffer
        return new

    @classmethod
    def with_dtype(cls, dtype: DType) -> type[Tensor]:
        """The leaf of another element type on the same device."""
        return leaf(dtype, cls.device)

    @classmethod
    def with_device(cls, device: Device) -> type[Tensor]:
        """The leaf of the same element type on another device."""
        try:
            return leaf(cls.dtype, device)
        except PromotionError as error:
            raise DeviceError(error.problem) from None

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.buffer.shape
        return shape

    @property
    def ndim(self) -> int:
        return len(self.buffer.shape)

    @property
    def size(self) -> int:
        return int(self.buffer.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return int(self.buffer.size) * int(self.buffer.dtype.itemsize)

    @property
    def T(self) -> Any:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(
                "the transpose is for 2 dimensions",
                "Use permute_dims",
                f"T({type_and_shape(self)})",
            )
        return manipulation.permute_dims(self, (1, 0))

    @property
    def mT(self) -> Any:
        """The transpose of each matrix in a stack."""
        if self.ndim < 2:
            raise ShapeError(
                f"a matrix has 2 axes, this has {self.ndim}",
                "Use expand_dims",
                f"mT({type_and_shape(self)})",
            )
        stack = range(self.ndim - 2)
        return manipulation.permute_dims(self, (*stack, self.ndim - 1, self.ndim - 2))

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.device.to_host(self.buffer).tolist()

    def to(self, device: Device | str) -> Any:
        return conversion.to(self, device)

    def __repr__(self) -> str:
        """One short line; elements are shown by `str`."""
        return type_and_shape(self)

    def __str__(self) -> str:
        return f"{self!r}\n{np.array2string(self._numbers())}"

    def __format__(self, spec: str) -> str:
        return format(self._scalar("number"), spec) if spec else str(self)

    def _numbers(self) -> npt.NDArray[Any]:
        """The elements as they are shown."""
        return self.device.to_host(self.buffer)

    def __len__(self) -> int:
        if not self.shape:
            raise DispatchError("a 0-d tensor has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.setitem(self, key, value)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def _scalar(self, kind: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{self.size} elements are not one {kind}",
                "Index or reduce it first",
                f"{kind}({type_and_shape(self)})",
            )
        return self.device.to_host(self.buffer).reshape(()).item()

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DispatchError(f"{type_and_shape(self)} is no index")
        return int(self._scalar("index"))

    def __reduce__(self) -> Any:
        return type(self), (self.device.to_host(self.buffer),)

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self).wrap(self.buffer.copy())

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        host = self.device.to_host(self.buffer)
        wanted = host.dtype if dtype is None else np.dtype(dtype)
        if not np.can_cast(host.dtype, wanted, "safe"):
            raise CastError(
                f"NumPy asks for {np.dtype(dtype)}, the elements are {self.dtype}",
                f"Use astype(x, {np.dtype(dtype)}) first",
                f"__array__({type_and_shape(self)})",
            )
        return np.array(host, wanted, copy=copy)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules[__package__]

    def __dlpack__(self, **options: Any) -> Any:
        return self.buffer.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.buffer.__dlpack_device__()


def leaf(dtype: DType, device: Device = cpu) -> type[Tensor]:
    """The tensor type of `dtype` on `device`.

    Raises:
        PromotionError: there is none.

    Example:
        >>> leaf(dtypes.int8).__name__
        'Int8Tensor'
    """
    try:
        return _LEAVES[dtype, device.name]
    except KeyError:
        raise PromotionError(f"{dtype} has no tensor type on {device}") from None


def leaves() -> tuple[type[Tensor], ...]:
    """All tensor types, in the order of their declaration."""
    return tuple(_LEAVES.values())


def from_numpy(array: Any) -> Tensor:
    """The tensor of a NumPy array or scalar; the buffer is shared.

    Raises:
        OptionError: there is no element type like the array's.

    Example:
        >>> from_numpy(np.float32(1.0))
        Float32Tensor[]
    """
    found = np.asarray(array)
    return leaf(dtypes.dtype(found.dtype)).wrap(found)


Operators._from_numpy = staticmethod(from_numpy)
