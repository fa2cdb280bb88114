"""Rounding is that of the exact rational, near and on every tie."""

from fractions import Fraction

import numpy as np
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import rounding
from mdtensor.kernels.reference import round_half_even
from mdtensor.kernels.rescale import rescale, rescale_pair

scales = st.floats(2**-10, 2**10, width=32).map(Fraction)
powers = st.integers(-8, 8).map(lambda e: Fraction(2) ** e)
ratios = st.one_of(powers, st.builds(lambda x, w, y: x * w / y, scales, scales, scales))
offsets = st.integers(-255, 255)


def limited(value):
    return min(max(round_half_even(value), -512), 512)


@given(ratios, st.integers(-(2**31), 2**31 - 1))
def test_any_accumulator(ratio, acc):
    multiplier, limbs = rescale([ratio])
    found = rounding.round_product(np.int32(acc), multiplier[0], limbs, 0)
    assert found == limited(acc * ratio)


@given(ratios, st.integers(-300, 300), st.integers(-2, 2))
def test_around_ties(ratio, k, step):
    acc = int((k + Fraction(1, 2)) / ratio) + step
    acc = min(max(acc, -(2**31)), 2**31 - 1)
    multiplier, limbs = rescale([ratio])
    found = rounding.round_product(np.int32(acc), multiplier[0], limbs, 0)
    assert found == limited(acc * ratio)


@given(st.integers(1, 2**24), st.integers(-255, 255), st.sampled_from([-1, 0, 1]))
def test_a_tie_missed_by_one_part_in_two_to_the_48(acc, k, side):
    ratio = Fraction(2 * abs(k) + 1, 2 * acc) * (1 + Fraction(side, 2**48))
    acc = acc if k >= 0 else -acc
    if not Fraction(1, 2**40) < ratio < 2**31:
        return
    multiplier, limbs = rescale([ratio])
    found = rounding.round_product(np.int32(acc), multiplier[0], limbs, 0)
    assert found == limited(acc * ratio)


@given(ratios, ratios, offsets, offsets)
def test_pairs(ratio_a, ratio_b, a, b):
    _, limbs, _ = rescale_pair(ratio_a, ratio_b)
    assert rounding.round_pair(a, b, limbs) == limited(a * ratio_a + b * ratio_b)


def test_row_with_a_tie_in_every_lane(rng):
    n = 37
    acc = (16 * rng.integers(-40, 40, n) + 8).astype(np.int32)
    multiplier, limbs = rescale([Fraction(1, 16)] * n)
    bias = np.zeros(n, np.int32)
    out = np.empty(n, np.uint8)
    rounding.requantize_row(acc, bias, multiplier, limbs, n, 128, 0, 255, out)
    assert out.tolist() == [round(Fraction(int(v), 16)) + 128 for v in acc]


def test_marks_are_found_in_order():
    marks = np.zeros(64, np.uint8)
    marks[[0, 7, 8, 21, 63]] = 1
    found, j = [], rounding.next_mark(marks, 0)
    while j < 64:
        found.append(int(j))
        j = rounding.next_mark(marks, j + 1)
    assert found == [0, 7, 8, 21, 63]
