"""Dispatch tables: the methods of one operation at the points of a space."""

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

# Resolution of a coverage: one method for each point, or one error for all failures.

Arguments = tuple[type, ...] | None
Handles = dict[TagType, MethodType]


def build(
    space: Axes, coverage: list[Any], op: Callable[..., Any], arguments: Arguments
) -> Handles:
    """Return the function for each covered point of `space`, bound to its tag."""
    if not isinstance(space, Axes):
        raise RegistrationError(f"{shown(space)} is not a space", "Give Axes(...)")
    covered = [point for part in coverage for point in points(space, part)]
    if not callable(op):
        raise RegistrationError(f"{shown(op)} is not an operation", "Give a callable")
    # Builtins such as len and math.sqrt are callable, but do not take a tag.
    if isinstance(getattr(op, "__self__", None), ModuleType):
        fix = (
            "Pass an operation that @generic declared, or a function whose first "
            "parameter is a tag"
        )
        raise RegistrationError(f"{op.__name__} is not an operation", fix)
    # A plain callable runs at every point; an operation selects a method for each.
    operation = getattr(op, "operation", None)
    if operation is None:
        _check_takes_a_tag(op)
        return {point: MethodType(op, point()) for point in covered}
    types = _argument_types(operation, arguments)
    return _resolve(operation, dict.fromkeys(covered), types)


