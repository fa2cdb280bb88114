"""Coordinates: the properties by which an algorithm is chosen, as classes.

    class Placement(Coordinate): ...                    # a kind
    class InPlace(Placement): ...                       # a coordinate of this kind
    class BlockSize(Coordinate, values=(64, 128)): ...  # BlockSize[64], BlockSize[128]
    class Source(Coordinate, of=ElementType): ...       # Source[Float32], ...

Classes have an order: a method for `Floating` also accepts `Float32`, and a method for
`Float32` is more specific. A kind declared with `of=` has the coordinates of the other
kind under a name of its own, so that a space can have two axes of them. A device or an
element type of your own takes part as `class Fpga(DeviceType, value="fpga")` or
`class Int24(Signed, value=int24)`; a kind of your own derives from `Coordinate`.
"""

from __future__ import annotations

import copyreg
import itertools
import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from mdtensor import dtypes, errors
from mdtensor.device import Device
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, RegistrationError

# Kinds are numbered as they are declared, which orders the axes of spaces.
_ranks = itertools.count()
_lock = threading.RLock()


class CoordinateType(type):
    """The metaclass of coordinates: finds them by value and prints their names."""

    # Declared for type checkers; `Coordinate` documents and sets them.
    kind: CoordinateType
    rank: int
    members: dict[Any, CoordinateType]
    declared: list[CoordinateType]
    of: CoordinateType | None
    value: Any
    key: Callable[[Any], Any]

    def __getitem__(cls, value: object) -> CoordinateType:
        """Return the coordinate of this kind that has `value`.

        Raises:
            OptionError: no coordinate has it.
        """
        if not hasattr(cls, "kind"):
            raise OptionError(
                f"{cls.__name__} is not a kind", "Use a kind, as in BlockSize[64]"
            )
        found = cls.find(value)
        if found is None:
            known = ", ".join(map(str, cls.kind.members)) or "none"
            raise OptionError(
                f"{cls.__name__} has no coordinate {shown(value)}", f"Known are {known}"
            )
        return found

    def find(cls, value: Any) -> CoordinateType | None:
        """Return the coordinate of this kind that has `value`, or None."""
        kind = cls.kind
        try:
            found = kind.members.get(kind.key(value))
        # Every object may come in here, so a wrong one is simply not found.
        except TypeError:  # not hashable
            return None
        if found is None and kind.of is not None:
            inner = value if _is_of(value, kind.of) else kind.of.find(value)
            found = None if inner is None else _counterpart(kind, inner)
        return found if found is not None and issubclass(found, cls) else None

    def leaves(cls) -> Iterator[CoordinateType]:
        """Return the most specific coordinates of this kind, as declared."""
        kind = cls.kind
        if kind.of is not None:
            every = [_counterpart(kind, inner) for inner in kind.of.leaves()]
        else:
            # A coordinate that another one derives from is abstract, so it is not a
            # point.
            wider = {one.__base__ for one in kind.declared}
            every = [one for one in kind.declared if one not in wider]
        return (one for one in every if issubclass(one, cls))

    def __repr__(cls) -> str:
        # beartype needs the `<`, else it takes the text for the repr of a union.
        return f"<{cls.__name__}>"

    def __str__(cls) -> str:
        return cls.__name__


