"""The generic matrix products against the oracle."""

from fractions import Fraction

import numpy as np
import pytest
from support.each import each

from mdtensor.kernels.cpu.generic import matmul
from mdtensor.kernels.cpu.multipliers import NO_EXCEPTION_SUMS
from mdtensor.kernels.reference import matmul as oracle
from mdtensor.kernels.rescale import rescale

SHAPES = [(1, 1, 1), (3, 5, 2), (4, 4, 16), (7, 27, 8), (9, 30, 17), (33, 64, 40)]
FILL = {
    "any": (np.arange(256), np.arange(-128, 128)),
    "extreme": (np.array([0, 255]), np.array([-128, 127])),
    "largest": (np.array([255]), np.array([-128])),
    # odd sums: the first ones that float32 would lose beyond 2**24
    "odd": (np.array([255]), np.array([127])),
}


def case(rng, fill, m, k, n):
    """(a, weight, bias) of one kind in FILL."""
    codes, weights = FILL[fill]
    a = rng.choice(codes, (m, k)).astype(np.uint8)
    weight = rng.choice(weights, (n, k)).astype(np.int8)
    return a, weight, rng.integers(-5000, 5000, n)


def padded(values, n, dtype):
    wide = np.zeros((matmul.padded_columns(n), *values.shape[1:]), dtype)
    wide[: len(values)] = values
    return wide


def laid_out(a, lda):
    """The rows of `a` with a pitch of `lda` bytes, other bytes 170, and slack."""
    rows = np.full((len(a), lda), 170, np.uint8)
    rows[:, : a.shape[1]] = a
    return np.concatenate([rows.reshape(-1), np.full(64, 170, np.uint8)])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fill", FILL)
def test_exact_sums(rng, fill, shape):
    m, k, n = shape
    a, weight, bias = case(rng, fill, m, k, n)
    out = np.full(m * (n + 3), -7, np.int32)[: (m - 1) * (n + 3) + n]
    matmul.gemm_u8s8s32(
        *(laid_out(a, k + 2), k + 2, m, k, matmul.pack_s8(weight), n),
        *(padded(bias, n, np.int32), out, n + 3),
    )
    rows = np.append(out, [-7] * 3).reshape(m, n + 3)
    assert np.array_equal(rows[:, :n], oracle.gemm_u8s8s32(a, weight, bias))
    assert (rows[:, n:] == -7).all()


@each("ties", [False, True])
@each("shape", SHAPES)
@each("fill", FILL)
def test_rounded_codes(rng, fill, shape, ties):
    m, k, n = shape
    a, weight, bias = case(rng, fill, m, k, n)
    ratios = [Fraction(1, 2**9)] * n
    if not ties:
        steps = (rng.uniform(0.5, 1, n) / (100 * k**0.5)).astype(np.float32)
        ratios = [Fraction(float(step)) for step in steps]
    multiplier, limbs = rescale(ratios)
    out = np.zeros(m * n, np.uint8)
    matmul.gemm_u8s8u8(
        *(laid_out(a, k), k, m, k, matmul.pack_s8(weight), n),
        *(padded(bias, n, np.int32), padded(multiplier, n, np.float32)),
        *(padded(limbs, n, np.int64), NO_EXCEPTION_SUMS, 120, 3, 250, out, n),
    )
    want = oracle.gemm_u8s8u8(a, weight, bias, ratios, 120, 3, 250)
    assert np.array_equal(out.reshape(m, n), want)


@pytest.mark.parametrize("k", [512, 513, 1025])
def test_long_sums_stay_exact(rng, k):
    for fill in FILL:
        a, weight, bias = case(rng, fill, 2, k, 3)
        out = np.zeros(6, np.int32)
        matmul.gemm_u8s8s32(
            *(laid_out(a, k), k, 2, k, matmul.pack_s8(weight), 3),
            *(padded(bias, 3, np.int32), out, 3),
        )
        assert np.array_equal(out.reshape(2, 3), oracle.gemm_u8s8s32(a, weight, bias))