def _argument_types(operation: Any, given: Arguments) -> tuple[type, ...]:
    """Return the types of the parameters after the tag, `Tensor` by default."""
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
    """Raise if the function does not have a positional parameter for the tag."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some builtins do not have a signature, so the first call must show it.
        return
    if not any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters):
        name = getattr(function, "__name__", "the callable")
        raise RegistrationError(
            f"{name} does not take a tag", "Declare it as the first parameter"
        )


def points(space: Axes, part: object) -> Iterator[TagType]:
    """Return the points of `space` in one part of the coverage.

    Raises:
        RegistrationError: no point is in `part`, or `part` is not inside of the space.
    """
    if isinstance(part, Axes) and part <= space:
        return iter(part)
    if isinstance(part, TagType):
        found = [point for point in space if issubclass(point, part)]
        if found:
            return iter(found)
    named = part if isinstance(part, Axes) else shown(part)
    raise RegistrationError(f"{named} is not in the space", f"The space is {space}")


def _resolve(
    operation: Any, covered: dict[TagType, None], arguments: tuple[type, ...]
) -> Handles:
    handles: Handles = {}
    failed: list[TagType] = []
    for point in covered:
        try:
            method = operation.select(point, *arguments).method
            handles[point] = MethodType(method.implementation, point())
        # Collect all failures, so that one error lists every hole of the table.
        except DispatchError:
            failed.append(point)
    if failed:
        raise _incomplete(operation, failed, arguments, len(covered))
    return handles


def _incomplete(
    operation: Any, failed: list[TagType], arguments: tuple[type, ...], count: int
) -> CoverageError:
    # A point without a candidate is a hole, a point with several is ambiguous.
    best = {point: _best(operation, (point, *arguments)) for point in failed}
    missing = tuple(point for point in failed if not best[point])
    ambiguous = tuple(point for point in failed if best[point])
    problems, fixes = [], []
    if missing:
        listed = "; ".join(map(str, missing))
        problems.append(f"{len(missing)} of {count} points have no method: {listed}")
        fixes.append("Add a method for each, or leave the points out of the coverage")
    if ambiguous:
        listed = "; ".join(
            f"{point} matches {_list_methods(best[point])}" for point in ambiguous
        )
        problems.append(f"{len(ambiguous)} of {count} points are ambiguous: {listed}")
        meets = dict.fromkeys(_meet(best[point]) for point in ambiguous)
        fixes.append(f"Resolve it by a method for {'; '.join(map(str, meets))}")
    problem, fix = ". ".join(problems), ". ".join(fixes)
    return CoverageError(problem, fix, operation.name, missing, ambiguous)


def _best(operation: Any, types: tuple[type, ...]) -> list[Any]:
    """Return the most specific of the methods that accept `types`."""
    # Several methods remain if none of them is more specific than all others.
    fits = [method for method in operation.methods if method.accepts(types)]
    return [m for m in fits if not any(o.signature < m.signature for o in fits)]


def _meet(methods: list[Any]) -> TagType:
    """Return the widest tag with all coordinates that the tags of `methods` require."""
    narrowest: dict[CoordinateType, CoordinateType] = {}
    for method in methods:
        for one in getattr(method.signature.types[0], "coordinates", ()):
            if issubclass(one, narrowest.get(one.kind, one)):
                narrowest[one.kind] = one
    return tag_of(narrowest.values()) if narrowest else Tag


def _list_methods(methods: list[Any]) -> str:
    return " and ".join(f"{m} at {m.location}" for m in methods)


Coverage = TagType | Axes | Iterable[TagType | Axes]
#: How many of the nearest points an error lists.
SHOWN = 3


# All points are resolved when the table is built, so that users never find a hole at
# run time (decision 0011).
class DispatchTable:
    """The methods of `op` at the points of `coverage`, resolved at construction.

    `select` returns the method for the point, bound to its tag as Python binds `self`.
    You can call the returned method many times without further dispatch.

    Args:
        space: all points that `select` accepts.
        coverage: the points that the table has: tags, each of which stands for all
            points below it, and spaces within `space`.
        op: an operation whose first parameter is a tag, or any callable that takes one.
        arguments: types of the operation's other parameters; by default `Tensor`.

    Raises:
        CoverageError: some points do not have a method, or have several equally
            specific ones; the error lists all of these points.
        RegistrationError: the coverage is empty, or a part is not in the space.

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

    def _fill(self, space: Axes, layers: tuple[Any, ...], known: Handles) -> None:
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
        raise AttributeError(
            f"a table does not change: {name} cannot be set. See with_"
        )

    def with_(
        self,
        coverage: Coverage,
        op: Callable[..., Any],
        *,
        arguments: Arguments = None,
    ) -> DispatchTable:
        """Return a new table with `op` at the points of `coverage`; keep this one."""
        new = object.__new__(type(self))
        layers = (*self._layers, (coverage, op, arguments))
        new._fill(self.space, layers, self._handles)
        return new

    def select(self, *coordinates: Any) -> MethodType:
        """Return the method at a point; call it with the operation's other arguments.

        Args:
            coordinates: one for each axis, in any order: coordinates, their values
                (`x.device`, `x.dtype`) or tags.

        Raises:
            PointError: the table does not have this point; the error has the point
                and the nearest existing points as attributes.
            DispatchError: a kind is missing, occurs twice, or is not in this space.
        """
        try:
            found = self._found[coordinates]
        except (KeyError, TypeError):
            # The first call with these coordinates, or one of them is not hashable.
            found = self.try_select(*coordinates)
        if found is None:
            raise self._missing_point(self._point(coordinates))
        return found

    def try_select(self, *coordinates: Any) -> MethodType | None:
        """Return the method as `select` does, or None if the point does not exist."""
        try:
            return self._found[coordinates]
        except (KeyError, TypeError):
            found = self._handles.get(self._point(coordinates))
        # Cached by the arguments as given, so a repeated call skips the search for a
        # point.
        self._found[coordinates] = found
        return found

    def _point(self, coordinates: tuple[Any, ...]) -> TagType:
        try:
            return self.space.point(*coordinates)
        except MdtensorError as error:
            given = ", ".join(map(shown, coordinates))
            raise error.within(f"{self.name}({given})") from None

    def _missing_point(self, point: TagType) -> PointError:
        nearest = self.nearest(point)
        listed = "; ".join(map(str, nearest[:SHOWN]))
        more = f" and {len(nearest) - SHOWN} more" if len(nearest) > SHOWN else ""
        fix = f"Nearest: {listed}{more}"
        given = ", ".join(map(str, point.coordinates))
        call = f"{self.name}({given})"
        return PointError(
            "the table does not have this point", fix, call, point, nearest
        )

    def nearest(self, point: TagType) -> tuple[TagType, ...]:
        """Return the points of the table that share most coordinates with `point`."""
        wanted = set(point.coordinates)
        shared = {known: len(wanted.intersection(known.coordinates)) for known in self}
        most = max(shared.values(), default=0)
        return tuple(known for known, count in shared.items() if count == most)

    @property
    def name(self) -> str:
        """Return the name of the operation."""
        return str(getattr(self._layers[0][1], "__name__", "operation"))

    @property
    def handles(self) -> MappingProxyType[TagType, MethodType]:
        """Return the method for each point."""
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
        return _rebuild, (self.space, self._layers)


def _parts(coverage: object) -> list[Any]:
    """Return the tags and spaces of a coverage as a list."""
    is_one = isinstance(coverage, (TagType, Axes, str))
    # A str is iterable, but its characters are not parts of a coverage.
    if is_one or not isinstance(coverage, Iterable):
        return [coverage]
    return list(coverage)


def _rebuild(space: Axes, layers: tuple[Any, ...]) -> DispatchTable:
    # A pickle holds the layers, since bound methods may differ after an update.
    (coverage, op, arguments), *later = layers
    table = DispatchTable(space, coverage, op, arguments=arguments)
    for coverage, op, arguments in later:
        table = table.with_(coverage, op, arguments=arguments)
    return table