class Coordinate(metaclass=CoordinateType):
    """The root of all kinds, each of which derives from it directly.

    Args of a kind, in its class statement:
        values: makes one coordinate `Kind[value]` for each value.
        of: another kind; makes one `Kind[coordinate]` for each of its coordinates.

    Args of a coordinate:
        value: the object that it stands for, and the key by which its kind finds it.

    Raises:
        RegistrationError: the value is already taken, or there are several bases.

    Example:
        >>> class Tile(Coordinate, values=(8, 16)):
        ...     '''Rows of a tile.'''
        >>> Tile[8], Tile[8].value, issubclass(Tile[8], Tile)
        (<Tile[8]>, 8, True)

    Source: fVDB, `dispatch/label.h`.
    """

    __faithful__ = True
    kind: ClassVar[CoordinateType]
    rank: ClassVar[int]
    members: ClassVar[dict[Any, CoordinateType]]
    declared: ClassVar[list[CoordinateType]]
    of: ClassVar[CoordinateType | None]
    value: ClassVar[Any] = None

    def __init_subclass__(
        cls,
        value: object = None,
        values: tuple[Any, ...] = (),
        of: CoordinateType | None = None,
        **rest: Any,
    ) -> None:
        _check_class(cls, values, of, rest)
        # A direct subclass starts a new kind with its own coordinates.
        if cls.__base__ is Coordinate:
            cls.kind, cls.rank, cls.of = cls, next(_ranks), of
            cls.members, cls.declared = {}, []
        cls.value = value
        if value is not None:
            cls._enter(value)
        if cls is not cls.kind:
            cls.declared.append(cls)
        for one in values:
            _member(cls, one, cls)

    @classmethod
    def _enter(cls, value: object) -> None:
        try:
            taken = cls.members.get(value)
        except TypeError:
            problem = f"the value of {cls.__name__} is a {type(value).__name__}"
            raise RegistrationError(problem, "Use a hashable value") from None
        if taken is not None:
            problem = f"{cls.kind.__name__} already has {taken} for the value {value}"
            raise RegistrationError(problem, f"Use {taken}")
        cls.members[value] = cls

    @classmethod
    def key(cls, value: object) -> Any:
        """Return the key of `value` in `members`.

        Override it for a kind whose values have several spellings: the key of "cuda:1"
        and of its Device is "cuda".
        """
        return value


def shown(given: object) -> str:
    """Return the text of a coordinate, or of what was given instead of one.

    A container is shown as its type, without its contents.
    """
    if isinstance(given, type):
        return given.__name__
    is_short = isinstance(given, (bool, int, float, str, DType, Device))
    if isinstance(given, int):
        # An integer may have more digits than an error should print.
        return errors.shown(given)
    return str(given) if is_short else type(given).__name__


def _check_class(cls: type, values: object, of: object, rest: dict[str, Any]) -> None:
    """Raise unless the arguments of a class statement define a coordinate."""
    name, problem, fix = cls.__name__, "", ""
    if rest:
        problem = f"is given {', '.join(rest)}"
        fix = "The keywords are value=, values= and of="
    elif not (of is None or _is_kind(of)):
        problem, fix = (
            f"has of={shown(of)}, which is not a kind",
            "Give a kind, such as of=ElementType",
        )
    elif not isinstance(values, (tuple, list, range)):
        problem, fix = f"has the values {shown(values)}", "Give a tuple"
    elif len(cls.__bases__) > 1:
        listed = " and ".join(base.__name__ for base in cls.__bases__)
        problem, fix = f"derives from {listed}", "Choose one"
    if problem:
        raise RegistrationError(f"{name} {problem}", fix)


def _is_kind(given: object) -> bool:
    is_class = isinstance(given, CoordinateType)
    return is_class and getattr(given, "kind", None) is given


def _is_of(value: object, kind: CoordinateType) -> bool:
    is_class = isinstance(value, CoordinateType) and value is not kind
    return is_class and getattr(value, "kind", None) is kind


def _counterpart(kind: CoordinateType, inner: CoordinateType) -> CoordinateType:
    """Return the class `kind[inner]`.

    The class derives from `kind[base]` for the base class of `inner`, or from `kind` if
    that base is itself a kind.
    """
    # Two threads must not make two classes for one coordinate.
    with _lock:
        known: CoordinateType | None = kind.members.get(inner)
        if known is not None:
            return known
        wider: Any = inner.__base__
        return _member(
            kind, inner, kind if wider is kind.of else _counterpart(kind, wider)
        )


def _member(
    kind: CoordinateType, value: object, base: CoordinateType
) -> CoordinateType:
    name = f"{kind.__name__}[{shown(value)}]"
    body = {"__module__": kind.__module__, "__doc__": f"{kind.__name__}: {value}."}
    return CoordinateType(name, (base,), body, value=value)


def _reduce_coordinate(cls: CoordinateType) -> Any:
    """Return how to unpickle: the name, or the kind and value for `Kind[value]`."""
    if cls.__name__.endswith("]"):
        return operator.getitem, (cls.kind, cls.value)
    return cls.__qualname__


