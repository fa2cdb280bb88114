"""Moving elements of host arrays; views where the strides allow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def concat(arrays: Sequence[Array], axis: int | None, dtype: np.dtype[Any]) -> Array:
    """Arrays end to end along `axis`, cast to `dtype`; None flattens them first."""
    with np.errstate(all="ignore"):
        return np.concatenate(arrays, axis=axis, dtype=dtype, casting="unsafe")


def pad(x: Array, widths: Sequence[tuple[int, int]], value: Any) -> Array:
    """`x` in a border of `value`, `widths` (before, after) along each axis."""
    sizes = zip(x.shape, widths, strict=True)
    bordered = np.full([n + sum(width) for n, width in sizes], value, x.dtype)
    inside = zip(x.shape, widths, strict=True)
    bordered[tuple(slice(before, before + n) for n, (before, _) in inside)] = x
    return bordered
