"""The root class of all tensors, and the registry of concrete tensor types.

A concrete type has one element type and one device, and its tensors hold only their
buffer. The kinds and the concrete types of the host are in `types`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar, Never, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt

from mdtensor import dtypes
from mdtensor.coercion import host_array, typed_array
from mdtensor.device import Device, Stream, cpu, device as find_device
from mdtensor.dispatch.classes import keep
from mdtensor.dispatch.operation import Operation
from mdtensor.dispatch.suggestions import attribute
from mdtensor.dtypes import DType
from mdtensor.errors import (
    BoundsError,
    CastError,
    DeviceError,
    DispatchError,
    OptionError,
    PromotionError,
    RegistrationError,
    ShapeError,
    StorageError,
    TransposeError,
    describe,
    shown,
    type_and_shape,
)
from mdtensor.foreign import is_unit, require_operand, require_plain
from mdtensor.generics import conversion, indexing, linalg, manipulation
from mdtensor.interop import Interchange, check_api_version
from mdtensor.operators import Operators, is_operation
from mdtensor.printing import elements
from mdtensor.reloading import Origin, is_reload, origin_of
from mdtensor.spec.indices import element_place
from mdtensor.spec.spec import TensorSpec

Natural = TypeVar("Natural", DType, None)
#: Attributes of other protocols, which tensors lack.
_PROBED = frozenset({"__array_interface__", "__array_struct__"})
_new = object.__new__
_LEAVES: dict[tuple[DType, str], type[Tensor]] = {}
#: Empty the caches that hold result types; called when a type is declared again.
ON_RELOAD: list[Callable[[], None]] = []
#: Called with a buffer of the host before an operation writes into it.
ON_WRITE: list[Callable[[Any], None]] = []


class Tensor(Interchange, Operators):
    """The root of all tensors. You can create only tensors of concrete types.

    Args of a concrete type:
        values: nested sequences, Python numbers, or an array of exactly this element
            type, which is not copied.

    Raises:
        CastError: the element type cannot represent a value, or an array has another
            type.
        ShapeError: sequences are ragged.
    """

    # Weak references, so that a cache can be keyed by tensors.
    __slots__ = {
        "__weakref__": "The weak references to the tensor.",
        "buffer": "The elements: a NumPy array, or a buffer of the device.",
    }

    dtype: ClassVar[DType]
    device: ClassVar[Device]
    buffer: Any
    #: What a kind has in place of attributes of other libraries, where hints differ.
    _instead: ClassVar[Mapping[str, str]] = {}
    #: The run of the module that declared a concrete type.
    _origin: ClassVar[Origin]
    #: The kinds of element types that a kind of tensors can hold.
    _kinds: ClassVar[tuple[str, ...]] = tuple(dtypes.STORED)

    def __init_subclass__(
        cls, dtype: DType | None = None, device: Device | str | None = None, **rest: Any
    ) -> None:
        if rest:
            problem = f"{cls.__name__} is given {', '.join(rest)}"
            raise RegistrationError(problem, "A tensor type takes dtype= and device=")
        super().__init_subclass__()
        # Results look up their type by dtype and device, so a subclass would get lost.
        final = [kind.__name__ for kind in cls.__mro__[1:] if "dtype" in vars(kind)]
        if final:
            raise RegistrationError(
                f"{cls.__name__} derives from {final[0]}, which is final",
                "Derive from a kind, and add methods for the new type",
            )
        if dtype is not None:
            cls._declare(dtype, cpu if device is None else find_device(device))
        elif device is not None:
            problem = f"{cls.__name__} has a device and no dtype"
            raise RegistrationError(
                problem, "Pass dtype= as well, or omit device= for a kind"
            )

    @classmethod
    def _declare(cls, dtype: Any, device: Device) -> None:
        if not isinstance(dtype, DType):
            problem = f"the dtype of {cls.__name__} is a {type(dtype).__name__}"
            raise RegistrationError(problem, "Give a DType")
        if dtype.kind in dtypes.STORED and dtype.kind not in cls._kinds:
            raise RegistrationError(
                f"the dtype of {cls.__name__} is {dtype}, of kind {dtype.kind}",
                f"Give one of kind {' or '.join(cls._kinds)}, or derive from another "
                "class",
            )
        # Methods of integers compute in the storage, so they would leave the range.
        if dtype.is_integer and dtype.bits != (width := 8 * dtype.storage.itemsize):
            raise RegistrationError(
                f"the dtype of {cls.__name__} has {dtype.bits} bits, but its storage "
                f"{dtype.storage} has {width}, in which integers are computed",
                f"Make it of {width} bits; or of a kind of your own, and derive from "
                "Tensor with methods that keep its range",
            )
        # One type for each pair, because results are made by looking it up.
        known, cls._origin = (
            _LEAVES.get((dtype, device.name)),
            origin_of(cls.__module__),
        )
        if known is not None:
            is_same_name = known.__qualname__ == cls.__qualname__
            if not (is_same_name and is_reload(known._origin, cls._origin)):
                raise RegistrationError(
                    f"{dtype} on {device} already has a tensor type"
                )
        cls.dtype, cls.device = dtype, device
        _LEAVES[dtype, device.name] = cls
        keep(cls)
        if known is not None:
            for forget in ON_RELOAD:
                forget()

    def __init__(self, values: Any, *more: Never, **options: Never) -> None:
        """Create a tensor of Python numbers, or of an array, which is shared."""
        if more or options:
            raise self._surplus(more, options)
        leaf = self._leaf()
        self.buffer = leaf.device.from_host(host_array(values, leaf.dtype))

    @classmethod
    def _surplus(
        cls, more: tuple[Any, ...], options: dict[str, Any]
    ) -> CastError | DispatchError:
        """Return the error of arguments besides the values."""
        # unyt makes the product of a quantity and a tensor by our type and a unit.
        if units := [shown(x) for x in (*more, *options.values()) if is_unit(x)]:
            problem = (
                f"the result has the unit {units[0]}, which a tensor does not keep"
            )
            return CastError(problem, "Use the numbers alone, a.value", cls.__name__)
        given = ", ".join((*map(shown, more), *(f"{name}=" for name in options)))
        fix = "Use asarray(values, dtype=..., device=...) for other types and devices"
        return DispatchError(f"takes the values alone, not {given}", fix, cls.__name__)

    @classmethod
    def _leaf(cls) -> type[Self]:
        if not hasattr(cls, "dtype"):
            raise DispatchError(
                f"{cls.__name__} is an abstract class and cannot be created",
                "Use a class with an element type, such as Float32Tensor, or "
                "asarray(values, dtype=...)",
            )
        return cls

    @classmethod
    def wrap(cls, buffer: Any) -> Self:
        """Return a tensor around `buffer`, which is neither checked nor copied."""
        new = _new(cls)
        new.buffer = buffer
        return new

    @classmethod
    def of_spec(cls, buffer: Any, spec: TensorSpec) -> Self:
        """Return a tensor of `spec` around a buffer of its device, unchecked."""
        new = _new(cls)
        new.buffer = buffer
        return new

    @classmethod
    def of_numbers(cls) -> type[Self]:
        """Return this type; types that need more than numbers, as a grid, raise."""
        return cls

    @classmethod
    def spec(cls, shape: Iterable[int]) -> TensorSpec:
        """Return the spec of a tensor of this type, for inference."""
        return TensorSpec(cls, shape)  # type: ignore[arg-type]

    @classmethod
    def with_dtype(cls, dtype: DType) -> type[Tensor]:
        """Return the concrete type of another element type on the same device."""
        return leaf(dtype, cls.device)

    @classmethod
    def with_device(cls, device: Device) -> type[Tensor]:
        """Return the concrete type of the same element type on another device."""
        return leaf(cls.dtype, device)

    def to_parts(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the parts to store in a file: arrays, and further fields.

        The arrays have the suffixes of their names in the file as keys; the fields are
        JSON values.

        A concrete type with fields besides its buffer must override this method.
        """
        kinds = type(self).__mro__[: type(self).__mro__.index(Tensor)]
        fields = [name for kind in kinds for name in vars(kind).get("__slots__", ())]
        if fields:
            raise StorageError(
                f"{type(self).__name__} has the field {fields[0]} besides its buffer",
                "Declare to_parts and from_parts",
            )
        return {"": self.device.to_host(self.buffer)}, {}

    @classmethod
    def from_parts(
        cls, parts: dict[str, npt.NDArray[Any]], facts: dict[str, Any]
    ) -> Self:
        """Return the tensor that has these parts.

        Args:
            parts: arrays by name suffix, as `to_parts` returns them.
            facts: further fields, as `to_parts` returns them.

        Raises:
            StorageError: the parts are not parts of a tensor of this type.
        """
        found = parts.get("")
        if set(parts) != {""} or facts or found is None:
            raise StorageError(
                f"{cls.__name__} must be stored as one array without further fields, "
                f"but the file has {len(parts)} arrays and the fields {sorted(facts)}"
            )
        return cls(found)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes of the dimensions."""
        shape: tuple[int, ...] = self.buffer.shape
        return shape

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.buffer.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return int(self.buffer.size)

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of the elements."""
        return int(self.buffer.size) * int(self.buffer.dtype.itemsize)

    @property
    def T(self) -> Self:
        """Return the transpose of a matrix."""
        if len(self.buffer.shape) != 2:
            raise TransposeError(
                "the transpose is for 2 dimensions",
                "Use permute_dims",
                f"T({type_and_shape(self)})",
            )
        return manipulation.permute_dims(self, (1, 0))  # type: ignore[no-any-return]

    @property
    def mT(self) -> Self:
        """Return the transpose of each matrix in a stack."""
        if self.ndim < 2:
            raise TransposeError(
                f"a matrix must have at least 2 axes, but has {self.ndim}",
                "Give the shape [..., m, n]",
                f"mT({type_and_shape(self)})",
            )
        return linalg.matrix_transpose(self)  # type: ignore[no-any-return]

    def transpose(self, *order: Any, axes: Any = None) -> Self:
        """Return the axes in the order of `axes`, or all reversed; a view.

        Args:
            order: the axes as separate integers, or as one sequence.
            axes: the same, by name.

        Raises:
            ShapeError: `axes` does not name all axes, or they are two integers that
                leave a matrix as it is. PyTorch swaps two axes: both would give
                another result than here, where as in NumPy all axes are ordered.
        """
        if order and axes is not None:
            call = describe("transpose", self)
            raise DispatchError("axes is given twice", "Give it once", call)
        given = order or (axes,)
        order = given[0] if len(given) == 1 else given
        if order is None or (isinstance(order, tuple) and not order):
            order = tuple(reversed(range(self.ndim)))
        if isinstance(order, (tuple, list)) and len(order) != self.ndim:
            raise ShapeError(
                f"{len(order)} axes do not order {self.ndim} dimensions",
                f"Give all {self.ndim}{self._swapped(order)}",
                describe("transpose", self),
            )
        plain = len(given) == 2 == self.ndim and all(type(a) is int for a in given)
        if plain and given in ((0, 1), (-2, -1)):
            raise ShapeError(
                "two axes in order give x itself in NumPy, and are swapped in PyTorch",
                f"Use x.T to swap them, or x.transpose({given})",
                describe("transpose", self),
            )
        return manipulation.permute_dims(self, order)  # type: ignore[no-any-return]

    def _swapped(self, axes: Any) -> str:
        """Return how to swap two axes: PyTorch's `transpose` takes only those."""
        order = list(range(self.ndim))
        try:
            a, b = axes
            order[a], order[b] = order[b], order[a]
        except (TypeError, ValueError, IndexError):
            return ""
        return f"; x.transpose{tuple(order)} swaps these two"

    def item(self, *index: Any) -> Any:
        """Return the only element, or the one at `index`, as a Python number.

        Args:
            index: one integer counts the elements row by row; one integer for each
                axis is a place, also as a tuple. Negative ones count from the end.

        Raises:
            ShapeError: there is no index, and there is not exactly one element.
            BoundsError: the index is outside, or is not an integer for each axis.

        Source: NumPy, `ndarray.item`.
        """
        if not index:
            return self._scalar("item")
        given = index[0] if len(index) == 1 else index
        place = given if isinstance(given, tuple) else (given,)
        try:
            return self[element_place(self.shape, place)]._scalar("item")
        except BoundsError as error:
            raise error.within(describe("item", self)) from None

    def to(self, device: Device | str) -> Any:
        """Return the tensor on `device`; the same tensor if it is there already."""
        return conversion.to(self, device)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Any:
        """Return the tensor on `device`, as `to` does; the copy runs in `stream`.

        Raises:
            OptionError: `stream` is not a stream.
        """
        if stream is None:
            return conversion.to(self, device)
        if not isinstance(stream, Stream):
            problem = f"stream is {shown(stream)}, not a Stream"
            fix = "Use None, or a stream of the device"
            raise OptionError(problem, fix, describe("to_device", self, device))
        with stream:
            return conversion.to(self, device)

    def __repr__(self) -> str:
        """Return type, shape and elements; of another device, where they are."""
        head = type_and_shape(self)
        # To show elements, a device would have to finish its work and copy them.
        if self.device is not cpu:
            return f"{head}(device={self.device.name!r})"
        return f"{head}({elements(self._numbers(), f'{head}(')})"

    def __str__(self) -> str:
        """Return the repr: what is printed shows its type, too."""
        return repr(self)

    def __format__(self, spec: str) -> str:
        """Format one element as a Python number; a tensor with axes only whole."""
        if not spec and (self.shape or self.device is not cpu):
            return str(self)
        number = self._scalar("format")
        try:
            return format(number, spec)
        except ValueError as error:
            call = f"format({type_and_shape(self)})"
            raise OptionError(f"{error}", "Use a format of numbers", call) from None

    def _numbers(self) -> npt.NDArray[Any]:
        """Return the elements to print."""
        return self.device.to_host(self.buffer)

    def __len__(self) -> int:
        """Return the size of the first dimension."""
        if not self.shape:
            raise DispatchError(
                "a 0-d tensor does not have a length", "Use x.size, or reshape(x, (1,))"
            )
        return self.shape[0]

    def __getitem__(self, key: Any) -> Self:
        return indexing.getitem(self, key)  # type: ignore[no-any-return]

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.setitem(self, key, value)

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module with the functions of the array API for this tensor."""
        check_api_version(api_version)
        return sys.modules[__package__]


def leaf(dtype: Any, device: Device | str = cpu) -> type[Tensor]:
    """Return the concrete tensor type for an element type or its name on `device`.

    Raises:
        PromotionError: no device has a tensor type of this element type.
        DeviceError: other devices have one, this one does not; or there is no such
            device.
        OptionError: there is no such element type.

    Example:
        >>> leaf(dtypes.int8).__name__
        'Int8Tensor'
    """
    # The common case, a DType and a device, is one look-up.
    try:
        return _LEAVES[dtype, device.name]  # type: ignore[union-attr]
    except (KeyError, AttributeError, TypeError):
        meant, place = dtypes.dtype(dtype), find_device(device)
    if (meant, place.name) not in _LEAVES:
        made: type[Tensor] | None = place.tensor_type(meant)
        if made is not None:
            return made
        raise _missing_leaf(meant, place)
    return _LEAVES[meant, place.name]


def _missing_leaf(dtype: DType, device: Device) -> PromotionError | DeviceError:
    """Return the error of a type that does not exist, or only on other devices."""
    problem = f"{dtype} has no tensor type on {device}"
    elsewhere = [place for known, place in _LEAVES if known is dtype]
    if not elsewhere:
        fix = f"Declare class Mine(FloatingTensor, dtype={dtype}), or of another kind"
        return PromotionError(problem, fix)
    # The integers, for example, whether they have a sign or not.
    kind = dtype.kind.split()[-1]
    here = [known for known, place in _LEAVES if place == device.name]
    near = ", ".join(known.name for known in here if known.kind.split()[-1] == kind)
    fix = f"the device {elsewhere[0]}"
    return DeviceError(problem, f"Use {near} or {fix}" if near else f"Use {fix}")


def announce_write(buffer: Any) -> None:
    """Call all functions of `ON_WRITE`: an operation will write into `buffer`."""
    for hear in ON_WRITE:
        hear(buffer)


def element(dtype: Any, natural: Natural) -> DType | Natural:
    """Return the element type for a tensor of numbers; `natural` if `dtype` is None.

    Raises:
        OptionError: there is no such element type.
        PromotionError: there is no tensor type of this element type.
        GridError: the element type is quantized, so numbers alone do not make a tensor.
    """
    return natural if dtype is None else leaf(dtypes.dtype(dtype)).of_numbers().dtype


def leaves() -> tuple[type[Tensor], ...]:
    """Return all concrete tensor types, in the order of their declaration."""
    return tuple(_LEAVES.values())


def from_numpy(array: Any) -> Tensor:
    """Return the tensor of a NumPy array or scalar; native byte order is shared.

    A result of `numpy.broadcast_arrays` is read-only: its elements share memory.

    Raises:
        OptionError: there is no element type for the array's dtype.
        CastError: elements of the array are masked, or have a unit.

    Example:
        >>> from_numpy(np.float32(1.0))
        Float32Tensor[](1.)
    """
    # Most arrays are not of a subclass, and then nothing is called.
    if type(array) is np.ndarray:
        kind = _leaf_of(array.dtype)
        # NumPy's sign for a broadcast array, which warns where its flags are read.
        if array.flags.num < 0:
            array = array.view()
            array.flags.writeable = False
        return kind.wrap(np.asarray(array, kind.dtype.storage))
    require_plain(array)
    # Elements of a buffer are plain, and one of several axes cannot be iterated.
    if isinstance(array, Sequence) and not isinstance(array, memoryview):
        typed_array(array)  # which checks each element
    try:
        found = np.asarray(array)
    except (TypeError, ValueError) as error:
        problem = f"NumPy cannot convert a {type(array).__name__} to an array"
        raise OptionError(problem, "Use asarray(a)", "from_numpy") from error
    kind = _leaf_of(found.dtype)
    return kind.wrap(np.asarray(found, kind.dtype.storage))


@lru_cache(256)
def _leaf_of(dtype: np.dtype[Any]) -> type[Tensor]:
    """Return the host type of the elements of an array."""
    return leaf(dtypes.dtype(dtype))


ON_RELOAD.append(_leaf_of.cache_clear)


def _operand(array: Any) -> Tensor:
    """Return the tensor of an array that is an operand; its class must not compute."""
    require_operand(array)
    return from_numpy(array)


Operation.from_numpy = staticmethod(_operand)


def _unknown(x: Tensor, name: str) -> Any:
    """Raise the error of a missing attribute; the `__getattr__` of tensors."""
    if name in _PROBED:
        # NumPy asks for these in each conversion, and drops the error.
        raise AttributeError(name)
    declared = vars(Tensor).get(name)
    if isinstance(declared, property) and declared.fget:
        # Python comes here after an AttributeError of the property, and drops it.
        return declared.fget(x)
    fix = "" if name.startswith("_") else _advice(name, len(_package()))
    fix = f" Use {x._instead[name]}." if name in x._instead else fix
    raise AttributeError(f"{type(x).__name__} has no attribute {shown(name)}.{fix}")


#: Modules with functions of a tensor that are no operations, and are loaded when used.
_OF_TENSORS = (
    *("choices", "closeness", "compositions", "covariance", "log_sums"),
    *("matrix_parts", "nan_reductions", "ops.counting", "order_statistics"),
    *("piecewise_lines", "turns"),
)


def _package() -> dict[str, Any]:
    return vars(sys.modules[__package__])


@lru_cache(256)
def _advice(name: str, _: int) -> str:
    """Return a hint for a missing attribute; the second argument keys the cache.

    `hasattr` and `getattr` with a default call this as well and drop the text, so it is
    cached. The number of names in the package changes when a hint may change.
    """
    package = _package()
    calls = [n for n, value in package.items() if is_operation(value)]
    later = (n for home in _OF_TENSORS for n in package["_USED"][home] if n.islower())
    return attribute(name, [*calls, *later])


# Not in the class, where a type checker would take every name for an attribute.
setattr(Tensor, "__getattr__", _unknown)  # noqa: B010


class _Module(ModuleType):
    """This module, whose name is a function in PyTorch: a call says what works."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise DispatchError(
            "mdtensor.tensor is a module, not a function",
            "Use asarray(values), with copy=True for memory of its own",
            "tensor",
        )


sys.modules[__name__].__class__ = _Module
