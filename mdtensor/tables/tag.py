"""Tags: unordered sets of coordinates, which methods are written for.

    Tag[Cuda, Float32] is Tag[Float32, Cuda]
    issubclass(Tag[Cuda, Float32], Tag[Floating])   # it demands more

A tag is a class, and what it demands is its place among the classes: a tag with more
coordinates, or with narrower ones, is below. So the rules of dispatch hold as they are,
the most specific method runs, and whatever is a tag is a point, a region of a space and
an annotation alike.
"""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Self, TypeVarTuple

from mdtensor.errors import OptionError, RegistrationError
from mdtensor.tables.coordinate import CoordinateType, shown

#: For type checkers, to which Tag[Cpu, Float32] in an annotation is a generic type.
Kinds = TypeVarTuple("Kinds")
_TAGS: dict[frozenset[CoordinateType], TagType] = {}


# A metaclass answers `issubclass`, because real bases would be up to 1,024 classes per
# tag (decision 0011).
class TagType(type):
    """The class of tags: `Tag[...]` makes them, `issubclass` orders them."""

    # Every tag has these; Tag says what they are.
    coordinates: tuple[CoordinateType, ...]
    get: Callable[..., Any]
    has: Callable[..., bool]
    add: Callable[..., TagType]
    drop: Callable[..., TagType]

    def __getitem__(cls, given: Any) -> TagType:
        more = given if isinstance(given, tuple) else (given,)
        return tag_of((*cls.coordinates, *more))

    def __subclasscheck__(cls, other: type) -> bool:
        if not isinstance(other, TagType):
            return False
        mine = other.coordinates
        return all(any(issubclass(c, want) for c in mine) for want in cls.coordinates)

    def __instancecheck__(cls, x: object) -> bool:
        return issubclass(type(x), cls)

    def __repr__(cls) -> str:
        return f"<{cls.__name__}>"  # beartype wants `<`, or what `X | int` shows

    def __str__(cls) -> str:
        return cls.__name__


class Tag(Generic[*Kinds], metaclass=TagType):
    """A set of coordinates, no two of one kind; the same set is the same class.

    Annotate a method's parameter with it, and call with its one instance, `Tag[...]()`.
    Without coordinates it demands nothing: every tag is below it.

    Raises:
        RegistrationError: no coordinate, what is none, or two of one kind.

    Example:
        >>> from mdtensor.tables import Cuda, ElementType, Float32, Float64, Tag
        >>> tag = Tag[Float32, Cuda]
        >>> tag, tag is Tag[Cuda, Float32], issubclass(tag, Tag[Cuda])
        (<Tag[Cuda, Float32]>, True, True)
        >>> tag.has(Cuda), tag.get(ElementType)
        (True, <Float32>)
        >>> tag.add(Float64), tag.drop(ElementType)
        (<Tag[Cuda, Float64]>, <Tag[Cuda]>)

    Source: fVDB, `dispatch/tag.h`, `with_value.h`.
    """

    __slots__ = ()
    __faithful__ = True
    coordinates: ClassVar[tuple[CoordinateType, ...]] = ()
    _only: ClassVar[Any]

    def __new__(cls) -> Self:
        """The one instance."""
        if not cls.coordinates:
            fix = "Use one that has, Tag[Cpu]()"
            raise RegistrationError("Tag() has no coordinates", fix)
        only: Self = cls._only
        return only

    @classmethod
    def get(cls, *kinds: CoordinateType) -> Any:
        """The coordinate of a kind; of several, a tuple.

        Raises:
            OptionError: the tag has none.
        """
        found = tuple(map(cls._one, kinds))
        return found[0] if len(found) == 1 else found

    @classmethod
    def _one(cls, kind: CoordinateType) -> CoordinateType:
        if isinstance(kind, CoordinateType):
            for coordinate in cls.coordinates:
                if issubclass(coordinate, kind):
                    return coordinate
        raise OptionError(f"{cls.__name__} has no coordinate of {shown(kind)}")

    @classmethod
    def has(cls, *wanted: CoordinateType) -> bool:
        """Whether the tag demands these, coordinates or kinds: it is below theirs."""
        return issubclass(cls, tag_of(wanted))

    @classmethod
    def add(cls, *more: CoordinateType) -> TagType:
        """The tag with `more`, each in place of one of its kind."""
        _check(more)
        return tag_of((*_without(cls, {one.kind for one in more}), *more))

    @classmethod
    def drop(cls, *kinds: CoordinateType) -> TagType:
        """The tag without coordinates of these kinds, whether it has them or not."""
        for kind in kinds:
            if not isinstance(kind, CoordinateType):
                raise RegistrationError(f"{shown(kind)} is no kind", "Give classes")
        return tag_of(_without(cls, set(kinds)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> Any:
        return type(self), ()


def _without(tag: Any, kinds: set[CoordinateType]) -> list[CoordinateType]:
    return [c for c in tag.coordinates if c.kind not in kinds]


def tag_of(coordinates: Iterable[Any]) -> TagType:
    """`Tag[...]` of these."""
    given = tuple(coordinates)
    if not given:
        raise RegistrationError("a tag has at least one coordinate", "Use Tag for any")
    _check(given)
    key = frozenset(given)
    if key not in _TAGS:
        _TAGS.setdefault(key, _new_tag(given))
    return _TAGS[key]


def _new_tag(given: tuple[CoordinateType, ...]) -> TagType:
    ordered = tuple(sorted(given, key=lambda c: c.kind.rank))
    name = f"Tag[{', '.join(c.__name__ for c in ordered)}]"
    body = {"__slots__": (), "__module__": _owner(ordered), "coordinates": ordered}
    new: Any = TagType(name, (Tag,), body)
    new._only = object.__new__(new)
    found: TagType = new
    return found


def _owner(coordinates: tuple[CoordinateType, ...]) -> str:
    """The module of the first coordinate that is not ours: it is their tag as well."""
    ours = Tag.__module__.partition(".")[0]
    modules = (one.__module__ for one in coordinates)
    theirs = (name for name in modules if name.partition(".")[0] != ours)
    return next(theirs, Tag.__module__)


def _check(given: tuple[Any, ...]) -> None:
    for one in given:
        if not isinstance(one, CoordinateType) or not hasattr(one, "kind"):
            raise RegistrationError(
                f"{shown(one)} is no coordinate",
                "Give classes such as Cpu, Float32, InPlace",
            )
    for at, one in enumerate(given):
        for other in given[:at]:
            if one.kind is other.kind:
                raise RegistrationError(
                    f"{other} and {one} are both of {one.kind}",
                    "A tag has one coordinate of a kind",
                )


def _pickled(tag: TagType) -> Any:
    return (operator.getitem, (Tag, tag.coordinates)) if tag.coordinates else "Tag"


copyreg.pickle(TagType, _pickled)
