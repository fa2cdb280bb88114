"""All exceptions of mdtensor, and the texts that describe arguments in them.

The text, which `__str__` builds from the fields, has the form
`<operation>(<types with shapes>): <problem>. <fix>.` It never contains array elements.
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
    "AllocationError",
    "AmbiguousDispatchError",
    "BoundsError",
    "BudgetError",
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
    "TraceError",
    "TransposeError",
    "WriteError",
]

# Texts for arguments: names and values in the caller's notation, types and shapes.


class _ShortRepr(reprlib.Repr):
    """A short repr of any value, without array elements or deep nesting."""

    def repr_instance(self, x: object, level: int) -> str:
        try:
            if getattr(x, "shape", ()) != ():
                return type_and_shape(x)
            return re.sub(r" at 0x\w+", "", super().repr_instance(x, level))
        except Exception:  # the repr of any class may raise anything
            return type(x).__name__

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 128:
            return f"an integer of {x.bit_length()} bits"
        return repr(x)


_SHOWN = _ShortRepr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother = 3, 60, 80


def shown(value: object) -> str:
    """Return a short text for an argument of any type.

    Example:
        >>> shown((1, "a")), shown([[[[]]]]), shown(10**5000)
        ("(1, 'a')", '[[[...]]]', 'an integer of 16610 bits')
    """
    return _SHOWN.repr(value)


def _in_python(name: str, *value: object) -> str:
    return "=".join([name, *map(repr, value)])


_WRITER: ContextVar[Callable[..., str]] = ContextVar("writer", default=_in_python)


def written(name: str, *value: object) -> str:
    """Return the name of an argument, and its value if given, in the caller's notation.

    Example:
        >>> written("axis"), written("axis", 0)
        ('axis', 'axis=0')
    """
    return _WRITER.get()(name, *value)


@contextmanager
def writing(writer: Callable[..., str]) -> Iterator[None]:
    """Let `writer` format the arguments in errors inside a `with` block.

    Args:
        writer: a function with the parameters of `written`.
    """
    token = _WRITER.set(writer)
    try:
        yield
    finally:
        _WRITER.reset(token)


def describe(operation: str, *arguments: object) -> str:
    """Return a call as text: `operation(Float32Tensor[2,3], Int8Tensor[4])`."""
    return f"{operation}({', '.join(map(type_and_shape, arguments))})"


def type_and_shape(argument: object) -> str:
    """Return `Float32Tensor[2,3]` for a tensor, the type name for anything else."""
    name = type(argument).__name__
    try:
        shape = getattr(argument, "shape", None)
    except Exception:  # `shape` may be a property that raises anything
        return name
    # A class of tensors has a property `shape`, which is not a tuple.
    if not isinstance(shape, tuple):
        return name
    return f"{name}[{','.join(map(str, shape))}]"


def grids(arguments: Iterable[object]) -> str:
    """Return `; the grids are (...) and (...)` for the quantized arguments, or ''.

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
        problem: the problem, with the numbers; without the final full stop.
        fix: a way to solve it; may be empty.
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
        """Return the name of the operation: `add` for `add(Int8Tensor[4], int)`."""
        return self.call.partition("(")[0]

    @property
    def place(self) -> str:
        """Return the call, and the promotion rules if they matter."""
        return self.call

    def within(self, call: str) -> Self:
        """Return the same error with another call."""
        # All fields are in `args`, so subclasses with more fields need no code here.
        return type(self)(self.problem, self.fix, call, *self.args[3:])

    def __str__(self) -> str:
        head = f"{self.place}: " if self.place else ""
        tail = f" {self.fix}." if self.fix else ""
        return f"{head}{self.problem}.{tail}"


class ShapeError(MdtensorError, ValueError):
    """Shapes, axes or sizes that do not fit each other."""


class BoundsError(ShapeError, IndexError):
    """An axis or an index that does not exist."""


class TransposeError(ShapeError, AttributeError):
    """A transpose as an attribute, `x.T` or `x.mT`, of a tensor with other axes.

    An AttributeError as well, so that `hasattr(x, "T")` is False.
    """


