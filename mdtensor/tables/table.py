"""Dispatch tables: the methods of one operation over a declared part of a space."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType, MethodType
from typing import Any

from mdtensor.errors import MdtensorError, PointError, RegistrationError
from mdtensor.tables.build import Arguments, Handles, build
from mdtensor.tables.coordinate import shown
from mdtensor.tables.space import Axes
from mdtensor.tables.tag import TagType

Coverage = TagType | Axes | Iterable[TagType | Axes]
#: Nearest points that an error names.
SHOWN = 3


# All points are resolved when the table is built, so that users never find a hole at
# run time (decision 0011).
class DispatchTable:
    """What `op` runs at each point of `coverage`, resolved once, when it is built.

    `select` answers with the method that is written for the point, bound to its tag as
    Python binds `self`: a call of it is a call of the method, and no dispatch.

    Args:
        space: all points that may be asked for.
        coverage: those that there are: tags, each with all points that it demands, and
            spaces within `space`.
        op: an operation whose first parameter is a tag, or any callable that takes one.
        arguments: types of the operation's other parameters; `Tensor` if left out.

    Raises:
        CoverageError: points for which `op` has no method, or more than one that fits
            best; all of them are listed.
        RegistrationError: no coverage, or a part of it that is not in the space.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.tables import Axes, Axis, Cpu, Cuda, DispatchTable, Tag
        >>> @md.generic
        ... def where(tag, /):
        ...     '''Where it runs.'''
        >>> @md.method(where)
        ... def where(tag: Tag[Cpu], /):
        ...     return "here"
        >>> table = DispatchTable(Axes(Axis(Cpu, Cuda)), Tag[Cpu], where)
        >>> table, table.select(md.cpu)(), table.try_select(Cuda)
        (<DispatchTable where: 1 of 2 points>, 'here', None)

    Source: fVDB, `dispatch/dispatch_table.h`.
    """

    __slots__ = ("_found", "_handles", "_layers", "space")

    space: Axes
    _layers: tuple[Any, ...]
    _handles: Handles
    _found: dict[Any, MethodType | None]

    def __init__(
        self,
        space: Axes,
        coverage: Coverage,
        op: Callable[..., Any],
        *,
        arguments: Arguments = None,
    ) -> None:
        self._fill(space, ((coverage, op, arguments),), {})

    def _fill(self, space: Axes, layers: Any, known: Any) -> None:
        coverage, op, arguments = layers[-1]
        parts = _parts(coverage)
        if not (parts or known):
            fix = "Give tags and spaces; the space itself covers all points"
            raise RegistrationError("the coverage is empty", fix)
        layers = (*layers[:-1], (parts, op, arguments))
        handles = {**known, **build(space, parts, op, arguments)}
        values = {"space": space, "_layers": layers, "_handles": handles}
        for name, value in {**values, "_found": {}}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a table does not change, {name} neither; see with_")

    def with_(
        self,
        coverage: Coverage,
        op: Callable[..., Any],
        *,
        arguments: Arguments = None,
    ) -> DispatchTable:
        """A new table that has `op` at the points of `coverage`; this one stays."""
        new = object.__new__(type(self))
        layers = (*self._layers, (coverage, op, arguments))
        new._fill(self.space, layers, self._handles)
        return new

    def select(self, *coordinates: Any) -> MethodType:
        """The method at a point: call it with the operation's other arguments.

        Args:
            coordinates: one of each axis, in any order: coordinates, their values
                (`x.device`, `x.dtype`), tags.

        Raises:
            PointError: the table has no such point; it knows all coordinates, and the
                nearest points that there are.
            DispatchError: a kind is missing, there twice, or not of this space.
        """
        try:
            found = self._found[coordinates]
        except (KeyError, TypeError):  # not asked for yet, or not hashable
            found = self.try_select(*coordinates)
        if found is None:
            raise self._no_point(self._point(coordinates))
        return found

    def try_select(self, *coordinates: Any) -> MethodType | None:
        """As `select`, but None where the table has no such point."""
        try:
            return self._found[coordinates]
        except (KeyError, TypeError):
            found = self._handles.get(self._point(coordinates))
        self._found[coordinates] = found
        return found

    def _point(self, coordinates: tuple[Any, ...]) -> TagType:
        try:
            return self.space.point(*coordinates)
        except MdtensorError as error:
            given = ", ".join(map(shown, coordinates))
            raise error.within(f"{self.name}({given})") from None

    def _no_point(self, point: TagType) -> PointError:
        nearest = self.nearest(point)
        listed = "; ".join(map(str, nearest[:SHOWN]))
        more = f" and {len(nearest) - SHOWN} more" if len(nearest) > SHOWN else ""
        fix = f"Nearest: {listed}{more}"
        given = ", ".join(map(str, point.coordinates))
        call = f"{self.name}({given})"
        return PointError("no such point in the table", fix, call, point, nearest)

    def nearest(self, point: TagType) -> tuple[TagType, ...]:
        """The points there are that differ from `point` in the fewest coordinates."""
        wanted = set(point.coordinates)
        shared = {known: len(wanted.intersection(known.coordinates)) for known in self}
        most = max(shared.values(), default=0)
        return tuple(known for known, count in shared.items() if count == most)

    @property
    def name(self) -> str:
        """That of the operation."""
        return str(getattr(self._layers[0][1], "__name__", "operation"))

    @property
    def handles(self) -> MappingProxyType[TagType, MethodType]:
        """What runs at each point."""
        return MappingProxyType(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __iter__(self) -> Iterator[TagType]:
        return iter(self._handles)

    def __contains__(self, point: object) -> bool:
        return point in self._handles

    def __repr__(self) -> str:
        counts = f"{len(self)} of {len(self.space)} points"
        return f"<DispatchTable {self.name}: {counts}>"

    def __reduce__(self) -> Any:
        return _rebuilt, (self.space, self._layers)


def _parts(coverage: Any) -> list[Any]:
    """The tags and spaces of a coverage."""
    is_one = isinstance(coverage, (TagType, Axes, str))
    if is_one or not isinstance(coverage, Iterable):
        return [coverage]
    return list(coverage)


def _rebuilt(space: Axes, layers: tuple[Any, ...]) -> DispatchTable:
    (coverage, op, arguments), *later = layers
    table = DispatchTable(space, coverage, op, arguments=arguments)
    for coverage, op, arguments in later:
        table = table.with_(coverage, op, arguments=arguments)
    return table
