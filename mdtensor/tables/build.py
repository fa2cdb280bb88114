"""What runs at each point of a declared coverage, or all that is wrong with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import MethodType, ModuleType
from typing import Any

from mdtensor.errors import CoverageError, DispatchError, RegistrationError
from mdtensor.tables.coordinate import CoordinateType, shown
from mdtensor.tables.space import Axes
from mdtensor.tables.tag import Tag, TagType, tag_of
from mdtensor.tensor import Tensor

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
