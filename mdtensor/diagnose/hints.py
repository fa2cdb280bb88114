"""Annotations as sets of classes, and the order that plum gives them.

A hint is a set of classes: `Union[A, B]` is {A, B}. One hint is below another if each
of its classes derives from a class of the other hint. `Any` is above everything. An
annotation that says more than its classes do, such as `list[int]` or `Literal[1]`, is
exotic: plum compares it, and it matches the instances of the classes that it names.

`Order` compares all hints of an analysis at once, as bitsets: `above[h]` has bit g
where hint g is h or wider.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import plum

#: Most classes of a union that are printed; a longer union is cut short.
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
        """Return an annotation that plum understands."""
        if self.top:
            return Any
        # plum reads typing's unions reliably, but mistakes some of the form `A | B`.
        return self.exotic if self.exotic is not None else typing.Union[self.members]

    def __str__(self) -> str:
        if self.top:
            return "Any"
        if self.exotic is not None:
            return _exotic_text(self.exotic)
        return " | ".join(map(type_name, self.members))


def short(kind: Hint) -> str:
    """Return a hint as text; a long union shows its first classes and counts the rest.

    Example:
        >>> short(hint(int | str | None))
        'None | int | str'
    """
    if kind.exotic is not None or len(kind.members) <= SHOWN:
        return str(kind)
    first = " | ".join(map(type_name, kind.members[: SHOWN - 1]))
    return f"{first} | {len(kind.members) - SHOWN + 1} more"


def hint(annotation: object) -> Hint:
    """Return the hint of an annotation, however the annotation is spelled.

    Example:
        >>> import typing
        >>> str(hint(typing.Union[int, bool, None]))
        'None | int'
        >>> hint(list[int]).members
        (<class 'list'>,)
    """
    # The usual case, without hashing: most annotations are plain classes.
    if type(annotation) is type:
        return Hint((annotation,))
    try:
        return _hint(annotation)
    except TypeError:  # the annotation cannot be hashed
        return _hint.__wrapped__(annotation)


@lru_cache(maxsize=4096)
def _hint(annotation: object) -> Hint:
    # Any has the members of `object` and is yet wider, so that `top` must tell them
    # apart.
    if annotation is Any:
        return Hint((object,), top=True)
    exotic = annotation if _is_exotic(annotation) else None
    return Hint(drop_narrower(_classes(annotation)), exotic)


def drop_narrower(classes: Iterable[type]) -> tuple[type, ...]:
    """Drop the classes that derive from another one; return the rest by name."""
    found = set(classes)
    widest = [c for c in found if not any(derives(c, d) for d in found if d is not c)]
    # By name, since the order of a set would change the reports from run to run.
    return tuple(sorted(widest, key=qualified))


def derives(cls: type, parent: type | tuple[type, ...]) -> bool:
    """Return `issubclass(cls, parent)`, also for classes whose check raises."""
    try:
        return issubclass(cls, parent)
    # A protocol with data members raises TypeError, and a metaclass may raise anything.
    except Exception:
        parents = parent if isinstance(parent, tuple) else (parent,)
        return any(above in parents for above in cls.__mro__)


def qualified(cls: type) -> str:
    """Return `module.name`, the key that classes are sorted by."""
    return f"{cls.__module__}.{cls.__qualname__}"


def type_name(cls: type) -> str:
    """Return the name of a class as a reader writes it; `None` for its type."""
    return "None" if cls is type(None) else cls.__name__


def _exotic_text(annotation: object) -> str:
    text = repr(annotation)
    # `<object at 0x...>` differs from run to run, and reports must not.
    if text.startswith("<"):
        return getattr(annotation, "__name__", type(annotation).__name__)
    return text.removeprefix("typing.")


def _is_exotic(annotation: object) -> bool:
    if typing.get_origin(annotation) in _UNIONS:
        return any(map(_is_exotic, typing.get_args(annotation)))
    # Arguments make it exotic: plum compares `list[int]`, and a call sees only `list`.
    if typing.get_args(annotation):
        return True
    plain = isinstance(annotation, type) or annotation is None or annotation is Any
    return not plain and typing.get_origin(annotation) is None


def _classes(annotation: object) -> Iterator[type]:
    """Yield the classes that an annotation names."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS:
        for argument in arguments:
            yield from _classes(argument)
    elif origin is typing.Literal:
        yield from map(type, arguments)
    elif origin is typing.Annotated:
        yield from _classes(arguments[0])
    # A variable without a bound takes everything.
    elif isinstance(annotation, typing.TypeVar):
        for bound in annotation.__constraints__ or (annotation.__bound__ or object,):
            yield from _classes(bound)
    else:
        named = origin if isinstance(origin, type) else annotation
        yield _class_of(named)


