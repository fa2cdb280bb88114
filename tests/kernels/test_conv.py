"""The generic convolutions against the oracle."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu import conv
from mdtensor.kernels.cpu.steps import window
from mdtensor.kernels.reference import conv as oracle
from mdtensor.kernels.rescale import rescale

# (h, w, c), kernel, stride, padding, dilation
CASES = [
    ((6, 9, 8), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((7, 10, 24), (5, 5), (2, 1), (2, 2, 2, 2), (1, 1)),
    ((9, 8, 3), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((8, 11, 70), (3, 2), (1, 3), (1, 0, 2, 1), (2, 2)),
    ((2, 12, 5), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((5, 5, 4), (1, 1), (1, 2), (0, 3, 0, 0), (1, 1)),
    ((4, 3, 2), (3, 5), (1, 1), (3, 5, 3, 5), (1, 1)),
]


def options(case):
    _, _, stride, padding, dilation = case
    return {"stride": stride, "padding": padding, "dilation": dilation}


def geometry(case):
    return np.array(window((1, *case[0]), *case[1:]), np.int64)


@pytest.mark.parametrize("case", CASES)
def test_im2col(rng, case):
    x = rng.integers(0, 256, (1, *case[0]), dtype=np.uint8)
    want = oracle.im2col_u8(x, *case[1:], 9)
    out = np.zeros(want.size, np.uint8)
    conv.im2col_u8(x.reshape(-1), geometry(case), 0, case[0][2], 9, out)
    assert np.array_equal(out.reshape(want.shape), want)


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_depthwise(rng, case, extreme):
    (h, w, c), (kh, kw) = case[:2]
    codes, weights = (
        ([0, 255], [-128, 127]) if extreme else (range(256), range(-128, 128))
    )
    x = rng.choice(codes, (1, h, w, c)).astype(np.uint8)
    weight = rng.choice(weights, (c, kh, kw)).astype(np.int8)
    bias = rng.integers(-3000, 3000, c).astype(np.int32)
    shifted = (bias - 37 * weight.astype(np.int64).sum(axis=(1, 2))).astype(np.int32)
    packed, flat = conv.pack_depthwise_s8(weight), x.reshape(-1)
    rules = {**options(case), "x_zero_point": 37}
    want = oracle.depthwise_u8s8s32(x, weight, bias, **rules)
    sums = np.zeros(want.size, np.int32)
    conv.depthwise_u8s8s32(flat, geometry(case), c, packed, shifted, 37, sums)
    assert np.array_equal(sums, want.reshape(-1))

    steps = (rng.uniform(0.5, 1, c) / 300).astype(np.float32)
    ratios = [Fraction(1, 128), *(Fraction(float(s)) for s in steps[1:])]
    multiplier, limbs = rescale(ratios)
    out = np.zeros(want.size, np.uint8)
    conv.depthwise_u8s8u8(
        *(flat, geometry(case), c, packed, shifted, multiplier, limbs),
        *(37, 99, 2, 251, out),
    )
    want = oracle.depthwise_u8s8u8(x, weight, bias, ratios, 99, 2, 251, **rules)
    assert np.array_equal(out, want.reshape(-1))
