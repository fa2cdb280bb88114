"""Dispatch tables: the methods of one operation over a declared part of a space."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType, MethodType, ModuleType
from typing import Any

from mdtensor.errors import (
    CoverageError,
    DispatchError,
    MdtensorError,
    PointError,
    RegistrationError,
)
from mdtensor.tables.coordinate import CoordinateType, shown
from mdtensor.tables.space import Axes
from mdtensor.tables.tag import Tag, TagType, tag_of
from mdtensor.tensor import Tensor

# What runs at each point of a declared coverage, or all that is wrong with it.

Arguments = tuple[type, ...] | None
Handles = dict[TagType, MethodType]


def build(
    space: Axes, coverage: list[Any], op: Callable[..., Any], arguments: Arguments
) -> Handles:
    """The function at each covered point of `space`, bound to the point's tag."""
    if not isinstance(space, Axes):
        raise RegistrationError(f"{shown(space)} is no space", "Give Axes(...)")
    covered = [point for part in coverage for point in points(space, part)]
    if not callable(op):
        raise RegistrationError(f"{shown(op)} is no operation", "Give a callable")
    if isinstance(getattr(op, "__self__", None), ModuleType):  # len, math.sqrt
        fix = (
            "Give what @generic declared, or a function whose first parameter is a tag"
        )
        raise RegistrationError(f"{op.__name__} is no operation", fix)
    operation = getattr(op, "operation", None)
    if operation is None:
        _check_takes_a_tag(op)
        return {point: MethodType(op, point()) for point in covered}
    types = _argument_types(operation, arguments)
    return _resolved(operation, dict.fromkeys(covered), types)


def _argument_types(operation: Any, given: Arguments) -> tuple[type, ...]:
    """Those given for the parameters behind the tag; `Tensor` for each if none are."""
    names = operation.dispatched[1:]
    is_one = given is not None and not isinstance(given, (tuple, list))
    types: tuple[Any, ...] = (Tensor,) * len(names)
    if given is not None:
        types = (given,) if is_one else tuple(given)
    if len(types) == len(names) and all(isinstance(t, type) for t in types):
        return types
    raise RegistrationError(
        f"arguments are {', '.join(map(shown, types)) or 'none'}",
        f"Give a type for each of {', '.join(names) or 'nothing'}",
        operation.name,
    )


def _check_takes_a_tag(function: Callable[..., Any]) -> None:
    """Refuse a function that takes nothing by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of builtins nothing is known
        return
    if not any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters):
        name = getattr(function, "__name__", "the callable")
        raise RegistrationError(f"{name} takes no tag", "Its first parameter is one")


def points(space: Axes, part: Any) -> Iterator[TagType]:
    """The points of `space` in a part of its coverage.

    Raises:
        RegistrationError: there are none, or `part` reaches beyond the space.
    """
    if isinstance(part, Axes) and part <= space:
        return iter(part)
    if isinstance(part, TagType):
        found = [point for point in space if issubclass(point, part)]
        if found:
            return iter(found)
    named = part if isinstance(part, Axes) else shown(part)
    raise RegistrationError(f"{named} is not in the space", f"The space is {space}")


def _resolved(operation: Any, covered: Any, arguments: tuple[type, ...]) -> Handles:
    handles: Handles = {}
    failed: list[TagType] = []
    for point in covered:
        try:
            method = operation.select(point, *arguments).method
            handles[point] = MethodType(method.implementation, point())
        except DispatchError:
            failed.append(point)
    if failed:
        raise _incomplete(operation, failed, arguments, len(covered))
    return handles


def _incomplete(
    operation: Any, failed: list[TagType], arguments: tuple[type, ...], count: int
) -> CoverageError:
    best = {point: _best(operation, (point, *arguments)) for point in failed}
    missing = tuple(point for point in failed if not best[point])
    ambiguous = tuple(point for point in failed if best[point])
    said, fixes = [], []
    if missing:
        listed = "; ".join(map(str, missing))
        said.append(f"{len(missing)} of {count} points have no method: {listed}")
        fixes.append("Add a method for each, or leave the points out of the coverage")
    if ambiguous:
        listed = "; ".join(f"{point} has {_listed(best[point])}" for point in ambiguous)
        said.append(f"{len(ambiguous)} of {count} points have several: {listed}")
        meets = dict.fromkeys(_meet(best[point]) for point in ambiguous)
        fixes.append(f"Decide by a method for {'; '.join(map(str, meets))}")
    problem, fix = ". ".join(said), ". ".join(fixes)
    return CoverageError(problem, fix, operation.name, missing, ambiguous)


def _best(operation: Any, types: tuple[type, ...]) -> list[Any]:
    """The methods that fit, without those that another one is more specific than."""
    fits = [method for method in operation.methods if method.accepts(types)]
    return [m for m in fits if not any(o.signature < m.signature for o in fits)]


def _meet(methods: list[Any]) -> TagType:
    """The widest tag that demands all that the tags of `methods` demand."""
    narrowest: dict[CoordinateType, CoordinateType] = {}
    for method in methods:
        for one in getattr(method.signature.types[0], "coordinates", ()):
            if issubclass(one, narrowest.get(one.kind, one)):
                narrowest[one.kind] = one
    return tag_of(narrowest.values()) if narrowest else Tag


def _listed(methods: list[Any]) -> str:
    return " and ".join(f"{m} at {m.location}" for m in methods)


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
