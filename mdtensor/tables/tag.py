"""Tags: unordered sets of coordinates, used to annotate methods.

    Tag[Cuda, Float32] is Tag[Float32, Cuda]
    issubclass(Tag[Cuda, Float32], Tag[Floating])   # more specific

A tag is a class. A tag with more coordinates, or with narrower ones, is a subclass, so
the usual dispatch runs the most specific method. You can use the same tag as a point,
as a region of a space and as an annotation.
"""

from __future__ import annotations

import copyreg
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Self, TypeVarTuple

from mdtensor.errors import OptionError, RegistrationError
from mdtensor.tables.coordinate import CoordinateType, shown

#: For type checkers, which read Tag[Cpu, Float32] as a generic type.
Kinds = TypeVarTuple("Kinds")
_TAGS: dict[frozenset[CoordinateType], TagType] = {}


# A metaclass answers `issubclass`, because real bases would be up to 1,024 classes per
# tag (decision 0011).
class TagType(type):
    """The metaclass of tags: `Tag[...]` makes them, `issubclass` orders them."""

    # Declared for type checkers; `Tag` documents and defines them.
    coordinates: tuple[CoordinateType, ...]
    get: Callable[..., Any]
    has: Callable[..., bool]
    add: Callable[..., TagType]
    drop: Callable[..., TagType]

    def __getitem__(cls, given: object) -> TagType:
        more = given if isinstance(given, tuple) else (given,)
        return tag_of((*cls.coordinates, *more))

    def __subclasscheck__(cls, other: type) -> bool:
        if not isinstance(other, TagType):
            return False
        # A tag is below another one if it has something at or below each of its
        # coordinates.
        mine = other.coordinates
        return all(any(issubclass(c, want) for c in mine) for want in cls.coordinates)

    def __instancecheck__(cls, x: object) -> bool:
        return issubclass(type(x), cls)

    def __repr__(cls) -> str:
        # beartype needs the `<`, else it takes the text for the repr of a union.
        return f"<{cls.__name__}>"

    def __str__(cls) -> str:
        return cls.__name__


class Tag(Generic[*Kinds], metaclass=TagType):
    """A set of coordinates, at most one of each kind; equal sets are the same class.

    Annotate a method's parameter with a tag, and pass its only instance, `Tag[...]()`.
    `Tag` itself does not have coordinates: every other tag is below it.

    Raises:
        RegistrationError: coordinates are missing, one is not a coordinate, or two
            are of one kind.

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
        """Return the only instance."""
        if not cls.coordinates:
            fix = "Use a tag with coordinates, such as Tag[Cpu]()"
            raise RegistrationError("Tag() has no coordinates", fix)
        only: Self = cls._only
        return only

    @classmethod
    def get(cls, *kinds: CoordinateType) -> Any:
        """Return the coordinate of a kind, or a tuple for several kinds.

        Raises:
            OptionError: the tag does not have a coordinate of the kind.
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
        """Return whether the tag has these coordinates, or some of these kinds."""
        return issubclass(cls, tag_of(wanted))

    @classmethod
    def add(cls, *more: CoordinateType) -> TagType:
        """Return the tag with `more`, each instead of the coordinate of its kind."""
        _require_coordinates(more)
        return tag_of((*_without(cls, {one.kind for one in more}), *more))

    @classmethod
    def drop(cls, *kinds: CoordinateType) -> TagType:
        """Return the tag without coordinates of these kinds; ignore kinds it lacks."""
        for kind in kinds:
            if not isinstance(kind, CoordinateType):
                raise RegistrationError(f"{shown(kind)} is not a kind", "Give classes")
        return tag_of(_without(cls, set(kinds)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> Any:
        return type(self), ()


def _without(tag: TagType, kinds: set[CoordinateType]) -> list[CoordinateType]:
    return [c for c in tag.coordinates if c.kind not in kinds]


def tag_of(coordinates: Iterable[Any]) -> TagType:
    """Return `Tag[...]` with these coordinates."""
    given = tuple(coordinates)
    if not given:
        raise RegistrationError("a tag has at least one coordinate", "Use Tag for any")
    _require_coordinates(given)
    # A set, so that the order of coordinates does not matter.
    key = frozenset(given)
    if key not in _TAGS:
        # setdefault keeps the first class if two threads make the same tag.
        _TAGS.setdefault(key, _new_tag(given))
    return _TAGS[key]


def _new_tag(given: tuple[CoordinateType, ...]) -> TagType:
    ordered = tuple(sorted(given, key=lambda c: c.kind.rank))
    name = f"Tag[{', '.join(c.__name__ for c in ordered)}]"
    body = {"__slots__": (), "__module__": _owner(ordered), "coordinates": ordered}
    new: Any = TagType(name, (Tag,), body)
    # `Tag.__new__` returns this instance, so equal tags are identical.
    new._only = object.__new__(new)
    found: TagType = new
    return found


def _owner(coordinates: tuple[CoordinateType, ...]) -> str:
    """Return the module of the first coordinate from another package, else this one."""
    ours = Tag.__module__.partition(".")[0]
    modules = (one.__module__ for one in coordinates)
    theirs = (name for name in modules if name.partition(".")[0] != ours)
    return next(theirs, Tag.__module__)


def _require_coordinates(given: tuple[Any, ...]) -> None:
    for one in given:
        if not isinstance(one, CoordinateType) or not hasattr(one, "kind"):
            raise RegistrationError(
                f"{shown(one)} is not a coordinate",
                "Give classes such as Cpu, Float32, InPlace",
            )
    for at, one in enumerate(given):
        for other in given[:at]:
            if one.kind is other.kind:
                raise RegistrationError(
                    f"{other} and {one} are both of {one.kind}",
                    "A tag has one coordinate of a kind",
                )


def _reduce_tag(tag: TagType) -> Any:
    return (operator.getitem, (Tag, tag.coordinates)) if tag.coordinates else "Tag"


copyreg.pickle(TagType, _reduce_tag)
