"""Elementwise kernels against the oracle, over all 65,536 pairs of codes."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic import elementwise
from mdtensor.kernels.reference import elementwise as oracle
from mdtensor.kernels.rescale import rescale, rescale_pair

# As Python a pair takes 60 µs, so of the first codes every fifth is enough there: the
# compiled kernels get all pairs.
FIRST = np.arange(0, 256, 5 if isa.IS_JIT_DISABLED else 1)
PAIRS = np.meshgrid(FIRST, np.arange(256), indexing="ij")
A, B = (codes.astype(np.uint8).reshape(-1) for codes in PAIRS)


def step(value):
    return Fraction(float(np.float32(value)))


# powers of two make the most ties
ADDS = {
    "generic": (step(0.02) / step(0.06), step(0.05) / step(0.06)),
    "quarters": (Fraction(1, 2), Fraction(3, 4)),
    "thirds": (Fraction(1, 3), Fraction(1, 6)),
    "unequal": (step(0.9) / step(0.001), step(0.0003) / step(0.001)),
    "guarded": (Fraction(20001, 2), Fraction(20000, 3)),
}
MULS = {
    "generic": step(0.02) * step(0.05) / step(0.11),
    "power": Fraction(1, 128),
    "half": Fraction(1, 2),
    "tiny": step(1e-5),
    "third": Fraction(1, 30),
}


@pytest.mark.parametrize("name", ADDS)
def test_add(name):
    multipliers, limbs, guard = rescale_pair(*ADDS[name])
    out = np.empty_like(A)
    elementwise.add_u8u8u8(A, B, 128, 7, multipliers, limbs, guard, 100, 1, 254, out)
    want = oracle.add_u8u8u8(A, B, ADDS[name], (128, 7), 100, 1, 254)
    assert np.array_equal(out, want)


@pytest.mark.parametrize("name", MULS)
def test_mul(name):
    multiplier, limbs = rescale([MULS[name]])
    want = oracle.mul_u8u8u8(A, B, MULS[name], (100, 3), 90, 0, 253)
    out = np.empty_like(A)
    rest = (100, 3, multiplier, limbs, 90, 0, 253)
    elementwise.mul_u8u8u8(A, B, len(FIRST), 256, False, *rest, out)
    assert np.array_equal(out, want)
    row = np.arange(256, dtype=np.uint8)
    elementwise.mul_u8u8u8(A, row, len(FIRST), 256, True, *rest, out)
    assert np.array_equal(out, want)


@pytest.mark.parametrize(("p", "c"), [(1, 1), (5, 3), (700, 7), (3, 1500)])
def test_mul_by_a_factor_per_channel(rng, p, c):
    a = rng.integers(0, 256, (p, c), dtype=np.uint8)
    b = rng.integers(0, 256, c, dtype=np.uint8)
    multiplier, limbs = rescale([Fraction(1, 64)])
    out = np.empty(p * c, np.uint8)
    elementwise.mul_u8u8u8(
        a.reshape(-1), b, p, c, True, 9, 128, multiplier, limbs, 5, 0, 255, out
    )
    want = oracle.mul_u8u8u8(a, b, Fraction(1, 64), (9, 128), 5, 0, 255)
    assert np.array_equal(out, want.reshape(-1))


def test_lookup(rng):
    table = rng.integers(0, 256, 256, dtype=np.uint8)
    for x in (np.arange(256, dtype=np.uint8), A[:1001]):
        out = np.empty_like(x)
        elementwise.lookup_u8(x, table, out)
        assert np.array_equal(out, oracle.lookup_u8(x, table))


@pytest.mark.parametrize("scale", [0.1, 0.25, 0.5, 7 / 32, 49 / 512, 103 / 1024])
def test_quantize(rng, scale):
    scale = np.float32(scale)
    # with scales of few bits every half is met exactly, and most reciprocals are not
    halves = (np.arange(-300, 300) + 0.5) * scale
    odd = [np.nan, np.inf, -np.inf, 3e38, 1e-45, -0.0]
    x = np.concatenate([halves, rng.normal(0, 20, 999), odd]).astype(np.float32)
    out = np.empty(x.size, np.uint8)
    elementwise.quantize_f32u8(x, scale, 128, 0, 255, out)
    want = oracle.quantize_f32u8(x, float(scale), 128, 0, 255)
    assert np.array_equal(out, want)


def test_quantize_to_channels_last(rng):
    x = rng.normal(0, 3, (1, 3, 5, 7)).astype(np.float32)
    out = np.empty(35 * 4, np.uint8)
    elementwise.quantize_nchw_f32u8(x.reshape(-1), 3, 35, 4, 0.05, 60, 0, 255, out)
    want = oracle.quantize_nchw_f32u8(x, 4, 0.05, 60, 0, 255)
    assert np.array_equal(out, want.reshape(-1))


def test_dequantize():
    codes = np.arange(256, dtype=np.uint8)
    out = np.empty(256, np.float32)
    elementwise.dequantize_u8f32(codes, np.float32(0.1), 77, out)
    assert np.array_equal(out, oracle.dequantize_u8f32(codes, 0.1, 77))
