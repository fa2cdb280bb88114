"""Layer norm and RMS norm of codes, against the oracle in exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.generic import normalization
from mdtensor.kernels.cpu.generic.row_limits import NORM_LENGTH
from mdtensor.kernels.cpu.program.norms import Normalize, exact_numbers
from mdtensor.kernels.reference.normalization import normalize_u8

#: ISAs whose kernels run here without emulation.
HERE = [name for name in isa.here() if not name.endswith(isa.EMULATED)]
KINDS = pytest.mark.parametrize("is_centered", [True, False])


def fractions(values):
    return [Fraction(float(v)) for v in values]


def drawn(rng, length):
    """Return float32 weights and biases in steps of a result."""
    weights = rng.normal(0, 40, length).astype(np.float32)
    biases = rng.normal(0, 30, length).astype(np.float32)
    weights[:1] = 0
    biases[1:2] = 0
    step = Fraction(float(np.float32(rng.uniform(0.3, 3))))
    return [[v / step for v in fractions(each)] for each in (weights, biases)]


@KINDS
@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("shape", [(1, 1), (7, 2), (5, 17), (3, 130)])
def test_random_codes(name, shape, is_centered, rng):
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    x[0] = 9
    rules = is_centered, 120, Fraction(1e-5) / Fraction(0.25) ** 2
    weights, biases = drawn(rng, shape[1])
    make = (Normalize, *rules, weights, biases, 100, (3, 250))
    step = kernel_set.make_on(kernel_set.kernels(name), *make)
    want = normalize_u8(x, *rules, weights, biases, 100, 3, 250)
    assert np.array_equal(step(x), want)
    assert step.output_shape(shape) == shape
    assert step.kernel == "normalize_u8" and step.bytes > 16 * shape[1]


@KINDS
def test_ties_are_exact(is_centered):
    """The roots are whole or rational here, and every second result is a tie."""
    rows = {True: ([0, 2], [0, 0, 2, 2], [5, 5, 7, 7]), False: ([3, 4], [1, 1], [6, 8])}
    for row in rows[is_centered]:
        n = len(row)
        x = np.array([row, row[::-1]], np.uint8)
        for eps in (Fraction(8), Fraction(3), Fraction(5, 4), Fraction(1, 10**30)):
            for numerator in range(-9, 10):
                weights = [Fraction(numerator, 2) + i for i in range(n)]
                biases = [Fraction(i, 2) - Fraction(numerator, 4) for i in range(n)]
                rules = is_centered, 0, eps, weights, biases, 128
                want = normalize_u8(x, *rules, 0, 255)
                assert np.array_equal(Normalize(*rules)(x), want)


@pytest.mark.parametrize("power", [0, 20, 60, 150])
def test_numbers_that_float64_does_not_tell_apart(power):
    """A bias a hair beside a tie decides the code, however near the hair is."""
    x = np.array([[4, 4, 4]], np.uint8)
    hair = Fraction(1, 2 ** (5 + power))
    biases = [Fraction(5, 2) - hair, Fraction(5, 2), Fraction(5, 2) + hair]
    step = Normalize(True, 0, Fraction(1), [Fraction(7)] * 3, biases)
    assert step(x).tolist() == [[2, 2, 3]]
    # The value is 3.5 - hair, from a large product and a large bias.
    far = Fraction(2) ** 60
    weights = [far, far, far]
    biases = [Fraction(7, 2) - far * s - hair for s in (1, 1, 1)]
    step = Normalize(False, 0, Fraction(3), weights, biases)
    x = np.array([[1, 1, 1]], np.uint8)
    want = normalize_u8(x, False, 0, Fraction(3), weights, biases, 0, 0, 255)
    assert np.array_equal(step(x), want)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_integers_alone_give_the_same_codes(data):
    """With a guard that sends every result to the integers."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    is_centered, length = data.draw(st.booleans()), data.draw(st.integers(1, 6))
    x = rng.integers(0, 256, (2, length), dtype=np.uint8)
    spread = Fraction(float(rng.uniform(0, 9)) + 1e-9)
    weights, biases = drawn(rng, length)
    numbers = exact_numbers(
        is_centered, spread * length ** (1 + is_centered), weights, biases
    )
    want = normalize_u8(x, is_centered, 7, spread, weights, biases, 90, 0, 255)
    squares, doubled, unit, pair, divisor = numbers
    for row, codes in zip(want, x.tolist(), strict=True):
        n, total = length, sum(codes)
        shift = total if is_centered else 7
        factor = n if is_centered else 1
        energy = sum((factor * c - shift) ** 2 for c in codes)
        energy = energy // n if is_centered else energy
        for column, code in enumerate(codes):
            d = factor * code - shift
            sign = (1 if d > 0 else -1) * (1 if weights[column] > 0 else -1)
            left = d * d * squares[column] * sign
            below = 0
            for k in range(-90, 165):
                tie = (2 * k + 1) * unit[0] - doubled[column]
                right = tie * abs(tie) * (energy * pair[0] + pair[1]) * divisor[0]
                below += left > right or (left == right and k % 2)
            assert row[column] == below


