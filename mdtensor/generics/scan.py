"""Running sums and products along an axis, and differences of neighbours."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.scan import accumulated, differences


@generic(deduce=accumulated)
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Any:
    """Return the running sum y[i] = x[0] + ... + x[i] along `axis`.

    Args:
        x: one dimension or more.
        axis: optional in one dimension.
        dtype: the type to hold the sums, as in `sum`.
        include_initial: put the empty sum, 0, in front.

    Returns:
        The type of a sum; one element longer with `include_initial`.

    Raises:
        ShapeError: the axis does not exist, or is missing for more than one dimension.
        CastError: as in `sum`.

    Example:
        >>> import mdtensor as md
        >>> md.cumulative_sum(md.asarray([1, 2, 3]), include_initial=True).tolist()
        [0, 1, 3, 6]

    Source: array API 2024.12, `cumulative_sum`.
    """


@generic(deduce=accumulated)
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Any:
    """Return the running product along `axis`; errors as in `cumulative_sum`.

    Args:
        x: one dimension or more.
        axis: optional in one dimension.
        dtype: the type to hold the products, as in `prod`.
        include_initial: put the empty product, 1, in front.

    Returns:
        The type of a product; one element longer with `include_initial`.

    Example:
        >>> import mdtensor as md
        >>> md.cumulative_prod(md.asarray([1, 2, 3])).tolist()
        [1, 2, 6]

    Source: array API 2024.12, `cumulative_prod`.
    """


@generic(deduce=differences)
def diff(
    x: Any,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Any = None,
    append: Any = None,
) -> Any:
    """Return the differences y[i] = x[i + 1] - x[i] along `axis`, taken `n` times.

    Args:
        x: one dimension or more; numbers.
        axis: the axis to go along.
        n: how often; 0 returns `x` with `prepend` and `append` joined to it.
        prepend: a tensor to put in front of `x` first; sizes off `axis` are equal.
        append: a tensor to put behind `x`; sizes off `axis` are equal.

    Returns:
        The promoted type; `n` elements shorter, at least 0. Integers wrap.

    Raises:
        ShapeError: the axis does not exist, or sizes off it differ.
        OptionError: `n` is not an integer from 0, or `prepend` or `append` is not a
            tensor.

    Example:
        >>> import mdtensor as md
        >>> md.diff(md.asarray([1, 4, 9, 16])).tolist()
        [3, 5, 7]
        >>> md.diff(md.asarray([1, 4, 9]), prepend=md.asarray([0])).tolist()
        [1, 3, 5]

    Source: array API 2024.12, `diff`.
    """
