"""Coordinates: what an algorithm is chosen by, as classes.

    class Placement(Coordinate): ...                    # a kind
    class InPlace(Placement): ...                       # a coordinate of this kind
    class BlockSize(Coordinate, values=(64, 128)): ...  # BlockSize[64], BlockSize[128]
    class Source(Coordinate, of=ElementType): ...       # Source[Float32], ...

Being classes they have an order: what is written for `Floating` fits `Float32`, and
what is written for `Float32` is more specific. A kind that is `of` another has the same
coordinates under a name of its own, so that a space can have two axes of them.
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

_ranks = itertools.count()
_lock = threading.RLock()


class CoordinateType(type):
    """The class of coordinates; it finds them by value, and prints as their name."""

    # Every coordinate has these; Coordinate says what they are.
    kind: CoordinateType
    rank: int
    members: dict[Any, CoordinateType]
    declared: list[CoordinateType]
    of: CoordinateType | None
    value: Any
    key: Callable[[Any], Any]

    def __getitem__(cls, value: Any) -> CoordinateType:
        """The coordinate of this kind that has `value`.

        Raises:
            OptionError: none has.
        """
        if not hasattr(cls, "kind"):
            raise OptionError(f"{cls.__name__} is no kind", "Use one: BlockSize[64]")
        found = cls.find(value)
        if found is None:
            known = ", ".join(map(str, cls.kind.members)) or "none"
            raise OptionError(
                f"{cls.__name__} has no coordinate {shown(value)}", f"Known are {known}"
            )
        return found

    def find(cls, value: Any) -> CoordinateType | None:
        """The coordinate of this kind that has `value`, or None."""
        kind = cls.kind
        try:
            found = kind.members.get(kind.key(value))
        except TypeError:  # not hashable
            return None
        if found is None and kind.of is not None:
            inner = value if _is_of(value, kind.of) else kind.of.find(value)
            found = None if inner is None else _renamed(kind, inner)
        return found if found is not None and issubclass(found, cls) else None

    def leaves(cls) -> Iterator[CoordinateType]:
        """The coordinates below that have none below them, in order of declaration."""
        kind = cls.kind
        if kind.of is not None:
            every = [_renamed(kind, inner) for inner in kind.of.leaves()]
        else:
            wider = {one.__base__ for one in kind.declared}
            every = [one for one in kind.declared if one not in wider]
        return (one for one in every if issubclass(one, cls))

    def __repr__(cls) -> str:
        return f"<{cls.__name__}>"  # beartype wants `<`, or what `X | int` shows

    def __str__(cls) -> str:
        return cls.__name__


class Coordinate(metaclass=CoordinateType):
    """The root of all kinds, each of which derives from it directly.

    Args of a kind, in its class statement:
        values: its coordinates are `Kind[value]`, one for each.
        of: another kind; its coordinates are `Kind[coordinate]`, one for each of that.

    Args of a coordinate:
        value: what it stands for, under which its kind finds it.

    Raises:
        RegistrationError: a value that is taken, or more than one base class.

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
        value: Any = None,
        values: tuple[Any, ...] = (),
        of: CoordinateType | None = None,
        **rest: Any,
    ) -> None:
        _check(cls, values, of, rest)
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
    def _enter(cls, value: Any) -> None:
        try:
            taken = cls.members.get(value)
        except TypeError:
            problem = f"the value of {cls.__name__} is a {type(value).__name__}"
            raise RegistrationError(problem, "Use one that has a hash") from None
        if taken is not None:
            problem = f"{cls.kind.__name__} has {taken} for {value}"
            raise RegistrationError(problem, "Use that one")
        cls.members[value] = cls

    @classmethod
    def key(cls, value: Any) -> Any:
        """What `members` has `value` under; a kind may know several spellings."""
        return value


def shown(given: Any) -> str:
    """A coordinate, or what was given as one; never what a container holds."""
    if isinstance(given, type):
        return given.__name__
    is_short = isinstance(given, (bool, int, float, str, DType, Device))
    if isinstance(given, int):
        return errors.shown(given)  # its digits may be without number
    return str(given) if is_short else type(given).__name__


def _check(cls: type, values: Any, of: Any, rest: dict[str, Any]) -> None:
    """Refuse what a class of coordinates cannot be made of."""
    name, problem, fix = cls.__name__, "", ""
    if rest:
        problem = f"is given {', '.join(rest)}"
        fix = "Known are value=, values= and of="
    elif not (of is None or _is_kind(of)):
        problem, fix = f"is of {shown(of)}, no kind", "Give one: of=ElementType"
    elif not isinstance(values, (tuple, list, range)):
        problem, fix = f"has the values {shown(values)}", "Give a tuple"
    elif len(cls.__bases__) > 1:
        listed = " and ".join(base.__name__ for base in cls.__bases__)
        problem, fix = f"derives from {listed}", "Choose one"
    if problem:
        raise RegistrationError(f"{name} {problem}", fix)


