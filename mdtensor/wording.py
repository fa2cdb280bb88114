"""How errors show an argument: its type and shape, and never what an array holds.

Its name, and a value that the error asks for, as the one writes them who calls.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


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
