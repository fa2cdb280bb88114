"""Floats with checked multipliers round every sum of two codes as exact numbers do."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.cpu.program.checked_sums import (
    BY_FLOAT32,
    BY_FLOAT64,
    MOST_RATIO,
    checked_multipliers,
)

FIRST, SECOND = np.divmod(np.arange(1 << 16), 256)
A, B = FIRST.astype(np.uint8), SECOND.astype(np.uint8)
codes = st.integers(0, 255)
scales = st.floats(2**-7, 4, width=32).map(Fraction)
#: Scales of the grids of inputs and result, and what decides their sums.
DECIMAL = {
    (0.3, 0.1, 0.2): BY_FLOAT64,
    (0.1, 0.05, 0.5): BY_FLOAT64,
    (0.1, 0.2, 0.5): BY_FLOAT32,
}


def of_scales(a, b, result):
    """Return the ratios of three scales, which are float32."""
    a, b, result = (Fraction(float(np.float32(s))) for s in (a, b, result))
    return a / result, b / result


def exact(ratios, zeros, zero_point):
    """Return the code of each sum: integers over one denominator, half to even."""
    below = ratios[0].denominator * ratios[1].denominator
    first, second = (int(ratio * below) for ratio in ratios)
    left = np.array([(code - zeros[0]) * first for code in range(256)], object)
    right = np.array([(code - zeros[1]) * second for code in range(256)], object)
    twice = 2 * (left[:, None] + right).reshape(-1) + below
    down = twice // (2 * below)
    is_odd_tie = (twice % (2 * below) == 0) & (down % 2 == 1)
    return np.clip((down - is_odd_tie + zero_point).astype(np.int64), 0, 255)


def added(name, ratios, zeros, zero_point):
    """Return what the step of an ISA computes for every pair of codes."""
    return kernel_set.make_on(
        kernel_set.kernels(name), lambda: steps.Add(ratios, zeros, zero_point)(A, B)
    )


@pytest.mark.compiled
@settings(max_examples=40)
@given(scales, scales, scales, codes, codes, codes)
def test_every_sum_of_a_step_is_exact(a, b, result, first, second, zero_point):
    given = (a / result, b / result), (first, second), zero_point
    wanted = exact(*given)
    for name in sorted({"generic", kernel_set.HOST.name}):
        assert np.array_equal(added(name, *given), wanted)


@pytest.mark.compiled
@pytest.mark.parametrize("given", DECIMAL)
def test_decimal_grids(given):
    ratios = of_scales(*given)
    _, guard = checked_multipliers(ratios, (120, 131), 110)
    assert guard == DECIMAL[given]
    wanted = exact(ratios, (120, 131), 110)
    for name in sorted({"generic", kernel_set.HOST.name}):
        assert np.array_equal(added(name, ratios, (120, 131), 110), wanted)


@pytest.mark.parametrize("given", [(0.7, 0.3, 0.45), (1.3, 0.06, 0.5)])
def test_multipliers_stay_near_the_ratios(given):
    ratios = of_scales(*given)
    multipliers, guard = checked_multipliers(ratios, (0, 255), 7)
    assert guard == BY_FLOAT32 and multipliers.dtype == np.float32
    assert np.allclose(multipliers, [float(r) for r in ratios], rtol=1e-6)


def test_ratios_that_are_too_large_or_too_far_apart():
    for ratios in ((2 * MOST_RATIO, 1), (1, Fraction(1, 10**5))):
        assert checked_multipliers(tuple(map(Fraction, ratios)), (0, 0), 0) is None


def test_many_exact_ties_are_left_to_integers():
    # Each sum of odd codes is a tie of a ratio that no float has.
    third = Fraction(1, 3) + Fraction(1, 6)
    assert checked_multipliers((third, Fraction(1, 6)), (0, 0), 0) is None
