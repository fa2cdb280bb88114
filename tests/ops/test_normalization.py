"""Normalization against fractions, and against the formula in float64."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, ShapeError

FLOATS = [md.float16, md.float32, md.float64]
STATISTICS = ([3.0, -1.0], [4.0, 0.25], [2.0, 0.5], [1.0, -8.0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm(dtype: md.DType) -> None:
    """Roots of squares, so that fractions give the exact result."""
    x = np.arange(-6.0, 6.0).reshape(2, 2, 3)
    m, v, w, b = STATISTICS
    want = np.zeros(x.shape)
    for n, c, i in product(range(2), range(2), range(3)):
        scale = Fraction(w[c]) / Fraction(v[c] ** 0.5)
        want[n, c, i] = float(
            (Fraction(x[n, c, i]) - Fraction(m[c])) * scale + Fraction(b[c])
        )
    tensors = [md.asarray(s, dtype=dtype) for s in STATISTICS]
    found = md.batch_norm(md.asarray(x.tolist(), dtype=dtype), *tensors, eps=0.0)
    assert found.dtype is dtype
    assert found.tolist() == want.tolist()


def test_batch_norm_adds_eps_to_the_variance() -> None:
    x, zero, one = md.ones((1, 1)), md.zeros((1,)), md.ones((1,))
    assert md.batch_norm(x, zero, one, one, zero, eps=3.0).tolist() == [[0.5]]
    default = md.batch_norm(md.ones((1, 1), dtype=md.float64), zero, one, one, zero)
    assert default.tolist() == [[1 / (1 + 1e-5) ** 0.5]]


def test_statistics_keep_their_digits() -> None:
    """Doubles all the way, in the order of the formula."""
    m, v, w, b = 0.1, 0.7, 1 / 3, 0.9
    s = w / (v + 1e-5) ** 0.5
    one = [md.asarray([n], dtype=md.float64) for n in (m, v, w, b)]
    x = md.full((1, 1), 0.3, dtype=md.float64)
    assert md.batch_norm(x, *one).tolist() == [[(0.3 - m) * s + b]]
    filters, shift = md.fold_batch_norm(x, x[0], *one)
    assert filters.tolist() == [[0.3 * s]]
    assert shift.tolist() == [(0.3 - m) * s + b]


def test_batch_norm_keeps_the_type_of_x() -> None:
    statistics = [md.ones((2,), dtype=md.float64)] * 4
    assert type(md.batch_norm(md.ones((1, 2, 3)), *statistics)) is md.Float32Tensor


def test_batch_norm_refuses() -> None:
    one = md.ones((2,))
    with pytest.raises(DispatchError):
        md.batch_norm(md.ones((1, 2), dtype=md.int8), one, one, one, one)
    with pytest.raises(ShapeError, match="does not have an axis of channels"):
        md.batch_norm(md.ones((2,)), one, one, one, one)


@pytest.mark.parametrize("with_bias", [True, False])
def test_folding_equals_the_two_steps(
    with_bias: bool, rng: np.random.Generator
) -> None:
    x, w = rng.standard_normal((2, 3, 6, 6)), rng.standard_normal((4, 3, 3, 3))
    x, w, b = md.asarray(x), md.asarray(w), md.asarray(rng.standard_normal(4))
    b = b if with_bias else None
    rest = [md.asarray(rng.uniform(0.5, 2, 4)) for _ in range(4)]
    steps = md.batch_norm(md.conv2d(x, w, b), *rest, eps=0.1)
    w2, b2 = md.fold_batch_norm(w, b, *rest, eps=0.1)
    assert np.allclose(md.conv2d(x, w2, b2), steps, rtol=1e-12, atol=1e-12)


def test_folding_is_exact_and_rounds_once() -> None:
    m, v, s, t = (md.asarray(x) for x in STATISTICS)
    w = md.ones((2, 1, 1, 1), dtype=md.float16)
    b = md.asarray([5.0, 7.0])
    w2, b2 = md.fold_batch_norm(w, b, m, v, s, t, eps=0.0)
    assert (type(w2), type(b2)) == (md.Float16Tensor, md.Float16Tensor)
    assert (w2.buffer.ravel().tolist(), b2.tolist()) == ([1.0, 1.0], [3.0, 0.0])
    with pytest.raises(ShapeError):
        md.fold_batch_norm(w, md.ones((3,)), m, v, s, t)


ALL_FLOATS = [md.bfloat16, *FLOATS]
ROOM = {"bfloat16": 2.0**-8, "float16": 2.0**-10, "float32": 1e-5, "float64": 1e-13}


def numbers(shape: tuple[int, ...], dtype: md.DType, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return (rng.standard_normal(shape) * 3 + 1).astype(dtype.storage)


def standardized(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    """The formula in float64."""
    wide = x.astype(np.float64)
    var = wide.var(axis=axes, keepdims=True)
    return (wide - wide.mean(axis=axes, keepdims=True)) / np.sqrt(var + eps)


def agrees(found: Any, want: np.ndarray, dtype: md.DType) -> None:
    room = ROOM[dtype.name]
    assert (found.dtype, found.shape) == (dtype, want.shape)
    assert found.buffer.dtype == dtype.storage
    assert np.allclose(found.buffer.astype(np.float64), want, rtol=room, atol=room)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    st.integers(0, 3),
    st.sampled_from(ALL_FLOATS),
)
def test_layer_and_rms_norm(shape: Any, kept: int, dtype: md.DType) -> None:
    kept = min(kept, len(shape) - 1)
    sizes, axes = shape[kept:], tuple(range(kept, len(shape)))
    x, w, b = (numbers(s, dtype, i) for i, s in enumerate((shape, sizes, sizes)))
    options = {"normalized_shape": sizes, "eps": 0.1}
    found = md.layer_norm(*map(md.from_numpy, (x, w, b)), **options)
    wide = [v.astype(np.float64) for v in (x, w, b)]
    agrees(found, standardized(x, axes, 0.1) * wide[1] + wide[2], dtype)
    plain = md.layer_norm(md.from_numpy(x), **options)
    agrees(plain, standardized(x, axes, 0.1), dtype)
    root = np.sqrt((wide[0] ** 2).mean(axis=axes, keepdims=True) + 0.1)
    found = md.rms_norm(md.from_numpy(x), md.from_numpy(w), **options)
    agrees(found, wide[0] / root * wide[1], dtype)


@given(
    st.tuples(*[st.integers(1, 3)] * 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=2).map(tuple),
    st.sampled_from(ALL_FLOATS),
)
def test_group_and_instance_norm(sizes: Any, spatial: Any, dtype: md.DType) -> None:
    n, groups, each = sizes
    channels = groups * each
    x = numbers((n, channels, *spatial), dtype)
    w, b = numbers((channels,), dtype, 1), numbers((channels,), dtype, 2)
    along = (-1,) + (1,) * len(spatial)
    wide = [v.astype(np.float64).reshape(along) for v in (w, b)]
    split = standardized(x.reshape(n, groups, -1), (2,), 0.1).reshape(x.shape)
    tensors = [md.from_numpy(v) for v in (x, w, b)]
    found = md.group_norm(*tensors, num_groups=groups, eps=0.1)
    agrees(found, split * wide[0] + wide[1], dtype)
    axes = tuple(range(2, x.ndim))
    want = standardized(x, axes, 0.1)
    agrees(md.instance_norm(tensors[0], eps=0.1), want, dtype)
    agrees(md.instance_norm(*tensors, eps=0.1), want * wide[0] + wide[1], dtype)


@pytest.mark.parametrize("dtype", ALL_FLOATS, ids=str)
@pytest.mark.parametrize("p", [1, 2, 3.5, float("inf")])
def test_normalize(p: float, dtype: md.DType) -> None:
    x = numbers((3, 4, 5), dtype)
    wide = x.astype(np.float64)
    for axis in (1, -1, (0, 2)):
        if isinstance(axis, int):
            norm = np.linalg.norm(wide, p, axis=axis, keepdims=True)
        else:
            flat = wide.transpose(1, 0, 2).reshape(4, -1)
            norm = np.linalg.norm(flat, p, axis=1).reshape(1, 4, 1)
        found = md.normalize(md.from_numpy(x), p=p, axis=axis)
        agrees(found, wide / norm, dtype)
    assert md.normalize(md.zeros((2, 2))).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_rms_norm_without_eps_has_that_of_the_computing_type() -> None:
    for dtype, eps in ((md.float16, 2.0**-23), (md.float64, 2.0**-52)):
        small = dtype.storage.type(2.0**-12)
        found = md.rms_norm(
            md.full((2,), float(small), dtype=dtype), normalized_shape=2
        )
        want = small / np.sqrt(np.float64(small) ** 2 + eps)
        assert np.allclose(found.tolist(), want, rtol=ROOM[dtype.name])


def test_statistics_of_16_bit_floats_are_wide() -> None:
    x = md.asarray([[60000.0, -60000.0] * 64], dtype=md.float16)
    assert md.layer_norm(x, normalized_shape=128)[0, :2].tolist() == [1.0, -1.0]
    assert md.rms_norm(x, normalized_shape=128)[0, :2].tolist() == [1.0, -1.0]


def test_views_and_no_elements(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 6, 8))
    x.flags.writeable = False
    view = x[::-2, ::2, ::-1]
    whole = np.ascontiguousarray(view)
    for operation in (
        lambda v: md.layer_norm(v, normalized_shape=(3, 8)),
        lambda v: md.rms_norm(v, normalized_shape=8),
        lambda v: md.group_norm(v, num_groups=3),
        md.instance_norm,
        md.normalize,
    ):
        found, want = operation(md.from_numpy(view)), operation(md.from_numpy(whole))
        assert np.array_equal(found.buffer, want.buffer)
    assert md.layer_norm(md.zeros((0, 3)), normalized_shape=3).shape == (0, 3)
    assert md.rms_norm(md.zeros((2, 0)), normalized_shape=0).shape == (2, 0)
    assert md.instance_norm(md.zeros((2, 0, 3))).shape == (2, 0, 3)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "layer_norm(Float32Tensor[2,3]): shape (2, 3) does not end in (2,). "
    "Give normalized_shape the sizes of the last axes.": (
        lambda x: md.layer_norm(x, normalized_shape=2)
    ),
    "layer_norm(Float32Tensor[2,3], Float32Tensor[2]): a weight has shape (2,), but "
    "the normalized shape is (3,). Give it shape (3,).": (
        lambda x: md.layer_norm(x, md.ones((2,)), normalized_shape=3)
    ),
    "rms_norm(Float32Tensor[2,3]): normalized_shape is (). "
    "Use one or more sizes of 0 or more.": lambda x: md.rms_norm(
        x, normalized_shape=()
    ),
    "group_norm(Float32Tensor[2,3]): 3 channels do not split into 2 groups. "
    "Choose a num_groups that divides the channels.": (
        lambda x: md.group_norm(x, num_groups=2)
    ),
    "group_norm(Float32Tensor[2,3]): num_groups is 0. Use an integer of 1 or more.": (
        lambda x: md.group_norm(x, num_groups=0)
    ),
    "instance_norm(Float32Tensor[2,3]): shape (2, 3) ends at the channels, axis 1. "
    "Give an axis after it: [n, c, l].": (md.instance_norm),
    "normalize(Float32Tensor[2,3]): p is 0. Use a number above 0.": (
        lambda x: md.normalize(x, p=0)
    ),
    "layer_norm(Float32Tensor[2,3]): eps must be a real number of at least 0, but is "
    "-1. Give 0 or more.": (lambda x: md.layer_norm(x, normalized_shape=3, eps=-1)),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises((OptionError, ShapeError)) as caught:
        REFUSED[text](md.zeros((2, 3)))
    assert str(caught.value) == text


def test_an_eps_beyond_all_floats_is_infinite() -> None:
    x, one = md.ones((2, 3)), md.ones((3,))
    for found in (
        md.batch_norm(x, one - 1, one, one, one - 1, eps=10**400),
        md.layer_norm(x, normalized_shape=3, eps=10**400),
        md.rms_norm(x, normalized_shape=3, eps=10**400),
    ):
        assert found.tolist() == [[0.0] * 3] * 2
