"""How far results are apart: largest differences, and root mean squares."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.quant import dequantize

Array = Any
#: The results of several samples, each with the outputs of a network.
Results = Sequence[Sequence[Array]]


class Apart(ValueError):
    """Results that cannot be compared: they have other shapes, or are not numbers."""


def numbers(result: Any) -> Array:
    """Return a result as an array of numbers; codes are dequantized."""
    return np.asarray(dequantize(result) if hasattr(result, "codes") else result)


def difference(found: Results, wanted: Results) -> float:
    """Return the largest difference of an output, relative to its largest number.

    Raises:
        Apart: a shape differs, or one has a NaN or infinity where the other has not.
    """
    worst = 0.0
    for one, other in _outputs(found, wanted):
        places = np.isfinite(other)
        is_alike = np.array_equal(one[~places], other[~places], equal_nan=True)
        if not (is_alike and np.isfinite(one[places]).all()):
            raise Apart(f"{(~np.isfinite(one)).sum()} results are not finite")
        size = np.abs(other[places]).max(initial=0)
        apart = np.abs(one[places] - other[places]).max(initial=0)
        worst = max(worst, float(apart / (size or 1)))
    return worst


def rms(found: Results, wanted: Results) -> float:
    """Return the relative error of the worst output.

    It is the root mean square of the difference, divided by that of `wanted`.

    Raises:
        Apart: a shape differs, or a result is not finite.
    """
    worst = 0.0
    for one, other in _outputs(found, wanted):
        size, apart = np.mean(other**2), np.mean((one - other) ** 2)
        if np.isfinite(size) and not np.isfinite(apart):
            raise Apart(f"{(~np.isfinite(one)).sum()} results are not finite")
        if size > 0 and np.isfinite(size):
            worst = max(worst, float(np.sqrt(apart / size)))
    return worst


def _outputs(found: Results, wanted: Results) -> list[tuple[Array, Array]]:
    """Return each output of all samples, ours and the other's."""
    pairs = []
    for ours, theirs in zip(
        zip(*found, strict=True), zip(*wanted, strict=True), strict=False
    ):
        for one, other in zip(ours, theirs, strict=True):
            if np.shape(one) != np.shape(other):
                raise Apart(f"shapes {np.shape(one)} and {np.shape(other)}")
        both = (_flat(ours), _flat(theirs))
        pairs.append(both)
    return pairs


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in arrays])