# Pickle knows functions for a metaclass only through copyreg.
copyreg.pickle(CoordinateType, _reduce_coordinate)


# The predefined kinds. Tags and spaces sort coordinates in this order of declaration.


class DeviceType(Coordinate):
    """The device that runs the operation: `cuda:0`, `cuda:1` ... are all `Cuda`."""

    @classmethod
    def key(cls, value: object) -> Any:
        """Return the name of a device without its number."""
        name = value.name if isinstance(value, Device) else value
        return name.partition(":")[0] if isinstance(name, str) else name


class Cpu(DeviceType, value="cpu"):
    """The host."""


class Cuda(DeviceType, value="cuda"):
    """An NVIDIA GPU."""


class ElementType(Coordinate):
    """The type of the elements; `.value` is its `DType`."""


class Logical(ElementType):
    """Bools: True and False."""


class Integer(ElementType):
    """Integers: sums do not round, so their order is free."""


class Signed(Integer):
    """Signed integers, in two's complement."""


class Unsigned(Integer):
    """Unsigned integers."""


class Floating(ElementType):
    """IEEE 754 binary floating-point numbers."""


class Complex(ElementType):
    """Complex numbers: pairs of IEEE 754 numbers."""


class Bool(Logical, value=dtypes.bool_):
    """The element type `mdtensor.bool`, as a coordinate."""


class Int8(Signed, value=dtypes.int8):
    """The element type `mdtensor.int8`, as a coordinate."""


class Int16(Signed, value=dtypes.int16):
    """The element type `mdtensor.int16`, as a coordinate."""


class Int32(Signed, value=dtypes.int32):
    """The element type `mdtensor.int32`, as a coordinate."""


class Int64(Signed, value=dtypes.int64):
    """The element type `mdtensor.int64`, as a coordinate."""


class UInt8(Unsigned, value=dtypes.uint8):
    """The element type `mdtensor.uint8`, as a coordinate."""


class UInt16(Unsigned, value=dtypes.uint16):
    """The element type `mdtensor.uint16`, as a coordinate."""


class UInt32(Unsigned, value=dtypes.uint32):
    """The element type `mdtensor.uint32`, as a coordinate."""


class UInt64(Unsigned, value=dtypes.uint64):
    """The element type `mdtensor.uint64`, as a coordinate."""


class Float16(Floating, value=dtypes.float16):
    """The element type `mdtensor.float16`, as a coordinate."""


class BFloat16(Floating, value=dtypes.bfloat16):
    """The element type `mdtensor.bfloat16`, as a coordinate."""


class Float32(Floating, value=dtypes.float32):
    """The element type `mdtensor.float32`, as a coordinate."""


class Float64(Floating, value=dtypes.float64):
    """The element type `mdtensor.float64`, as a coordinate."""


class Complex64(Complex, value=dtypes.complex64):
    """The element type `mdtensor.complex64`, as a coordinate."""


class Complex128(Complex, value=dtypes.complex128):
    """The element type `mdtensor.complex128`, as a coordinate."""


class Contiguity(Coordinate):
    """The layout of the elements in memory."""


class Strided(Contiguity):
    """Any strides; 0 where an axis is broadcast."""


class Contiguous(Contiguity):
    """Row-major without gaps."""


class Placement(Coordinate):
    """The memory that receives the result."""


class InPlace(Placement):
    """The operand's own memory."""


class OutOfPlace(Placement):
    """New memory."""


class Determinism(Coordinate):
    """Whether every run, with any number of threads, must give the same bytes."""


class NotRequired(Determinism):
    """Runs may differ by rounding."""


class Required(Determinism):
    """Every run, with any number of threads, must give the same bytes."""


class Scheduling(Coordinate):
    """How threads share an index range; `.value` is the name in `for_each`."""


class Uniform(Scheduling, value="uniform"):
    """Each thread gets one equal part of the index range."""


class Adaptive(Scheduling, value="adaptive"):
    """The range is cut into many small parts; a free thread takes the next one."""


class BlockSize(Coordinate, values=(64, 128, 256, 512, 1024)):
    """The number of threads in a GPU block."""
