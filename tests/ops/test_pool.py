"""Pools against a loop over windows."""

from collections.abc import Callable
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, MdtensorError, OptionError, ShapeError

Numbers = np.ndarray[Any, Any]
Pair = tuple[int, int]
Padding = tuple[int, int, int, int]


def positions(size: int, k: int, s: int, before: int, after: int, ceil: bool) -> int:
    """As PyTorch counts them: the last window must begin inside, or on the left."""
    starts = range(0, size + before + after, s)
    if not ceil:
        return sum(1 for at in starts if at + k <= size + before + after)
    reach = [at for at in starts if at - s + k < size + before + after or at == 0]
    return sum(1 for at in reach if at < size + before)


def windows(
    x: Numbers, kernel: Pair, stride: Pair, padding: Padding, ceil: bool
) -> Any:
    """For each window its elements of the image, and how many lie in the border."""
    top, left, bottom, right = padding
    _, _, height, width = x.shape
    oh = positions(height, kernel[0], stride[0], top, bottom, ceil)
    ow = positions(width, kernel[1], stride[1], left, right, ceil)
    found = np.empty((*x.shape[:2], oh, ow), object)
    for n, c, i, j in np.ndindex(found.shape):
        inside, border = [], 0
        for p, q in np.ndindex(kernel):
            row, column = i * stride[0] + p - top, j * stride[1] + q - left
            if 0 <= row < height and 0 <= column < width:
                inside.append(x[n, c, row, column].item())
            elif row < height + bottom and column < width + right:
                border += 1
        found[n, c, i, j] = inside, border
    return found


def each(function: Callable[..., Any], found: Any) -> Any:
    results = np.empty(found.shape, object)
    for at in np.ndindex(found.shape):
        results[at] = function(*found[at])
    return results.tolist()


PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def pools(draw: Callable[..., Any]) -> tuple[Any, ...]:
    kernel, stride = draw(PAIRS), draw(PAIRS)
    padding = tuple(draw(st.integers(0, k - 1)) for k in kernel * 2)
    sizes = [draw(st.integers(k, k + 5)) for k in kernel]
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *sizes)
    seed = draw(st.integers(0, 2**32))
    x = np.random.default_rng(seed).integers(-100, 101, shape)
    return x, kernel, stride, padding, draw(st.booleans())


TYPES = [md.float16, md.float32, md.float64, md.int8, md.int64]


@settings(max_examples=80)
@given(pools(), st.sampled_from(TYPES))
def test_max_pool2d(call: tuple[Any, ...], dtype: md.DType) -> None:
    x, kernel, stride, padding, ceil = call
    tensor = md.astype(md.asarray(x), dtype)
    found = md.max_pool2d(
        tensor, kernel, stride=stride, padding=padding, ceil_mode=ceil
    )
    assert found.dtype is dtype
    assert found.tolist() == each(lambda inside, _: max(inside), windows(*call))


@settings(max_examples=80)
@given(pools(), st.booleans())
def test_avg_pool2d(call: tuple[Any, ...], include: bool) -> None:
    x, kernel, stride, padding, ceil = call
    found = md.avg_pool2d(
        md.astype(md.asarray(x), md.float64),
        kernel,
        stride=stride,
        padding=padding,
        ceil_mode=ceil,
        count_include_pad=include,
    )

    def mean(inside: list[int], border: int) -> float:
        return float(Fraction(sum(inside), len(inside) + border * include))

    assert found.tolist() == each(mean, windows(*call))


def test_padding_never_wins() -> None:
    for dtype in TYPES:
        low = -inf if dtype.is_floating else dtype.minimum
        x = md.full((1, 1, 2, 2), low, dtype=dtype)
        assert md.max_pool2d(x, 2, padding=1).tolist() == [[[[low] * 2] * 2]]
        assert md.max_pool2d(x, 3, stride=3, padding=1).tolist() == [[[[low]]]]


def test_nan_wins() -> None:
    x = md.asarray([[[[nan, 1.0, 2.0, 3.0]]]])
    found = md.max_pool2d(x, (1, 2)).tolist()[0][0][0]
    assert np.isnan(found[0]) and found[1] == 3.0


def test_the_stride_is_the_kernel_unless_given() -> None:
    x = md.reshape(md.arange(16), (1, 1, 4, 4))
    assert md.max_pool2d(x, 2).tolist() == [[[[5, 7], [13, 15]]]]
    assert md.max_pool2d(x, 2, stride=1).shape == (1, 1, 3, 3)


def test_float16_averages_round_once() -> None:
    x = md.full((1, 1, 8, 8), 2049.0, dtype=md.float32)
    half = md.astype(x, md.float16)
    assert half.tolist()[0][0][0][0] == 2048
    big = md.full((1, 1, 2, 2), 60000.0, dtype=md.float16)
    sixty = big.tolist()[0][0][0][0]
    assert md.avg_pool2d(big, 2).tolist() == [[[[sixty]]]]
    assert md.global_avg_pool2d(big).tolist() == [[[[sixty]]]]


