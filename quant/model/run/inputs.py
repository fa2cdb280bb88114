"""What a caller hands a graph, checked against its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import DYNAMIC, TensorSpec
from mdtensor.errors import DataError, MdtensorError, shown, type_and_shape, written


def each(samples: Any) -> Iterator[Any]:
    """One sample after the other.

    Raises:
        DataError: there is nothing to go through, or it is one array.
    """
    # Its rows would pass for samples, and fail by a shape that nobody gave.
    if isinstance(samples, (md.Tensor, np.ndarray)):
        raise DataError(
            f"the samples are one {type_and_shape(samples)}, not a list of inputs",
            "Give [x] for one batch, or a list of arrays",
        )
    try:
        return iter(samples)
    except TypeError:
        problem = f"the samples are {shown(samples)}"
        raise DataError(problem, "Give a list of them") from None


def fed(inputs: Mapping[str, TensorSpec], given: Any) -> dict[str, Any]:
    """A tensor for each input; `given` is for the only one, or all by name.

    Raises:
        DataError: an input is missing, unknown, or of another type or shape.
    """
    if not isinstance(given, Mapping):
        if len(inputs) != 1:
            raise DataError(
                f"one array for the {len(inputs)} inputs of the model",
                f"Give an array for each by name: {', '.join(inputs) or 'none'}",
            )
        given = dict.fromkeys(inputs, given)
    return checked_feeds(inputs, given)


def checked_feeds(
    inputs: Mapping[str, TensorSpec], feeds: Mapping[str, Any]
) -> dict[str, Any]:
    """A tensor for each input.

    Raises:
        DataError: an input is missing, unknown, or of another type or shape.
    """
    if set(feeds) != set(inputs):
        raise DataError(
            f"the model has the inputs {_listed(inputs)}, given are {_listed(feeds)}",
            "Give each of them once, in this order",
        )
    return {name: _checked(name, spec, feeds[name]) for name, spec in inputs.items()}


def _checked(name: str, spec: TensorSpec, value: Any) -> Any:
    try:
        tensor = md.asarray(value)
    except (MdtensorError, TypeError, ValueError):
        raise DataError(
            f"input {name!r} is {spec}, given is {type_and_shape(value)}",
            f"Give an array of {spec.dtype}",
        ) from None
    if type(tensor) is not spec.type or not _fits(tensor.shape, spec.shape):
        raise DataError(
            f"input {name!r} is {spec}, given is {type_and_shape(tensor)}",
            _remedy(tensor, spec),
        )
    return tensor


def _remedy(tensor: Any, spec: TensorSpec) -> str:
    if type(tensor) is not spec.type:
        return f"Give an array of {spec.dtype}"
    if DYNAMIC in spec.shape:
        return "Give an array of that shape; -1 is any size"
    if spec.ndim and tensor.shape[1:] == spec.shape[1:]:
        return (
            f"Give {spec.shape[0]} at a time, or leave the first size open, in "
            f"the file and in {written('input_shapes')}"
        )
    return "Give an array of that shape"


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(shape) != len(wanted):
        return False
    pairs = zip(shape, wanted, strict=True)
    return all(want in (size, DYNAMIC) for size, want in pairs)


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names)) or "none"
