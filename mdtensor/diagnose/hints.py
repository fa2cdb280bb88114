"""Annotations as sets of classes, and the order that plum gives them.

A hint is the set of its classes: `Union[A, B]` is {A, B}. One hint is below another if
each of its classes derives from one of the other's. `Any` is above everything. What
says more than classes do, such as `list[int]` or `Literal[1]`, is exotic: plum compares
it, and it matches the instances of the classes it speaks of.

The order of all hints of an analysis is worked out at once, as bitsets: `above[h]` has
bit g where hint g is h or wider. Derivation is read off the classes' own order of
resolution, so that ten thousand hints cost ten thousand steps and not their square.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import plum

#: A union of more classes is shown by its first ones and their number.
SHOWN = 6
_UNIONS = (typing.Union, types.UnionType)


@dataclass(frozen=True)
class Hint:
    """One annotation: the classes whose instances it takes.

    Args:
        members: its classes, none below another; sorted by name.
        exotic: the annotation, if it says more than its classes; otherwise None.
        top: whether it is `Any`, which is wider than `object`.
    """

    members: tuple[type, ...]
    exotic: Any = field(default=None, hash=False)
    top: bool = False

    @property
    def annotation(self) -> Any:
        """A spelling that plum understands."""
        if self.top:
            return Any
        return self.exotic if self.exotic is not None else typing.Union[self.members]

    def __str__(self) -> str:
        if self.top:
            return "Any"
        if self.exotic is not None:
            return _spelled(self.exotic)
        return " | ".join(map(type_name, self.members))


def short(kind: Hint) -> str:
    """A hint as it is shown: a long union by its first classes and how many follow.

    Example:
        >>> short(hint(int | str | None))
        'None | int | str'
    """
    if kind.exotic is not None or len(kind.members) <= SHOWN:
        return str(kind)
    first = " | ".join(map(type_name, kind.members[: SHOWN - 1]))
    return f"{first} | {len(kind.members) - SHOWN + 1} more"


def hint(annotation: Any) -> Hint:
    """The hint of an annotation, however it is spelled.

    Example:
        >>> import typing
        >>> str(hint(typing.Union[int, bool, None]))
        'None | int'
        >>> hint(list[int]).members
        (<class 'list'>,)
    """
    if type(annotation) is type:
        return Hint((annotation,))
    try:
        return _hint(annotation)
    except TypeError:  # it has no hash
        return _hint.__wrapped__(annotation)


@lru_cache(maxsize=4096)
def _hint(annotation: Any) -> Hint:
    if annotation is Any:
        return Hint((object,), top=True)
    exotic = annotation if _is_exotic(annotation) else None
    return Hint(reduced(_classes(annotation)), exotic)


def reduced(classes: Iterable[type]) -> tuple[type, ...]:
    """Without those that derive from another, sorted by name."""
    found = set(classes)
    kept = [c for c in found if not any(derives(c, d) for d in found if d is not c)]
    return tuple(sorted(kept, key=qualified))


def derives(cls: type, parent: type | tuple[type, ...]) -> bool:
    """As `issubclass`, also of a protocol that must be asked about values."""
    try:
        return issubclass(cls, parent)
    except Exception:  # whatever a metaclass raises
        parents = parent if isinstance(parent, tuple) else (parent,)
        return any(above in parents for above in cls.__mro__)


def qualified(cls: type) -> str:
    """`module.name`, by which classes are sorted."""
    return f"{cls.__module__}.{cls.__qualname__}"


def type_name(cls: type) -> str:
    """The name that a reader knows it by."""
    return "None" if cls is type(None) else cls.__name__


def _spelled(annotation: Any) -> str:
    text = repr(annotation)
    if text.startswith("<"):  # a repr with an address in it
        return getattr(annotation, "__name__", type(annotation).__name__)
    return text.removeprefix("typing.")


def _is_exotic(annotation: Any) -> bool:
    if typing.get_origin(annotation) in _UNIONS:
        return any(map(_is_exotic, typing.get_args(annotation)))
    if typing.get_args(annotation):
        return True
    plain = isinstance(annotation, type) or annotation is None or annotation is Any
    return not plain and typing.get_origin(annotation) is None


def _classes(annotation: Any) -> Iterator[type]:
    """The classes that an annotation speaks of."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS:
        for argument in arguments:
            yield from _classes(argument)
    elif origin is typing.Literal:
        yield from map(type, arguments)
    elif origin is typing.Annotated:
        yield from _classes(arguments[0])
    elif isinstance(annotation, typing.TypeVar):
        for bound in annotation.__constraints__ or (annotation.__bound__ or object,):
            yield from _classes(bound)
    else:
        named = origin if isinstance(origin, type) else annotation
        yield _class_of(named)


