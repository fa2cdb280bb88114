"""The errors of a quantized model's outputs: decibels, or the share of equal elements.

The distance of two class numbers says nothing, so integers and bools are equal or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from mdtensor import TensorSpec
from mdtensor.errors import DataError
from mdtensor.quant.model.compare.measure import array_of
from mdtensor.quant.model.compare.noise import Noise


@dataclass(frozen=True)
class ComparedOutput:
    """The error of an output.

    Args:
        sqnr: SQNR in dB; -inf if elements are `lost`; None for integers and bools.
        cosine: the cosine of the finite elements of both models; None for integers and
            bools.
        lost: how many elements are NaN or infinite in one model, and not the same in
            the other.
        equal: the share of equal elements of integers or bools; None for floats.
    """

    sqnr: float | None
    cosine: float | None
    lost: int = 0
    equal: float | None = None


class OutputSums:
    """Sums over samples of an output of real numbers.

    Args: name: of the output, for errors.
    """

    def __init__(self, name: str) -> None:
        self.name, self.noise = name, Noise(0)

    @property
    def count(self) -> int:
        """Return how many elements were added."""
        return self.noise.count

    def add(self, wanted: Any, found: Any) -> None:
        """Add one sample.

        Raises:
            DataError: the shapes differ, as those of selected elements may.
        """
        if wanted.shape != found.shape:
            raise DataError(
                f"output {self.name} has shape {wanted.shape} in the float model and "
                f"{found.shape} in the quantized one",
                "Compare outputs whose shape does not depend on elements",
            )
        self.noise.add(array_of(wanted), array_of(found))

    def result(self) -> ComparedOutput:
        noise = self.noise
        sqnr = -inf if noise.lost else noise.sqnr
        return ComparedOutput(sqnr, noise.cosine, noise.lost)


class OutputCounts:
    """Counts over samples of an output of integers or bools."""

    def __init__(self) -> None:
        self.count = self.equal = 0

    def add(self, wanted: Any, found: Any) -> None:
        """Add one sample; if the shapes differ, none of its elements are equal."""
        self.count += max(wanted.size, found.size)
        if wanted.shape == found.shape:
            same = np.asarray(wanted) == np.asarray(found)
            self.equal += int(np.count_nonzero(same))

    def result(self) -> ComparedOutput:
        share = self.equal / self.count if self.count else 1.0
        return ComparedOutput(None, None, equal=share)


def start(name: str, spec: TensorSpec) -> OutputSums | OutputCounts:
    """Return what compares an output of the float model with this spec."""
    dtype = spec.dtype
    counts = dtype.is_integer or dtype.kind == "bool"
    return OutputCounts() if counts else OutputSums(name)


def decibels_text(value: float | str | None) -> str:
    """Return an SQNR as text, from a comparison or from its JSON."""
    return "exact" if value is None or value == inf else f"{float(value):.1f}"


def share_text(share: float) -> str:
    """Return a share in percent, which is 100 only if all are equal."""
    percent = f"{share:.2%}"
    return "99.99%" if percent == "100.00%" and share < 1 else percent


def output_text(one: Mapping[str, Any]) -> str:
    """Return what to print of a `ComparedOutput` as a dictionary."""
    if one["equal"] is not None:
        return f"{share_text(one['equal'])} of the elements are equal"
    unit = "" if decibels_text(one["sqnr"]) == "exact" else " dB"
    lost = one["lost"]
    behind = f"; {lost} elements are NaN or infinite in one model only" if lost else ""
    return f"{decibels_text(one['sqnr'])}{unit}, cosine {one['cosine']:.6f}{behind}"
