"""Counts of integers and of numbers in ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import widen

Array = npt.NDArray[Any]


def bincount(x: Array, weights: Array | None, least: int) -> Array:
    """Return how often each integer from 0 on occurs in x, or the sum of its weights.

    Counts are int64. Sums are float64, of the weights in their order, rounded at each
    addition. The result has at least `least` elements.
    """
    heavy = None if weights is None else promote(widen(weights), np.dtype(np.float64))
    found = np.bincount(x.astype(np.int64, copy=False), heavy, least)
    return found if heavy is not None else found.astype(np.int64, copy=False)


def histogram(x: Array, bins: Any, ends: Any) -> tuple[Array, Array]:
    """Return the int64 counts of x between neighbouring edges, and the edges.

    A count includes its lower edge, and the last one its upper edge as well. NaN and
    numbers outside are not counted.

    Args:
        bins: how many of one width, or the edges.
        ends: the first and the last edge; None for the least and the largest of x.

    Raises:
        ValueError: floats cannot hold so many different edges.
    """
    # NumPy finds the place by a product, and then compares with the edges themselves.
    # Ends whose difference is infinite overflow on the way to its error.
    with np.errstate(over="ignore", invalid="ignore"):
        counts, edges = np.histogram(widen(x), bins, ends)
    return counts.astype(np.int64, copy=False), edges
