"""The one place where numbers are rounded to codes: half to even, exactly.

Every path of the library that rounds to a grid gives these results. The compiled
kernels have a proof of their own (`kernels/rescale.py`) and are tested against this.
"""

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
    products = [values * float(ratio) for values, ratio in terms]
    total = sum(products[1:], products[0])
    magnitude = sum((np.abs(p) for p in products[1:]), np.abs(products[0]))
    nearest = np.rint(np.clip(total, -LARGE, LARGE))
    result: IntArray = nearest.astype(np.int64)
    doubt = np.abs(np.abs(total - nearest) - 0.5) <= magnitude * ERROR
    doubt &= np.abs(total) < LARGE
    if doubt.any():
        shape = result.shape
        columns = [np.broadcast_to(values, shape)[doubt] for values, _ in terms]
        ratios = [ratio for _, ratio in terms]
        result[doubt] = [
            round(sum(int(v) * r for v, r in zip(row, ratios, strict=True)))
            for row in zip(*columns, strict=True)
        ]
    return result


def to_codes(steps: npt.NDArray[Any], grid: QParams) -> npt.NDArray[Any]:
    """Steps from real 0 as codes of `grid`, saturated."""
    zero = grid.along(grid.zero_point, steps.ndim)
    codes = np.clip(steps + zero, grid.minimum, grid.maximum)
    return np.asarray(codes, grid.dtype.storage)


def steps_of(x: Any) -> IntArray:
    """Steps from real 0 of a quantized tensor: codes less their zero point."""
    codes: IntArray = x.buffer.astype(np.int64)
    return codes - x.qparams.along(x.qparams.zero_point, codes.ndim)


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
    parts = np.moveaxis(steps, source.axis, 0)
    rounded = [round_sum((p, r)) for p, r in zip(parts, ratios, strict=True)]
    return to_codes(np.stack(rounded, axis=source.axis), target)