def referent(cls: type) -> type:
    """Return the class that beartype's stand-in for a text annotation names.

    Any other class is returned as it is.
    """
    # beartype makes the stand-in if the name does not exist yet when plum reads it.
    if not str(type(cls).__module__).startswith("beartype."):
        return cls
    # Older versions of beartype have the second attribute. Its class may not exist.
    for attribute in ("__resolved_type_beartype__", "__type_beartype__"):
        try:
            found = getattr(cls, attribute)
        except Exception:
            continue
        if isinstance(found, type):
            return found
    return cls


def parts(annotation: object) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation itself; nothing for None.

    Example:
        >>> parts(list[int] | None)
        (list[int], <class 'NoneType'>)
    """
    if annotation is None:
        return ()
    is_union = typing.get_origin(annotation) in _UNIONS
    return typing.get_args(annotation) if is_union else (annotation,)


def _class_of(named: Any) -> type:
    if named is None:
        return type(None)
    # Since Python 3.11 `Any` is a class too.
    is_class = isinstance(named, type) and named is not Any
    return named if is_class else object


class Order:
    """The order of the hints of one analysis; each hint has a number."""

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

    def number(self, annotation: object) -> int:
        """Return the number of an annotation that the order was made with."""
        return self._numbers[_key(annotation)]

    def hits(self, cls: type) -> int:
        """Return the bits of the hints that take instances of exactly `cls`."""
        found = self._hits.get(cls)
        if found is None:
            found = self._hits[cls] = self._over(cls, self._taking)
        return found

    def below(self, narrow: Hint, wide: Hint) -> bool:
        """Return whether plum takes `narrow` as a part of `wide`; for any two hints."""
        # Nothing but Any is above Any.
        if wide.top or narrow.top:
            return wide.top
        # For exotic hints plum's own comparison is the definition, so it decides.
        if narrow.exotic is not None or wide.exotic is not None:
            return _below_exotic(narrow, wide)
        return _members_below(narrow, wide)

    def _enter(self, annotation: object) -> None:
        key = _key(annotation)
        if key not in self._numbers:
            new = hint(annotation)
            same = (new.members, new.top, new.exotic is not None and key)
            # Equal hints that are spelled differently share one number, since plum
            # treats them as one.
            number = self._by_hint.setdefault(same, len(self.hints))
            if number == len(self.hints):
                self.hints.append(new)
            self._numbers[key] = number

    def _index(self) -> None:
        """Note for each class the hints with it, and those that are only classes."""
        self._taking: dict[type, int] = {}
        self._plain: dict[type, int] = {}
        self._top = self._odd = 0
        for number, found in enumerate(self.hints):
            bit = 1 << number
            self._top |= bit * found.top
            self._odd |= bit * (found.exotic is not None)
            for member in found.members:
                self._taking[member] = self._taking.get(member, 0) | bit
                # Only sets of classes are compared by bits; the others need plum.
                if found.exotic is None and not found.top:
                    self._plain[member] = self._plain.get(member, 0) | bit
        # ABCs and their like take classes that do not name them as a parent.
        self._virtual = [c for c in self._taking if _is_virtual(c)]

    def _over(self, cls: type, holding: dict[type, int]) -> int:
        """Return the bits of the hints in `holding` that have a class above `cls`."""
        found = 0
        # The MRO lists all parents, so ten thousand hints cost ten thousand steps here;
        # comparing each hint with each other costs the square.
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
        # All bits are set: each member removes the hints that lack a class above it.
        wider = -1
        for member in this.members:
            wider &= self._over(member, self._plain)
        if this.exotic is not None:
            wider = sum(1 << g for g, h in enumerate(self.hints) if self.below(this, h))
        for odd in bits(self._odd & ~(1 << number)):
            if self.below(this, self.hints[odd]):
                wider |= 1 << odd
        # Any is above every hint, and each hint is above itself.
        return wider | self._top | 1 << number


def _below_exotic(narrow: Hint, wide: Hint) -> bool:
    try:
        return bool(
            plum.Signature(narrow.annotation) <= plum.Signature(wide.annotation)
        )
    # A protocol with data members raises TypeError. plum never compares annotations of
    # two functions, but an analysis does, and must not end there.
    except Exception:
        return wide.exotic is None and _members_below(narrow, wide)


def _members_below(narrow: Hint, wide: Hint) -> bool:
    return all(any(derives(n, w) for w in wide.members) for n in narrow.members)


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, lowest first.

    Example:
        >>> list(bits(0b10110))
        [1, 2, 4]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _key(annotation: object) -> Any:
    try:
        hash(annotation)
    # `Annotated[int, []]` cannot be hashed: then the object itself is the key.
    except TypeError:
        return id(annotation)
    return annotation


def _is_virtual(cls: type) -> bool:
    # An ABC, a protocol or any other metaclass may accept classes that do not derive
    # from it.
    return type(cls).__subclasscheck__ is not type.__subclasscheck__
