"""The one place where numbers are rounded to codes: half to even, exactly.

Every path of the library that rounds to a grid gives these results. The compiled
kernels have a proof of their own (`kernels/rescale.py`) and are tested against this.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.quant.qparams import QParams

IntArray = npt.NDArray[np.int64]
#: Steps beyond this saturate on any grid of 32 bits or fewer.
LARGE = 2.0**40
#: A float64 sum of products errs by less than this part of the sum of magnitudes.
ERROR = 2.0**-48
#: Products with ratios up to this stay finite in float64.
FINITE = Fraction(2) ** 900


def round_sum(*terms: tuple[npt.NDArray[Any], Fraction]) -> IntArray:
    """round_half_even(sum of values · ratio), exact; cut to ±2**40.

    Float64 decides all but near ties, which are decided by rational numbers.

    Args:
        terms: pairs of integers, |value| < 2**53, and a ratio; shapes broadcast.

    Returns:
        int64, the broadcast shape.

    Example:
        >>> round_sum((np.array([1, 3, 5]), Fraction(1, 2))).tolist()
        [0, 2, 2]
    """
    ratios = [ratio for _, ratio in terms]
    is_finite = all(abs(ratio) <= FINITE for ratio in ratios)
    factors = [float(ratio) if is_finite else 0.0 for ratio in ratios]
    products = [v * f for (v, _), f in zip(terms, factors, strict=True)]
    total = np.asarray(sum(products[1:], products[0]))
    nearest = np.rint(np.clip(total, -LARGE, LARGE))
    result: IntArray = np.asarray(nearest).astype(np.int64)
    if is_finite and _is_exact(*terms):
        return result
    error = sum((np.abs(p) for p in products[1:]), np.abs(products[0])) * ERROR
    doubt = np.abs(np.abs(total - nearest) - 0.5) <= error
    doubt &= np.abs(total) - error < LARGE
    doubt |= not is_finite
    columns = [np.broadcast_to(v, result.shape)[doubt].tolist() for v, _ in terms]
    rows = zip(*columns, strict=True)
    result[doubt] = [_round_exactly(row, ratios) for row in rows]
    return result


def _is_exact(*terms: tuple[npt.NDArray[Any], Fraction]) -> bool:
    """Whether float64 holds every product and their sum."""
    unit = max(ratio.denominator for _, ratio in terms)
    if any(ratio.denominator & (ratio.denominator - 1) for _, ratio in terms):
        return False
    largest = [int(np.abs(values).max(initial=0)) for values, _ in terms]
    sizes = zip(largest, terms, strict=True)
    return sum(most * abs(ratio) * unit for most, (_, ratio) in sizes) < 2**53


def _round_exactly(values: Iterable[int], ratios: list[Fraction]) -> int:
    limit = int(LARGE)
    exact = sum(v * r for v, r in zip(values, ratios, strict=True))
    return min(max(round(exact), -limit), limit)


def to_codes(steps: npt.NDArray[Any], grid: QParams) -> npt.NDArray[Any]:
    """Steps from real 0 as codes of `grid`, saturated."""
    zero = grid.along(grid.zero_point, steps.ndim)
    codes = np.clip(steps + zero, grid.minimum, grid.maximum)
    return np.asarray(codes, grid.dtype.storage)


def steps_of(x: Any) -> IntArray:
    """Steps from real 0 of a quantized tensor: codes less their zero point."""
    codes = x.buffer.astype(np.int64)
    steps: IntArray = codes - x.qparams.along(x.qparams.zero_point, codes.ndim)
    return steps


def rescale(steps: npt.NDArray[Any], source: QParams, target: QParams) -> Any:
    """Codes on `target` for integer steps of `source`; rounds once.

    Args:
        steps: codes less their zero point.
        source: per tensor or per axis.
        target: per tensor.
    """
    ratios = [scale / target.fraction for scale in source.fractions]
    if source.axis is None:
        return to_codes(round_sum((steps, ratios[0])), target)
    rounded = np.empty(steps.shape, np.int64)
    given, found = (np.moveaxis(a, source.axis, 0) for a in (steps, rounded))
    for at, ratio in enumerate(ratios):
        found[at : at + 1] = round_sum((given[at : at + 1], ratio))
    return to_codes(rounded, target)
