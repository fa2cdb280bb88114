"""Spaces: an `Axis` lists coordinates of one kind, `Axes` is a product of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from mdtensor.errors import DispatchError, RegistrationError
from mdtensor.tables.coordinate import CoordinateType, shown
from mdtensor.tables.tag import Tag, TagType, tag_of


class Axis(tuple[CoordinateType, ...]):
    """Coordinates of one kind, each once, in the given order.

    Raises:
        RegistrationError: coordinates are missing, one is not a coordinate, they are
            of several kinds, or one occurs twice.

    Example:
        >>> from mdtensor.tables import Axis, Contiguity, Float32, Floating, Int8
        >>> Axis.full(Contiguity)
        Axis(Strided, Contiguous)
        >>> Float32 in Axis.full(Floating), Int8 in Axis.full(Floating)
        (True, False)
        >>> Axis(Float32, Int8).kind
        <ElementType>

    Source: fVDB, `dispatch/axis.h`.
    """

    __slots__ = ()

    def __new__(cls, *coordinates: CoordinateType) -> Axis:
        """Validate the coordinates and store them."""
        if not coordinates:
            raise RegistrationError(
                "an axis has at least one coordinate", "Give classes such as Float32"
            )
        first = coordinates[0]
        for at, one in enumerate(coordinates):
            if not isinstance(one, CoordinateType) or getattr(one, "kind", one) is one:
                fix = "Give classes such as Float32; Axis.full(kind) has all of a kind"
                raise RegistrationError(f"{shown(one)} is not a coordinate", fix)
            if one.kind is not first.kind:
                raise RegistrationError(
                    f"{first} is of {first.kind}, {one} of {one.kind}",
                    "Give coordinates of one kind",
                )
            if one in coordinates[:at]:
                raise RegistrationError(
                    f"{one} is twice on the axis {one.kind}", "Give it once"
                )
        return super().__new__(cls, coordinates)

    @classmethod
    def full(cls, kind: CoordinateType) -> Axis:
        """Return an axis of all coordinates of `kind`, in order of declaration."""
        if not isinstance(kind, CoordinateType) or not hasattr(kind, "kind"):
            raise RegistrationError(
                f"{shown(kind)} is not a class of coordinates",
                "Give a kind such as ElementType, or a class of it such as Floating",
            )
        return cls(*kind.leaves())

    @property
    def kind(self) -> CoordinateType:
        return self[0].kind

    def __repr__(self) -> str:
        return f"Axis({', '.join(c.__name__ for c in self)})"

    def __getnewargs__(self) -> tuple[CoordinateType, ...]:
        return tuple(self)


class Axes:
    """The product of several axes; its points are tags with one coordinate of each.

    The order of the axes does not matter. `tag in space` tests whether a tag is a
    point, `space <= other` whether every point is a point of `other`, too.

    Raises:
        RegistrationError: axes are missing, one is not an `Axis`, or two are of one
            kind.

    Example:
        >>> from mdtensor.tables import Axes, Axis, Cpu, Cuda, Float32, Float64, Tag
        >>> space = Axes(Axis(Cpu, Cuda), Axis(Float32, Float64))
        >>> len(space), space.extents, Tag[Float64, Cpu] in space
        (4, (2, 2), True)
        >>> list(space)[:2]
        [<Tag[Cpu, Float32]>, <Tag[Cpu, Float64]>]

    Source: fVDB, `dispatch/axes.h`, `visit_spaces.h`.
    """

    __slots__ = ("axes",)

    axes: tuple[Axis, ...]

    def __init__(self, *axes: Axis) -> None:
        if not axes:
            raise RegistrationError(
                "a space needs at least one axis", "Pass one Axis(...) for each axis"
            )
        kinds = set()
        for axis in axes:
            if not isinstance(axis, Axis):
                raise RegistrationError(
                    f"{shown(axis)} is not an axis", "Use Axis(...)"
                )
            if axis.kind in kinds:
                raise RegistrationError(
                    f"two axes are of {axis.kind}",
                    f"Name one: class Other(Coordinate, of={axis.kind})",
                )
            kinds.add(axis.kind)
        # Sorted, so that spaces with the same axes in another order are equal.
        ordered = sorted(axes, key=lambda axis: axis.kind.rank)
        object.__setattr__(self, "axes", tuple(ordered))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a space does not change: {name} cannot be set")

    @property
    def kinds(self) -> tuple[CoordinateType, ...]:
        """Return the kind of each axis."""
        return tuple(axis.kind for axis in self.axes)

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the number of coordinates of each axis."""
        return tuple(map(len, self.axes))

    def __len__(self) -> int:
        """Return the number of points."""
        count = 1
        for axis in self.axes:
            count *= len(axis)
        return count

    def __iter__(self) -> Iterator[TagType]:
        """Iterate over the points; the last axis varies fastest."""
        # The axes are sorted, so the order of points does not depend on the caller.
        return map(tag_of, itertools.product(*self.axes))

    def __contains__(self, tag: object) -> bool:
        if not isinstance(tag, TagType) or len(tag.coordinates) != len(self.axes):
            return False
        pairs = zip(tag.coordinates, self.axes, strict=True)
        return all(coordinate in axis for coordinate, axis in pairs)

    def __le__(self, other: Axes) -> bool:
        if not isinstance(other, Axes):
            return NotImplemented
        if self.kinds != other.kinds:
            return False
        pairs = zip(self.axes, other.axes, strict=True)
        return all(set(mine) <= set(theirs) for mine, theirs in pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axes) and self.axes == other.axes

    def __hash__(self) -> int:
        return hash(self.axes)

    def __repr__(self) -> str:
        return f"Axes({', '.join(map(repr, self.axes))})"

    def __reduce__(self) -> Any:
        return type(self), self.axes

    def point(self, *given: Any) -> TagType:
        """Return the tag of the given classes, values or tags: one for each kind.

        The coordinates may come in any order. Each must be of a kind of this space, but
        need not be one that the axis of this kind lists.

        Raises:
            DispatchError: a kind is missing, occurs twice, or is not in this space.
        """
        coordinates: list[CoordinateType] = []
        for one in given:
            is_tag = isinstance(one, (TagType, Tag))
            coordinates += one.coordinates if is_tag else [self._coordinate(one)]
        kinds = [coordinate.kind for coordinate in coordinates]
        for kind in kinds:
            if kind not in self.kinds:
                raise self._error(f"{kind} is not an axis of the space")
        for kind in self.kinds:
            if kinds.count(kind) != 1:
                count = "are two coordinates" if kind in kinds else "is no coordinate"
                raise self._error(f"there {count} of {kind}")
        return tag_of(coordinates)

    def _coordinate(self, given: object) -> CoordinateType:
        """Return `given` if it is a coordinate, else the coordinate of that value."""
        if isinstance(given, CoordinateType):
            return given
        each = (kind.find(given) for kind in self.kinds)
        found = [coordinate for coordinate in each if coordinate is not None]
        # A value may belong to several kinds, which the caller must then name.
        if len(found) == 1:
            return found[0]
        if not found:
            self._refuse_name(given)
            raise self._error(f"{shown(given)} is not a coordinate of this space")
        values = " and of ".join(map(str, found))
        raise self._error(f"{shown(given)} is ambiguous: the value of {values}")

    def _refuse_name(self, given: object) -> None:
        # "Float32" as a text is a likely mistake, and the class is at hand.
        declared = (one for kind in self.kinds for one in kind.declared)
        if isinstance(given, str) and given in map(str, declared):
            raise DispatchError(f"{given!r} is a str", f"Give the class {given}")

    def _error(self, problem: str) -> DispatchError:
        kinds = ", ".join(map(str, self.kinds))
        return DispatchError(problem, f"Give one class or value for each of {kinds}")
