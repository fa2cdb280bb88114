"""How tensors show their elements: as NumPy does, by NumPy's own print options.

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

#: Columns by which the parts of a tensor of several lines are indented.
INDENT = 4
#: Columns of the longest line that holds all parts of a tensor.
LINE = 88
#: Elements past which only corners show. NumPy's 1000 fill several screens, so that
#: number gives way; any other that you set with `numpy.set_printoptions` is kept.
MOST, NUMPYS = 100, 1000


def elements(values: npt.NDArray[Any], prefix: str = "", is_part: bool = False) -> str:
    """Return the elements in brackets, aligned for a line that starts with `prefix`.

    Args:
        values: elements; past `MOST` of them only their corners show.
        prefix: what stands before the brackets.
        is_part: `values` are `corners` of an array that is summarized.
    """
    most = 0 if is_part else _threshold()
    return np.array2string(values, separator=", ", prefix=prefix, threshold=most)


def _threshold() -> int:
    most = int(np.get_printoptions()["threshold"])
    return MOST if most == NUMPYS else most


def corners(shape: tuple[int, ...]) -> tuple[npt.NDArray[np.intp], ...] | None:
    """Return the indices along each axis that a summary needs; None if all are shown.

    One index more than the edges stays in each long axis, so that NumPy writes `...`.
    """
    if prod(shape) <= _threshold():
        return None
    edge = np.get_printoptions()["edgeitems"]
    return tuple(
        np.arange(size)
        if size <= 2 * edge + 1
        else np.r_[0 : edge + 1, size - edge : size]
        for size in shape
    )


def of_parts(head: str, arrays: Sequence[tuple[str, Any]], rest: str, cut: bool) -> str:
    """Return `head(a, codes=b, rest)`, on one line if it is short.

    Args:
        head: type and shape.
        arrays: names, or nothing, and elements.
        rest: what follows them.
        cut: the elements are `corners`.
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
