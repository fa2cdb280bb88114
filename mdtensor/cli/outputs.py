"""What a user wants to know of an output: the winners of scores, the range of maps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import DataError

Array = npt.NDArray[Any]
FIRST, TOP, ROWS = 8, 5, 8


def summary(array: Array, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Facts about one output, fit for JSON; NaN and infinity are None there.

    Args:
        array: an output.
        labels: names of the classes along its last axis, if it holds scores.

    Raises:
        DataError: there are labels, but not one for each class.
    """
    numbers = array[np.isfinite(array)].astype(np.float64)
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "range": [float(numbers.min()), float(numbers.max())] if numbers.size else None,
        "not_finite": array.size - numbers.size,
        "first": [_plain(v) for v in array.reshape(-1)[:FIRST]],
        **_winners(array, labels),
    }


def is_scores(array: Array) -> bool:
    """Whether its rows choose among classes: at most two axes, the last not one."""
    return array.ndim in (1, 2) and array.shape[-1] > 1 and array.size > 0


def _winners(array: Array, labels: Sequence[str]) -> dict[str, Any]:
    """The best class of every row, and the best few of the first rows."""
    if not is_scores(array):
        return {"argmax": None, "top": None}
    rows = array.reshape(-1, array.shape[-1])
    if labels and len(labels) != rows.shape[1]:
        raise DataError(
            f"there are {len(labels)} labels for {rows.shape[1]} classes",
            "Give one a line",
        )
    return {
        "argmax": rows.argmax(axis=1).tolist(),
        "top": [_top(row, labels) for row in rows[:ROWS]],
    }


def _top(row: Array, labels: Sequence[str]) -> list[dict[str, Any]]:
    order = np.argsort(-row.astype(np.float64), kind="stable")[:TOP]
    return [
        {
            "class": int(i),
            "label": labels[i] if labels else None,
            "score": _plain(row[i]),
        }
        for i in order
    ]


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def compared(pairs: Sequence[tuple[Array, Array]]) -> dict[str, Any]:
    """One output of two networks on the same samples.

    Args:
        pairs: (float, int8) for each sample.

    Returns:
        How many rows have the same argmax, if they hold scores; the ratio of signal to
        noise, None if there is no noise; the largest difference.
    """
    signal = noise = largest = 0.0
    rows = agree = 0
    for real, coded in pairs:
        gaps = real.astype(np.float64) - coded
        signal += float((real.astype(np.float64) ** 2).sum())
        noise += float((gaps**2).sum())
        largest = max(largest, float(np.abs(gaps).max(initial=0.0)))
        if is_scores(real):
            same = real.argmax(axis=-1) == coded.argmax(axis=-1)
            rows, agree = rows + same.size, agree + int(same.sum())
    ratio = _plain(10 * np.log10(signal / noise)) if signal and noise else None
    return {
        "rows": rows,
        "same_argmax": agree,
        "sqnr_db": ratio,
        "largest_difference": _plain(largest),
    }
