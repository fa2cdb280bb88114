"""Products with weights of more than eight bits, against Python's oracle."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program.products import Repeated, conv2d, linear
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.reference import conv as oracle

#: (outputs, groups, window, options) of images with 24 channels.
CONVS = {
    "pixelwise": (10, 1, (1, 1), {}),
    "3x3": (10, 1, (3, 3), {"stride": (2, 1), "padding": (1, 1, 1, 1)}),
    "groups": (8, 4, (3, 2), {"dilation": (2, 2), "padding": (1, 0, 2, 1)}),
    "depthwise": (24, 24, (3, 3), {"padding": (1, 1, 1, 1)}),
    "depthwise, twofold": (48, 24, (3, 3), {"padding": (0, 1, 1, 0)}),
}


def weights(rng, *shape):
    """Of a code of 8 bits less another, both ends among them."""
    made = rng.integers(-255, 256, shape)
    made.flat[:2] = -255, 255
    return made


@pytest.fixture(params=[kernel_set.HOST.DEPTHWISE_BITS, 8])
def bits(request, monkeypatch):
    """Of depthwise weights in kernels: as here, and as on a CPU that has no more."""
    monkeypatch.setattr(kernel_set.HOST, "DEPTHWISE_BITS", request.param)
    return request.param


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("name", CONVS)
def test_conv2d(rng, name, images, bits):
    oc, groups, kernel, options = CONVS[name]
    options = {**options, "groups": groups, "x_zero_point": 7}
    x = rng.integers(0, 256, (images, 7, 9, 24), dtype=np.uint8)
    weight = weights(rng, oc, 24 // groups, *kernel)
    bias = rng.integers(-5000, 5000, oc, dtype=np.int32)
    want = oracle.conv2d_u8s8s32(x, weight, bias, **options)
    exact = conv2d(weight, bias, **options)
    assert isinstance(exact, Repeated) != (name == "depthwise" and bits > 8)
    assert exact.output_shape(x.shape) == want.shape
    assert np.array_equal(exact(x), want)
    assert exact.macs(x.shape) == want.size * weight[0].size

    ratios = [Fraction(i + 1, 256 * (oc + 3)) for i in range(oc)]
    rules = {"ratios": ratios, "zero_point": 100, "clamp": (3, 250)}
    want = oracle.conv2d_u8s8u8(x, weight, bias, ratios, 100, 3, 250, **options)
    program = Program()
    step = conv2d(weight, bias, **options, **rules)
    built = program.build([program.append(step, program.input(x.shape, x.dtype))])
    assert np.array_equal(step(x), want) and np.array_equal(built(x)[0], want)


@pytest.mark.parametrize(("groups", "outputs", "merged"), [(12, 24, 3), (6, 18, 3)])
def test_groups_of_few_outputs_are_merged(rng, groups, outputs, merged):
    x = rng.integers(0, 256, (2, 6, 5, 24), dtype=np.uint8)
    weight = rng.integers(-128, 128, (outputs, 24 // groups, 5, 5))
    bias = rng.integers(-5000, 5000, outputs, dtype=np.int32)
    options = {"padding": (2, 2, 2, 2), "groups": groups, "x_zero_point": 7}
    step = conv2d(weight, bias, **options)
    assert step.groups == merged
    want = oracle.conv2d_u8s8s32(x, weight, bias, **options)
    assert np.array_equal(step(x), want)
    assert step.macs(x.shape) == want.size * weight[0].size


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (1, 2, 2, 5)])
def test_linear(rng, shape):
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    weight = weights(rng, 4, 5)
    bias = rng.integers(-5000, 5000, 4, dtype=np.int32)
    step = linear(weight, bias, x_zero_point=9)
    want = (x.astype(np.int64) - 9) @ weight.T + bias
    assert np.array_equal(step(x), want)
    assert step.macs(shape) == want.size * 5


def test_eight_bits_are_not_repeated(rng):
    weight = rng.integers(-128, 128, (4, 6))
    assert not isinstance(linear(weight), Repeated)
    assert not isinstance(conv2d(weight[:, :, None, None]), Repeated)


def test_channels_are_repeated_as_often_as_their_weights_ask_for(rng):
    weight = rng.integers(-128, 128, (4, 5))
    weight[2] = -128, 128, 0, 127, -257
    x = rng.integers(0, 256, (3, 5), np.uint8)
    step = linear(weight)
    assert step.parts[0].indices.tolist() == [0, 1, 2, 3, 4, 1, 4, 4]
    assert np.array_equal(step(x), x.astype(int) @ weight.T)


def test_depthwise_sums_that_float32_does_not_hold_are_products():
    groups, taps = 2, 2**24 // 255 // 255
    x = np.full((1, taps + 1, 1, groups), 255, np.uint8)
    for more in (0, 1):
        weight = np.full((groups, 1, taps + more, 1), -255)
        step = conv2d(weight, groups=groups)
        assert isinstance(step, Repeated) == (
            more == 1 or kernel_set.HOST.DEPTHWISE_BITS == 8
        )
        assert (step(x) == -255 * 255 * (taps + more)).all()