def _class_of(named: Any) -> type:
    if named is None:
        return type(None)
    is_class = isinstance(named, type) and named is not Any  # it is one in 3.11
    return named if is_class else object


class Order:
    """The order of the hints of one analysis. Hints are told by their number."""

    def __init__(self, annotations: Iterable[Any]) -> None:
        self.hints: list[Hint] = []
        self._numbers: dict[Any, int] = {}
        self._by_hint: dict[Any, int] = {}
        for annotation in annotations:
            self._enter(annotation)
        self._index()
        self.above = [self._above(number) for number in range(len(self.hints))]
        self.width = [above.bit_count() for above in self.above]
        self._hits: dict[type, int] = {}

    def number(self, annotation: Any) -> int:
        """Of a hint that was given at the start."""
        return self._numbers[_key(annotation)]

    def hits(self, cls: type) -> int:
        """Bits of the hints that take instances of exactly `cls`."""
        found = self._hits.get(cls)
        if found is None:
            found = self._hits[cls] = self._over(cls, self._taking)
        return found

    def below(self, narrow: Hint, wide: Hint) -> bool:
        """Whether plum would call `narrow` a part of `wide`; any hints."""
        if wide.top or narrow.top:
            return wide.top
        if narrow.exotic is not None or wide.exotic is not None:
            return bool(
                plum.Signature(narrow.annotation) <= plum.Signature(wide.annotation)
            )
        return all(any(derives(n, w) for w in wide.members) for n in narrow.members)

    def _enter(self, annotation: Any) -> None:
        key = _key(annotation)
        if key not in self._numbers:
            new = hint(annotation)
            same = (new.members, new.top, new.exotic is not None and key)
            number = self._by_hint.setdefault(same, len(self.hints))
            if number == len(self.hints):
                self.hints.append(new)
            self._numbers[key] = number

    def _index(self) -> None:
        """For each class: which hints take it, and which are nothing but classes."""
        self._taking: dict[type, int] = {}
        self._plain: dict[type, int] = {}
        self._top = self._odd = 0
        for number, found in enumerate(self.hints):
            bit = 1 << number
            self._top |= bit * found.top
            self._odd |= bit * (found.exotic is not None)
            for member in found.members:
                self._taking[member] = self._taking.get(member, 0) | bit
                if found.exotic is None and not found.top:
                    self._plain[member] = self._plain.get(member, 0) | bit
        # ABCs and their like take classes that do not name them as a parent.
        self._virtual = [c for c in self._taking if _is_virtual(c)]

    def _over(self, cls: type, holding: dict[type, int]) -> int:
        """Bits of the hints in `holding` that have a class above `cls`."""
        found = 0
        for parent in cls.__mro__:
            found |= holding.get(parent, 0)
        for abstract in self._virtual:
            if abstract in holding and derives(cls, abstract):
                found |= holding[abstract]
        return found

    def _above(self, number: int) -> int:
        this = self.hints[number]
        if this.top:
            return self._top
        wider = -1
        for member in this.members:
            wider &= self._over(member, self._plain)
        if this.exotic is not None:
            wider = sum(1 << g for g, h in enumerate(self.hints) if self.below(this, h))
        for odd in bits(self._odd & ~(1 << number)):
            if self.below(this, self.hints[odd]):
                wider |= 1 << odd
        return wider | self._top | 1 << number


def bits(mask: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first.

    Example:
        >>> list(bits(0b10110))
        [1, 2, 4]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _key(annotation: Any) -> Any:
    try:
        hash(annotation)
    except TypeError:
        return id(annotation)
    return annotation


def _is_virtual(cls: type) -> bool:
    return type(cls).__subclasscheck__ is not type.__subclasscheck__
