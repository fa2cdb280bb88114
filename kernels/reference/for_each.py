"""One function at each index or element, in Python: the oracle of `cpu/for_each.py`.

Elements are read as Python's numbers, so floats are computed in float64, and a value is
rounded once to the storage type; integers wrap. No thread but the caller's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.kernels.numpy.layout import Operand, Refused

Work = Callable[[int, int], None]


class View:
    """`view[i]`, or `view[i, j, ...]` of a ranked operand; no negative indices.

    `size` counts the elements, `shape` the indices.
    """

    def __init__(self, operand: Operand) -> None:
        self.operand = operand
        self.shape = operand.array.shape if operand.ranked else (operand.array.size,)
        self.size = operand.array.size

    def _place(self, index: Any) -> tuple[int, ...]:
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.shape):
            wanted = len(self.shape)
            noun = "index" if wanted == 1 else "indices"
            raise Refused(f"expected {wanted} {noun} of a view, got {len(given)}")
        for at in given:
            if not isinstance(at, int):
                kind = type(at).__name__
                raise Refused(f"expected an integer index of a view, got {kind}")
        if not all(0 <= at < n for at, n in zip(given, self.shape, strict=True)):
            raise IndexError("outside")
        if self.operand.ranked:
            return given
        shape = self.operand.array.shape
        return tuple(map(int, np.unravel_index(given[0], shape))) if shape else ()

    def __getitem__(self, index: Any) -> Any:
        found = self.operand.array[self._place(index)]
        return float(found) if found.dtype.kind == "V" else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self.operand.writes:
            raise Refused("the view is for reading, and is written")
        place, name = self._place(index), self.operand.name
        problem = loss(name, self.operand.array.dtype, value)
        if problem:
            raise Refused(problem)
        self.operand.array[place] = rounded(value, self.operand.array.dtype)


def loss(name: str, dtype: Any, value: Any) -> str:
    """What is wrong with writing `value`, in words; empty if nothing."""
    ranks = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
    given = np.asarray(value).dtype
    kind = type(value).__name__
    if given.kind not in ranks:
        kind = "nothing" if value is None else kind
    elif ranks[given.kind] <= ranks[dtype.kind]:
        return ""
    return f"{kind} is written to elements of {name}"


def rounded(value: Any, dtype: Any) -> Any:
    """The element nearest to a Python number; an integer modulo the range."""
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        wrapped = int(value) % 2**bits
        is_negative = dtype.kind == "i" and wrapped >= 2 ** (bits - 1)
        return dtype.type(wrapped - 2**bits if is_negative else wrapped)
    with np.errstate(all="ignore"):
        found = to_odd(value) if dtype.kind == "V" else np.asarray(value)
        return found.astype(dtype)


def to_odd(value: float) -> Any:
    """A float32 next to `value`; if inexact, the one whose last bit is 1.

    ml_dtypes goes through float32, and would round a second time.
    """
    near = np.float32(value)
    if float(near) == value or np.isnan(near):
        return near
    bits = near.view(np.uint32)
    below = bits - np.uint32(abs(float(near)) > abs(value))
    return np.uint32(below | np.uint32(1)).view(np.float32)


def indexed(function: Callable[..., Any], arguments: list[Any]) -> Work:
    """function(i, *arguments) for each i; operands become views."""
    given = [View(x) if isinstance(x, Operand) else x for x in arguments]

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            function(i, *given)

    return work


def elementwise(
    function: Callable[..., Any], out: Operand, arguments: list[Any]
) -> Work:
    """out = function(*arguments), element by element; all operands of one shape."""
    target = View(out)
    given: list[Any] = [View(x) if isinstance(x, Operand) else x for x in arguments]

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            target[i] = function(*(x[i] if isinstance(x, View) else x for x in given))

    return work
