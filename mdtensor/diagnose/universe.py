"""The universe: every concrete class that an argument can be an instance of.

The universe does not depend on the optional packages of this machine. A concrete type
on a device without a backend belongs to the universe as well. Otherwise a machine
without that device would hide the ambiguities of methods for the device.
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

from mdtensor.diagnose.hints import derives, hint, qualified, referent
from mdtensor.diagnose.source import Source
from mdtensor.errors import OptionError, shown
from mdtensor.tensor import Tensor, leaves

SCALARS = (bool, int, float, complex, type(None))
#: Instances of an ABC need not derive from it: `list` is a Sequence by registration.
#: For nearly every ABC of the standard library one of these classes is an instance.
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
        """Make a universe from classes in any order.

        Raises:
            OptionError: an item is not a class.
        """
        if not isinstance(types, Iterable):
            problem = f"a universe is a list of classes, not {shown(types)}"
            raise OptionError(problem, "Pass a list of classes")
        found = set()
        for member in types:
            require_class(member)
            found.add(member)
        # Sorted, so that reports are the same on every machine.
        return cls(tuple(sorted(found, key=qualified)))

    @cached_property
    def backends(self) -> tuple[str, ...]:
        """Return, for each class, the package or device that it lacks here.

        A text is empty if nothing is missing.
        """
        return tuple(map(backend, self.types))

    def is_open(self, cls: type) -> bool:
        """Return whether `cls` may have instances outside the universe.

        This holds for an ABC of the standard library, and for an abstract class that
        no class of the universe derives from.

        Example:
            >>> universe = Universe.of([list])
            >>> universe.is_open(Iterable), universe.is_open(list)
            (True, False)
        """
        if not _is_abstract(cls):
            return False
        return _is_stdlib(cls) or not any(cls in c.__mro__ for c in self.types)


def require_class(value: object) -> None:
    """Raise unless `value` is a class.

    Raises:
        OptionError: `value` is not a class.
    """
    if not isinstance(value, type):
        name = type(value).__name__
        raise OptionError(
            f"expected a class, not an instance of {name}", "Pass a class"
        )


def backend(cls: type) -> str:
    """Return the package or device that `cls` lacks here; empty if none is missing."""
    # plum.ModuleType stands for a class whose module is not imported.
    if isinstance(cls, plum.ModuleType):
        return str(cls._module).partition(".")[0]
    if issubclass(cls, Tensor) and hasattr(cls, "device") and cls.device.missing:
        return str(cls.device.name).partition(":")[0]
    return ""


def universe_of(found: Iterable[Source], promised: Iterable[Any] = ()) -> Universe:
    """Return the classes that these functions can be called with.

    The universe holds the Python scalars and None, and all concrete tensor types if one
    of the functions is an operation. It also holds the classes in the signatures that
    can have instances, with their subclasses unless they are from the standard library.
    An ABC adds the classes of `WITNESSES` that are instances of it.

    Args:
        found: the functions.
        promised: further annotations whose classes belong to the universe.
    """
    found = tuple(found)
    known: set[type] = set(SCALARS)
    if any(each.is_operation for each in found):
        known.update(leaves())
    kinds = {k for each in found for method in each.methods for k in method.hints}
    for member in {c for each in (*kinds, *map(hint, promised)) for c in each.members}:
        known.update(_instantiable(referent(member)))
    return Universe.of(known)


def _instantiable(cls: type) -> Iterator[type]:
    if issubclass(cls, Tensor):
        yield from leaves()
    elif cls is not object:
        for found in _family(cls, set()):
            if not _is_abstract(found) and not _is_hidden(found):
                yield found
        if _is_abstract(cls):
            yield from (witness for witness in WITNESSES if derives(witness, cls))


def _family(cls: type, seen: set[type]) -> Iterator[type]:
    """Yield a class and its subclasses; for the standard library only the class."""
    yield cls
    seen.add(cls)
    if _is_stdlib(cls):
        return
    children: list[type] = type.__subclasses__(cls)
    for child in children:
        if child not in seen:
            yield from _family(child, seen)


def _is_hidden(cls: type) -> bool:
    """Return whether a decorator has put another class in the place of `cls`."""
    # No object has the hidden class, so a finding about it would be about nothing.
    children: list[type] = type.__subclasses__(cls)
    siblings: list[type] = type.__subclasses__(cls.__bases__[0])
    return any(
        (other.__module__, other.__name__) == (cls.__module__, cls.__name__)
        and (_is_parametric(other) if other in children else _adds_slots(other, cls))
        for other in (*children, *siblings)
    )


def _is_parametric(cls: type) -> bool:
    return isinstance(cls, plum.CovariantMeta) and cls.parametric


def _adds_slots(new: type, old: type) -> bool:
    """Return whether `dataclass(slots=True)` or attrs made `new` from `old`."""
    if "__slots__" in vars(old) or "__slots__" not in vars(new):
        return False
    # The new class is made from the same attributes, and `super` keeps the old one.
    return any(
        value is vars(new).get(name)
        for name, value in vars(old).items()
        if name == "__annotations__" or isinstance(value, types.FunctionType)
    )


def _is_abstract(cls: type) -> bool:
    """Return whether no object has exactly this class."""
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return True
    return _is_stdlib(cls) and isinstance(cls, abc.ABCMeta)


def _is_stdlib(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names
