"""Multipliers that decide alone, against Python's fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from mdtensor.kernels.cpu import kernel_set, multipliers as searches
from mdtensor.kernels.cpu.program.products import depthwise_constants

MOST = 128
RATIOS = st.floats(2**-10, 2**4) | st.floats(2**-26, 2**33)
ZEROS = st.sampled_from([0, 1, 127, 128, 254, 255]) | st.integers(0, 255)


def found(ratios, zero_point, most=MOST):
    """(factor, multiplier) of each ratio, or None."""
    factors = np.zeros(len(ratios), np.int64)
    multipliers = np.zeros(len(ratios), np.float32)
    near = np.array([float(ratio) for ratio in ratios])
    if not searches.find_multipliers(near, zero_point, most, factors, multipliers):
        return None
    return list(zip(factors.tolist(), map(Fraction, multipliers.tolist()), strict=True))


def code(value, zero_point):
    return min(max(round(value) + zero_point, 0), 255)


def fused(total, factor, multiplier, zero_point):
    """What the fused multiply-add rounds to an integer, with its operand in float32."""
    operand = Fraction(float(np.float32(total * factor)))
    return code(operand * multiplier, zero_point)


def sums_beside_ties(ratio, zero_point):
    for k in range(-zero_point, 255 - zero_point):
        below = (Fraction(2 * k + 1, 2) / ratio).__floor__()
        yield from (below - 1, below, below + 1, below + 2)


@given(RATIOS, RATIOS, ZEROS)
@example(0.1, 0.1, 128)
@example(2.0**-13, 1.0 + 2.0**-52, 0)
def test_every_sum_is_rounded_as_the_ratio_says(scale, other, zero_point):
    ratio = Fraction(scale) * Fraction(other)
    if not 2**-24 <= ratio < 2**31 or found([ratio], zero_point) is None:
        return
    ((factor, multiplier),) = found([ratio], zero_point)
    assert 1 <= factor <= MOST
    far = [sign * 2**bits + 1 for sign in (1, -1) for bits in range(31)]
    for total in (*sums_beside_ties(ratio, zero_point), *far):
        want = code(total * ratio, zero_point)
        assert fused(total, factor, multiplier, zero_point) == want


@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_most_layers_have_some(rng, zero_point):
    ratios = [Fraction(x) * Fraction(1, 3) for x in rng.uniform(0.006, 0.15, 1000)]
    every = found(ratios, zero_point)
    assert every is not None and max(factor for factor, _ in every) > 1
    assert found(ratios, zero_point, most=1) is None


@pytest.mark.parametrize(
    "ratio",
    [
        Fraction(1, 2),
        Fraction(1, 256),
        Fraction(3, 10),
        Fraction(float(np.float32(1.2345e-6))),
    ],
    ids=["a half", "a power of two", "ties that are sums", "sums past float32"],
)
def test_where_there_are_none(ratio):
    assert found([Fraction(0.1234567), ratio], 128) is None


def test_multiples_are_checked_for_their_size(monkeypatch):
    weight, ratio = np.full((2, 3), 100), [Fraction(0.1234567), Fraction(1, 3) + 2**-30]
    options = ratio, 7, MOST
    many, bias, multipliers = searches.multiples(weight, np.array([5, -5]), *options)
    factors = many[:, 0] // 100
    assert (many == 100 * factors[:, None]).all()
    assert bias.tolist() == [5 * factors[0], -5 * factors[1]]
    assert np.allclose(multipliers * factors, [0.1234567, 1 / 3])
    for bias in (2**31 - 1, -(2**31) + 1, 2**17):  # past int32, and codes past int16
        assert searches.multiples(weight, np.array([0, bias]), *options) is None
    tiny = [Fraction(0.1234567), Fraction(1, 2**1080)]
    assert searches.multiples(weight, np.array([0, 0]), tiny, 7, MOST) is None
    monkeypatch.setattr(searches, "MOST_SUM", 255 * 300 * factors.max() - 1)
    assert searches.multiples(weight, np.array([0, 0]), *options) is None


@pytest.mark.skipif(
    not kernel_set.HOST.MOST_FACTOR,
    reason="weights of this runway have no room for multiples",
)
def test_depthwise_layers_take_them(rng):
    weight = rng.integers(1, 128, (3, 1, 3, 3))
    bias = np.arange(3, dtype=np.int32)
    ratios = [Fraction(0.1234567) / n for n in (7, 11, 13)]
    many, wide, multipliers, limbs, _ = depthwise_constants(weight, bias, ratios, 9)
    factors = (many // weight)[:, 0, 0, 0]
    assert np.array_equal(many, weight * factors[:, None, None, None])
    assert np.array_equal(wide, bias * factors) and not limbs.any()
    assert np.allclose(multipliers * factors, [float(ratio) for ratio in ratios])
    ratios[2] = Fraction(2)  # ties are sums
    same, *_, limbs, _ = depthwise_constants(weight, bias, ratios, 9)
    assert same is weight and limbs.any(axis=1).all()
