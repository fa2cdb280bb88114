"""Axes, indices and counts that a file gives to an operator, checked and normalized.

Every reader uses these functions. With a modulo instead, an axis that the standard does
not allow would become another axis, and the result would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any

from mdtensor.quant.model.onnx.build import Operator

#: The largest size of an axis.
LARGEST = 2**63 - 1


def normalize_axis(
    op: Operator, axis: int, rank: int, what: str = "axis", *, past: int = 0
) -> int:
    """Return an axis counted from the front.

    Args:
        op: the operator, for the error.
        axis: from -rank to rank - 1.
        rank: how many axes there are.
        what: the name of the attribute or the input, for the error.
        past: how many axes past the last one are allowed; 1 for Flatten.

    Raises:
        ModelError: there is no such axis.
    """
    return _count_from_front(op, axis, rank, f"{what}={axis}", f"rank {rank}", past)


def normalize_axes(
    op: Operator, axes: Iterable[int], rank: int, what: str = "axes"
) -> tuple[int, ...]:
    """Return axes counted from the front, in their order.

    Raises:
        ModelError: an axis does not exist, or is named twice.
    """
    given = tuple(axes)
    found = tuple(normalize_axis(op, axis, rank, what) for axis in given)
    if len(set(found)) < len(found):
        raise op.error(f"names an axis twice: {what}={given}", "Name each axis once")
    return found


def normalize_index(op: Operator, index: int, size: int, what: str = "index") -> int:
    """Return an index into an axis of `size`, counted from the front.

    Raises:
        ModelError: the index is outside -size .. size - 1.
    """
    return _count_from_front(op, index, size, f"{what} {index}", f"size {size}")


def require_indices(
    op: Operator, indices: Any, size: int, *, from_end: bool = True
) -> None:
    """Require an array of indices to lie in an axis of `size`.

    Args:
        op: the operator, for the error.
        indices: integers of any shape.
        size: the size of the axis.
        from_end: whether indices below 0 count from the end, as in ONNX; in TFLite they
            are not allowed.

    Raises:
        ModelError: an index is outside -size .. size - 1, or 0 .. size - 1.
    """
    if indices.size:
        for extreme in (int(indices.min()), int(indices.max())):
            if extreme < 0 and not from_end:
                problem = f"has index {extreme}, and the format has none below 0"
                raise op.error(problem, "Count from the front: 0 is the first")
            normalize_index(op, extreme, size)


def _count_from_front(
    op: Operator, number: int, count: int, what: str, of: str, past: int = 0
) -> int:
    """Return `number`, plus `count` if it is negative; raise if it is outside."""
    if -count <= number < count + past:
        return number + count if number < 0 else number
    last = count + past - 1
    allowed = f"Use one from {-count} to {last}" if count + past else "Give it axes"
    raise op.error(f"has {what} for a value of {of}", allowed)


def require_count(op: Operator, given: Sized, count: int, what: str) -> None:
    """Require `what` to have as many entries as there are axes or parts.

    Raises:
        ModelError: `what` has more or fewer entries.
    """
    if len(given) != count:
        raise op.error(
            f"has {len(given)} numbers as {what}, expected {count}", "Export it again"
        )


def require_between(op: Operator, value: Any, low: int, high: float, what: str) -> None:
    """Require low <= value <= high.

    Raises:
        ModelError: `value` is outside of low .. high, or NaN.
    """
    if not low <= value <= high:
        raise op.error(f"has {what}={value}", f"Use one from {low} to {high}")
