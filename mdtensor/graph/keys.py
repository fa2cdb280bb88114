"""What constants add to the key of a call: values that are equal, and act the same.

An object that is equal only to itself, as `self` of most methods, is in the key with
its attributes, and a dataclass with its fields: a changed one makes another key. A key
does not keep such an object alive. Values that are equal and yet differ, as 1 and 1.0,
make different keys at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from datetime import datetime, time
from decimal import Decimal
from functools import partial
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import Any
from weakref import ref

import numpy as np

from mdtensor.device import Device
from mdtensor.dtypes import DType

#: Values that a key holds as they are.
PLAIN = frozenset({int, bool, str, bytes, NoneType})
#: Numbers whose repr tells -0.0 from 0.0, and finds a NaN again.
_INEXACT = (float, complex, np.inexact)
#: Values that may be equal with another exponent, end, time zone or unit; their repr
#: tells them apart.
_LOOSE = (Decimal, range, datetime, time, np.datetime64, np.timedelta64)
#: Objects that are told by identity, without a look at their attributes.
_NAMED = (type, FunctionType, ModuleType, Device, DType)


class Same:
    """A part of a key that is equal for one object, and does not keep it alive."""

    __slots__ = ("number", "ref")

    def __init__(self, value: Any) -> None:
        self.number = id(value)
        try:
            self.ref: Any = ref(value)
        except TypeError:  # a class without weak references
            self.ref = lambda: value

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        # Another object may have the number of one that is gone.
        return (
            isinstance(other, Same)
            and self.number == other.number
            and self.ref() is not None
            and self.ref() is other.ref()
        )


def is_dead(key: Iterable[Any]) -> bool:
    """Return whether an object of the key is gone, so no call has this key again."""
    return any(
        (type(part) is Same and part.ref() is None)
        or (type(part) is frozenset and any(map(is_dead, part)))
        for part in key
    )


def parts_of(value: Any) -> Any:
    """Return the parts of nested arguments; None if `value` is not nested."""
    kind = type(value)
    if kind in (tuple, list) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return value
    if kind is dict:
        return value.values()
    return (value.start, value.stop, value.step) if kind is slice else None


def is_object(value: Any) -> bool:
    """Return whether `value` is known by its attributes, which may change."""
    hashed: object = type(value).__hash__
    by_identity = hashed is object.__hash__
    is_known = by_identity or is_dataclass(value)
    return is_known and not isinstance(value, (NoneType, *_NAMED))


def add_constant(value: Any, key: list[Any], seen: set[int]) -> None:
    """Append to `key` all that two constants must share to have one trace.

    Args:
        value: a constant, or an attribute of one.
        key: a list of hashable values.
        seen: the ids of the objects whose attributes are in the key.
    """
    kind = type(value)
    if kind in PLAIN:
        key += kind, value
    elif isinstance(value, _INEXACT):
        key += kind, repr(value)
    elif isinstance(value, frozenset):
        key += kind, _elements(value, seen)
    elif isinstance(value, MethodType):
        key += kind, value.__func__
        add_constant(value.__self__, key, seen)
    elif is_object(value):
        # A dataclass is its fields: an equal one has the same trace.
        key += kind, None if is_dataclass(value) else Same(value)
        if id(value) not in seen:
            seen.add(id(value))
            _guard_attribute(_state(value), key, seen)
    else:
        key += kind, _distinct(value)


def _state(value: Any) -> Any:
    """Return the attributes of an object."""
    if isinstance(value, partial):
        return value.func, value.args, value.keywords, vars(value)
    return object.__getstate__(value)


def _distinct(value: Any) -> Any:
    """Return what is equal only for values that no function can tell apart."""
    if isinstance(value, FunctionType):
        return Same(value)
    if isinstance(value, _LOOSE):
        return repr(value)
    # A grid is equal to the same grid with another rounding rule.
    return value.trace_key if hasattr(type(value), "trace_key") else value


def _guard_attribute(value: Any, key: list[Any], seen: set[int]) -> None:
    """Append to `key` all that changes if an attribute changes."""
    parts = parts_of(value)
    if parts is not None and id(value) not in seen:
        seen.add(id(value))
        key += type(value), len(parts)
        if type(value) is dict:
            add_names(value, key, seen)
        for part in parts:
            _guard_attribute(part, key, seen)
        seen.discard(id(value))
    elif isinstance(value, set):
        key += type(value), _elements(value, seen)
    elif parts is not None or (type(value).__hash__ is None and not is_object(value)):
        # A tensor, which the trace watches, or an object that tells nothing else.
        key.append(Same(value))
    else:
        add_constant(value, key, seen)


def add_names(
    names: Iterable[Any], key: list[Any], seen: set[int] | None = None
) -> None:
    """Append to `key` the keys of a dict, in order."""
    for name in names:
        if type(name) is str:
            key.append(name)
        else:
            _guard_attribute(name, key, set() if seen is None else seen)


def _elements(values: Iterable[Any], seen: set[int]) -> frozenset[tuple[Any, ...]]:
    """Return the part of a key that two sets must share to have one trace."""
    found = []
    for value in values:
        own: list[Any] = []
        _guard_attribute(value, own, seen)
        found.append(tuple(own))
    return frozenset(found)