class PromotionError(MdtensorError, TypeError):
    """Types without a common type under the promotion rules.

    Args:
        problem, fix, call: see `MdtensorError`.
        rules: the name of the rules, unless they are the default.
        types: the element types, in the order of the operands.
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
    """A value or an element type that the requested type cannot represent."""


class LossError(MdtensorError, ArithmeticError):
    """An inexact result inside `checked(raises=True)`."""


class BudgetError(MdtensorError, ArithmeticError):
    """An error of quantization that is larger than the caller allows."""


class AllocationError(MdtensorError, MemoryError):
    """Values that do not fit into the memory that the system gives."""

    # dask makes errors by `__new__`, and that of MemoryError takes no other class.
    def __new__(cls, *arguments: Any) -> Self:
        return Exception.__new__(cls, *arguments)


class DeviceError(MdtensorError, ValueError):
    """Operands on different devices, or a device that does not exist."""


class ExchangeError(MdtensorError, BufferError):
    """A buffer that cannot be exchanged with another library as requested."""


class ProtocolError(MdtensorError, AttributeError):
    """An object without the methods by which libraries exchange arrays."""


class DispatchError(MdtensorError, TypeError):
    """Arguments whose types or number do not select a method."""


class CallError(DispatchError):
    """A call without one best method; holds the types, but not the arguments.

    Args:
        problem, fix, call: see `MdtensorError`.
        types: the types of the arguments. If one of them cannot be pickled, such as a
            class in a function, the pickled error has `object` for each.
        methods: signatures and places of the methods that fit, or that nearly do.
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
            # An error crosses process borders, but a local class cannot be pickled.
            pickle.dumps(self.types)
        except (pickle.PicklingError, AttributeError, TypeError):
            return type(self), (
                *self.args[:3],
                (object,) * len(self.types),
                *self.args[4:],
            )
        return type(self), self.args

    # plum formats its errors with rich, wrapped to the terminal; ours are plain text.
    __repr__ = BaseException.__repr__

    def __rich__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        return {"text/plain": repr(self)}


class AmbiguousDispatchError(CallError, plum.AmbiguousLookupError):  # type: ignore[misc]
    """A call with several methods, none more specific than all others: MDT001.

    `header` is the header of a method that would decide the call.

    Source: Julia, `showerror_ambiguous`.
    """

    @property
    def header(self) -> str:
        return str(*self.args[5:6])


class NoMethodError(CallError, plum.NotFoundLookupError):  # type: ignore[misc]
    """Arguments whose types no method accepts.

    `argument` is the first one that rules out the nearest method, `methods` are the
    nearest methods, and `casts` are casts after which a method exists: exact casts
    first; the others are marked as lossy.

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


def no_method_on(
    device: object, call: str, types: tuple[type, ...] = ()
) -> NoMethodError:
    """Return the error of a call that no method runs on the device of its tensors.

    Args:
        device: the device.
        call, types: see `CallError`.
    """
    problem, fix = f"no method for {device} yet", 'Move the operands with to("cpu")'
    return NoMethodError(problem, fix, call, types)


class RegistrationError(MdtensorError, TypeError):
    """A type, an operation or a method that cannot be registered."""


class PointError(DispatchError):
    """A point that a dispatch table does not have.

    Args:
        problem, fix, call: see `MdtensorError`.
        point: the requested tag, with all its coordinates.
        nearest: the existing points that differ in the fewest coordinates.
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
    """Points of a dispatch table without a method, or without a best one.

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
    """A tensor whose buffer is read-only."""


class CompileError(MdtensorError, TypeError):
    """A Python function that cannot be compiled."""


class LinAlgError(MdtensorError, ValueError):
    """A matrix without the inverse or factor, or on which an iteration fails."""


class GridError(MdtensorError, ValueError):
    """Quantization parameters that are invalid, or grids that do not match."""


class ModelError(MdtensorError, ValueError):
    """A model file that cannot be read, or a graph that cannot be run."""


class TraceError(MdtensorError, TypeError):
    """A function that cannot be traced: it reads the value of a traced tensor."""


class StorageError(MdtensorError, ValueError):
    """A file of tensors that is damaged, or that cannot be read or written."""


class DataError(MdtensorError, ValueError):
    """Elements for which a result is undefined, or data that a model cannot take."""


def checked(
    operation: str, arguments: tuple[object, ...], rule: Callable[[], Result]
) -> Result:
    """Return `rule()`; an `MdtensorError` without a call gets this call.

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
