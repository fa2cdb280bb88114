"""The convolutions of both runways against the oracle."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.each import each
from support.exception_sums import excepting
from support.windows import draw_window

from mdtensor.kernels.cpu import isa, kernel_set, multipliers as searches
from mdtensor.kernels.cpu.generic import conv
from mdtensor.kernels.cpu.generic.conv import window
from mdtensor.kernels.cpu.multipliers import NO_EXCEPTION_SUMS, NONE
from mdtensor.kernels.reference import conv as oracle
from mdtensor.kernels.rescale import rescale

HERE = Path(__file__).parent

RUNWAYS = {"generic": conv, isa.ISA: kernel_set.families(isa.ISA).conv}
SLACK = 64
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
    return window((1, *case[0]), *case[1:])


@pytest.mark.parametrize("case", CASES)
def test_im2col(rng, case):
    x = rng.integers(0, 256, (1, *case[0]), dtype=np.uint8)
    want = oracle.im2col_u8(x, *case[1:], 9)
    pitch = want.shape[-1] + 3
    out = np.zeros((want.size // want.shape[-1], pitch), np.uint8)
    arguments = geometry(case), 0, case[0][2], 9, pitch
    conv.im2col_u8(x.reshape(-1), *arguments, out.reshape(-1))
    assert np.array_equal(out[:, :-3].reshape(want.shape), want)


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_depthwise(rng, case, extreme):
    (h, w, c), (kh, kw) = case[:2]
    codes, weights = (
        ([0, 255], [-256, 255]) if extreme else (range(256), range(-128, 128))
    )
    x = rng.choice(codes, (1, h, w, c)).astype(np.uint8)
    weight = rng.choice(weights, (c, kh, kw))
    bias = rng.integers(-3000, 3000, c).astype(np.int32)
    shifted = (bias - 37 * weight.sum(axis=(1, 2))).astype(np.int32)
    packed, flat = conv.pack_depthwise(weight), x.reshape(-1)
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
        *(NO_EXCEPTION_SUMS, 37, 99, 2, 251, out),
    )
    want = oracle.depthwise_u8s8u8(x, weight, bias, ratios, 99, 2, 251, **rules)
    assert np.array_equal(out, want.reshape(-1))


def between_margins(flat, fill):
    """A copy of `flat` with SLACK elements `fill` on either side."""
    padded = np.full(flat.size + 2 * SLACK, fill, flat.dtype)
    middle = padded[SLACK:-SLACK]
    middle[:] = flat
    return padded, middle


def check(want, flat, kernel, *arguments):
    """`kernel(x, *arguments, out)` is `want` whatever lies around x, and no more."""
    for fill in (0, 255):
        out, middle = between_margins(np.full(want.size, 7, want.dtype), fill)
        kernel(between_margins(flat, fill)[1], *arguments, middle)
        assert np.array_equal(middle, want.reshape(-1))
        assert (out[:SLACK] == fill).all() and (out[-SLACK:] == fill).all()


#: The first of them run each time; all of them take half a minute.
QUICK_SEEDS = 50
SEEDS = [
    pytest.param(seed, marks=() if seed < QUICK_SEEDS else pytest.mark.slow)
    for seed in range(200)
]
#: Half blocks of 64 channels among them, alone and behind whole ones.
CHANNELS = [1, 3, 16, 18, 33, 64, 70, 96, 130]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RUNWAYS)
def test_random_windows(name, seed):
    rng = np.random.default_rng(seed)
    size, *window = draw_window(rng, (0, 1, 2, 3, 4, 80))
    c = int(rng.choice(CHANNELS))
    case = ((*size, c), *window)
    places = geometry(case)
    x = rng.integers(0, 256, (1, *case[0]), dtype=np.uint8)
    want = oracle.im2col_u8(x, *case[1:], 9)
    pitch = want.shape[-1]
    check(want, x.reshape(-1), RUNWAYS[name].im2col_u8, places, 0, c, 9, pitch)

    limit = 1 << (kernel_set.HOST.DEPTHWISE_BITS - 1)
    weight = rng.integers(-limit, limit, (c, *case[1]))
    padded = kernel_set.HOST.padded_columns(c)
    bias, multiplier = np.zeros(padded, np.int32), np.zeros(padded, np.float32)
    limbs = np.zeros((padded, 8), np.int64)
    bias[:c] = -37 * weight.sum(axis=(1, 2))
    ratios = [Fraction(int(n), 1024) for n in rng.integers(1, 9, c)]
    multiplier[:c], limbs[:c] = rescale(ratios)
    rules = {**options(case), "x_zero_point": 37}
    packed = RUNWAYS[name].pack_depthwise(weight)
    want = oracle.depthwise_u8s8s32(x, weight, None, **rules).astype(np.int32)
    constants = (places, c, packed, bias)
    check(want, x.reshape(-1), RUNWAYS[name].depthwise_u8s8s32, *constants, 37)
    want = oracle.depthwise_u8s8u8(x, weight, None, ratios, 99, 2, 251, **rules)
    check(
        *(want.astype(np.uint8), x.reshape(-1), RUNWAYS[name].depthwise_u8s8u8),
        *(*constants, multiplier, limbs, NO_EXCEPTION_SUMS, 37, 99, 2, 251),
    )


def takes_exception_sums(name):
    return kernel_set.kernels(name).DEPTHWISE_TAKES_EXCEPTION_SUMS


ALONE = [
    name
    for name in RUNWAYS
    if kernel_set.kernels(name).MOST_FACTOR or takes_exception_sums(name)
]


def check_alone(name, rng, case, codes, steps, zero_point):
    """Depthwise outputs by multipliers that round all sums right, or all but one."""
    kernels, c = RUNWAYS[name], case[0][2]
    x = rng.choice(codes, (1, *case[0])).astype(np.uint8)
    weight = rng.choice(steps, (c, *case[1]))
    bias = -37 * weight.sum(axis=(1, 2))
    rules = {**options(case), "x_zero_point": 37}
    if takes_exception_sums(name):
        sums = oracle.depthwise_u8s8s32(x, weight, None, **rules)
        found = excepting(rng, sums, zero_point, rng.choice([0, 0.1, 1]))
        ratios, *scales, known = found
    else:
        ratios = [Fraction(x) for x in rng.uniform(0.5, 1, c) / rng.choice([100, 200])]
        given = weight, bias, ratios, zero_point, kernel_set.kernels(name).MOST_FACTOR
        weight, bias, multiplier = searches.multiples(*given)
        scales, known = (multiplier, np.zeros((c, 8), np.int64)), NO_EXCEPTION_SUMS
    want = oracle.depthwise_u8s8u8(
        *(x, weight if takes_exception_sums(name) else given[0], None, ratios),
        *(zero_point, 2, 251),
        **rules,
    )
    wide = [padded(values, c) for values in (bias.astype(np.int32), *scales)]
    check(
        *(want.astype(np.uint8), x.reshape(-1), kernels.depthwise_u8s8u8),
        *(geometry(case), c, kernels.pack_depthwise(weight), *wide),
        *(padded(known, len(known) and c, NONE), 37, zero_point, 2, 251),
    )


def padded(values, c, missing=0):
    """Values of c channels, and `missing` for those up to whole panels."""
    wide = np.full(
        (kernel_set.HOST.padded_columns(c), *values.shape[1:]), missing, values.dtype
    )
    wide[:c] = values
    return wide


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ALONE)
def test_sums_that_multipliers_decide(name, seed):
    rng = np.random.default_rng([seed, 1])
    size, *window = draw_window(rng, (0, 1, 2, 3, 4, 80))
    c = int(rng.choice(CHANNELS))
    zero_point = int(rng.choice([0, 99, 255]))
    extreme = rng.random() < 0.3
    codes, steps = ([0, 255], [-256, 255]) if extreme else (256, range(-128, 128))
    check_alone(name, rng, ((*size, c), *window), codes, steps, zero_point)


@each("name, width, size, stride", list(product(ALONE, range(1, 19), (3, 5), (1, 2))))
def test_last_tiles_of_every_width(name, width, size, stride, rng):
    for height, c in ((4, 8), (3, 19)):
        window = (size, size), (stride, stride), (size // 2,) * 4, (1, 1)
        case = ((height, width, c), *window)
        check_alone(name, rng, case, 256, range(-128, 128), 99)


@pytest.mark.parametrize(("name", "stride"), list(product(ALONE, (1, 2))))
def test_blocks_of_channels_take_tiles_in_turns(name, stride, rng):
    case = ((3, 101, 68), (3, 3), (stride, stride), (1,) * 4, (1, 1))
    check_alone(name, rng, case, 256, range(-128, 128), 99)
