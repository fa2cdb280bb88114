"""The closed universe: every class that an argument can be an instance of.

It does not depend on what can be imported here. A leaf of a device without a backend
belongs to it like any other, or a machine without that device would hide what is
ambiguous there.
"""

from __future__ import annotations

import abc
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import plum

from mdtensor.diagnose.hints import hint, qualified
from mdtensor.diagnose.source import Source
from mdtensor.errors import OptionError, shown
from mdtensor.tensor import Tensor, leaves

SCALARS = (bool, int, float, complex, type(None))


@dataclass(frozen=True)
class Universe:
    """Concrete classes, sorted by name.

    Args:
        types: the classes.

    Example:
        >>> Universe.of([int, bool]).types
        (<class 'bool'>, <class 'int'>)
    """

    types: tuple[type, ...]

    @classmethod
    def of(cls, types: Iterable[type]) -> Universe:
        """From classes in any order.

        Raises:
            OptionError: something in it is no class.
        """
        if not isinstance(types, Iterable):
            problem = f"a universe is several classes, not {shown(types)}"
            raise OptionError(problem, "Give a list of classes")
        found = set()
        for member in types:
            check_class(member)
            found.add(member)
        return cls(tuple(sorted(found, key=qualified)))

    @cached_property
    def backends(self) -> tuple[str, ...]:
        """For each class what it needs that is missing on this machine, or nothing."""
        return tuple(map(backend, self.types))


def check_class(value: Any) -> None:
    """Refuse what is no class.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(value, type):
        name = type(value).__name__
        raise OptionError(f"a class is wanted, given is one {name}", "Give a class")


def backend(cls: type) -> str:
    """What an instance of `cls` needs that is missing here; empty if nothing is."""
    if isinstance(cls, plum.ModuleType):
        return str(cls._module).partition(".")[0]
    if issubclass(cls, Tensor) and hasattr(cls, "device") and cls.device.missing:
        return str(cls.device.name).partition(":")[0]
    return ""


def universe_of(found: Iterable[Source], promised: Iterable[Any] = ()) -> Universe:
    """The classes that calls of these functions can be made with.

    Args:
        found: the functions.
        promised: further annotations, of which the classes are wanted.

    The Python scalars and None; all our leaves, if an operation is among the functions;
    of the classes in the signatures those that have instances, with all that derive
    from them, unless they are Python's own.
    """
    found = tuple(found)
    known: set[type] = set(SCALARS)
    if any(each.is_operation for each in found):
        known.update(leaves())
    kinds = {k for each in found for method in each.methods for k in method.hints}
    for member in {c for each in (*kinds, *map(hint, promised)) for c in each.members}:
        known.update(_instantiable(member))
    return Universe.of(known)


def _instantiable(cls: type) -> Iterator[type]:
    if issubclass(cls, Tensor):
        yield from leaves()
    elif cls is not object:
        for found in _family(cls, set()):
            if not _is_abstract(found):
                yield found


def _family(cls: type, seen: set[type]) -> Iterator[type]:
    """A class and what derives from it; of Python's own just the class."""
    yield cls
    seen.add(cls)
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names:
        return
    children: list[type] = type.__subclasses__(cls)
    for child in children:
        if child not in seen:
            yield from _family(child, seen)


def _is_abstract(cls: type) -> bool:
    """Whether nothing is an instance of just this class."""
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return True
    stdlib = cls.__module__.partition(".")[0] in sys.stdlib_module_names
    return stdlib and isinstance(cls, abc.ABCMeta)