def _is_kind(given: Any) -> bool:
    is_class = isinstance(given, CoordinateType)
    return is_class and getattr(given, "kind", None) is given


def _is_of(value: Any, kind: CoordinateType) -> bool:
    is_class = isinstance(value, CoordinateType) and value is not kind
    return is_class and getattr(value, "kind", None) is kind


def _renamed(kind: Any, inner: CoordinateType) -> CoordinateType:
    """`kind[inner]`, below the coordinates that `inner` is below in its own kind."""
    with _lock:
        known: CoordinateType | None = kind.members.get(inner)
        if known is not None:
            return known
        wider: Any = inner.__base__
        return _member(kind, inner, kind if wider is kind.of else _renamed(kind, wider))


def _member(kind: CoordinateType, value: Any, base: CoordinateType) -> CoordinateType:
    name = f"{kind.__name__}[{shown(value)}]"
    body = {"__module__": kind.__module__, "__doc__": f"{kind.__name__}: {value}."}
    return CoordinateType(name, (base,), body, value=value)


def _pickled(cls: CoordinateType) -> Any:
    """By name, as classes are; those that have no name of their own by their value."""
    if cls.__name__.endswith("]"):
        return operator.getitem, (cls.kind, cls.value)
    return cls.__qualname__


copyreg.pickle(CoordinateType, _pickled)


# The kinds of coordinates, in the order in which tags and spaces have them.
#
# What runs an operation, on which elements, and how. A device or an element type of your
# own takes part as `class Fpga(DeviceType, value="fpga")` or
# `class Int24(Signed, value=int24)`; a kind of your own derives from `Coordinate`.


class DeviceType(Coordinate):
    """What runs the operation: all of `cuda:0`, `cuda:1` ... are `Cuda`."""

    @classmethod
    def key(cls, value: Any) -> Any:
        """The name without a number, of a device or of its name."""
        name = value.name if isinstance(value, Device) else value
        return name.partition(":")[0] if isinstance(name, str) else name


class Cpu(DeviceType, value="cpu"):
    """The host."""


class Cuda(DeviceType, value="cuda"):
    """A GPU of NVIDIA."""


class ElementType(Coordinate):
    """The type of the elements; `.value` is its `DType`."""


class Logical(ElementType):
    """Truth values."""


class Integer(ElementType):
    """Integers, which are added without rounding, in any order."""


class Signed(Integer):
    """Two's complement integers."""


class Unsigned(Integer):
    """Integers from 0."""


class Floating(ElementType):
    """IEEE 754 binary floating point."""


class Complex(ElementType):
    """Pairs of IEEE 754 numbers."""


class Bool(Logical, value=dtypes.bool_):
    """`mdtensor.bool`."""


class Int8(Signed, value=dtypes.int8):
    """`mdtensor.int8`."""


class Int16(Signed, value=dtypes.int16):
    """`mdtensor.int16`."""


class Int32(Signed, value=dtypes.int32):
    """`mdtensor.int32`."""


class Int64(Signed, value=dtypes.int64):
    """`mdtensor.int64`."""


class UInt8(Unsigned, value=dtypes.uint8):
    """`mdtensor.uint8`."""


class UInt16(Unsigned, value=dtypes.uint16):
    """`mdtensor.uint16`."""


class UInt32(Unsigned, value=dtypes.uint32):
    """`mdtensor.uint32`."""


class UInt64(Unsigned, value=dtypes.uint64):
    """`mdtensor.uint64`."""


class Float16(Floating, value=dtypes.float16):
    """`mdtensor.float16`."""


class BFloat16(Floating, value=dtypes.bfloat16):
    """`mdtensor.bfloat16`."""


class Float32(Floating, value=dtypes.float32):
    """`mdtensor.float32`."""


class Float64(Floating, value=dtypes.float64):
    """`mdtensor.float64`."""


class Complex64(Complex, value=dtypes.complex64):
    """`mdtensor.complex64`."""


class Complex128(Complex, value=dtypes.complex128):
    """`mdtensor.complex128`."""


class Contiguity(Coordinate):
    """How the elements lie in memory."""


class Strided(Contiguity):
    """At any distances; 0 where an axis is broadcast."""


class Contiguous(Contiguity):
    """One after the other, the last axis fastest."""


class Placement(Coordinate):
    """Where the result goes."""


class InPlace(Placement):
    """Over the operand."""


class OutOfPlace(Placement):
    """Into memory of its own."""


class Determinism(Coordinate):
    """Whether the same bytes must come out for any number of threads and any run."""


class NotRequired(Determinism):
    """Rounding may differ from run to run."""


class Required(Determinism):
    """The same bytes every time."""


class Scheduling(Coordinate):
    """How an index range is cut for threads; `.value` is the name in `for_each`."""


class Uniform(Scheduling, value="uniform"):
    """Into equal parts, one for each thread."""


class Adaptive(Scheduling, value="adaptive"):
    """Into many small parts; whoever is free takes the next."""


class BlockSize(Coordinate, values=(64, 128, 256, 512, 1024)):
    """Threads in a block of a GPU."""
