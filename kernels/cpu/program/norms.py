"""The step of layer norm and RMS norm of codes; see `steps.py` for clamps."""

from fractions import Fraction
from math import gcd, lcm

import numpy as np

from mdtensor.kernels.cpu.generic.row_limits import NORM_LENGTH
from mdtensor.kernels.cpu.multipliers import LIMB_BITS, LIMB_MASK
from mdtensor.kernels.cpu.program import kinds
from mdtensor.kernels.cpu.program.step import Constants, Plan, Step
from mdtensor.kernels.cpu.program.steps import rounding

#: The most limbs of a number. Weights and biases of float32 always have fewer.
MOST_LIMBS = 96
#: float64 holds products of numbers up to this one, and of their reciprocals.
MOST_NUMBER = Fraction(2) ** 300


class Normalize(Step):
    """Layer norm or RMS norm of the last `length` codes, row-major.

        out = clamp(round(y / sqrt(mean of y * y + spread) * w + b) + zero_point)

    Args:
        is_centered: y is x minus its mean, or else x - x_zero_point.
        x_zero_point: of x.
        spread: Fraction above 0, eps over the square of the scale of x.
        weights, biases: Fractions, one for each code of a row, in steps of the result.

    Raises:
        ValueError: a row is too long, or a number is too large or too small.
    """

    kind = kinds.NORMALIZE
    kernels = ("normalize_u8",)

    def __init__(
        self,
        is_centered,
        x_zero_point,
        spread,
        weights,
        biases,
        zero_point=0,
        clamp=(0, 255),
    ):
        length = len(weights)
        if not 0 < length <= NORM_LENGTH:
            raise ValueError(f"a row has {length} codes, not 1 to {NORM_LENGTH}")
        # In units of the energy of a row, see `generic/normalization.py`.
        spread *= length**2 if is_centered else length
        for number in (spread, *weights, *biases):
            is_inside = 1 / MOST_NUMBER < abs(number) < MOST_NUMBER
            if number != 0 and not is_inside:
                raise ValueError(f"{float(number)} is outside 2**-300 .. 2**300")
        if spread <= 0:
            raise ValueError("eps is 0")
        self._fields = {"length": length, "is_centered": int(is_centered)}
        self._fields |= {"x_zero_point": x_zero_point, "low": float(spread)}
        self._fields |= rounding(zero_point, clamp)
        self._constants = Constants()
        self._store(exact_numbers(is_centered, spread, weights, biases))
        for name, numbers in (("gains", weights), ("offsets", biases)):
            rounded = np.array([float(number) for number in numbers])
            self._fields[name] = self._constants.add(rounded)[0]
        self.constants = self._constants.array()

    def _store(self, numbers):
        """Add the limbs of the exact numbers to the constants."""
        squares, biases, unit, pair, divisor = numbers
        # One subtraction takes both, so they have one number of limbs.
        both = _limbs([*biases, *unit])
        arrays = [_limbs(squares), both, _limbs(pair), _limbs(divisor)]
        self._fields["widths"] = [array.shape[1] for array in arrays]
        joined = np.concatenate([array.reshape(-1) for array in arrays])
        self._fields["limbs"] = self._constants.add(joined)[0]

    def output_shape(self, shape):
        """Return the shape of the result."""
        rest = int(np.prod(shape)) % self._fields["length"]
        assert rest == 0, f"Normalize: {shape} is not rows of {self._fields['length']}"
        return shape

    def plan(self, shape):
        """Return the `Plan` for this input shape."""
        return Plan(self._fields, self.constants, self.output_shape(shape), 0)

    @property
    def bytes(self):
        """Return the bytes of weights and biases."""
        return self.constants.size


def exact_numbers(is_centered, spread, weights, biases):
    """Return the integers that decide near ties, see `side_of_tie` in the kernels.

    Returns: lists of integers: squares, biases, (unit,), (factor, addend), (divisor,).
    """
    of_weights = lcm(*(number.denominator for number in weights))
    of_biases = lcm(*(number.denominator for number in biases))
    # Both sides times all denominators are integers.
    left = (1 if is_centered else len(weights)) * (2 * of_biases) ** 2
    left *= spread.denominator
    right = of_weights**2
    shared = gcd(left, right)
    squares = [int(number * of_weights) ** 2 * (left // shared) for number in weights]
    doubled = [int(number * of_biases) * 2 for number in biases]
    pair = spread.denominator, spread.numerator
    return squares, doubled, [of_biases], pair, [right // shared]


def _limbs(numbers):
    """Return integers as int64 [numbers, limbs], each limb with the sign of its number.

    Raises:
        ValueError: a number needs more than `MOST_LIMBS` limbs.
    """
    bits = max(abs(number).bit_length() for number in numbers)
    count = max(1, -(-bits // LIMB_BITS))
    if count > MOST_LIMBS:
        raise ValueError(
            f"exact rounding with these weights and biases needs {bits}-bit integers, "
            f"more than {MOST_LIMBS * LIMB_BITS} bits"
        )
    shifts = [LIMB_BITS * limb for limb in range(count)]
    return np.array(
        [
            [(-1 if number < 0 else 1) * (abs(number) >> s & LIMB_MASK) for s in shifts]
            for number in numbers
        ],
        np.int64,
    )
