"""Every error a user can meet. Fields on the object, text made in `__str__`.

The grammar is `<operation>(<types with shapes>): <what is wrong>. <what would work>.`
No message ever holds the contents of an array.
"""

from __future__ import annotations

import pickle
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import plum

__all__ = [
    "AmbiguousDispatchError",
    "BoundsError",
    "CallError",
    "CastError",
    "CompileError",
    "CoverageError",
    "DataError",
    "DeviceError",
    "DispatchError",
    "ExchangeError",
    "GridError",
    "LinAlgError",
    "LossError",
    "MdtensorError",
    "ModelError",
    "NoMethodError",
    "OptionError",
    "PointError",
    "PromotionError",
    "ProtocolError",
    "RegistrationError",
    "ShapeError",
    "StorageError",
    "WriteError",
]

# How errors show an argument: its type and shape, and never what an array holds.
#
# Its name, and a value that the error asks for, as the one writes them who calls.


class _Shown(reprlib.Repr):
    """Short, whatever it is of: no contents of arrays, no end of digits or brackets."""

    def repr_instance(self, x: object, level: int) -> str:
        try:
            if getattr(x, "shape", ()) != ():
                return type_and_shape(x)
            return re.sub(r" at 0x\w+", "", super().repr_instance(x, level))
        except Exception:  # what a stranger's own repr raises
            return type(x).__name__

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 128:
            return f"an integer of {x.bit_length()} bits"
        return repr(x)


_SHOWN = _Shown()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother = 3, 60, 80


def shown(value: object) -> str:
    """An argument of any type as errors show it.

    Example:
        >>> shown((1, "a")), shown([[[[]]]]), shown(10**5000)
        ("(1, 'a')", '[[[...]]]', 'an integer of 16610 bits')
    """
    return _SHOWN.repr(value)


def _in_python(name: str, *value: object) -> str:
    return "=".join([name, *map(repr, value)])


_WRITER: ContextVar[Callable[..., str]] = ContextVar("writer", default=_in_python)


def written(name: str, *value: object) -> str:
    """An argument, or what else a caller writes, with the value that is meant, if any.

    Example:
        >>> written("axis"), written("axis", 0)
        ('axis', 'axis=0')
    """
    return _WRITER.get()(name, *value)


@contextmanager
def writing(writer: Callable[..., str]) -> Iterator[None]:
    """A context in which errors have arguments as `writer` writes them.

    Args:
        writer: called as `written` is.
    """
    token = _WRITER.set(writer)
    try:
        yield
    finally:
        _WRITER.reset(token)


def describe(operation: str, *arguments: object) -> str:
    """`operation(Float32Tensor[2,3], Int8Tensor[4])`: types and shapes, no values."""
    return f"{operation}({', '.join(map(type_and_shape, arguments))})"


def type_and_shape(argument: object) -> str:
    """`Float32Tensor[2,3]` for a tensor, the bare type name for anything else."""
    name = type(argument).__name__
    try:
        shape = getattr(argument, "shape", None)
    except Exception:  # an attribute of a stranger's that is computed
        return name
    if not isinstance(shape, tuple):
        return name
    return f"{name}[{','.join(map(str, shape))}]"


def grids(arguments: Iterable[object]) -> str:
    """`; the grids are (...) and (...)` of quantized ones, for the end of a problem.

    Example:
        >>> import mdtensor as md
        >>> grids([md.quant.QInt8Tensor([1], scale=0.5), 2, md.asarray([1.0])])
        '; the grid is (scale=0.5, zero_point=0)'
    """
    known = [getattr(x, "qparams", None) for x in arguments]
    found = [f"({grid.describe()})" for grid in known if grid is not None]
    if not found:
        return ""
    return f"; the grid{'s are' if len(found) > 1 else ' is'} {' and '.join(found)}"


Result = TypeVar("Result")


