"""The closed universe: every class that an argument can be an instance of.

It does not depend on what can be imported here. A leaf of a device without a backend
belongs to it like any other, or a machine without that device would hide what is
ambiguous there.
"""

from __future__ import annotations

import abc
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import plum

from mdtensor.diagnose.hints import derives, hint, qualified
from mdtensor.diagnose.source import Source
from mdtensor.errors import OptionError, shown
from mdtensor.tensor import Tensor, leaves

SCALARS = (bool, int, float, complex, type(None))
#: Instances of an ABC need not derive from it: `list` is a Sequence by registration.
#: Of these classes at least one fits nearly every ABC of Python's own.
WITNESSES: tuple[type, ...] = (
    *(dict, frozenset, list, memoryview, range, set, str, tuple),
    *(type({}.keys()), type({}.values()), type({}.items())),
    *(types.FunctionType, types.GeneratorType),
    *(types.CoroutineType, types.AsyncGeneratorType),
    *(Decimal, Fraction, PurePosixPath, nullcontext),
)


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

    def is_open(self, cls: type) -> bool:
        """Whether classes outside of it are likely to be a `cls`.

        An ABC of Python's own, or one that nothing here derives from.

        Example:
            >>> universe = Universe.of([list])
            >>> universe.is_open(Iterable), universe.is_open(list)
            (True, False)
        """
        if not _is_abstract(cls):
            return False
        return _is_pythons(cls) or not any(cls in c.__mro__ for c in self.types)


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
    from them, unless they are Python's own; for an ABC also those of `WITNESSES` that
    are one.
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
        if _is_abstract(cls):
            yield from (witness for witness in WITNESSES if derives(witness, cls))


def _family(cls: type, seen: set[type]) -> Iterator[type]:
    """A class and what derives from it; of Python's own just the class."""
    yield cls
    seen.add(cls)
    if _is_pythons(cls):
        return
    children: list[type] = type.__subclasses__(cls)
    for child in children:
        if child not in seen:
            yield from _family(child, seen)


def _is_abstract(cls: type) -> bool:
    """Whether nothing is an instance of just this class."""
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return True
    return _is_pythons(cls) and isinstance(cls, abc.ABCMeta)


def _is_pythons(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names
