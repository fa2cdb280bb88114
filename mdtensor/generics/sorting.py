"""Sorting. NaN counts as the largest number, as it does in `max`."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.sorting import order, ordered


@generic(deduce=ordered)
def sort(
    x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Any:
    """Return the elements in order along `axis`; NaN last, and first if descending.

    Args:
        x: one dimension or more, real.
        axis: the axis to sort along.
        descending: the largest first.
        stable: equal elements (zeros of both signs) keep their order. They always do.

    Returns:
        The type and shape of `x`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.sort(md.asarray([3, 1, 2]), descending=True).tolist()
        [3, 2, 1]

    Source: array API 2024.12, `sort`; the place of NaN as in PyTorch.
    """


@generic(deduce=order)
def argsort(
    x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Any:
    """Return the indices along `axis` from which `sort` takes its elements.

    Args:
        x: one dimension or more, real.
        axis: the axis to sort along.
        descending: the largest first; NaN before it.
        stable: equal elements keep their order, descending too. They always do.

    Returns:
        Int64Tensor of the shape of `x`.

    Raises:
        ShapeError: the axis does not exist.

    Example:
        >>> import mdtensor as md
        >>> md.argsort(md.asarray([3, 1, 3]), descending=True).tolist()
        [0, 2, 1]

    Source: array API 2024.12, `argsort`.
    """
