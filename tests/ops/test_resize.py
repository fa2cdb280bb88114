"""Resampling against fractions and a second way to compute it; pixels by index."""

from collections.abc import Callable
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, MdtensorError

FLOATS = [md.bfloat16, md.float16, md.float32, md.float64]
SIZES = st.integers(1, 7)
PAIRS = st.tuples(SIZES, SIZES)


def cubic(t: Fraction) -> Fraction:
    """Keys' kernel with -3/4 at the distance t."""
    a, t = Fraction(-3, 4), abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else Fraction(0)


def hat(t: Fraction) -> Fraction:
    return max(1 - abs(t), Fraction(0))


def matrix(old: int, new: int, step: Fraction, mode: str, align: bool) -> np.ndarray:
    """[new, old]: what each old point gives to each new one, edges repeated."""
    found = np.zeros((new, old))
    for i in range(new):
        if align:
            place = Fraction(i * (old - 1), max(new - 1, 1))
        else:
            place = (i + Fraction(1, 2)) * step - Fraction(1, 2)
        if mode == "nearest":
            found[i, min(floor(i * step), old - 1)] = 1
            continue
        if mode == "nearest-exact":
            found[i, min(floor(place + Fraction(1, 2)), old - 1)] = 1
            continue
        kernel = cubic if mode == "bicubic" else hat
        for j in range(floor(place) - 2, floor(place) + 4):
            found[i, min(max(j, 0), old - 1)] += float(kernel(place - j))
    return found


MODES = ["nearest", "nearest-exact", "bilinear", "bicubic"]


@given(
    st.tuples(SIZES, SIZES), st.tuples(SIZES, SIZES), st.sampled_from(MODES), st.data()
)
@settings(max_examples=150)
def test_by_size(old: Any, new: Any, mode: str, data: st.DataObject) -> None:
    choices = [None, False] + [True] * mode.startswith("bi")
    align = data.draw(st.sampled_from(choices[: 1 if mode.startswith("n") else 3]))
    dtype = data.draw(st.sampled_from(FLOATS))
    rng = np.random.default_rng([*old, *new])
    x = rng.standard_normal((2, 1, *old)).astype(dtype.storage)
    rows, columns = (
        matrix(n, m, Fraction(n, m), mode, bool(align))
        for n, m in zip(old, new, strict=True)
    )
    want = rows @ x.astype(np.float64) @ columns.T
    found = md.interpolate(md.from_numpy(x), new, mode=mode, align_corners=align)
    assert (found.dtype, found.shape) == (dtype, (2, 1, *new))
    room = {16: 2.0**-8, 32: 1e-5, 64: 1e-13}[dtype.bits]
    if mode.startswith("n"):
        room = 0
    assert np.allclose(found.buffer.astype(np.float64), want, rtol=room, atol=room)


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.7, 1.1, 2.3, 1 / 3])
def test_sizes_are_those_of_pytorch(scale: float) -> None:
    # torch.nn.functional.interpolate: math.floor(float(size) * scale)
    for size in range(10, 61):
        x = md.zeros((1, 1, size, 10))
        shape = md.interpolate(x, scale_factor=scale).shape
        assert shape == (1, 1, floor(float(size) * scale), floor(10.0 * scale))
    with pytest.raises(md.ShapeError, match="the new size would be"):
        md.interpolate(md.zeros((1, 1, 10, 10)), scale_factor=1e300)


@given(SIZES, st.sampled_from([0.5, 1.7, 2, 0.3, 3.0]), st.sampled_from(MODES))
def test_by_scale(old: int, scale: float, mode: str) -> None:
    new = floor(old * float(scale))
    x = md.from_numpy(np.random.default_rng(old).standard_normal((1, 2, old, 3)))
    if new == 0:
        with pytest.raises(MdtensorError, match="the new size would be 0 by 3"):
            md.interpolate(x, scale_factor=(scale, 1), mode=mode)
        return
    found = md.interpolate(x, scale_factor=(scale, 1), mode=mode)
    want = matrix(old, new, 1 / Fraction(scale), mode, False) @ x.buffer
    assert np.allclose(found, want, rtol=1e-13, atol=1e-13)


@given(st.integers(1, 3), st.tuples(*[st.integers(0, 3)] * 3), st.booleans())
def test_pixels_move(r: int, sizes: tuple[int, ...], has_batch: bool) -> None:
    c, h, w = sizes
    batch = (2,) if has_batch else ()
    shape = (*batch, c * r * r, h, w)
    x = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    found = md.pixel_shuffle(md.from_numpy(x), r)
    assert (found.dtype, found.shape) == (md.int16, (*batch, c, h * r, w * r))
    for k, i, j in np.ndindex(found.shape[-3:]):
        channel = k * r * r + i % r * r + j % r
        assert (found.buffer[..., k, i, j] == x[..., channel, i // r, j // r]).all()
    assert np.array_equal(md.pixel_unshuffle(found, r).buffer, x)


def test_views(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 8, 8))
    x.flags.writeable = False
    view, whole = x[:, ::2, ::-2, 1:], np.ascontiguousarray(x[:, ::2, ::-2, 1:])
    for mode in MODES:
        found = md.interpolate(md.from_numpy(view), 3, mode=mode)
        want = md.interpolate(md.from_numpy(whole), 3, mode=mode)
        assert np.array_equal(found.buffer, want.buffer)
    assert md.interpolate(md.zeros((0, 2, 3, 3)), 5, mode="bicubic").shape == (
        0,
        2,
        5,
        5,
    )


X = md.ones((1, 1, 2, 2))
REFUSED: dict[str, Callable[[], Any]] = {
    "interpolate(Float32Tensor[1,1,2,2]): size and scale_factor are both given, "
    "or neither. "
    "Pass one of them.": lambda: md.interpolate(X),
    "interpolate(Float32Tensor[1,1,2,2]): mode nearest does not take align_corners. "
    "Leave it None.": lambda: md.interpolate(X, 3, align_corners=False),
    "interpolate(Float32Tensor[1,1,2,2]): mode is 'area'. Use one of 'nearest', "
    "'nearest-exact', 'bilinear', 'bicubic'.": lambda: md.interpolate(
        X, 3, mode="area"
    ),
    "interpolate(Float32Tensor[1,1,2,2]): scale_factor is 0. "
    "Use one or two numbers above 0.": lambda: md.interpolate(X, scale_factor=0),
    "interpolate(Float32Tensor[1,1,0,2]): the image is empty: 0 by 2. "
    "Give an image of at least 1 by 1.": (
        lambda: md.interpolate(md.ones((1, 1, 0, 2)), 3)
    ),
    "pixel_shuffle(Float32Tensor[1,1,2,2]): "
    "1 channels do not split into 2 x 2 pixels. "
    "Give a multiple of 4 channels, or another upscale_factor.": lambda: (
        md.pixel_shuffle(X, 2)
    ),
    "pixel_unshuffle(Float32Tensor[1,1,2,2]): 2 by 2 pixels do not split into 3 x 3. "
    "Pad both to multiples of 3, or use another downscale_factor.": (
        lambda: md.pixel_unshuffle(X, 3)
    ),
    "pixel_shuffle(Float32Tensor[1,1,2,2]): upscale_factor is 0. "
    "Use one integer of 1 or more.": lambda: md.pixel_shuffle(X, 0),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(MdtensorError) as caught:
        REFUSED[text]()
    assert str(caught.value) == text


def test_integers_are_not_resampled() -> None:
    with pytest.raises(DispatchError):
        md.interpolate(md.ones((1, 1, 2, 2), dtype=md.int8), 3)
