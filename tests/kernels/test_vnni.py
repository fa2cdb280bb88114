"""The AVX-512 VNNI runway gives the bytes of exact integer arithmetic."""

from fractions import Fraction

import numba
import numpy as np
import pytest

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.rescale import rescale

if isa.RUNWAY != "vnni":
    pytest.skip(f"no VNNI runway here: {isa.REASON}", allow_module_level=True)

from mdtensor.kernels.cpu.vnni import matmul

CODES = {
    "random": (np.arange(256), np.arange(-128, 128)),
    "extreme": (np.array([0, 255]), np.array([-128, 127])),
}
RATIOS = ("any", "ties")
SLACK = 64


def draw(rng, kind, count, channels, taps):
    """(activations [count], weights [channels, taps]) of one kind in CODES."""
    unsigned, signed = CODES[kind]
    weights = rng.choice(signed, (channels, taps)).astype(np.int8)
    return rng.choice(unsigned, count).astype(np.uint8), weights


def scaling(rng, kind, channels, taps):
    """(ratios, multiplier, limbs), the arrays padded to whole vectors of 16."""
    if kind == "ties":
        ratios = [Fraction(1, 2 ** int(rng.integers(5, 12))) for _ in range(channels)]
    else:
        near = 0.01 / taps**0.5
        scales = rng.uniform(near / 2, near * 2, channels).astype(np.float32)
        ratios = [Fraction(float(scale)) for scale in scales]
    padded = -(-channels // 16) * 16
    multiplier = np.zeros(padded, np.float32)
    limbs = np.zeros((padded, 8), np.int64)
    multiplier[:channels], limbs[:channels] = rescale(ratios)
    return ratios, multiplier, limbs


def biases(rng, weights, x_zero_point):
    """bias - x_zero_point * sum of weights, padded to whole vectors of 16."""
    channels = len(weights)
    bias = np.zeros(-(-channels // 16) * 16, np.int32)
    bias[:channels] = rng.integers(-3000, 3000, channels)
    bias[:channels] -= x_zero_point * weights.astype(np.int32).sum(1)
    return bias


def exact_codes(accumulators, ratios, zero_point, lo, hi):
    """round_half_even(acc * ratio) + zero_point, clamped, by Python's Fractions."""
    values = np.empty(accumulators.shape, np.uint8)
    for place, accumulator in np.ndenumerate(accumulators):
        rounded = round(int(accumulator) * ratios[place[-1]])
        values[place] = min(max(rounded + zero_point, lo), hi)
    return values


GEMMS = [
    *((1, 8, 8), (2, 9, 2), (3, 5, 16), (4, 8, 24), (5, 36, 40), (17, 27, 104)),
    *((23, 13, 88), (50, 8, 22), (7, 200, 200), (33, 88, 48), (37, 7, 50), (16, 3, 1)),
]


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("ratio_kind", RATIOS)
@pytest.mark.parametrize(("m", "k", "n"), GEMMS)
def test_gemm_is_exact(m, k, n, ratio_kind, kind):
    rng = np.random.default_rng(m * k + n)
    pitch = k + 3
    a, w = draw(rng, kind, m * pitch + SLACK, n, k)
    bias = biases(rng, w, 120)
    ratios, multiplier, limbs = scaling(rng, ratio_kind, n, k)
    packed = matmul.pack_s8(w)
    rows = a[: m * pitch].reshape(m, pitch)[:, :k].astype(np.int64)
    want = rows @ w.T.astype(np.int64) + bias[:n]

    sums = np.full(m * n + SLACK, 7, np.int32)
    matmul.gemm_u8s8s32(a, pitch, m, k, packed, n, bias, sums, n)
    assert np.array_equal(sums[: m * n].reshape(m, n), want)
    assert (sums[m * n :] == 7).all()

    for zero_point, lo, hi in ((0, 0, 255), (131, 5, 250)):
        out = np.full(m * n + SLACK, 7, np.uint8)
        matmul.gemm_u8s8u8(
            *(a, pitch, m, k, packed, n, bias, multiplier, limbs),
            *(zero_point, lo, hi, out, n),
        )
        codes = exact_codes(want, ratios, zero_point, lo, hi)
        assert np.array_equal(out[: m * n].reshape(m, n), codes)
        assert (out[m * n :] == 7).all()


def test_gemm_writes_rows_of_a_wider_matrix():
    rng = np.random.default_rng(0)
    m, k, n, pitch = 9, 12, 5, 11
    a, w = draw(rng, "random", m * k + SLACK, n, k)
    ratios, multiplier, limbs = scaling(rng, "any", n, k)
    bias = biases(rng, w, 0)
    out = np.full(m * pitch, 7, np.uint8)
    matmul.gemm_u8s8u8(
        *(a, k, m, k, matmul.pack_s8(w), n, bias, multiplier, limbs),
        *(9, 0, 255, out, pitch),
    )
    want = a[: m * k].reshape(m, k).astype(np.int64) @ w.T.astype(np.int64) + bias[:n]
    got = out.reshape(m, pitch)
    assert np.array_equal(got[:, :n], exact_codes(want, ratios, 9, 0, 255))
    assert (got[:, n:] == 7).all()


def assembly(kernel, *arguments):
    """The machine code of `kernel` for these arguments (compiled anew, no cache)."""
    fresh = numba.njit(kernel.py_func)
    fresh(*arguments)
    return "\n".join(fresh.inspect_asm().values())


def test_gemm_uses_the_dot_product_on_full_vectors():
    rng = np.random.default_rng(1)
    a, w = draw(rng, "random", 8 * 8 + SLACK, 16, 8)
    _, multiplier, limbs = scaling(rng, "any", 16, 8)
    text = assembly(
        matmul.gemm_u8s8u8,
        *(a, 8, 8, 8, matmul.pack_s8(w), 16, biases(rng, w, 0), multiplier, limbs),
        *(0, 0, 255, np.zeros(8 * 16, np.uint8), 16),
    )
    dots = [line for line in text.splitlines() if "vpdpbusd" in line]
    assert sum("zmm" in line for line in dots) >= 16 + 4 + 16 + 8 + 16
