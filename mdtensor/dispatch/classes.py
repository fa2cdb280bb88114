"""Classes in signatures: which hints a class fits, and which classes are cached.

A class may end: one that a function makes, a notebook defines again, or a test throws
away. Call tables hold their classes for ever, so only the classes that live on anyway
enter them: built-in ones, those that their module holds under their own name, and
concrete tensor types. All others are remembered by weak references.

An abstract class with `register`, from `abc`, may accept a class later. `is_open` tells
such hints, and `Operation` does not enter calls that one of them could change.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any
from weakref import WeakSet, ref

import plum

from mdtensor.dispatch.declaration import members

#: CPython's flag of classes that are made at run time; built-in ones do not have it.
_HEAP_TYPE = 1 << 9
#: Remembered types of calls; when they are more, entries of dead classes are dropped.
_MANY = 256
_KEPT: WeakSet[type] = WeakSet()


def is_of_annotations(found: type) -> bool:
    """Return whether `found` is the type of generic aliases such as `list[int]`."""
    return hasattr(found, "__args__")


# plum compares by beartype, whose caches hold every class for ever and never see a
# later `register`.
def fits(given: Any, hint: Any) -> bool:
    """Return whether an argument of the class `given` fits a hint of a signature."""
    return any(_fits_member(given, member) for member in members(hint))


def _fits_member(given: Any, member: Any) -> bool:
    if member is Any or member is object:
        return True
    wanted = type(None) if member is None else member
    if is_plain(wanted) and is_plain(given):
        return issubclass(given, wanted)
    return bool(plum.Signature(given) <= plum.Signature(wanted))


def is_plain(hint: object) -> bool:
    """Return whether `hint` is a class without parameters."""
    return isinstance(hint, type) and hint is not Any


def is_below(narrow: Any, wide: Any) -> bool:
    """Return whether every class that fits `narrow` fits `wide`; Any is the widest."""
    if narrow is Any or wide is Any:
        return wide is Any
    parts = (type(None) if part is None else part for part in members(narrow))
    return all(fits(part, wide) for part in parts)


def is_open(hint: Any) -> bool:
    """Return whether classes may begin to fit `hint` later, as by `ABC.register`."""
    plain: list[Any] = [type(member) for member in members(hint) if is_plain(member)]
    return any(kind.__subclasscheck__ is not type.__subclasscheck__ for kind in plain)


def judges_instances(hint: object) -> bool:
    """Return whether a class has instances that do not inherit from it.

    Its metaclass looks at each object, as those of array annotations look at shapes.
    Methods are chosen by classes, so such a class would never be chosen.
    """
    if not is_plain(hint):
        return False
    kind: Any = type(hint)
    return (
        kind.__instancecheck__ is not type.__instancecheck__
        and kind.__subclasscheck__ is type.__subclasscheck__
    )


def uncheckable(hint: object) -> bool:
    """Return whether Python cannot test which classes fit a hint.

    Python cannot test protocols without `runtime_checkable`, protocols with data
    members, and typed dictionaries.
    """
    if not is_plain(hint):
        return False
    try:
        issubclass(object, hint)  # type: ignore[arg-type]
    except Exception:  # a metaclass of yours may raise anything
        return True
    return False


def keep(kind: type) -> None:
    """Let call tables hold `kind`, which a registry holds as long as it needs it."""
    _KEPT.add(kind)


def lives_on(kind: type) -> bool:
    """Return whether a class stays, so that a call table may hold it."""
    if not kind.__flags__ & _HEAP_TYPE or kind in _KEPT:
        return True
    holder = sys.modules.get(f"{kind.__module__}")
    found: object = holder if isinstance(holder, ModuleType) else None
    for name in kind.__qualname__.split("."):
        # `getattr` would run the `__getattr__` of a module, which may import others.
        found = getattr(found, "__dict__", {}).get(name)
    return found is kind


class WeakMethods:
    """Methods by the types of calls; the types may end."""

    def __init__(self) -> None:
        self._methods: dict[tuple[ref[type], ...], Any] = {}

    def get(self, types: tuple[type, ...]) -> Any:
        """Return the method of `types`; None if it is not known."""
        return self._methods.get(tuple(map(ref, types)))

    def put(self, types: tuple[type, ...], method: Any) -> None:
        """Remember the method of `types`."""
        if len(self._methods) >= _MANY:
            self._drop_dead()
        self._methods[tuple(map(ref, types))] = method

    def clear(self) -> None:
        """Forget all methods."""
        self._methods.clear()

    def _drop_dead(self) -> None:
        alive = {
            types: method
            for types, method in [*self._methods.items()]
            if all(one() is not None for one in types)
        }
        # If most are alive, each next call would look through all of them again.
        self._methods = alive if len(alive) < _MANY // 2 else {}
