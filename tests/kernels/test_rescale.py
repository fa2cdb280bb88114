"""Ratios become a float32 multiplier and limbs that hold them exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.reference import divide_half_even, round_half_even
from mdtensor.kernels.rescale import (
    LIMB_BITS,
    float32_of,
    rescale,
    rescale_pair,
)

scales = st.floats(2**-12, 2**12, width=32)


def number(limbs):
    """The integer that little-endian limbs stand for."""
    return sum(int(limb) << (LIMB_BITS * i) for i, limb in enumerate(limbs))


@given(st.integers(-(2**70), 2**70), st.integers(1, 2**40))
def test_the_oracle_divides_integers_as_it_rounds_fractions(numerator, denominator):
    half = numerator * denominator + denominator // 2
    for top, bottom in ((numerator, denominator), (half, denominator), (numerator, 2)):
        want = round_half_even(Fraction(top, bottom))
        assert divide_half_even(top, bottom) == want


@given(scales, scales, scales)
def test_limbs_hold_the_ratio(x, w, y):
    ratio = Fraction(x) * Fraction(w) / Fraction(y)
    multiplier, limbs = rescale([ratio])
    assert Fraction(number(limbs[0, :4]), number(limbs[0, 4:])) == ratio
    assert abs(Fraction(float(multiplier[0])) - ratio) <= ratio / 2**24


@given(st.integers(40, 300), st.integers(-(2**31), 2**31))
def test_a_tiny_ratio_is_one_that_rounds_to_0_as_well(bits, total):
    tiny = Fraction(1, 2**bits)
    _, limbs = rescale([tiny])
    kept = Fraction(number(limbs[0, :4]), number(limbs[0, 4:]))
    assert round_half_even(total * kept) == round_half_even(total * tiny) == 0


@given(scales, scales, scales)
def test_pair_shares_one_denominator(a, b, y):
    ratios = Fraction(a) / Fraction(y), Fraction(b) / Fraction(y)
    _, limbs, guard = rescale_pair(*ratios)
    for i, ratio in enumerate(ratios):
        part = Fraction(number(limbs[4 * i : 4 * i + 4]), number(limbs[8:]))
        assert part == ratio
    assert 0 <= guard <= 1


@given(st.integers(1, 2**60), st.integers(1, 2**60))
def test_float32_of_rounds_once(p, q):
    found = float32_of(Fraction(p, q))
    ulp = Fraction(float(np.spacing(found)))
    assert abs(Fraction(float(found)) - Fraction(p, q)) <= ulp / 2


@given(st.integers(2**24, 2**25 - 1), st.integers(-60, 6), st.integers(-1, 1))
def test_float32_of_decides_what_float64_cannot_see(mantissa, exponent, side):
    """Beside a tie of float32, nearer than float64 can tell."""
    tie = Fraction(mantissa | 1) * Fraction(2) ** exponent
    low, high = (np.float32(float((mantissa | 1) + i) * 2.0**exponent) for i in (-1, 1))
    even = high if int((mantissa | 1) // 2) % 2 else low
    wanted = {-1: low, 0: even, 1: high}[side]
    near = tie + side * Fraction(1, 2**150)
    assert float32_of(near) == wanted == -float32_of(-near)


@given(st.integers(0, 2**24), st.sampled_from([-1, 0, 1]))
def test_float32_of_rounds_subnormal_numbers_once(units, side):
    tie = Fraction(2 * units + 1, 2**150)
    low, high = (np.float32(float(units + i) * 2.0**-149) for i in (0, 1))
    wanted = {-1: low, 0: high if units % 2 else low, 1: high}[side]
    assert float32_of(tie + side * Fraction(1, 2**300)) == wanted


def test_ratios_that_repeat_are_those_alone():
    few = [Fraction(1, 3), Fraction(7, 5)]
    multipliers, limbs = rescale([few[0], few[1], few[0]])
    for i, ratio in enumerate([few[0], few[1], few[0]]):
        alone = rescale([ratio])
        assert multipliers[i] == alone[0][0] and np.array_equal(limbs[i], alone[1][0])


def test_exact_sums_need_no_guard():
    assert rescale_pair(Fraction(1, 2), Fraction(3, 4))[2] == 0
    assert rescale_pair(Fraction(10000), Fraction(1, 3))[2] == 1
    # The largest sums are 2**24 - 1, which float32 holds, and 2**24 + 254.
    assert rescale_pair(Fraction(65792), Fraction(1))[2] == 0
    assert rescale_pair(Fraction(65793), Fraction(1))[2] == 1


@pytest.mark.parametrize("ratio", [Fraction(0), Fraction(-1), Fraction(2**31)])
def test_ratios_out_of_range_are_refused(ratio):
    with pytest.raises(ValueError, match="outside"):
        rescale([ratio])


def test_ratios_of_too_many_bits_are_refused():
    with pytest.raises(ValueError, match="bits"):
        rescale([Fraction(2**130 + 1, 2**130)])