def test_global_average() -> None:
    x = md.reshape(md.astype(md.arange(12), md.float32), (1, 2, 2, 3))
    assert md.global_avg_pool2d(x).tolist() == [[[[2.5]], [[8.5]]]]
    assert np.isnan(md.global_avg_pool2d(md.zeros((1, 1, 0, 3))).tolist()[0][0][0][0])


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "error"),
    [
        ((1, 1, 4, 4), 0, {}, OptionError),
        ((1, 1, 4, 4), 2.0, {}, OptionError),
        ((1, 1, 4, 4), (2, 2, 2), {}, OptionError),
        ((1, 1, 4, 4), 2, {"stride": 0}, OptionError),
        ((1, 1, 4, 4), 2, {"padding": 2}, OptionError),
        ((1, 1, 4, 4), (3, 1), {"padding": 1}, OptionError),
        ((1, 1, 4, 4), 5, {}, ShapeError),
        ((1, 4, 4), 2, {}, ShapeError),
    ],
)
def test_what_does_not_fit(
    shape: tuple[int, ...], kernel: Any, options: dict[str, Any], error: type
) -> None:
    for pool in (md.max_pool2d, md.avg_pool2d):
        with pytest.raises(error, match=rf"^{pool.__name__}\(Float32Tensor\["):
            pool(md.zeros(shape), kernel, **options)


def test_averages_are_for_floats() -> None:
    x = md.ones((1, 1, 2, 2), dtype=md.int32)
    for call in (lambda: md.avg_pool2d(x, 2), lambda: md.global_avg_pool2d(x)):
        with pytest.raises(DispatchError, match="x is Int32Tensor, not FloatingTensor"):
            call()
    with pytest.raises(ShapeError, match="an image must have 4 axes, but has 2"):
        md.global_avg_pool2d(md.ones((2, 2)))


@pytest.mark.parametrize("dtype", [md.bfloat16, md.float16, md.float32, md.float64])
@pytest.mark.parametrize("size", [1, 3, (2, 5), (None, 4), None, (9, 9)], ids=str)
def test_adaptive_pools_cover_the_image_evenly(size: Any, dtype: md.DType) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-50, 50, (2, 3, 5, 7)).astype(dtype.storage)
    rows, columns = size if isinstance(size, tuple) else (size, size)
    want = np.zeros((2, 2, 3, rows or 5, columns or 7))
    for i, j in np.ndindex(*want.shape[3:]):
        top, bottom = i * 5 // (rows or 5), -(-(i + 1) * 5 // (rows or 5))
        left, right = j * 7 // (columns or 7), -(-(j + 1) * 7 // (columns or 7))
        window = x[:, :, top:bottom, left:right].astype(np.float64)
        want[0, :, :, i, j] = window.mean((2, 3))
        want[1, :, :, i, j] = window.max((2, 3))
    mean = md.adaptive_avg_pool2d(md.from_numpy(x), size)
    assert (mean.dtype, mean.shape) == (dtype, want.shape[1:])
    room = {16: 2.0**-8, 32: 1e-6, 64: 1e-14}[dtype.bits]
    assert np.allclose(mean.buffer.astype(np.float64), want[0], rtol=room, atol=room)
    largest = md.adaptive_max_pool2d(md.from_numpy(x), size)
    assert np.array_equal(largest.buffer.astype(np.float64), want[1])


def test_adaptive_maximum_of_integers_and_of_nan() -> None:
    x = md.asarray([[[[2**62 + 1, 2**62]]]])
    assert md.adaptive_max_pool2d(x, 1).tolist() == [[[[2**62 + 1]]]]
    some = md.asarray([[[[1.0, float("nan"), 2.0]]]])
    assert np.isnan(md.adaptive_max_pool2d(some, 1).tolist()).all()


@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, (0, 1)], ids=str)
def test_pools_of_signals(kernel: int, padding: Any) -> None:
    if kernel == 1 and padding:
        return
    x = np.random.default_rng(kernel).standard_normal((2, 3, 8))
    after = padding[1] if padding else 0
    low = np.pad(x, [(0, 0), (0, 0), (0, after)], constant_values=-np.inf)
    zero = np.pad(x, [(0, 0), (0, 0), (0, after)])
    starts = range(0, 8 + after - kernel + 1, 2)
    options = {"stride": 2, "padding": padding}
    found = md.max_pool1d(md.from_numpy(x), kernel, **options)
    want = [low[:, :, i : i + kernel].max(2) for i in starts]
    assert np.array_equal(found.buffer, np.stack(want, 2))
    found = md.avg_pool1d(md.from_numpy(x), kernel, **options)
    want = [zero[:, :, i : i + kernel].mean(2) for i in starts]
    assert np.allclose(found, np.stack(want, 2), rtol=1e-14)
    options["count_include_pad"] = False
    found = md.avg_pool1d(md.from_numpy(x), kernel, **options)
    want = [x[:, :, i : i + kernel].mean(2) for i in starts]
    assert np.allclose(found, np.stack(want, 2), rtol=1e-14)


REFUSED = {
    "max_pool1d(Float32Tensor[1,1,1,4]): a signal must have 3 axes, but has 4. "
    "Give the shape [n, c, l].": (lambda: md.max_pool1d(md.ones((1, 1, 1, 4)), 2)),
    "avg_pool1d(Float32Tensor[1,1,4]): padding (2, 2) is not below the kernel 2. "
    "Use less padding.": lambda: md.avg_pool1d(md.ones((1, 1, 4)), 2, padding=2),
    "adaptive_avg_pool2d(Float32Tensor[1,1,0,4]): the image is empty: 0 by 4. "
    "Give an image of at least 1 by 1.": (
        lambda: md.adaptive_avg_pool2d(md.ones((1, 1, 0, 4)), 2)
    ),
    "adaptive_max_pool2d(Float32Tensor[1,1,4,4]): output_size is (1, 2, 3). "
    "Use one or two sizes.": (
        lambda: md.adaptive_max_pool2d(md.ones((1, 1, 4, 4)), (1, 2, 3))
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_texts(text: str) -> None:
    with pytest.raises(MdtensorError) as caught:
        REFUSED[text]()
    assert str(caught.value) == text
