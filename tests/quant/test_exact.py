"""Rounding in NumPy against rational numbers."""

from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st
from support.each import each

from mdtensor.quant.exact import LARGE, round_sum

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


EDGES = [2**40 - 1, 2**40, 2**40 + 1, 2**52, 2**53 - 1]


@each("value", [v * s for v in (0, 1, *EDGES) for s in (1, -1)])
@each("exponent", [-1150, -1074, -60, -13, -1, 0, 1, 40, 900, 1200])
@each("odd", [1, 3, Fraction(1, 3)])
def test_any_ratio_is_cut_at_the_ends(value, exponent, odd):
    ratio = odd * Fraction(2) ** exponent
    assert round_sum((np.array([value]), ratio)).tolist() == [expected(value * ratio)]


@given(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.fractions(Fraction(1, 2**30), Fraction(2) ** 70),
    st.fractions(-3, 3, max_denominator=8),
    st.sampled_from([1, Fraction(2) ** 60, Fraction(2) ** 1000]),
)
def test_terms_that_cancel_leave_the_exact_rest(value, ratio, rest, unit):
    terms = (np.array([value]), ratio * unit), (np.array([-value]), ratio * unit)
    got = round_sum(*terms, (np.array([1]), rest))
    assert got.tolist() == [round(rest)]


def test_scalars_and_nothing_round():
    assert round_sum((np.int64(3), Fraction(1, 2))).shape == ()
    assert round_sum((np.zeros((0, 2), np.int64), Fraction(1, 3))).shape == (0, 2)


def test_terms_that_cancel_may_err_by_more_than_the_ends():
    third, large = Fraction(2**50, 3), 2**52 - 1
    for k in range(large - 40, large):
        terms = (np.array([3 * k // 2 * 2]), third / 2), (np.array([-k]), third * 3 / 2)
        exact = 3 * k // 2 * 2 * third / 2 - k * third * 3 / 2
        got = round_sum(*terms, (np.array([1]), Fraction(5, 2) - exact))
        assert got.tolist() == [2]
