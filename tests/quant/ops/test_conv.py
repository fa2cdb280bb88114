"""Convolution of codes against the definition, in Python integers and fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.quant import (
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
    qint32,
    quint8,
)
from mdtensor.quant.ops.conv import conv2d_step
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.tensor import spec_of

IMAGE = QParams(0.1, 3)
BYTES = QParams(0.1, 131, dtype=quint8)
WEIGHTS = QParams(0.02)
OUT = QParams(0.5, -5)


def by_definition(x, w, b=None, *, stride=1, padding=0, dilation=1, groups=1):
    """Sums of products of rational numbers: an object array."""
    stride, dilation = np.broadcast_to(stride, 2), np.broadcast_to(dilation, 2)
    border = np.broadcast_to(padding, 4)
    edges = ((0, 0), (0, 0), (border[0], border[2]), (border[1], border[3]))
    x = np.pad(x, edges, constant_values=Fraction(0))
    n, _, h, width = x.shape
    count, per_group, kh, kw = w.shape
    oh = (h - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((n, count, oh, ow), object)
    for o, i, p, q in product(range(count), range(per_group), range(kh), range(kw)):
        source = o // (count // groups) * per_group + i
        rows = slice(p * dilation[0], p * dilation[0] + (oh - 1) * stride[0] + 1)
        columns = slice(q * dilation[1], q * dilation[1] + (ow - 1) * stride[1] + 1)
        y[:, o] += (
            x[:, source, rows, columns][:, :: stride[0], :: stride[1]] * w[o, i, p, q]
        )
    return y if b is None else y + b[:, None, None]


@st.composite
def problems(draw):
    """Codes of images, weights and bias, and the options of a convolution."""
    groups = draw(st.integers(1, 3))
    per_group = draw(st.integers(1, 3))
    count = groups * draw(st.integers(1, 3))
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    options = {
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 2))),
        "padding": draw(st.tuples(*[st.integers(0, 2)] * 4)),
        "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "groups": groups,
    }
    reach = [d * (k - 1) + 1 for d, k in zip(options["dilation"], kernel, strict=True)]
    size = [r + draw(st.integers(0, 4)) for r in reach]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    images = draw(st.integers(1, 2)), groups * per_group, *size
    x = rng.integers(-128, 128, images)
    w = rng.integers(-128, 128, (count, per_group, *kernel))
    return x, w, rng.integers(-(2**16), 2**16, count), options


def tensors(problem, is_bytes, per_axis, shifted):
    """Image, weights and bias of quantized types, on one grid or one for a channel."""
    x, w, b, _ = problem
    axis = 0 if per_axis else None
    scales = np.linspace(0.01, 0.05, len(w)) if per_axis else 0.02
    zeros = 3 if shifted else 0
    w = QInt8Tensor(w.astype(np.int8), scale=scales, zero_point=zeros, axis=axis)
    if is_bytes:
        x = QUInt8Tensor((x + 128).astype(np.uint8), BYTES)
    else:
        x = QInt8Tensor(x.astype(np.int8), IMAGE)
    unit = float(x.scale) * w.scale
    return x, w, QInt32Tensor(b.astype(np.int32), scale=unit, axis=axis)


@settings(max_examples=80)
@given(problems(), *[st.booleans()] * 4)
def test_any_convolution_is_exact(exact, problem, is_bytes, per_axis, shifted, biased):
    x, w, b = tensors(problem, is_bytes, per_axis, shifted)
    given_bias = (b,) if biased else ()
    options = problem[-1]
    wanted = by_definition(*map(exact.reals, (x, w, *given_bias)), **options)
    got = md.conv2d(x, w, *given_bias, **options)
    assert type(got) is QInt32Tensor
    assert np.array_equal(exact.reals(got), wanted)
    rounded = md.conv2d(x, w, *given_bias, **options, out=OUT)
    assert np.array_equal(rounded.buffer, exact.codes(wanted, OUT))
    again = md.quant.requantize(got, out=OUT)
    assert np.array_equal(again.buffer, rounded.buffer)


@given(st.integers(1, 70), st.integers(1, 3), st.sampled_from([1, 2]))
def test_depthwise_is_exact(exact, channels, kernel, stride):
    rng = np.random.default_rng(channels)
    x = QInt8Tensor(rng.integers(-128, 128, (1, channels, 5, 6)).astype(np.int8), IMAGE)
    codes = rng.integers(-128, 128, (channels, 1, kernel, kernel)).astype(np.int8)
    w = QInt8Tensor(codes, scale=rng.uniform(0.01, 0.1, channels), axis=0)
    options = {"groups": channels, "stride": stride, "padding": kernel // 2}
    wanted = by_definition(exact.reals(x), exact.reals(w), **options)
    assert np.array_equal(exact.reals(md.conv2d(x, w, **options)), wanted)
    got = md.conv2d(x, w, **options, out=OUT)
    assert np.array_equal(got.buffer, exact.codes(wanted, OUT))


def test_the_step_equals_the_integers(random_codes):
    x, w = random_codes((2, 4, 6, 7), BYTES), random_codes((6, 2, 3, 3), WEIGHTS)
    options = {"stride": 1, "padding": (1, 0, 2, 1), "dilation": 1, "groups": 2}
    step = conv2d_step(spec_of(x), w, None, **options, out=OUT)
    image = np.ascontiguousarray(np.moveaxis(x.buffer, 1, -1))
    slow = QUInt8Tensor.wrap(
        (w.buffer.astype(int) + 128).astype(np.uint8), QParams(0.02, 128, dtype=quint8)
    )
    eager = md.conv2d(x, w, **options, out=OUT)
    assert np.array_equal(md.conv2d(x, slow, **options, out=OUT).buffer, eager.buffer)
    codes = (np.moveaxis(step(image), -1, 1) ^ 128).view(np.int8)
    assert np.array_equal(codes, eager.buffer)


def test_layout_does_not_matter(random_codes, layout):
    x, w = random_codes((2, 4, 6, 7), IMAGE), random_codes((5, 4, 3, 3), WEIGHTS)
    wanted = md.conv2d(x, w, padding=1, out=OUT).buffer
    got = md.conv2d(layout(x), layout(w), padding=1, out=OUT)
    assert np.array_equal(got.buffer, wanted)


@pytest.mark.parametrize(
    ("image", "weights"),
    [
        ((0, 2, 4, 4), (3, 2, 3, 3)),
        ((1, 2, 4, 4), (0, 2, 3, 3)),
        ((1, 0, 4, 4), (3, 0, 3, 3)),
    ],
)
@pytest.mark.parametrize("out", [None, OUT])
def test_nothing_in_gives_nothing_or_zero(image, weights, out, random_codes):
    got = md.conv2d(random_codes(image, IMAGE), random_codes(weights, WEIGHTS), out=out)
    assert got.shape == (image[0], weights[0], 2, 2)
    assert (got.buffer == (0 if out is None else OUT.zero)).all()


@pytest.mark.parametrize("scale", [2.0**-126, 3e38])
@pytest.mark.parametrize("out_scale", [2.0**-126, 1.0, 3e38])
def test_extreme_scales_are_exact_too(scale, out_scale, random_codes, exact):
    x, w = (
        random_codes((1, 2, 3, 3), QParams(scale, 1)),
        random_codes((3, 2, 2, 2), WEIGHTS),
    )
    out = QParams(out_scale, 3)
    wanted = by_definition(exact.reals(x), exact.reals(w))
    assert np.array_equal(md.conv2d(x, w, out=out).buffer, exact.codes(wanted, out))


def test_out_may_be_an_accumulator(random_codes, exact):
    x, w = random_codes((1, 2, 3, 3), IMAGE), random_codes((3, 2, 2, 2), WEIGHTS)
    out = QParams(0.01, dtype=qint32)
    wanted = by_definition(exact.reals(x), exact.reals(w))
    got = md.conv2d(x, w, out=out)
    assert type(got) is QInt32Tensor
    assert np.array_equal(got.buffer, exact.codes(wanted, out))


def large(count):
    """An image and weights whose one sum is 255 * 127 * count."""
    x = QUInt8Tensor(np.full((1, count, 1, 1), 255, np.uint8), scale=0.5)
    return x, QInt8Tensor(np.full((1, count, 1, 1), 127, np.int8), scale=0.25)


def test_sums_up_to_32_bits_are_exact():
    most = (2**31 - 1) // (255 * 127)
    assert md.conv2d(*large(most)).codes.tolist() == [[[[255 * 127 * most]]]]
    with pytest.raises(md.GridError) as raised:
        md.conv2d(*large(most + 1))
    assert str(raised.value) == (
        "conv2d(QUInt8Tensor[1,66312,1,1], QInt8Tensor[1,66312,1,1]): a result would "
        "have the code 2147514120, beyond 2**31 - 1. Pass out=QParams(...), or "
        "requantize the arguments first."
    )
    out = QParams(2.0**24, 5)
    wanted = round(Fraction(255 * 127 * (most + 1), 2**27)) + 5
    assert md.conv2d(*large(most + 1), out=out).codes.tolist() == [[[[wanted]]]]


def test_a_bias_near_the_end_of_32_bits_is_exact():
    x = QUInt8Tensor(np.full((1, 1, 1, 1), 255, np.uint8), scale=0.5, zero_point=128)
    w = QInt8Tensor(np.full((2, 1, 1, 1), 127, np.int8), scale=0.25)
    b = QInt32Tensor([2**31 - 1 - 127 * 127, -(2**31) + 1], scale=0.125)
    got = md.conv2d(x, w, b).codes.tolist()
    assert got == [[[[2**31 - 1]], [[-(2**31) + 1 + 127 * 127]]]]


def refused(text, *arguments, error=md.GridError, **options):
    with pytest.raises(error) as raised:
        md.conv2d(*arguments, **options)
    assert str(raised.value) == text


def test_a_bias_on_another_grid_is_refused_channel_by_channel(random_codes):
    x = random_codes((1, 1, 2, 2), QParams(1))
    codes = np.ones((2, 1, 1, 1), np.int8)
    b = QInt32Tensor([1, 1], scale=[1, 5e-8], axis=0)
    for zero_point in (0, 1):
        w = QInt8Tensor(codes, scale=[1, 1e-9], zero_point=zero_point, axis=0)
        refused(
            "conv2d(QInt8Tensor[1,1,2,2], QInt8Tensor[2,1,1,1], QInt32Tensor[2]): the "
            "bias has (2 scales=5e-08..1.0, axis=0), but the products have "
            "(2 scales=1e-09..1.0, axis=0). Quantize the bias with scale = scale of x "
            "times scale of w.",
            *(x, w, b),
        )


def test_scales_along_other_axes_are_refused(random_codes):
    x = random_codes((1, 2, 2, 2), IMAGE)
    w = QInt8Tensor(np.ones((2, 2, 1, 1), np.int8), scale=[1, 2], axis=1)
    refused(
        "conv2d(QInt8Tensor[1,2,2,2], QInt8Tensor[2,2,1,1]): weights have scales along "
        "axis 1. Pass out=QParams(...), or give them one scale for each output "
        "channel: axis=0.",
        *(x, w),
    )
    options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    with pytest.raises(NotCompiled, match="scales on axis 0"):
        conv2d_step(spec_of(x), w, None, **options)


def test_the_largest_weights_are_compiled(random_codes):
    x = random_codes((1, 2, 2, 2), IMAGE)
    w = QUInt8Tensor(np.full((2, 2, 1, 1), 255, np.uint8), scale=0.1)
    options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    assert conv2d_step(spec_of(x), w, None, **options).output_type == np.int32
    sums = md.conv2d(x, w)
    wanted = 255 * (x.codes.buffer.astype(int) - IMAGE.zero).sum(axis=1)
    assert np.array_equal(sums.codes.buffer, np.stack([wanted] * 2, axis=1))


@pytest.mark.parametrize("leaf", [md.Float16Tensor, md.Float32Tensor, md.Float64Tensor])
def test_float_images_take_dequantized_weights(leaf, random_codes):
    w = QInt8Tensor(random_codes((3, 2, 2, 2), IMAGE).buffer, scale=[1, 2, 3], axis=0)
    x = md.astype(md.ones((1, 2, 3, 3)), leaf.dtype)
    got = md.conv2d(x, w)
    wanted = md.astype(md.conv2d(x, md.quant.dequantize(w)), leaf.dtype)
    assert type(got) is leaf and np.array_equal(got.buffer, wanted.buffer)