class MdtensorError(Exception):
    """The root of all errors raised by mdtensor.

    Args:
        problem: what is wrong, with the numbers; no final full stop.
        fix: what would work instead; may be empty.
        call: the operation and the types of its arguments, see `describe`.
    """

    def __init__(self, problem: str, fix: str = "", call: str = "") -> None:
        super().__init__(problem, fix, call)

    @property
    def problem(self) -> str:
        return str(self.args[0])

    @property
    def fix(self) -> str:
        return str(self.args[1])

    @property
    def call(self) -> str:
        return str(self.args[2])

    @property
    def operation(self) -> str:
        """The name of the operation, `add` of `add(Int8Tensor[4], int)`."""
        return self.call.partition("(")[0]

    @property
    def place(self) -> str:
        """Where it went wrong: the call, and what else matters there."""
        return self.call

    def within(self, call: str) -> Self:
        """The same error, of `call`."""
        return type(self)(self.problem, self.fix, call, *self.args[3:])

    def __str__(self) -> str:
        head = f"{self.place}: " if self.place else ""
        tail = f" {self.fix}." if self.fix else ""
        return f"{head}{self.problem}.{tail}"


class ShapeError(MdtensorError, ValueError):
    """Shapes, axes or sizes do not fit each other."""


class BoundsError(ShapeError, IndexError):
    """An axis or an index that does not exist."""


