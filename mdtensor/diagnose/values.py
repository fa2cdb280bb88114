"""Values that tell apart annotations of one class: `type[A]` and `Literal[1]`.

An instance of `type` fits both `type[A]` and `type[B]` only if it is a class that
derives from both. This module lists the values that such annotations name. It does not
know the values of other annotations, such as `list[int]`: all of them may fit at once.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator, Sequence
from typing import Any

from mdtensor.diagnose.hints import Hint, derives, hint, parts


def masks_by_value(hints: Sequence[Hint], cls: type) -> set[int]:
    """Return the sets of hints that some instance of `cls` fits, as bits.

    Args:
        hints: annotations that take `cls`.
        cls: the class of the values.

    Example:
        >>> import typing
        >>> hints = hint(typing.Literal[1]), hint(typing.Literal[2, 3]), hint(int)
        >>> sorted(map(bin, masks_by_value(hints, int)))
        ['0b100', '0b101', '0b110']
    """
    if not any(_is_named(kind, cls) for kind in hints):
        return {(1 << len(hints)) - 1}
    values = [value for kind in hints for value in _named(kind, cls)]
    masks = {
        sum(1 << at for at, kind in enumerate(hints) if _takes(kind, value))
        for value in values
    }
    if not _is_exhausted(cls):
        # A value that no annotation names fits the annotations that name none.
        masks.add(sum(1 << at for at, k in enumerate(hints) if not _is_named(k, cls)))
    return masks


def _is_exhausted(cls: type) -> bool:
    """Return whether `_named` lists all instances of a class."""
    return cls in (bool, type(None)) or issubclass(cls, enum.Enum)


def _is_named(kind: Hint, cls: type) -> bool:
    """Return whether a hint takes only instances of `cls` that it names."""
    alternatives = [each for each in parts(kind.exotic) if _fits(each, cls)]
    return kind.exotic is not None and all(map(_names_values, alternatives))


def _named(kind: Hint, cls: type) -> Iterator[Any]:
    """Yield the instances of `cls` that a hint names; all of a small class."""
    for each in parts(kind.exotic):
        if not _names_values(each) or not _fits(each, cls):
            continue
        if issubclass(cls, enum.Enum):
            yield from cls
        elif cls is bool:
            yield from (False, True)
        elif typing.get_origin(each) is typing.Literal:
            yield from (v for v in typing.get_args(each) if type(v) is cls)
        else:
            for parent in _bounds(each):
                # With a metaclass as `cls`, only its classes.
                yield from (c for c in _family(parent) if isinstance(c, cls))


def _names_values(annotation: object) -> bool:
    if typing.get_origin(annotation) is typing.Literal:
        return True
    # `type[Any]` takes every class, as `type` does.
    return typing.get_origin(annotation) is type and object not in _bounds(annotation)


def _fits(annotation: object, cls: type) -> bool:
    return derives(cls, hint(annotation).members)


def _bounds(annotation: object) -> tuple[type, ...]:
    """Return the classes in the brackets of `type[...]`."""
    return hint(typing.get_args(annotation)[0]).members


def _family(cls: type) -> Iterator[type]:
    """Yield a class and the classes that derive from it."""
    found, left = {cls}, [cls]
    while left:
        each = left.pop()
        yield each
        known: list[type] = type.__subclasses__(each)
        children = [kind for kind in known if kind not in found]
        found.update(children)
        left += children


def _takes(kind: Hint, value: object) -> bool:
    return kind.exotic is None or any(_holds(e, value) for e in parts(kind.exotic))


def _holds(annotation: object, value: object) -> bool:
    """Return whether an annotation takes a value; a guess unless it names values."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        known = typing.get_args(annotation)
        return any(type(v) is type(value) and v == value for v in known)
    if origin is type:
        return isinstance(value, type) and derives(value, _bounds(annotation))
    return derives(type(value), hint(annotation).members)