def test_every_result_can_be_settled_by_limbs(monkeypatch, rng):
    if not isa.IS_JIT_DISABLED:
        pytest.skip("compiled kernels have the guard as a constant")
    monkeypatch.setattr(normalization, "GUARD", 1e300)
    x = rng.integers(0, 256, (2, 5), dtype=np.uint8)
    weights, biases = drawn(rng, 5)
    for is_centered in (True, False):
        rules = is_centered, 3, Fraction(1, 7), weights, biases, 100
        want = normalize_u8(x, *rules, 0, 255)
        assert np.array_equal(Normalize(*rules)(x), want)


def test_limbs():
    limit = 1 << 24
    for a, b in ((0, 0), (1, 5), (2**47 - 1, 2**47 - 1), (2**71 + 3, 12345)):
        digits = [[n >> 24 * i & limit - 1 for i in range(4)] for n in (a, b)]
        first, second = (np.array(each, np.int64) for each in digits)
        out = np.full(9, 77, np.int64)
        normalization.multiply_limbs(first, second, out)
        assert sum(int(v) << 24 * i for i, v in enumerate(out)) == a * b
        normalization.add_limbs(first, out)
        assert sum(int(v) << 24 * i for i, v in enumerate(out)) == a * b + a
        assert normalization.compare_limbs(first, second) == (a > b) - (a < b)
        assert normalization.compare_limbs(out, first) == (a * b + a > a)
        for k in (-256, -1, 0, 255):
            tie = (2 * k + 1) * b - a
            side = normalization.tie_limbs(k, first, second, out[:5])
            assert side == (tie > 0) - (tie < 0)
            assert sum(int(v) << 24 * i for i, v in enumerate(out[:5])) == abs(tie)


@KINDS
def test_long_rows(is_centered, rng):
    length = 300 if isa.IS_JIT_DISABLED else 40_000
    x = np.zeros((2, length), np.uint8)
    x[:, : length // 2] = 255
    x[1] = rng.integers(0, 256, length)
    weights, biases = [Fraction(30)] * length, [Fraction(1, 3)] * length
    rules = is_centered, 255, Fraction(1, 1000)
    got = Normalize(*rules, weights, biases, 100)(x)
    few = [0, 1, length // 2, length - 1]
    codes = x.astype(np.int64)
    for row in range(2):
        mean = Fraction(int(codes[row].sum()), length) if is_centered else Fraction(255)
        square = sum(
            (int(c) - mean) ** 2 * int(m)
            for c, m in zip(*np.unique(codes[row], return_counts=True), strict=True)
        )
        root = float(square / length + rules[2]) ** 0.5
        for at in few:
            steps = float(codes[row, at] - mean) * 30 / root + 1 / 3
            assert got[row, at] == min(max(round(steps) + 100, 0), 255)


def test_what_is_not_compiled_raises():
    one = [Fraction(1)]
    for arguments, words in (
        ((True, 0, Fraction(0), one, one), "eps is 0"),
        ((True, 0, Fraction(1), [], []), "a row has 0 codes"),
        ((True, 0, Fraction(2) ** 400, one, one), "is outside"),
        ((True, 0, Fraction(1), [Fraction(1, 3**1600)], one), "is outside"),
        ((True, 0, Fraction(1), [1 + Fraction(1, 3**900)], one), "bits"),
    ):
        with pytest.raises(ValueError, match=words):
            Normalize(*arguments)
    long = [Fraction(1)] * (NORM_LENGTH + 1)
    with pytest.raises(ValueError, match="not 1 to"):
        Normalize(True, 0, Fraction(1), long, long)
    with pytest.raises(AssertionError, match="is not rows of"):
        Normalize(True, 0, Fraction(1), one * 2, one * 2).prepare((3, 3))
