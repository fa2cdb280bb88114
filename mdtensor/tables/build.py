"""What runs at each point of a declared coverage, or all that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from mdtensor.errors import CoverageError, DispatchError, RegistrationError
from mdtensor.tables.axes import Axes
from mdtensor.tables.coordinate import shown
from mdtensor.tables.tag import TagType
from mdtensor.tensor import Tensor

Arguments = tuple[type, ...] | None
Handles = dict[TagType, MethodType]


def build(
    space: Axes, coverage: list[Any], op: Callable[..., Any], arguments: Arguments
) -> Handles:
    """The function at each covered point of `space`, bound to the point's tag."""
    covered = [point for part in coverage for point in points(space, part)]
    if not callable(op):
        raise RegistrationError(f"{shown(op)} is no operation", "Give a callable")
    operation = getattr(op, "operation", None)
    if operation is None:
        return {point: MethodType(op, point()) for point in covered}
    if arguments is None:
        arguments = (Tensor,) * (len(operation.dispatched) - 1)
    return _resolved(operation, dict.fromkeys(covered), arguments)


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
    fits = {
        point: [m for m in operation.methods if m.accepts((point, *arguments))]
        for point in failed
    }
    missing = tuple(point for point in failed if not fits[point])
    ambiguous = tuple(point for point in failed if fits[point])
    said = []
    if missing:
        listed = "; ".join(map(str, missing))
        said.append(f"{len(missing)} of {count} points have no method: {listed}")
    if ambiguous:
        listed = "; ".join(f"{point} has {_listed(fits[point])}" for point in ambiguous)
        said.append(f"{len(ambiguous)} of {count} points have several: {listed}")
    fix = "Add a method for each, or leave the points out of the coverage"
    return CoverageError(". ".join(said), fix, operation.name, missing, ambiguous)


def _listed(methods: list[Any]) -> str:
    return " and ".join(f"{m} at {m.location}" for m in methods)
