"""The runways with own kernels give the bytes of exact integer arithmetic.

Those in `kernels/cpu/dot` are emulated where the CPU lacks them, which takes longer.
"""

import os
import re
import subprocess
import sys
from fractions import Fraction
from importlib import import_module

import numba
import numpy as np
import pytest
from numba.core import types
from support.exception_sums import excepting

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic import conv as generic_conv
from mdtensor.kernels.cpu.kernel_set import families
from mdtensor.kernels.cpu.multipliers import NO_EXCEPTION_SUMS, NONE
from mdtensor.kernels.cpu.program import Window
from mdtensor.kernels.reference import (
    elementwise as exact,
    elementwise as exact_reduction,
    requantize_s32u8,
)
from mdtensor.kernels.rescale import rescale, rescale_pair

#: Of the runways in `dot/` a process has one, emulated where the CPU lacks it.
DOT = isa.DOT_ISA if not isa.IS_EMULATED else None
RUNWAYS = [name for name in isa.NEEDED if not isa.lacking(name, isa.FEATURES)]
RUNWAYS = [n for n in RUNWAYS if n not in ("generic", *isa.DOT_ISAS) or n == DOT]
TESTED = list(RUNWAYS)
if DOT is None:
    name = isa.DOT_ISA
    TESTED.append(pytest.param(name, marks=pytest.mark.slow, id=f"{name}-emulated"))

if isa.IS_JIT_DISABLED:
    pytest.skip("the kernels are vectors of LLVM", allow_module_level=True)


@pytest.fixture(params=TESTED)
def kernels(request):
    return families(request.param)


@pytest.fixture
def matmul(kernels):
    return kernels.matmul


@pytest.fixture
def conv(kernels):
    return kernels.conv


@pytest.fixture
def elementwise(kernels):
    return kernels.elementwise


@pytest.fixture
def reduction(kernels):
    return kernels.reduction


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
    """round_half_even(acc * ratio) + zero_point, clamped, by Python's integers."""
    assert len(ratios) == accumulators.shape[-1]
    return requantize_s32u8(accumulators, ratios, zero_point, lo, hi)


GEMMS = [
    *((1, 8, 8), (2, 9, 2), (3, 5, 16), (4, 8, 24), (5, 36, 40), (17, 27, 104)),
    *((23, 13, 88), (50, 8, 22), (7, 200, 200), (33, 88, 48), (37, 7, 50), (16, 3, 1)),
    # long sums have narrow panels
    *((9, 257, 112), (25, 300, 160)),
]


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("ratio_kind", RATIOS)
@pytest.mark.parametrize(("m", "k", "n"), GEMMS)
def test_gemm_is_exact(matmul, m, k, n, ratio_kind, kind):
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
            *(NO_EXCEPTION_SUMS, zero_point, lo, hi, out, n),
        )
        codes = exact_codes(want, ratios, zero_point, lo, hi)
        assert np.array_equal(out[: m * n].reshape(m, n), codes)
        assert (out[m * n :] == 7).all()


#: Panels of all widths, and 9 rows of long sums behind tiles of 8.
MET = [(7, 21, 90), (24, 5, 16), (49, 260, 48), (33, 257, 70), (18, 300, 64)]


@pytest.mark.parametrize("share", [0, 0.05, 1])
@pytest.mark.parametrize(("m", "k", "n"), MET)
def test_gemm_meets_exceptions(matmul, m, k, n, share):
    packing = import_module(f"{matmul.__package__}.packing")
    # One module packs for several ISAs.
    packing = getattr(packing, "HERE", packing)
    if not packing.PRODUCTS_TAKE_EXCEPTION_SUMS:
        pytest.skip("sums near ties are looked for")
    rng = np.random.default_rng(m * k + n)
    a, w = draw(rng, "random", m * k + SLACK, n, k)
    bias = biases(rng, w, 120)
    want = a[: m * k].reshape(m, k).astype(np.int64) @ w.T.astype(np.int64) + bias[:n]
    for zero_point in (0, 131):
        ratios, multiplier, limbs, known = excepting(rng, want, zero_point, share)
        assert share == 0.05 or (known != NONE).any() == share
        wide = [np.zeros(len(bias), np.float32), np.full(len(bias), NONE, np.int32)]
        wide[0][:n], wide[1][:n] = multiplier, known
        out = np.full(m * n + SLACK, 7, np.uint8)
        matmul.gemm_u8s8u8(
            *(a, k, m, k, matmul.pack_s8(w), n, bias, wide[0], limbs, wide[1]),
            *(zero_point, 2, 251, out, n),
        )
        codes = exact_codes(want, ratios, zero_point, 2, 251)
        assert np.array_equal(out[: m * n].reshape(m, n), codes)
        assert (out[m * n :] == 7).all()


