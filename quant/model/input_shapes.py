"""The shapes that a caller chooses for the inputs of a model, checked against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from mdtensor import DYNAMIC, TensorSpec
from mdtensor.errors import DataError, shown

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]] | Sequence[int]


def chosen(inputs: Mapping[str, TensorSpec], given: Shapes | None) -> dict[str, Shape]:
    """A shape for each input: its own with the sizes that are chosen for it.

    Args:
        inputs: type and shape of each; -1 is any size.
        given: of each input by name, or of the only input. Sizes of -1, and inputs
            that are not named, stay as they are.

    Raises:
        DataError: no such input, one shape for several, no sizes, another number of
            sizes, or another size than one that is fixed.
    """
    wanted = _by_name(inputs, given)
    return {
        name: _joined(name, spec, wanted[name]) if name in wanted else spec.shape
        for name, spec in inputs.items()
    }


def _by_name(inputs: Mapping[str, TensorSpec], given: Any) -> Mapping[str, Any]:
    listed = ", ".join(map(repr, inputs)) or "none"
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name in given:
            if name not in inputs:
                problem = f"there is no input {shown(name)}"
                raise DataError(problem, f"Inputs are {listed}")
        return given
    if len(inputs) != 1:
        raise DataError(
            f"one shape for the inputs {listed}", "Give a shape for each, by name"
        )
    return dict.fromkeys(inputs, given)


def _joined(name: str, spec: TensorSpec, wanted: Any) -> Shape:
    """The shape of an input with its dynamic sizes replaced by those wanted."""
    start = f"input {name!r} has shape {spec.shape}, asked for is"
    try:
        sizes = tuple(map(index, wanted))
    except TypeError:
        problem = f"{start} {shown(wanted)}"
        raise DataError(problem, f"Give {spec.ndim} integers") from None
    problem = f"{start} {sizes}"
    if len(sizes) != spec.ndim:
        raise DataError(problem, f"Give {spec.ndim} sizes, not {len(sizes)}")
    if not all(map(_shape_fits, sizes, spec.shape)):
        raise DataError(problem, "Only sizes of -1 can be chosen")
    return tuple(map(max, sizes, spec.shape))


def _shape_fits(wanted: int, size: int) -> bool:
    return wanted in (size, DYNAMIC) or (size == DYNAMIC and wanted >= 0)
