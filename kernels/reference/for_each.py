"""The oracle of `cpu/user/for_each.py`: one function at each index or element.

It is plain Python. Elements are read as Python numbers, so floats are computed in
float64, and a value is rounded once to the storage type; integers wrap. Only the
caller's thread works.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.layout import FunctionError, Operand

Work = Callable[[int, int], None]


class View:
    """View of an operand of a loop: `view[i]`, or `view[i, j, ...]`.

    A flat view (`flat_in`, `flat_out`) takes one index for all elements. A ranked view
    (`ranked_in`, `ranked_out`) takes one index for each dimension. Indices must not be
    negative, and each is less than its entry of `shape`. `size` is the number of
    elements.
    """

    def __init__(self, operand: Operand) -> None:
        self.operand = operand
        self.shape = operand.array.shape if operand.ranked else (operand.array.size,)
        self.size = operand.array.size

    def _place(self, index: int | tuple[int, ...]) -> tuple[int, ...]:
        """Return the index tuple of an element; raise if it is not valid."""
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.shape):
            wanted = len(self.shape)
            noun = "index" if wanted == 1 else "indices"
            raise FunctionError(f"expected {wanted} {noun} of a view, got {len(given)}")
        for at in given:
            if not isinstance(at, int):
                kind = type(at).__name__
                raise FunctionError(f"expected an integer index of a view, got {kind}")
        if not all(0 <= at < n for at, n in zip(given, self.shape, strict=True)):
            raise IndexError("outside")
        if self.operand.ranked:
            return given
        shape = self.operand.array.shape
        return tuple(map(int, np.unravel_index(given[0], shape))) if shape else ()

    def __getitem__(self, index: int | tuple[int, ...]) -> Any:
        found = self.operand.array[self._place(index)]
        return float(found) if found.dtype.kind == "V" else found.item()

    def __setitem__(self, index: int | tuple[int, ...], value: object) -> None:
        if not self.operand.writes:
            raise FunctionError("the function writes to a read-only view")
        place, name = self._place(index), self.operand.name
        problem = loss(name, self.operand.array.dtype, value)
        if problem:
            raise FunctionError(problem)
        self.operand.array[place] = round_to(value, self.operand.array.dtype)


def loss(name: str, dtype: np.dtype[Any], value: object) -> str:
    """Return what would be lost by writing `value`, in words; empty if nothing."""
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
    given = np.asarray(value).dtype
    kind = type(value).__name__
    if given.kind not in ranks:
        kind = "nothing" if value is None else kind
    # The order is bool, integer, float, complex: a value may be stored in its own kind
    # or a later one.
    elif ranks[given.kind] <= ranks[dtype.kind]:
        return ""
    return f"{kind} is written to elements of {name}"


def round_to(value: Any, dtype: np.dtype[Any]) -> np.generic | npt.NDArray[Any]:
    """Return the element nearest to a Python number; integers wrap."""
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        wrapped = int(value) % 2**bits
        is_negative = dtype.kind == "i" and wrapped >= 2 ** (bits - 1)
        return dtype.type(wrapped - 2**bits if is_negative else wrapped)
    with np.errstate(all="ignore"):
        # Round to odd first, because ml_dtypes rounds a second time (decision 0012).
        found: Any = to_odd(value) if dtype.kind == "V" else np.asarray(value)
        return found.astype(dtype)


def to_odd(value: float) -> np.float32:
    """Return a float32 next to `value`; if inexact, the one whose last bit is 1.

    ml_dtypes converts through float32, and would round a second time.
    """
    near = np.float32(value)
    if float(near) == value or np.isnan(near):
        return near
    bits = near.view(np.uint32)
    below = bits - np.uint32(abs(float(near)) > abs(value))
    return np.uint32(below | np.uint32(1)).view(np.float32)


def indexed(function: Callable[..., Any], arguments: list[Any]) -> Work:
    """Return work that calls function(i, *arguments); operands become views."""
    given = [View(x) if isinstance(x, Operand) else x for x in arguments]

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            function(i, *given)

    return work


def elementwise(
    function: Callable[..., Any], out: Operand, arguments: list[Any]
) -> Work:
    """Return work that computes out = function(*arguments), element by element.

    All operands have one shape.
    """
    target = View(out)
    given: list[Any] = [View(x) if isinstance(x, Operand) else x for x in arguments]

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            target[i] = function(*(x[i] if isinstance(x, View) else x for x in given))

    return work
