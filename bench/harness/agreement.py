"""Checks that run before any timing: contenders that differ are not compared."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class Disagreement(AssertionError):
    """A contender does not give what it should."""


def gives(wanted: Any) -> Callable[[Mapping[str, Any]], None]:
    """Each contender returns this very object."""

    def check(results: Mapping[str, Any]) -> None:
        for name, found in results.items():
            if found is not wanted:
                raise Disagreement(f"{name} gives {found!r}, not {wanted!r}")

    return check


def near(wanted: Any, tolerance: float) -> Callable[[Mapping[str, Any]], None]:
    """Each contender's array is near this one: absolutely, or relatively where large.

    NaN and infinities are to be the same.
    """

    def check(results: Mapping[str, Any]) -> None:
        expected = np.asarray(wanted, np.float64)
        for name, found in results.items():
            got = np.asarray(found).astype(np.float64)
            if got.shape != expected.shape:
                raise Disagreement(f"{name} has shape {got.shape}")
            if not np.allclose(got, expected, tolerance, tolerance, equal_nan=True):
                worst = np.nanmax(np.abs(got - expected))
                raise Disagreement(f"{name} is off by {worst:.3g}")

    return check


def alike(results: Mapping[str, Any]) -> None:
    """All contenders return equal arrays, byte for byte."""
    names = list(results)
    first = np.asarray(results[names[0]])
    for name in names[1:]:
        if not np.array_equal(np.asarray(results[name]), first):
            raise Disagreement(f"{name} differs from {names[0]}")