@pytest.mark.parametrize("width", range(1, 7))
def test_tiles_take_all_rows(width):
    from mdtensor.kernels.cpu.dot8 import matmul

    full = matmul.tile_rows(width)
    for m in range(1, 60):
        row, runs = 0, []
        while row < m:
            rows, first, tiles, apart = matmul.next_tiles(full, m, row, m)
            assert first <= row and tiles > 0
            row = first + rows * tiles if apart else row + 1
            assert row <= m
            runs.append((rows, tiles))
        if m == 49 and full == 8:
            assert runs == [(8, 5), (9, 1)]


def test_gemm_writes_rows_of_a_wider_matrix(matmul):
    rng = np.random.default_rng(0)
    m, k, n, pitch = 9, 12, 5, 11
    a, w = draw(rng, "random", m * k + SLACK, n, k)
    ratios, multiplier, limbs = scaling(rng, "any", n, k)
    bias = biases(rng, w, 0)
    out = np.full(m * pitch, 3, np.uint8)
    matmul.gemm_u8s8u8(
        *(a, k, m, k, matmul.pack_s8(w), n, bias, multiplier, limbs),
        *(NO_EXCEPTION_SUMS, 9, 4, 240, out, pitch),
    )
    want = a[: m * k].reshape(m, k).astype(np.int64) @ w.T.astype(np.int64) + bias[:n]
    got = out.reshape(m, pitch)
    assert np.array_equal(got[:, :n], exact_codes(want, ratios, 9, 4, 240))
    assert (got[:, n:] == 3).all()


@pytest.mark.parametrize("weight", [-128, 127])
def test_longest_sums_hold(matmul, weight):
    k, n = 65_793, 3  # k * 255 * 128 is 128 short of 2**31
    a, w = np.full(k + SLACK, 255, np.uint8), np.full((n, k), weight, np.int8)
    sums = np.zeros(n, np.int32)
    bias = np.zeros(16, np.int32)
    matmul.gemm_u8s8s32(a, k, 1, k, matmul.pack_s8(w), n, bias, sums, n)
    assert sums.tolist() == [k * 255 * weight] * n


@pytest.mark.parametrize("zero_point", [0, 131, 255])
@pytest.mark.parametrize("bits", [8, 19])
def test_sums_on_both_sides_of_a_tie(matmul, zero_point, bits):
    """256 neighbours around a tie in each column; bits = 19: sums beyond float32."""
    n, rng = 512, np.random.default_rng(zero_point)
    high = 2**35 + rng.integers(1, 2**13, n)  # float32 errs most just above 2**35
    ratios = [Fraction(int(p), 2 ** (36 + bits)) for p in high]
    multiplier, limbs = rescale(ratios)
    tie = rng.integers(1, 256, n) - zero_point - 0.5
    bias = (np.rint(tie * 2.0 ** (36 + bits) / high) - 128).astype(np.int32)
    a = np.append(np.arange(256), np.zeros(SLACK)).astype(np.uint8)
    out = np.zeros(256 * n, np.uint8)
    matmul.gemm_u8s8u8(
        *(a, 1, 256, 1, matmul.pack_s8(np.ones((n, 1), np.int8)), n, bias),
        *(multiplier, limbs, NO_EXCEPTION_SUMS, zero_point, 0, 255, out, n),
    )
    product = (bias + np.arange(256)[:, None]) * high
    whole, rest = product >> (36 + bits), product % 2 ** (36 + bits)
    half = 2 ** (35 + bits)
    rounded = whole + ((rest > half) | ((rest == half) & (whole % 2 == 1)))
    want = np.clip(rounded + zero_point, 0, 255)
    assert np.array_equal(out.reshape(256, n), want)


