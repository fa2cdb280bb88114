"""Along an axis: running sums and products, and differences of neighbours."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
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
    """y[i] = x[0] + ... + x[i] along `axis`.

    Args:
        x: one dimension or more.
        axis: may be left out in one dimension.
        dtype: the type to hold the sums, as in `sum`.
        include_initial: put the sum of nothing, 0, in front.

    Returns:
        The type of a sum; one element longer with `include_initial`.

    Raises:
        ShapeError: the axis does not exist, or is left out where there is not just one.
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
    """y[i] = x[0] · ... · x[i] along `axis`; errors as those of `cumulative_sum`.

    Args:
        x: one dimension or more.
        axis: may be left out in one dimension.
        dtype: the type to hold the products, as in `prod`.
        include_initial: put the product of nothing, 1, in front.

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
    """y[i] = x[i + 1] - x[i] along `axis`, `n` times.

    Args:
        x: one dimension or more; numbers.
        axis: the axis to go along.
        n: how often; 0 leaves `x`, with what is put around it.
        prepend: a tensor to put in front of `x` first; sizes off `axis` are equal.
        append: the same, behind.

    Returns:
        The promoted type; `n` elements shorter, but not below none. Integers wrap.

    Raises:
        ShapeError: the axis does not exist, or sizes off it differ.
        OptionError: `n` is no integer from 0, or `prepend` or `append` no tensor.

    Example:
        >>> import mdtensor as md
        >>> md.diff(md.asarray([1, 4, 9, 16])).tolist()
        [3, 5, 7]
        >>> md.diff(md.asarray([1, 4, 9]), prepend=md.asarray([0])).tolist()
        [1, 3, 5]

    Source: array API 2024.12, `diff`.
    """
