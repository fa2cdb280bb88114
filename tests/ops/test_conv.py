"""Convolution against a loop in Python integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.errors import OptionError, ShapeError
from mdtensor.kernels.cpu.program import floats

Numbers = np.ndarray[Any, Any]
FLOATS = [md.float16, md.float32, md.float64]


def naive_conv2d(
    x: Numbers,
    w: Numbers,
    b: Numbers,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Numbers:
    """The definition, tap by tap, in Python integers."""
    top, left, bottom, right = padding
    n, _, height, width = x.shape
    out, depth, kh, kw = w.shape
    oh = (height + top + bottom - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (width + left + right - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((n, out, oh, ow), object)
    for image, o, i, j in np.ndindex(y.shape):
        total = int(b[o])
        for c, p, q in np.ndindex(depth, kh, kw):
            row = i * stride[0] + p * dilation[0] - top
            column = j * stride[1] + q * dilation[1] - left
            if 0 <= row < height and 0 <= column < width:
                channel = o // (out // groups) * depth + c
                total += int(x[image, channel, row, column]) * int(w[o, c, p, q])
        y[image, o, i, j] = total
    return y


def wrapped(value: int, dtype: md.DType) -> int:
    low, count = int(dtype.minimum), 2**dtype.bits
    return (value - low) % count + low


SIZES = st.integers(1, 6)
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def convolutions(draw: Callable[..., Any]) -> tuple[Any, ...]:
    groups, depth, each = draw(
        st.sampled_from([(1, 1, 1), (1, 3, 2), (2, 2, 1), (3, 1, 1), (3, 1, 2)])
    )
    kernel, dilation = draw(PAIRS), draw(PAIRS)
    image = [
        draw(st.integers(d * (k - 1) + 1, d * (k - 1) + 5))
        for k, d in zip(kernel, dilation, strict=True)
    ]
    x = draw(integers((draw(st.integers(1, 2)), groups * depth, *image)))
    w = draw(integers((groups * each, depth, *kernel)))
    b = draw(integers((groups * each,)))
    padding = draw(st.tuples(*[st.integers(0, 2)] * 4))
    return x, w, b, draw(PAIRS), padding, dilation, groups


def integers(shape: tuple[int, ...]) -> st.SearchStrategy[Numbers]:
    return st.integers(0, 2**32).map(
        lambda seed: np.random.default_rng(seed).integers(-8, 9, shape)
    )


@settings(max_examples=60)
@given(convolutions(), st.sampled_from([*FLOATS, md.int8, md.int32, md.uint8]))
def test_conv2d_is_its_definition(call: tuple[Any, ...], dtype: md.DType) -> None:
    x, w, b, stride, padding, dilation, groups = call
    want = naive_conv2d(*call)
    tensors = [md.astype(md.asarray(v), dtype, casting="wrap") for v in (x, w, b)]
    if dtype.is_integer:
        want = np.vectorize(lambda v: wrapped(v, dtype), otypes=[object])(want)
    if dtype is md.uint8:
        want = np.vectorize(lambda v: wrapped(v, dtype), otypes=[object])(
            naive_conv2d(*(t.buffer for t in tensors), *call[3:])
        )
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    found = md.conv2d(*tensors, **options, groups=groups)
    assert found.dtype is dtype
    assert found.tolist() == want.tolist()


def test_without_bias_and_with_strided_input(rng: np.random.Generator) -> None:
    x, w = rng.integers(-8, 9, (1, 3, 5, 5)), rng.integers(-8, 9, (2, 3, 3, 3))
    want = naive_conv2d(x, w, np.zeros(2), (1, 1), (0,) * 4, (1, 1), 1)
    image = md.permute_dims(md.asarray(x.transpose(2, 3, 0, 1)), (2, 3, 0, 1))
    assert md.conv2d(image, md.asarray(w)).tolist() == want.tolist()


@pytest.mark.parametrize("kernel", [1, 3])
def test_nothing_is_written_to(kernel: int, rng: np.random.Generator) -> None:
    arrays = [
        rng.standard_normal(shape, np.float32)
        for shape in [(2, 4, 5, 5), (4, 4, kernel, kernel), (4,)]
    ]
    before = [a.copy() for a in arrays]
    md.conv2d(*map(md.asarray, arrays), padding=1)
    for array, old in zip(arrays, before, strict=True):
        assert np.array_equal(array, old)


def test_float16_rounds_once() -> None:
    """2048 + 1 + 1 is 2050, though 2048 + 1 rounds back to 2048 in float16."""
    for depth, groups in ((3, 1), (1, 2)):
        taps = [2048.0, 1.0, 1.0]
        x = md.astype(md.ones((1, depth * groups, 1, 3 // depth)), md.float16)
        w = np.zeros((groups, depth, 1, 3 // depth), np.float16)
        w[:] = np.reshape(taps, (1, depth, 1, 3 // depth))
        found = md.conv2d(x, md.asarray(w), groups=groups)
        assert (found.buffer == 2050).all()


def test_mixed_types_promote() -> None:
    x = md.ones((1, 1, 1, 1), dtype=md.int8)
    w, b = md.full((1, 1, 1, 1), 0.5), md.ones((1,), dtype=md.float64)
    assert type(md.conv2d(x, w)) is md.Float32Tensor
    assert type(md.conv2d(x, w, b)) is md.Float64Tensor
    assert md.conv2d(x, w, b).tolist() == [[[[1.5]]]]


@pytest.mark.parametrize(
    ("x", "w", "options", "error"),
    [
        ((1, 2, 4, 4), (2, 2, 3, 3), {"stride": 0}, OptionError),
        ((1, 2, 4, 4), (2, 2, 3, 3), {"dilation": (1, 0)}, OptionError),
        ((1, 2, 4, 4), (2, 2, 3, 3), {"padding": -1}, OptionError),
        ((1, 2, 4, 4), (2, 2, 3, 3), {"padding": (1, 2, 3)}, OptionError),
        ((1, 2, 4, 4), (2, 2, 3, 3), {"padding": 0.5}, OptionError),
        ((1, 2, 4, 4), (2, 2, 5, 3), {}, ShapeError),
        ((1, 2, 4, 4), (2, 2, 3, 3), {"dilation": 2}, ShapeError),
        ((1, 2, 4, 4), (2, 2, 0, 3), {}, ShapeError),
        ((1, 2, 4, 4), (3, 1, 3, 3), {"groups": 2}, ShapeError),
        ((1, 2, 4, 4), (2, 1, 3, 3), {"groups": 0}, ShapeError),
        ((2, 4, 4), (2, 2, 3, 3), {}, ShapeError),
        ((1, 2, 4, 4), (2, 2, 3), {}, ShapeError),
    ],
)
def test_what_does_not_fit(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], error: type
) -> None:
    with pytest.raises(error, match=r"^conv2d\(Float32Tensor\["):
        md.conv2d(md.zeros(x), md.zeros(w), **options)


ALL_FLOATS = [md.bfloat16, *FLOATS]
SMALL = st.integers(1, 3)


@given(st.data())
@settings(max_examples=60)
def test_the_transpose_is_the_adjoint(data: st.DataObject) -> None:
    """<conv2d(x, w), y> = <x, conv_transpose2d(y, w)>, in integers exactly."""
    groups, depth, each, kh, kw = (data.draw(SMALL) for _ in range(5))
    stride = data.draw(st.tuples(SMALL, SMALL))
    dilation = data.draw(st.tuples(SMALL, SMALL))
    padding = data.draw(st.tuples(*[st.integers(0, 1)] * 4))
    options = {"stride": stride, "dilation": dilation, "groups": groups}
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = (2, groups * depth, *rng.integers(dilation[0] * 2 + 1, 9, 2))
    x = rng.integers(-9, 9, shape)
    w = rng.integers(-9, 9, (groups * each, depth, kh, kw))
    forward = outcome(
        lambda: md.conv2d(
            md.from_numpy(x), md.from_numpy(w), padding=padding, **options
        )
    )
    if forward is None:
        return
    y = rng.integers(-9, 9, forward.shape)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, (kh, kw), strict=True)]
    more = tuple(
        (shape[2 + i] + padding[i] + padding[i + 2] - reach[i]) % stride[i]
        for i in range(2)
    )
    back = md.conv_transpose2d(
        *map(md.from_numpy, (y, w)), padding=padding, output_padding=more, **options
    )
    assert back.shape == x.shape
    assert (forward.buffer * y).sum() == (back.buffer * x).sum()


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ShapeError:
        return None


@pytest.mark.parametrize("dtype", ALL_FLOATS, ids=str)
def test_transposed_with_bias_rounds_once(dtype: md.DType) -> None:
    """256 + 1 + 1 is 258, though 256 + 1 rounds back to 256 in bfloat16."""
    x = md.asarray([[[[256.0, 1.0]]]], dtype=dtype)
    w, b = md.ones((1, 1, 1, 2), dtype=dtype), md.ones((1,), dtype=dtype)
    found = md.conv_transpose2d(x, w, b)
    assert found.dtype is dtype
    want = np.array([257.0, 258.0, 2.0]).astype(dtype.storage)
    assert np.array_equal(found.buffer[0, 0, 0], want)


@given(
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 2),
)
def test_conv1d(
    before: int, after: int, stride: int, dilation: int, groups: int
) -> None:
    rng = np.random.default_rng([before, after, stride, dilation, groups])
    x, b = rng.integers(-9, 9, (2, 2 * groups, 7)), rng.integers(-9, 9, 3 * groups)
    w = rng.integers(-9, 9, (3 * groups, 2, 3))
    padded = np.pad(x, [(0, 0), (0, 0), (before, after)])
    count = (padded.shape[2] - 2 * dilation - 1) // stride + 1
    want = np.zeros((2, 3 * groups, count), np.int64) + b[:, None]
    for o, i in np.ndindex(3 * groups, count):
        group = slice(o // 3 * 2, o // 3 * 2 + 2)
        taps = padded[:, group, i * stride :: dilation][:, :, :3]
        want[:, o, i] += (taps * w[o]).sum((1, 2))
    options = {"stride": stride, "padding": (before, after), "dilation": dilation}
    found = md.conv1d(*map(md.from_numpy, (x, w, b)), **options, groups=groups)
    assert np.array_equal(found.buffer, want)


REFUSED = {
    "conv1d(Float32Tensor[2,3], Float32Tensor[2,3,1]): signal has 2 axes and weights "
    "3. Use [n, c, l] and [out, c / groups, k].": (
        lambda: md.conv1d(md.ones((2, 3)), md.ones((2, 3, 1)))
    ),
    "conv1d(Float32Tensor[1,1,3], Float32Tensor[1,1,1]): stride is (1, 2). "
    "Use one integer of 1 or more.": (
        lambda: md.conv1d(md.ones((1, 1, 3)), md.ones((1, 1, 1)), stride=(1, 2))
    ),
    "conv_transpose2d(Float32Tensor[1,2,2,2], Float32Tensor[3,1,1,1]): the image has 2 "
    "channels, but the weights take 3. Give an image of 3 channels, or other "
    "weights.": (
        lambda: md.conv_transpose2d(md.ones((1, 2, 2, 2)), md.ones((3, 1, 1, 1)))
    ),
    "conv_transpose2d(Float32Tensor[1,1,2,2], Float32Tensor[1,1,1,1]): output_padding "
    "(1, 1) is not below the stride (1, 1) or the dilation (1, 1). Use a smaller "
    "output_padding.": (
        lambda: md.conv_transpose2d(
            md.ones((1, 1, 2, 2)), md.ones((1, 1, 1, 1)), output_padding=1
        )
    ),
    "conv_transpose2d(Float32Tensor[1,1,2,2], Float32Tensor[1,1,1,1]): the result "
    "would be empty: 2 positions cover 2, and padding removes 2. "
    "Use less padding, or a larger input.": (
        lambda: md.conv_transpose2d(
            md.ones((1, 1, 2, 2)), md.ones((1, 1, 1, 1)), padding=1
        )
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_texts(text: str) -> None:
    with pytest.raises((ShapeError, OptionError)) as caught:
        REFUSED[text]()
    assert str(caught.value) == text


@pytest.mark.parametrize(("count", "channels"), [(3, 0), (0, 2), (0, 0)])
def test_sums_of_no_channels_are_the_bias(count, channels):
    x, w = md.ones((2, channels, 4, 5)), md.ones((count, channels, 3, 3))
    got = md.conv2d(x, w, md.arange(count, dtype=md.float32))
    assert got.shape == (2, count, 2, 3)
    wanted = np.arange(count)[:, None, None] + 9.0 * channels
    assert np.array_equal(got.buffer, np.broadcast_to(wanted, got.shape))


@pytest.mark.parametrize("groups", [1.0, True, "1", None, (1,)])
def test_groups_are_an_integer(groups: Any) -> None:
    """A float that is 1 splits the channels well; it is its type that is wrong."""
    image, weights = md.ones((1, 2, 4, 4)), md.ones((2, 2, 3, 3))
    line, kernel = md.ones((1, 2, 4)), md.ones((2, 2, 3))
    pairs = ((md.conv2d, image, weights), (md.conv_transpose2d, image, weights))
    for operation, x, w in (*pairs, (md.conv1d, line, kernel)):
        with pytest.raises(OptionError, match=r"groups is .*integer of 1 or more"):
            operation(x, w, groups=groups)


@st.composite
def float_convolutions(draw: Callable[..., Any]) -> tuple[Any, ...]:
    groups, depth, each = draw(
        st.sampled_from([(1, 3, 5), (1, 8, 16), (1, 5, 40), (2, 4, 3), (6, 1, 1)])
    )
    kernel = draw(st.sampled_from([(1, 1), (3, 3), (1, 5), (2, 1)]))
    image = tuple(k + draw(st.integers(0, 9)) for k in kernel)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 3))
    shapes = (count, groups * depth, *image), (groups * each, depth, *kernel)
    x, w, b = (
        np.float32(rng.normal(size=shape)) for shape in (*shapes, (groups * each,))
    )
    padding = draw(st.sampled_from([(0, 0, 0, 0), (1, 0, 1, 1), (2, 2, 2, 2)]))
    return x, w, draw(st.sampled_from([b, None])), draw(PAIRS), padding, groups


@settings(deadline=None)
@given(float_convolutions())
def test_calls_have_the_bytes_of_the_steps_of_plans(drawn: tuple[Any, ...]) -> None:
    x, w, b, stride, padding, groups = drawn
    options: Any = {"stride": stride, "padding": padding, "groups": groups}
    tensors = [a if a is None else md.from_numpy(a) for a in (x, w, b)]
    found = np.asarray(md.conv2d(*tensors, **options))
    step = floats.Conv2d(w, b, **options)
    wanted = step(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found, wanted)
    assert found.flags.c_contiguous and found.dtype == np.float32


def test_images_of_a_batch_have_the_bytes_of_each_alone() -> None:
    # So many multiply-adds are shared among threads.
    rng = np.random.default_rng(4)
    x, w = (np.float32(rng.normal(size=s)) for s in ((3, 24, 40, 40), (32, 24, 3, 3)))
    whole = np.asarray(md.conv2d(md.from_numpy(x), md.from_numpy(w)))
    for image, found in zip(x, whole, strict=True):
        alone = md.conv2d(md.from_numpy(image[None]), md.from_numpy(w))
        assert np.asarray(alone).tobytes() == found.tobytes()


def test_a_bias_of_negative_zero_keeps_its_sign() -> None:
    x, w = np.ones((1, 2, 3, 3), np.float32), np.full((4, 2, 1, 1), -0.0, np.float32)
    tensors = [md.from_numpy(a) for a in (x, w, np.full(4, -0.0, np.float32))]
    assert np.signbit(np.asarray(md.conv2d(*tensors))).all()