@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(7), Fraction(2**15, 3)])
def test_sums_far_beyond_the_codes_saturate(matmul, ratio):
    m, k, n = 13, 40, 20
    rng = np.random.default_rng(3)
    a, w = draw(rng, "random", m * k + SLACK, n, k)
    bias = biases(rng, w, 3)
    multiplier, limbs = np.zeros(32, np.float32), np.zeros((32, 8), np.int64)
    multiplier[:n], limbs[:n] = rescale([ratio] * n)
    out = np.zeros(m * n, np.uint8)
    matmul.gemm_u8s8u8(
        *(a, k, m, k, matmul.pack_s8(w), n, bias, multiplier, limbs),
        *(NO_EXCEPTION_SUMS, 9, 0, 255, out, n),
    )
    sums = a[: m * k].reshape(m, k).astype(np.int64) @ w.T.astype(np.int64) + bias[:n]
    want = exact_codes(sums, [ratio] * n, 9, 0, 255)
    assert np.array_equal(out.reshape(m, n), want)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 8, 16), (3, 0, 5), (3, 8, 0)])
def test_gemm_of_nothing(matmul, m, k, n):
    a, w = np.full(m * k + SLACK, 255, np.uint8), np.ones((n, k), np.int8)
    bias, sums = np.full(16, 9, np.int32), np.full(SLACK, 7, np.int32)
    matmul.gemm_u8s8s32(a, k, m, k, matmul.pack_s8(w), n, bias, sums, n)
    assert (sums[: m * n] == 9).all() and (sums[m * n :] == 7).all()
    scales = np.ones(16, np.float32), np.ones((16, 8), np.int64)
    codes = np.full(SLACK, 7, np.uint8)
    matmul.gemm_u8s8u8(
        *(a, k, m, k, matmul.pack_s8(w), n, bias, *scales, NO_EXCEPTION_SUMS),
        *(1, 0, 255, codes, n),
    )
    assert (codes[: m * n] == 10).all() and (codes[m * n :] == 7).all()


