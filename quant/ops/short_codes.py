"""Long sums and products of codes of at most 16 bits, rounded in one pass.

A kernel rounds in float64 and marks what is near a tie; `exact` decides these alone.
"""

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.extend import broadcast_shapes
from mdtensor.kernels import observe
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.numpy import empty
from mdtensor.quant import exact
from mdtensor.quant.ops.axis_grids import LARGE, in_a_row, is_short
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, quantized

Array = npt.NDArray[Any]
ADD = Entry("generic.short_codes", "add_codes")
MULTIPLY = Entry("generic.short_codes", "multiply_codes")
#: Codes from which on the kernel takes less time, even if it must be loaded.
LEAST = 1 << 14
#: Ratios that float64 holds with room for all products.
MOST = Fraction(2) ** 200


# Rational numbers decide near ties alone (decision 0106).
def round_quickly(
    codes: Callable[..., Array],
    ratios_of: Callable[..., list[Fraction]],
    x1: QuantizedTensor,
    x2: QuantizedTensor,
    out: QParams,
) -> QuantizedTensor | None:
    """Return a sum, which has two ratios, or a product, which has one, on `out`.

    Args:
        codes: returns the codes of steps of both on their grids, exactly.
        ratios_of: returns two ratios, or one, of two grids with one scale.

    Returns:
        The tensor; None if a grid is unknown, or the call too short.
    """
    shape, grids = broadcast_shapes(x1.shape, x2.shape), (x1.qparams, x2.qparams, out)
    is_known = all(is_short(grid) and grid.axis is None for grid in grids)
    if not is_known or prod(shape) < LEAST or exact.is_counting():
        return None
    ratios = ratios_of(*grids[:2])
    if not all(1 / MOST < abs(ratio) < MOST for ratio in ratios):
        return None
    a, b = (in_a_row(np.broadcast_to(x.code_array, shape)) for x in (x1, x2))
    found = empty(shape, out.dtype.storage, LARGE)
    doubt, zeros = empty(a.shape, np.uint8, LARGE), [grid.zero for grid in grids]
    entry = MULTIPLY if len(ratios) == 1 else ADD
    # float64 holds a product of 34 bits, and one with a ratio of few bits.
    is_exact = all(_has_few_bits(ratio) for ratio in ratios)
    error = -1.0 if is_exact else exact.EXACT_ERROR
    ends = zeros[2], out.minimum, out.maximum
    factors = map(float, ratios)
    flat = found.reshape(-1)
    if entry.call(a, b, *zeros[:2], *factors, error, *ends, flat, doubt):
        at = np.flatnonzero(doubt)
        steps = (
            x[at].astype(np.int64) - z for x, z in zip((a, b), zeros, strict=False)
        )
        flat[at] = codes(*steps, *grids[:2])
    if observe.ACTIVE:
        observe.ran(entry.__name__, "generic")
    return quantized(found, out)


def _has_few_bits(ratio: Fraction) -> bool:
    """Return whether float64 adds and multiplies by the ratio exactly."""
    below = ratio.denominator
    is_binary = below & (below - 1) == 0 and below <= 1 << 8
    return is_binary and abs(ratio.numerator) < 1 << 8
