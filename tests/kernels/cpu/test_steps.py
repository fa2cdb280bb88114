"""Steps called alone, against the oracle."""

from fractions import Fraction

import numpy as np
import pytest
from support.each import each
from support.windows import draw_window

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.program.products import Conv2d, Linear
from mdtensor.kernels.cpu.program.steps import Dequantize, Lookup, Mul
from mdtensor.kernels.reference import conv as oracle
from mdtensor.kernels.reference.matmul import gemm_u8s8s32

# (oc, groups, kernel, options)
CONVS = {
    "pixelwise": (24, 1, (1, 1), {}),
    "pixelwise in groups": (8, 4, (1, 1), {}),
    "pixelwise, stride 2": (5, 1, (1, 1), {"stride": (2, 2)}),
    "3x3": (10, 1, (3, 3), {"stride": (2, 1), "padding": (1, 1, 1, 1)}),
    "groups": (8, 4, (3, 2), {"dilation": (2, 2), "padding": (1, 0, 2, 1)}),
    "depthwise": (16, 16, (3, 3), {"padding": (1, 1, 1, 1)}),
    "depthwise 5x5": (16, 16, (5, 5), {"stride": (2, 1), "padding": (2, 2, 2, 2)}),
    "depthwise, twofold": (32, 16, (3, 3), {"padding": (0, 1, 1, 0)}),
}


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("name", CONVS)
def test_conv2d(rng, name, images):
    oc, groups, kernel, options = CONVS[name]
    x = rng.integers(0, 256, (images, 7, 9, 16), dtype=np.uint8)
    weight = rng.integers(-128, 128, (oc, 16 // groups, *kernel), dtype=np.int8)
    bias = rng.integers(-5000, 5000, oc, dtype=np.int32)
    options = {**options, "groups": groups, "x_zero_point": 7}
    want = oracle.conv2d_u8s8s32(x, weight, bias, **options)
    exact = Conv2d(weight, bias, **options)
    assert exact.output_shape(x.shape) == want.shape
    assert np.array_equal(exact(x), want)
    assert exact.macs(x.shape) == want.size * weight[0].size

    ratios = [Fraction(i + 1, 256 * (oc + 3)) for i in range(oc)]
    step = Conv2d(
        weight, bias, ratios=ratios, zero_point=100, clamp=(3, 250), **options
    )
    rules = (ratios, 100, 3, 250)
    want = oracle.conv2d_u8s8u8(x, weight, bias, *rules, **options)
    assert np.array_equal(step(x), want)


@each("seed", range(100))
def test_random_windows(seed):
    rng = np.random.default_rng(seed)
    size, kernel, stride, padding, dilation = draw_window(rng)
    groups, per_group, per_output = rng.choice([1, 2, 3, 8], 3).tolist()
    x = rng.integers(0, 256, (2, *size, groups * per_group), dtype=np.uint8)
    shape = (groups * per_output, per_group, *kernel)
    weight = rng.integers(-128, 128, shape, dtype=np.int8)
    window = {"stride": stride, "padding": padding, "dilation": dilation}
    options = {**window, "groups": groups, "x_zero_point": 7}
    ratios = [Fraction(int(n), 4096) for n in rng.integers(1, 9, len(weight))]
    want = oracle.conv2d_u8s8s32(x, weight, None, **options)
    assert np.array_equal(Conv2d(weight, **options)(x), want)
    want = oracle.conv2d_u8s8u8(x, weight, None, ratios, 0, 0, 255, **options)
    assert np.array_equal(Conv2d(weight, ratios=ratios, **options)(x), want)


def test_a_large_map_is_convolved_strip_by_strip(rng):
    x = rng.integers(0, 256, (1, 90, 70, 8), dtype=np.uint8)
    weight = rng.integers(-128, 128, (3, 8, 3, 3), dtype=np.int8)
    step = Conv2d(weight, padding=(1, 1, 1, 1), x_zero_point=200)
    assert step.plan(x.shape).scratch < 70 * 90 * 72 // 2
    want = oracle.conv2d_u8s8s32(
        x, weight, None, padding=(1, 1, 1, 1), x_zero_point=200
    )
    assert np.array_equal(step(x), want)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (2, 4, 70), (40, 16)])
def test_linear(rng, shape):
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    weight = rng.integers(-128, 128, (11, shape[-1]), dtype=np.int8)
    step = Linear(weight, x_zero_point=9)
    want = gemm_u8s8s32(x.reshape(-1, shape[-1]), weight, 0, 9)
    assert np.array_equal(step(x), want.reshape(*shape[:-1], 11))
    assert step.macs(shape) == x.size * 11


def test_a_step_says_what_runs():
    weight = np.ones((8, 1, 3, 3), np.int8)
    step = Conv2d(weight, groups=8, ratios=[Fraction(1)] * 8)
    assert step.kernel == "depthwise_u8s8u8"
    assert Linear(np.ones((2, 3), np.int8)).kernel == "gemm_u8s8s32"
    assert Linear(np.ones((2, 3), np.int8)).runway == isa.ISA
    assert Lookup(np.zeros(256, np.uint8)).bytes == 256
    assert step.bytes > 0


def test_bad_arrays_are_refused():
    lookup = Lookup(np.zeros(256, np.uint8))
    with pytest.raises(AssertionError, match="takes uint8"):
        lookup(np.zeros(3, np.float32))
    with pytest.raises(AssertionError, match="number of inputs"):
        lookup()
    with pytest.raises(AssertionError, match="channels"):
        Conv2d(np.ones((2, 3, 1, 1), np.int8))(np.zeros((1, 2, 2, 4), np.uint8))
    with pytest.raises(AssertionError, match="window is larger"):
        Conv2d(np.ones((2, 4, 3, 3), np.int8))(np.zeros((1, 2, 2, 4), np.uint8))
    with pytest.raises(AssertionError, match="expected b like a"):
        Mul(Fraction(1), (0, 0)).output_shape((1, 2, 2, 4), (1, 2, 1, 4))
    with pytest.raises(AssertionError, match="leaves int32"):
        Linear(np.ones((1, 1), np.int8), np.array([2**31 - 1]), x_zero_point=-1)


def test_transposed_inputs_are_read_in_order(rng):
    x = rng.integers(0, 256, (3, 5), dtype=np.uint8).T
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    assert np.array_equal(Lookup(table)(x), table[x])
    assert np.array_equal(Dequantize(1.0, 0)(x), x.astype(np.float32))
