"""Convolutions and pools of codes of signals are those of images of height 1."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.quant import (
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    dequantize,
    quantize,
)

OUT = QParams(0.37, -3)
RNG = np.random.default_rng(11)


def codes(*shape, scale=0.1, **options):
    values = RNG.integers(-128, 128, shape).astype(np.int8)
    return QInt8Tensor(values, scale=scale, **options)


def by_definition(x, w, stride, before, after, dilation, groups):
    """The sums of exact products, tap by tap."""
    x = np.pad(x, ((0, 0), (0, 0), (before, after)))
    n, count, (per_group, taps) = len(x), len(w), w.shape[1:]
    places = range(0, x.shape[2] - dilation * (taps - 1), stride)
    y = np.zeros((n, count, len(places)), object)
    for o in range(count):
        first = o // (count // groups) * per_group
        for i, at in enumerate(places):
            window = x[:, first : first + per_group, at::dilation][:, :, :taps]
            y[:, o, i] = (window * w[o]).sum((1, 2))
    return y


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 2),
    channels=st.sampled_from([(3, 5, 1), (4, 4, 4), (6, 4, 2)]),
    taps=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dilation=st.integers(1, 2),
    more=st.integers(0, 6),
    each=st.booleans(),
)
def test_convolutions_are_exact(
    exact, n, channels, taps, stride, padding, dilation, more, each
):
    c, count, groups = channels
    length = dilation * (taps - 1) + 1 + more
    x = codes(n, c, length, zero_point=4)
    scale, axis = (np.linspace(0.01, 0.05, count), 0) if each else (0.02, None)
    w = codes(count, c // groups, taps, scale=scale, axis=axis)
    places = {"stride": stride, "padding": padding, "dilation": dilation}
    wanted = by_definition(
        exact.reals(x), exact.reals(w), stride, *padding, dilation, groups
    )
    sums = md.conv1d(x, w, **places, groups=groups)
    assert type(sums) is QInt32Tensor
    assert np.array_equal(exact.reals(sums), wanted)
    rounded = md.conv1d(x, w, **places, groups=groups, out=OUT)
    assert np.array_equal(rounded.buffer, exact.codes(wanted, OUT))
    inferred = md.infer("conv1d", x, w, **places, groups=groups, out=OUT)
    assert (type(rounded), rounded.shape) == (inferred.type, inferred.shape)
    assert rounded.qparams == inferred.qparams == OUT


def test_a_bias_is_in_the_sum():
    x, w = codes(1, 3, 20), codes(4, 3, 5, scale=0.02)
    b = QInt32Tensor(np.arange(4, dtype=np.int32) * 999, scale=float(x.scale * w.scale))
    images = md.reshape(x, (1, 3, 1, 20)), md.reshape(w, (4, 3, 1, 5))
    wanted = md.conv2d(*images, b, out=OUT)
    assert np.array_equal(md.conv1d(x, w, b, out=OUT).buffer, wanted.buffer[:, :, 0])


def test_rules_of_other_libraries_are_for_images():
    text = "rounding='onnx' does not define conv1d.*use rounding='exact' here"
    with pytest.raises(OptionError, match=text):
        md.conv1d(codes(1, 3, 20), codes(4, 3, 5), out=OUT, rounding="onnx")


def test_changed_weights_are_packed_again():
    x, w = codes(1, 3, 20), codes(4, 3, 5)
    for _ in range(3):
        first = md.conv1d(x, w, out=OUT).buffer.copy()
    w.buffer[...] = -1 - w.buffer
    fresh = QInt8Tensor(w.buffer.copy(), scale=0.1)
    changed = md.conv1d(x, w, out=OUT).buffer
    assert np.array_equal(changed, md.conv1d(x, fresh, out=OUT).buffer)
    assert not np.array_equal(changed, first)


def test_floats_with_quantized_weights():
    x = md.asarray(RNG.standard_normal((2, 4, 30)).astype(np.float32))
    w = quantize(
        md.asarray(RNG.standard_normal((6, 4, 5)).astype(np.float32)), QParams(0.03)
    )
    got = np.asarray(md.conv1d(x, w, padding=2))
    wanted = np.asarray(md.conv1d(x, dequantize(w), padding=2))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [0, 1])
def test_pools(padding):
    x = codes(2, 3, 21, zero_point=7)
    options = {"kernel_size": 4, "stride": 3, "padding": padding}
    got = md.max_pool1d(x, **options)
    assert got.qparams == x.qparams
    wanted = md.max_pool1d(x.codes, **options)
    assert np.array_equal(got.buffer, np.asarray(wanted))
    for counted in (True, False):
        mean = md.avg_pool1d(x, **options, count_include_pad=counted, out=OUT)
        image = md.avg_pool2d(
            md.reshape(x, (2, 3, 1, 21)),
            (1, 4),
            stride=(1, 3),
            padding=(0, padding),
            count_include_pad=counted,
            out=OUT,
        )
        assert np.array_equal(mean.buffer, image.buffer[:, :, 0])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: md.conv1d(codes(1, 3, 8), codes(4, 2, 3), out=OUT),
            r"conv1d\(QInt8Tensor\[1,3,8\], QInt8Tensor\[4,2,3\]\)",
        ),
        (
            lambda: md.avg_pool1d(codes(1, 3, 8), 2),
            r"avg_pool1d\(QInt8Tensor\[1,3,8\]\)",
        ),
        (
            lambda: md.max_pool1d(codes(1, 3, 8), 2, padding=2),
            r"max_pool1d\(QInt8Tensor\[1,3,8\]\)",
        ),
        (
            lambda: md.conv1d(codes(3, 8), codes(4, 2, 3), out=OUT),
            r"conv1d\(QInt8Tensor\[3,8\], QInt8Tensor\[4,2,3\]\)",
        ),
    ],
)
def test_errors_name_the_call(call, text):
    with pytest.raises(MdtensorError, match=text):
        call()