class PromotionError(MdtensorError, TypeError):
    """Types have no common type under the promotion rules.

    Args:
        problem, fix, call: see `MdtensorError`.
        rules: the name of the rules, unless they are the default.
        types: the element types that have none, in the order of the operands.
    """

    def __init__(
        self,
        problem: str,
        fix: str = "",
        call: str = "",
        rules: str = "",
        types: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(problem, fix, call)
        if rules or types:
            self.args = (*self.args, rules, types)

    @property
    def rules(self) -> str:
        return str(self.args[3]) if len(self.args) > 3 else ""

    @property
    def types(self) -> tuple[Any, ...]:
        return tuple(self.args[4]) if len(self.args) > 4 else ()

    @property
    def place(self) -> str:
        return f"{self.call} under {self.rules!r}".strip() if self.rules else self.call


class CastError(MdtensorError, ValueError):
    """A value or an element type cannot be represented in the type asked for."""


class LossError(MdtensorError, ArithmeticError):
    """A result is not the exact one, where `checked(raises=True)` wants that."""


class DeviceError(MdtensorError, ValueError):
    """Operands on different devices, or a device that is not there."""


class ExchangeError(MdtensorError, BufferError):
    """A buffer that cannot be handed to, or taken from, another library as asked."""


class ProtocolError(MdtensorError, AttributeError):
    """An object without the methods by which libraries hand over arrays."""


class DispatchError(MdtensorError, TypeError):
    """No method fits the types of the arguments, or more than one fits best."""


class CallError(DispatchError):
    """A call that no one method answers; holds types, and none of the arguments.

    Args:
        problem, fix, call: see `MdtensorError`.
        types: the types of the arguments; `object` for each once pickled, if one of
            them is local to a function and cannot be.
        methods: signatures and places, those that fit or those that nearly do.
    """

    def __init__(
        self,
        problem: str,
        fix: str = "",
        call: str = "",
        types: tuple[type, ...] = (),
        methods: tuple[str, ...] = (),
        *rest: Any,
    ) -> None:
        super().__init__(problem, fix, call)
        if types:
            self.args = (problem, fix, call, types, methods, *rest)

    @property
    def types(self) -> tuple[type, ...]:
        return tuple(*self.args[3:4])

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(*self.args[4:5])

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            pickle.dumps(self.types)
        except (pickle.PicklingError, AttributeError, TypeError):
            return type(self), (
                *self.args[:3],
                (object,) * len(self.types),
                *self.args[4:],
            )
        return type(self), self.args

    # plum writes its errors with rich, wrapped to the terminal; ours are one text.
    __repr__ = BaseException.__repr__

    def __rich__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        return {"text/plain": repr(self)}


class AmbiguousDispatchError(CallError, plum.AmbiguousLookupError):  # type: ignore[misc]
    """More than one method fits, and none is more specific than all others: MDT001.

    `header` is the method that would answer the call.

    Source: Julia, `showerror_ambiguous`.
    """

    @property
    def header(self) -> str:
        return str(*self.args[5:6])


class NoMethodError(CallError, plum.NotFoundLookupError):  # type: ignore[misc]
    """No method fits the types of the arguments.

    `argument` is the first that rules out the nearest method, `methods` are the nearest
    ones, and `casts` are calls after which a method was found: exact ones first, and
    those that may lose something say so.

    Example:
        >>> import mdtensor as md
        >>> try:
        ...     md.sin(md.asarray([1], dtype=md.int32))
        ... except md.NoMethodError as error:
        ...     print(error.argument, error.casts[:2])
        x ('astype(x, float64)', 'astype(x, complex128)')

    Source: Julia, `showerror` of `MethodError`.
    """

    @property
    def argument(self) -> str:
        return str(*self.args[5:6])

    @property
    def casts(self) -> tuple[str, ...]:
        return tuple(*self.args[6:7])


class RegistrationError(MdtensorError, TypeError):
    """A type, an operation or a method that cannot be added as it stands."""


class PointError(DispatchError):
    """A dispatch table has no such point.

    Args:
        problem, fix, call: see `MdtensorError`.
        point: the tag that was asked for, with all its coordinates.
        nearest: the points there are that differ in the fewest coordinates.
    """

    def __init__(
        self,
        problem: str,
        fix: str = "",
        call: str = "",
        point: type | None = None,
        nearest: tuple[type, ...] = (),
    ) -> None:
        super().__init__(problem, fix, call)
        if point:
            self.args = (*self.args, point, nearest)

    @property
    def point(self) -> Any:
        return next(iter(self.args[3:]), None)

    @property
    def nearest(self) -> tuple[Any, ...]:
        return tuple(*self.args[4:])


class CoverageError(RegistrationError):
    """Points of a dispatch table for which there is no method, or no best one.

    Args:
        problem, fix, call: see `MdtensorError`.
        missing: the points without a method.
        ambiguous: the points with several, none of them more specific than all others.
    """

    def __init__(
        self,
        problem: str,
        fix: str = "",
        call: str = "",
        missing: tuple[type, ...] = (),
        ambiguous: tuple[type, ...] = (),
    ) -> None:
        super().__init__(problem, fix, call)
        if missing or ambiguous:
            self.args = (*self.args, missing, ambiguous)

    @property
    def missing(self) -> tuple[Any, ...]:
        return tuple(*self.args[3:4])

    @property
    def ambiguous(self) -> tuple[Any, ...]:
        return tuple(*self.args[4:])


class OptionError(MdtensorError, ValueError):
    """A keyword argument has a value outside its domain."""


class WriteError(MdtensorError, ValueError):
    """A tensor whose buffer must not be written."""


class CompileError(MdtensorError, TypeError):
    """A Python function that cannot be compiled as it stands."""


class LinAlgError(MdtensorError, ValueError):
    """A matrix that has no such inverse or factor, or on which an iteration fails."""


class GridError(MdtensorError, ValueError):
    """Quantization parameters that are invalid, or grids that do not match."""


class ModelError(MdtensorError, ValueError):
    """A model file that cannot be read, or a graph that cannot be run."""


class StorageError(MdtensorError, ValueError):
    """A file of tensors that cannot be read or written, or that damage has reached."""


class DataError(MdtensorError, ValueError):
    """Elements for which an operation has no result, or data a model cannot take."""


def checked(
    operation: str, arguments: tuple[object, ...], rule: Callable[[], Result]
) -> Result:
    """`rule()`; an error of ours that does not name its call gets this one.

    Example:
        >>> from mdtensor.spec.shapes import broadcast_shapes
        >>> checked("add", (1, 2), lambda: broadcast_shapes((2,), (3,)))
        Traceback (most recent call last):
        mdtensor.errors.ShapeError: add(int, int): shapes ...
    """
    try:
        return rule()
    except MdtensorError as error:
        if error.call:
            raise
        raise error.within(describe(operation, *arguments)) from None