# (h, w, c), (kh, kw), strides, (top, left, bottom, right), dilations
DEPTHWISE = [
    ((3, 7, 8), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((5, 20, 24), (3, 3), (2, 1), (1, 1, 1, 1), (1, 1)),
    ((8, 30, 8), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((4, 33, 40), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((2, 17, 17), (5, 5), (2, 1), (2, 2, 2, 2), (1, 1)),
    ((9, 9, 16), (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    ((6, 35, 20), (5, 5), (1, 2), (1, 2, 2, 1), (1, 1)),
    ((6, 8, 33), (5, 3), (1, 2), (2, 0, 2, 0), (1, 1)),
    ((1, 1, 3), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((3, 6, 4), (1, 3), (1, 1), (0, 1, 0, 1), (1, 1)),
    ((5, 9, 5), (2, 7), (1, 3), (1, 2, 0, 3), (1, 1)),
    ((9, 21, 18), (4, 4), (3, 3), (1, 1, 1, 1), (1, 1)),
    ((9, 20, 7), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    ((7, 18, 19), (3, 5), (2, 2), (3, 4, 1, 5), (3, 2)),
    ((4, 5, 2), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    # the first image row under the kernel goes up: rows 1, 0; 1, 0, 1, 0; 2, 1, 0
    ((2, 3, 2), (2, 1), (1, 1), (1, 0, 0, 0), (2, 1)),
    ((9, 7, 5), (3, 3), (1, 1), (3, 1, 2, 1), (2, 1)),
    ((8, 19, 17), (4, 3), (2, 2), (4, 2, 4, 2), (3, 2)),
    # blocks of channels take some tiles of a row in turns
    ((2, 101, 72), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((3, 99, 68), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    # more than one strip of transposed rows
    ((80, 61, 2), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((70, 60, 1), (5, 3), (3, 2), (6, 2, 9, 2), (2, 1)),
    ((70, 60, 1), (3, 5), (1, 1), (4, 2, 9, 2), (3, 1)),
    # lines of addresses that are found for some rows and then for others
    ((301, 27, 3), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((610, 21, 1), (5, 3), (2, 1), (4, 1, 5, 1), (2, 1)),
    ((420, 13, 2), (3, 3), (1, 1), (150, 1, 150, 1), (170, 1)),
]


def window(image, kernel, strides, padding, dilations):
    """Return the Window of a convolution."""
    sizes = [
        (size + before + after - (taps - 1) * dilation - 1) // stride + 1
        for size, before, after, taps, dilation, stride in zip(
            image[:2], padding[:2], padding[2:], kernel, dilations, strides, strict=True
        )
    ]
    return Window(*image, *kernel, *strides, *padding[:2], *dilations, *sizes)


def exact_depthwise(x, weights, bias, geometry, x_zero_point):
    """Accumulators int64 [oh, ow, c], one tap after the other."""
    h, w, c, kh, kw, sh, sw, top, left, dh, dw, oh, ow = geometry
    sums = np.tile(bias[:c].astype(np.int64), (oh, ow, 1))
    for y, x0, i, j in np.ndindex(oh, ow, kh, kw):
        row, column = y * sh - top + i * dh, x0 * sw - left + j * dw
        is_inside = 0 <= row < h and 0 <= column < w
        pixel = x[row, column] if is_inside else np.full(c, x_zero_point)
        sums[y, x0] += pixel.astype(np.int64) * weights[:, i, j].astype(np.int64)
    return sums


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("ratio_kind", RATIOS)
@pytest.mark.parametrize("shape", DEPTHWISE)
def test_depthwise_is_exact(conv, shape, ratio_kind, kind):
    geometry = window(*shape)
    (h, w, c), (kh, kw) = shape[:2]
    rng = np.random.default_rng(h * w + c)
    x, weights = draw(rng, kind, h * w * c, c, kh * kw)
    bias = biases(rng, weights, 77)
    ratios, multiplier, limbs = scaling(rng, ratio_kind, c, kh * kw)
    weights = weights.reshape(c, kh, kw)
    packed = conv.pack_depthwise(weights)
    want = exact_depthwise(x.reshape(h, w, c), weights, bias, geometry, 77)

    sums = np.full(want.size + SLACK, 7, np.int32)
    conv.depthwise_u8s8s32(x, geometry, c, packed, bias, 77, sums)
    assert np.array_equal(sums[: want.size].reshape(want.shape), want)
    assert (sums[want.size :] == 7).all()

    for zero_point, lo, hi in ((0, 0, 255), (131, 5, 250)):
        out = np.full(want.size + SLACK, 7, np.uint8)
        conv.depthwise_u8s8u8(
            *(x, geometry, c, packed, bias, multiplier, limbs),
            *(NO_EXCEPTION_SUMS, 77, zero_point, lo, hi, out),
        )
        codes = exact_codes(want, ratios, zero_point, lo, hi)
        assert np.array_equal(out[: want.size].reshape(want.shape), codes)
        assert (out[want.size :] == 7).all()


#: The kernel that runs tiles of products, with its integers beside the float; the
#: instruction of the inner loop, its registers, and how many all tiles have.
SHAPES = 24, 12 * 2, 9 * 3, 8 * 3, 6 * 4, 5 * 5, 4 * 6, 4, 4 * 2, 4 * 3, 4 * 4, 4 * 5
INNER = {
    "vnni": ("run_tiles", (11, 1), "vpdpbusd", "zmm", 3 * sum(SHAPES)),
    "avx512": ("run_tiles", (11, 1), "vpmaddwd", "zmm", 6 * sum(SHAPES)),
    "avxvnni": ("run_tiles", (11, 1), "vpdpbusd", "ymm", 3 * 8),
    # one instruction with the addition, where a CPU has it
    "avx2": ("run_tiles_u8", (11, 0), "vpmaddwd|vpdpwssd", "ymm", 16 + 4 + 16 + 8 + 16),
    "neon": ("run_tiles", (11, 1), "sdot", ".4s", 3 * 16),
}


@pytest.mark.parametrize("name", RUNWAYS)
def test_gemm_uses_the_dot_product_on_full_vectors(name):
    kernel, (before, after), instruction, register, count = INNER[name]
    whole, real = types.int64, types.float32
    job = types.Tuple([*[whole] * before, real, *[whole] * after])
    fresh = numba.njit(getattr(families(name).matmul, kernel).py_func)
    fresh.compile((whole, whole, job))
    text = "\n".join(fresh.inspect_asm().values())
    dots = [line for line in text.splitlines() if re.search(instruction, line)]
    assert sum(register in line for line in dots) >= count


def fraction(value):
    return Fraction(float(np.float32(value)))


EVERY_PAIR = np.indices((256, 256)).reshape(2, -1).astype(np.uint8)
# lengths around whole chunks of 64
LENGTHS = (1, 63, 64, 65, 200, 640, 1024, 2087)


@pytest.mark.parametrize("grid", [(0, 3, 128, 0, 255), (9, 255, 0, 7, 201)])
@pytest.mark.parametrize(
    "ratios",
    [
        *[(0.7, 0.9), (0.5, 0.25), (1.0, 1.0), (0.013, 2.1), (1.7e-5, 0.99)],
        *[(9e4, 8e4), (255.3, 254.9), (200, 1e-9), (0.02 / 0.06, 0.05 / 0.06)],
    ],
)
def test_every_sum_is_exact(elementwise, ratios, grid):
    za, zb, zero_point, lo, hi = grid
    a, b = EVERY_PAIR
    ratios = [fraction(ratio) for ratio in ratios]
    out = np.empty_like(a)
    constants = rescale_pair(*ratios)
    elementwise.add_u8u8u8(a, b, za, zb, *constants, zero_point, lo, hi, out)
    want = exact.add_u8u8u8(a, b, ratios, (za, zb), zero_point, lo, hi)
    assert np.array_equal(out, want)


@pytest.mark.parametrize("grid", [(0, 3, 128, 0, 255), (9, 255, 0, 7, 201)])
@pytest.mark.parametrize("ratio", [0.0041, 0.012, 2**-8, 1.0, 1 / 3, 3.1e-5, 31, 77.7])
def test_every_product_is_exact(elementwise, ratio, grid):
    za, zb, zero_point, lo, hi = grid
    a, b = EVERY_PAIR
    ratio = fraction(ratio)
    want = exact.mul_u8u8u8(a, b, ratio, (za, zb), zero_point, lo, hi)
    codes = np.arange(256, dtype=np.uint8)
    for x, y, is_broadcast in ((a, b, False), (a, codes, True)):
        out = np.empty_like(a)
        elementwise.mul_u8u8u8(
            *(x, y, 256, 256, is_broadcast, za, zb, *rescale([ratio])),
            *(zero_point, lo, hi, out),
        )
        assert np.array_equal(out, want)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_that_are_no_whole_chunks(elementwise, length, rng):
    a, b = rng.integers(0, 256, (2, length)).astype(np.uint8)
    table = rng.permutation(256).astype(np.uint8)
    one, pair = Fraction(1, 256), (Fraction(1, 2), Fraction(1, 4))
    wants = (
        table[a],
        exact.add_u8u8u8(a, b, pair, (3, 4), 50, 0, 255),
        exact.mul_u8u8u8(a, b, one, (3, 4), 50, 0, 255),
    )
    got = np.full((3, length + SLACK), 7, np.uint8)
    elementwise.lookup_u8(a, table, got[0, :length])
    constants = rescale_pair(*pair)
    elementwise.add_u8u8u8(a, b, 3, 4, *constants, 50, 0, 255, got[1, :length])
    elementwise.mul_u8u8u8(
        *(a, b, 1, length, False, 3, 4, *rescale([one]), 50, 0, 255, got[2])
    )
    assert np.array_equal(got[:, :length], wants)
    assert (got[:, length:] == 7).all()


@pytest.mark.parametrize("c", [1, 3, 8, 24, 50, 64, 88, 200])
def test_products_with_a_factor_per_channel(elementwise, c, rng):
    a = rng.integers(0, 256, (37, c)).astype(np.uint8)
    b = rng.integers(0, 256, c).astype(np.uint8)
    for ratio in (Fraction(1, 128), fraction(0.0047)):
        out = np.full(a.size + SLACK, 7, np.uint8)
        elementwise.mul_u8u8u8(
            *(a.reshape(-1), b, 37, c, True, 3, 0, *rescale([ratio]), 9, 0, 255, out)
        )
        want = exact.mul_u8u8u8(a, b, ratio, (3, 0), 9, 0, 255)
        assert np.array_equal(out[: a.size].reshape(a.shape), want)
        assert (out[a.size :] == 7).all()


@pytest.mark.parametrize("p", [1, 7, 192, 2304])
@pytest.mark.parametrize("c", [1, 3, 8, 24, 50, 64, 88, 200])
def test_mean_is_exact(reduction, p, c, rng):
    x = rng.integers(0, 256, (1, p, c)).astype(np.uint8)
    for ratio in (Fraction(1), fraction(1.37)):
        out = np.full(c + SLACK, 7, np.uint8)
        constants = rescale([ratio / p])
        reduction.mean_u8u8(x.reshape(-1), p, c, 120, *constants, 128, 0, 255, out[:c])
        want = exact_reduction.mean_u8u8(x, ratio, 120, 128, 0, 255)
        assert np.array_equal(out[:c], want.reshape(c))
        assert (out[c:] == 7).all()


def floats_to_quantize(rng, count, scale):
    """Random values, values on and beside ties, and what is not a usual number."""
    x = (rng.standard_normal(count) * 90 * scale).astype(np.float32)
    ties = (np.arange(200, dtype=np.float32) - np.float32(99.5)) * np.float32(scale)
    around = [np.nextafter(ties, np.float32(edge)) for edge in (-np.inf, np.inf)]
    odd = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 1e-40]
    values = np.concatenate([ties, *around, np.array(odd, np.float32)])
    x[: min(count, len(values))] = values[:count]
    return x


@pytest.mark.parametrize("scale", [0.0123, 1.0, 1 / 3, 1e-33, 3e33])
def test_quantize_is_exact(elementwise, scale, rng):
    scale = float(np.float32(scale))
    x = floats_to_quantize(rng, 777, scale)
    out = np.full(777 + SLACK, 7, np.uint8)
    elementwise.quantize_f32u8(x, scale, 100, 3, 251, out[:777])
    assert np.array_equal(out[:777], exact.quantize_f32u8(x, scale, 100, 3, 251))
    assert (out[777:] == 7).all()


@pytest.mark.parametrize("scale", [0.0123, 0.25, 1e-33])
def test_quantize_says_whether_there_is_a_nan(elementwise, scale):
    x = np.zeros(333, np.float32)
    x[:9] = [3e38, -3e38, np.inf, -np.inf, -1e-40, scale * 1.5, -scale * 40000, 9e9, 1]
    out = np.empty(333, np.uint8)
    rest = float(np.float32(scale)), 100, 3, 251, out
    assert not elementwise.quantize_f32u8(x, *rest)
    for place in (0, 31, 63, 64, 319, 320, 332):
        y = x.copy()
        y[place] = np.nan
        assert elementwise.quantize_f32u8(y, *rest)
        assert out[place] == 100


@pytest.mark.parametrize(
    ("c", "cp"), [(1, 1), (1, 3), (1, 4), (1, 5), (3, 3), (3, 4), (3, 5)]
)
def test_quantize_interleaves_planes(elementwise, c, cp, rng):
    scale = float(np.float32(0.0123))
    pixels = 7 * 31
    x = floats_to_quantize(rng, c * pixels, scale)
    out = np.full(pixels * cp + SLACK, 7, np.uint8)
    elementwise.quantize_nchw_f32u8(
        *(x, c, pixels, cp, scale, 100, 3, 251, out[: pixels * cp])
    )
    image = x.reshape(1, c, 7, 31)
    want = exact.quantize_nchw_f32u8(image, cp, scale, 100, 3, 251)
    assert np.array_equal(out[: pixels * cp], want.reshape(-1))
    assert (out[pixels * cp :] == 7).all()


@pytest.mark.parametrize("shape", DEPTHWISE)
def test_im2col(conv, shape, rng):
    geometry = window(*shape)
    c, taps = shape[0][2], geometry.kernel_h * geometry.kernel_w
    x = rng.integers(0, 256, shape[0]).astype(np.uint8)
    for first, channels in ((0, c), (c // 2, c - c // 2)):
        k = taps * channels
        for pitch in (k, conv.im2col_pitch(k), k + 5):
            shape = geometry.out_h * geometry.out_w, pitch
            want, size = np.empty(shape, np.uint8), shape[0] * pitch
            given = (x.reshape(-1), geometry, first, channels, 77, pitch)
            generic_conv.im2col_u8(*given, want.reshape(-1))
            out = np.full(size + SLACK, 7, np.uint8)
            conv.im2col_u8(*given, out)
            rows = out[:size].reshape(shape)
            assert np.array_equal(rows[:, :k], want[:, :k])
            assert (out[size:] == 7).all()


OTHERS = [name for name in isa.DOT_ISAS if name != isa.DOT_ISA]


@pytest.mark.parametrize("name", OTHERS)
def test_a_process_has_one_of_them(name):
    with pytest.raises(ValueError, match=f"{name}: this process has {isa.DOT_ISA}"):
        families(name)


@pytest.mark.slow
@pytest.mark.skipif("MDTENSOR_ISA" in os.environ, reason="one of these processes")
@pytest.mark.parametrize("name", OTHERS)
def test_other_runways_emulated(name):
    """This file for each of them, in a process that has it."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "slow", __file__],
        env=os.environ | {"MDTENSOR_ISA": name + isa.EMULATED},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
