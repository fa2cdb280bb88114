"""Steps of attention: products of two activations, and softmax.

Codes are uint8, in row-major order whatever their axes. See `steps.py` for ratios and
clamps.
"""

from fractions import Fraction
from math import prod

import numpy as np

from mdtensor.kernels.cpu.generic.row_limits import (
    DIFFERENCES,
    SHARE_BITS,
    SHARE_LIMBS,
    SOFTMAX_LENGTH,
)
from mdtensor.kernels.cpu.multipliers import LIMB_BITS, LIMB_MASK
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step
from mdtensor.kernels.cpu.program.steps import U8, rounding
from mdtensor.kernels.rescale import rescale

#: Bytes of sums that are rounded at once, so that they stay in the first cache.
STRIP_BYTES = 1 << 14
#: The longest sum: int32 holds this many products of codes minus zero points.
MOST_DEPTH = (2**31 - 1) // 255**2
# Rows of a strip are a multiple of the rows of most tiles.
TILE = 12


# Both operands change at each call, so the right one is packed there (decision 0052).
class MatMul(Step):
    """Products of stacked matrices, x [.., m, k] and y [.., k, n], both of codes.

        out = clamp(round((sum of (x - zx) * (y - zy)) * ratio) + zero_point)

    The axes before the last two are broadcast. Each matrix of y is packed at the call.

    Args:
        zero_points: of x and of y.

    Raises:
        ValueError: for shapes with more than MOST_DEPTH products in a sum.
    """

    kind = kinds.MATMUL
    input_types = (U8, U8)

    def __init__(self, ratio, zero_points, zero_point=0, clamp=(0, 255)):
        self._ratio, self._zeros = Fraction(ratio), zero_points
        self._rounding = rounding(zero_point, clamp)
        # Packed codes have the zero point 0 if theirs is 128; then tiles round sums.
        self.kernels = ("gemm_u8s8u8" if zero_points[1] == 128 else "gemm_u8u8u8",)
        rescale([self._ratio])

    def output_shape(self, x, y):
        """Return the shape of the result."""
        assert len(x) > 1 and len(y) > 1, "MatMul: expected matrices"
        assert x[-1] == y[-2], f"MatMul: expected [.., m, k] and [.., k, n]: {x}, {y}"
        return (*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])

    def plan(self, x, y):
        """Return the `Plan` for these input shapes."""
        shape = self.output_shape(x, y)
        (m, k), n = x[-2:], y[-1]
        if k > MOST_DEPTH:
            raise ValueError(f"a sum has {k} products, int32 holds {MOST_DEPTH}")
        padded = int(self.on.padded_columns(n))
        constants = Constants()
        # Each product reads its matrices at these places, which broadcasting repeats.
        constants.add(matrix_places(shape, x, y))
        multiplier, limbs = rescale([self._ratio])
        fields = {"multipliers": constants.add(np.repeat(multiplier, padded))[0]}
        fields["limbs"] = constants.add(np.repeat(limbs, padded, axis=0))[0]
        strip = max(1, STRIP_BYTES // (4 * max(n, 1)) // TILE) * TILE
        strip = max(1, min(strip, m))
        packed = (int(self.on.packed_column_bytes(k)) + self.on.TERM_BYTES) * padded
        scratch = packed + 4 * padded + 4 * strip * n + m * k + kinds.SLACK
        fields |= {"images": prod(shape[:-2]), "rows": m, "depth": k, "columns": n}
        fields |= {"padded_columns": padded, "weight_bytes": packed, "strip": strip}
        fields |= {"x_zero_point": self._zeros[0], "y_zero_point": self._zeros[1]}
        return Plan(fields | self._rounding, constants.array(), shape, scratch)

    def macs(self, x, y):
        """Return the multiply-accumulates of one call."""
        return prod(self.output_shape(x, y)) * x[-1]


def matrix_places(shape, *operands):
    """Return where each matrix of the result reads its operands, in elements.

    Args: shape, operands: shapes of the result and of the operands.

    Returns: int64 [matrices, operands].
    """
    found = []
    for own in operands:
        matrices = np.arange(prod(own[:-2]), dtype=np.int64).reshape(own[:-2])
        places = np.broadcast_to(matrices, shape[:-2]).reshape(-1)
        found.append(places * prod(own[-2:]))
    return np.stack(found, axis=1)


class Softmax(Step):
    """Softmax along the last axis.

        out = clamp(round(e**(scale * x) / sum of e**(scale * x) / step) + zero_point)

    Args:
        powers: Fractions, e ** (-scale * d) for each difference d of codes, 0 to 255.
        step: Fraction over a power of two, as every float32, the scale of the result.
    """

    kind = kinds.SOFTMAX
    kernels = ("softmax_u8",)

    def __init__(self, powers, step, zero_point=0, clamp=(0, 255)):
        assert len(powers) == DIFFERENCES, "powers: of 256 differences"
        constants = Constants()
        constants.add(np.array([float(power) for power in powers]))
        inverse = np.array([float(1 / Fraction(step))])
        self._fields = {"inverse_step": constants.add(inverse)[0]}
        self._fields["limbs"] = constants.add(_limbs(powers))[0]
        parts = [power / Fraction(step) for power in powers]
        self._fields["quotients"] = constants.add(_limbs(parts))[0]
        self._fields |= rounding(zero_point, clamp)
        self.constants = constants.array()

    def output_shape(self, shape):
        """Return the shape of the result."""
        assert shape and shape[-1] <= SOFTMAX_LENGTH, "Softmax: the rows are too long"
        return shape

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        fields = {**self._fields, "length": shape[-1]}
        return Plan(fields, self.constants, self.output_shape(shape), 0)

    @property
    def bytes(self):
        """Return the bytes of the tables."""
        return self.constants.size


def _limbs(numbers):
    """Return numbers in units of 2 ** -SHARE_BITS as int64 [.., SHARE_LIMBS] limbs."""
    # A share of more than 2**40 steps saturates like one of 2**40.
    units = [round(min(number, 2**40) * 2**SHARE_BITS) for number in numbers]
    shifts = [LIMB_BITS * limb for limb in range(SHARE_LIMBS)]
    rows = [[unit >> shift & LIMB_MASK for shift in shifts[:-1]] for unit in units]
    tops = [unit >> shifts[-1] for unit in units]
    return np.array(
        [[*row, top] for row, top in zip(rows, tops, strict=True)], np.int64
    )
