"""Text of tensor elements, formatted by NumPy with its print options.

>>> import mdtensor as md
>>> md.asarray([[1, 2], [3, 4]])
Int64Tensor[2,2]([[1, 2],
                  [3, 4]])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

#: The indentation of the parts of a tensor on several lines, in columns.
INDENT = 4
#: The length of the longest line with all parts of a tensor.
LINE = 88
#: Tensors with more elements show only their corners. NumPy's default of 1000 fills
#: several screens, so 100 replaces it; other values of `numpy.set_printoptions` count.
MOST, NUMPYS = 100, 1000


def elements(values: npt.NDArray[Any], prefix: str = "", is_part: bool = False) -> str:
    """Return the elements in brackets, aligned for a line that starts with `prefix`.

    Args:
        values: elements; of more than `MOST`, only the corners show.
        prefix: the text before the brackets.
        is_part: `values` are `summary_indices` of an array that is summarized.
    """
    # Corners are summarized already: a threshold of 0 makes NumPy write the dots.
    most = 0 if is_part else _threshold()
    return np.array2string(values, separator=", ", prefix=prefix, threshold=most)


def _threshold() -> int:
    most = int(np.get_printoptions()["threshold"])
    return MOST if most == NUMPYS else most


def summary_indices(shape: tuple[int, ...]) -> tuple[npt.NDArray[np.intp], ...] | None:
    """Return the indices along each axis that a summary needs; None if all are shown.

    One index more than the edges stays in each long axis, so that NumPy writes `...`.
    """
    if not shape or prod(shape) <= _threshold():
        return None
    edge = np.get_printoptions()["edgeitems"]
    return tuple(
        np.arange(size)
        if size <= 2 * edge + 1
        else np.r_[0 : edge + 1, size - edge : size]
        for size in shape
    )


def take_grid(
    values: npt.NDArray[Any], at: Sequence[npt.NDArray[np.intp]]
) -> npt.NDArray[Any]:
    """Return the elements at the indices `at`, one array of indices for each axis."""
    # The longest axis first, so that little is copied. `numpy.ix_` does not take the
    # 64 axes that an array can have.
    for axis in sorted(range(values.ndim), key=lambda axis: -values.shape[axis]):
        if not np.array_equal(at[axis], np.arange(values.shape[axis])):
            values = values.take(at[axis], axis)
    return values


def join_parts(
    head: str, arrays: Sequence[tuple[str, Any]], rest: str, cut: bool
) -> str:
    """Return `head(a, codes=b, rest)`, on one line if it is short.

    Args:
        head: type and shape.
        arrays: pairs of a prefix, such as "codes=" or "", and elements.
        rest: the text after the arrays.
        cut: the elements are `summary_indices`.
    """
    flat = [f"{name}{elements(values, '', cut)}" for name, values in arrays]
    line = f"{head}({', '.join([*flat, rest])})"
    if "\n" not in line and len(line) <= LINE:
        return line
    space = " " * INDENT
    parts = [
        f"{space}{name}{elements(values, f'{space}{name}', cut)}"
        for name, values in arrays
    ]
    return f"{head}(\n" + ",\n".join([*parts, f"{space}{rest}"]) + ")"
