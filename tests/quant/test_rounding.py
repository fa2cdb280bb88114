"""Rounding in NumPy against rational numbers."""

from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from mdtensor.quant.rounding import LARGE, round_sum

VALUES = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20)
RATIOS = st.one_of(
    st.fractions(Fraction(1, 2**40), Fraction(2**8), max_denominator=2**48),
    st.integers(-40, 8).map(lambda k: Fraction(2) ** k),
    st.builds(
        lambda a, b, c: Fraction(a) * Fraction(b) / Fraction(c),
        *[st.floats(2.0**-20, 2.0**10, width=32)] * 3,
    ),
)


def expected(*rows):
    total = round(sum(rows))
    return min(max(total, -int(LARGE)), int(LARGE))


@given(VALUES, RATIOS)
def test_a_ratio_rounds_half_to_even(values, ratio):
    got = round_sum((np.array(values), ratio))
    assert got.tolist() == [expected(v * ratio) for v in values]


@given(st.integers(-(2**20), 2**20), st.integers(1, 2**20))
def test_every_tie_goes_to_the_even_code(odd, denominator):
    value, ratio = (2 * odd + 1) * denominator, Fraction(1, 2 * denominator)
    got = int(round_sum((np.array([value]), ratio))[0])
    assert got == round(Fraction(2 * odd + 1, 2))
    assert got % 2 == 0


@given(VALUES, VALUES, RATIOS, RATIOS)
def test_sums_of_two_terms_round_once(a, b, ratio_a, ratio_b):
    size = min(len(a), len(b))
    x, y = np.array(a[:size]), np.array(b[:size])
    got = round_sum((x, ratio_a), (y, -ratio_b))
    pairs = zip(a[:size], b[:size], strict=True)
    assert got.tolist() == [expected(p * ratio_a, -q * ratio_b) for p, q in pairs]
