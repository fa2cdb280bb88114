"""The one sum that a multiplier rounds wrong, against Python's fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from mdtensor.kernels.cpu import kernel_set, multipliers as searches
from mdtensor.kernels.cpu.multipliers import NONE
from mdtensor.kernels.cpu.program import products
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.threads.split import cut
from mdtensor.kernels.reference import matmul as oracle
from mdtensor.kernels.rescale import rescale

RATIOS = st.floats(2**-14, 2**4, width=32)
ZEROS = st.sampled_from([0, 1, 127, 128, 254, 255]) | st.integers(0, 255)
TENTH = float(np.float32(0.1))
SUMS = st.integers(-(2**20), 2**20)


def found(ratios, zero_point, low, high):
    """(multiplier, exception) of each ratio, or None; sums are low to high."""
    multiplier, limbs = rescale(ratios)
    # a code of 255 times these weights and the bias reaches from low to high
    weight = np.array([[(high - low) // 255]] * len(ratios))
    bias = np.full(len(ratios), low, np.int32)
    given = weight, bias, multiplier, limbs, zero_point
    multiplier, known = searches.choose_multipliers(*given)
    if not len(known):
        return None
    return list(zip(map(Fraction, multiplier.tolist()), known.tolist(), strict=True))


def code(value, zero_point):
    return min(max(round(value) + zero_point, 0), 255)


def fused(total, multiplier, zero_point):
    """What the fused multiply-add rounds to an integer, with its operand in float32."""
    operand = Fraction(float(np.float32(total)))
    return min(max(round(operand * multiplier + zero_point), 0), 255)


def sums_beside_ties(ratio, zero_point, low, high):
    for k in range(-zero_point, 255 - zero_point):
        below = (Fraction(2 * k + 1, 2) / ratio).__floor__()
        yield from (n for n in range(below - 2, below + 4) if low <= n <= high)


@given(RATIOS, RATIOS, ZEROS, SUMS, SUMS)
@example(TENTH, TENTH, 128, -(2**20), 2**20)
@example(0.015954867005348206, 0.2774009704589844, 0, 0, 2**20)  # a neighbour has none
@example(0.5, 0.5, 7, -2000, 2000)
@example(1.0, 2.0**-7, 0, 0, 2**20)
@example(0.75, 2.0**-8, 128, -90_000, 90_000)
def test_all_sums_but_one_are_rounded_as_the_ratio_says(
    scale, other, zero_point, low, high
):
    ratio, (low, high) = Fraction(scale) * Fraction(other), sorted((low, high))
    high = low + (high - low) // 255 * 255
    if not Fraction(1, 2**39) < ratio:
        return
    beside = {*sums_beside_ties(ratio, zero_point, low, high), low, high}
    near = np.float32(float(ratio))
    every = [near, *np.nextafter(near, np.float32([0, np.inf]))]
    wrong = {
        multiplier: {
            n
            for n in beside
            if fused(n, multiplier, zero_point) != code(n * ratio, zero_point)
        }
        for multiplier in map(Fraction, map(float, every))
    }
    fewest = min(map(len, wrong.values()))
    answer = found([ratio], zero_point, low, high)
    if answer is None:
        assert fewest > 1 or max(-low, high) * ratio > searches.MOST_CODE
        return
    ((multiplier, known),) = answer
    assert wrong[multiplier] == ({known} if known != NONE else set())
    assert len(wrong[multiplier]) == fewest


def test_most_layers_have_at_most_one_a_channel(rng):
    """Depthwise sums are small, those of long products large."""
    for taps, least in ((9, 0.95), (64, 0.9), (960, 0)):
        size = 255 * 60 * taps
        scales = np.float32(rng.uniform(0.5, 2, (2, 200)) / (100 * taps**0.5))
        ratios = [Fraction(float(a)) * Fraction(float(b)) for a, b in scales.T]
        some = [found([ratio], 128, -size, size) is not None for ratio in ratios]
        assert np.mean(some) >= least
        assert taps < 900 or np.mean(some) < 0.9


def test_what_cannot_be():
    ratios = [Fraction(1, 3), Fraction(1, 1001)]
    assert found(ratios, 0, -30_000, 30_000)
    assert found(ratios, 0, -150_000, 150_000) is None, "codes past int16"
    multiplier, limbs = rescale(ratios)
    weight, bias = np.full((2, 3), 100), np.array([0, 2**31 - 1], np.int32)
    same, none = searches.choose_multipliers(weight, bias, multiplier, limbs, 0)
    assert same is multiplier and not len(none), "sums past int32"
    nothing = np.zeros((0, 3)), np.zeros(0, np.int32)
    assert not len(searches.choose_multipliers(*nothing, *rescale([]), 0)[1])


TAPS, CHANNELS = 64, 130
WEIGHT = np.full((CHANNELS, TAPS), 127, np.int8)
WEIGHT[:, 0] = 1
#: With a zero point of 0, some have an exception.
OWN = [Fraction(1000, 1000 * (3 * TAPS + 7 * i) + 331) for i in range(CHANNELS)]


@pytest.fixture
def linear():
    """(step, its exceptions)."""
    if not kernel_set.HOST.PRODUCTS_TAKE_EXCEPTION_SUMS:
        pytest.skip("products of this runway look for ties")
    nothing = np.zeros(CHANNELS, np.int32)
    *_, known = products.product_constants(WEIGHT, nothing, OWN, 0)
    return products.Linear(WEIGHT, ratios=OWN, zero_point=0), known


def rows_that_meet(known):
    """Codes whose sums are the exceptions."""
    met = np.unique(known[known != NONE])
    assert met.size > 3
    x = np.zeros((met.size, TAPS), np.uint8)
    whole, x[:, 0] = met // 127, met % 127
    rest = np.arange(TAPS - 1) < whole[:, None] % (TAPS - 1)
    x[:, 1:] = whole[:, None] // (TAPS - 1) + rest
    assert np.array_equal(x.astype(int) @ WEIGHT[0], met)
    return x


def test_integers_decide_an_exception(linear):
    step, known = linear
    x = rows_that_meet(known)
    want = oracle.gemm_u8s8u8(x, WEIGHT, np.zeros(CHANNELS), OWN, 0, 0, 255)
    assert np.array_equal(step(x), want)


def test_groups_have_their_own(linear):
    x = rows_that_meet(linear[1])
    ratios = [*OWN[::-1], *OWN]
    weight = np.concatenate([WEIGHT, WEIGHT])[:, :, None, None]
    step = products.Conv2d(weight, groups=2, ratios=ratios, zero_point=0)
    found = step(np.tile(x, 2)[None, :, None])[0, :, 0]
    for part, own in zip(np.split(found, 2, axis=1), (OWN[::-1], OWN), strict=True):
        want = oracle.gemm_u8s8u8(x, WEIGHT, np.zeros(CHANNELS), own, 0, 0, 255)
        assert np.array_equal(part, want)


def test_pieces_of_columns_have_their_own(linear):
    step, known = linear
    program = Program()
    slot = program.input((1, TAPS), np.uint8)
    executable = program.build([program.append(step, slot)])
    row, constants = executable._layout.rows[0], executable._constants
    parts, first = cut(row, 2), 0
    assert len(parts) == 2
    for part in parts:
        count, place = part.columns, part.constants + part.exception_sums
        own = constants[place : place + 4 * count].view(np.int32)
        assert np.array_equal(own, known[first : first + count])
        first += count
    assert first == CHANNELS
