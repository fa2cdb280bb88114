"""Arithmetic of shapes, with sizes known and unknown."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import mdtensor as md
from mdtensor.errors import OptionError, ShapeError
from mdtensor.generics.normalization import check_statistics
from mdtensor.spec import shapes, windows
from mdtensor.spec.indices import index_shape

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.lists(SHAPES, max_size=3))
def test_broadcast_as_numpy(given_: list[tuple[int, ...]]) -> None:
    try:
        want = np.broadcast_shapes(*given_)
    except ValueError:
        with pytest.raises(ShapeError):
            shapes.broadcast_shapes(*given_)
    else:
        assert shapes.broadcast_shapes(*given_) == want


def test_unknown_sizes_meet_anything() -> None:
    assert shapes.broadcast_shapes((-1, 2), (3, 1)) == (3, 2)
    assert shapes.broadcast_shapes((-1,), (1,)) == (-1,)
    assert shapes.matmul_shape((-1, 3), (-1, 4)) == (-1, 4)
    assert shapes.concat_shape([(-1, 3), (2, 3)], 0) == (-1, 3)
    assert shapes.concat_shape([(-1, 3), (2, 3)], 1) == (2, 6)
    assert shapes.concat_shape([(-1, 3), (2,)], None) == (-1,)
    assert shapes.reshape_shape((-1, 4), (2, -1)) == (2, -1)
    assert index_shape((-1, 5), (slice(1, 3), 0)) == (-1,)
    assert index_shape((-1, 5), 7) == (5,)
    window = windows.Window((3, 3), (1, 1), (0, 0, 0, 0))
    assert window.slide(-1, 5) == (-1, 3)
    assert windows.conv_shape((-1, -1, 5, 5), (4, 2, 3, 3), None, window, 2) == (
        *(-1, 4, 3, 3),
    )


@given(st.integers(-6, 6), st.integers(0, 4))
def test_axes_count_from_both_ends(axis: int, ndim: int) -> None:
    if -ndim <= axis < ndim:
        assert shapes.normalize_axis(axis, ndim) == list(range(ndim))[axis]
    else:
        with pytest.raises(ShapeError):
            shapes.normalize_axis(axis, ndim)


def test_axes() -> None:
    assert shapes.normalize_axes(None, 3) == (0, 1, 2)
    assert shapes.normalize_axes((-1, 0), 3) == (0, 2)
    assert shapes.normalize_axes([1], 3) == shapes.normalize_axes(1, 3) == (1,)
    with pytest.raises(ShapeError) as caught:
        shapes.normalize_axes((0, -3), 3)
    assert str(caught.value) == "axes (0, -3) repeat. Name each axis once."
    with pytest.raises(ShapeError) as outside:
        shapes.normalize_axis(3, 3)
    assert str(outside.value) == (
        "axis 3 does not exist in 3 dimensions. Axes go from -3 to 2."
    )
    with pytest.raises(OptionError) as odd:
        shapes.normalize_axis("x", 3)  # type: ignore[arg-type]
    assert str(odd.value) == "axis is 'x'. Use an integer."


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        (1, (1, 1, 1, 1)),
        ((1, 2), (1, 2, 1, 2)),
        ([1, 2, 3, 4], (1, 2, 3, 4)),
        (np.int64(2), (2, 2, 2, 2)),
        (np.array([0, 1]), (0, 1, 0, 1)),
    ],
    ids=str,
)
def test_padding(value: Any, sizes: tuple[int, ...]) -> None:
    assert windows.padding4(value) == sizes


@pytest.mark.parametrize("value", [-1, (1,), (1, 2, 3), (0, -1), 1.0, None, "a", ()])
def test_padding_that_is_none(value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        windows.padding4(value)
    assert str(caught.value) == (
        f"padding is {value!r}. Use one, two or four integers of 0 or more."
    )


def test_pairs() -> None:
    assert windows.pair(2, "stride", 1) == windows.pair([2, 2], "stride", 1) == (2, 2)
    for value in (0, (1, 0), (1, 2, 3), 1.5, None):
        with pytest.raises(OptionError) as caught:
            windows.pair(value, "stride", 1)
        assert str(caught.value) == (
            f"stride is {value!r}. Use one or two integers of 1 or more."
        )


@given(
    st.integers(1, 12), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3),
    st.integers(0, 3), st.integers(1, 3), st.booleans()
)  # fmt: skip
def test_windows_are_where_they_fit(
    size: int, k: int, s: int, before: int, after: int, dilation: int, ceil: bool
) -> None:
    assume(not ceil or max(before, after) < k)  # as pools demand
    reach = dilation * (k - 1) + 1
    window = windows.Window((k, 1), (s, 1), (before, 0, after, 0), (dilation, 1))
    padded = size + before + after
    if padded < reach:
        with pytest.raises(ShapeError):
            window.slide(size, 1, ceil)
        return
    starts = [at for at in range(0, padded, s) if at + reach <= padded]
    if ceil and starts[-1] + reach < padded and starts[-1] + s < size + before:
        starts.append(starts[-1] + s)
    assert window.slide(size, 1, ceil)[0] == len(starts)


def test_statistics_and_bias() -> None:
    shapes.check_bias(None, 3)
    check_statistics((2, -1, 4), 1, [(3,), (7,)])
    check_statistics((2, 3), 1, [(-1,)])
    for found in ((2,), (3, 1), ()):
        with pytest.raises(ShapeError):
            check_statistics((2, 3), 1, [found])
        with pytest.raises(ShapeError):
            shapes.check_bias(found, 3)


ENDS = st.one_of(st.none(), st.integers(-6, 6))
KEY = st.one_of(
    st.integers(-5, 5), st.builds(slice, ENDS, ENDS), st.none(), st.just(...)
)


@given(SHAPES, st.lists(KEY, max_size=5).map(tuple))
def test_index_shape_as_numpy(shape: tuple[int, ...], key: tuple[Any, ...]) -> None:
    try:
        want = np.empty(shape)[key].shape
    except IndexError:
        with pytest.raises(ShapeError):
            index_shape(shape, key)
    else:
        assert index_shape(shape, key) == want


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ((0, 0, 0), ("3 indices for 2 dimensions. Use at most 2.")),
        ((..., ...), "2 ellipses in one key. Use one."),
        (4, "index 4 is outside an axis of size 4."),
        (
            "a",
            (
                "cannot index with str. Use integers, slices, None, ... and tensors of "
                "integers or bools."
            ),
        ),
        (
            slice(None, None, 0),
            "cannot index with slice(None, None, 0): slice step cannot be zero.",
        ),
    ],
)
def test_index_errors(key: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        index_shape((4, 5), key)
    assert str(caught.value) == text


def test_an_array_without_axes_is_no_sequence() -> None:
    x, wrong = md.zeros((2, 3)), np.array(1.5)
    calls: list[Any] = [
        lambda: md.reshape(x, wrong),
        lambda: md.tile(x, wrong),
        lambda: md.tensordot(x, x, axes=wrong),
        lambda: md.pad(x, pad_width=wrong),
    ]
    for call in calls:
        with pytest.raises(OptionError, match=r"is array\(1\.5\)"):
            call()


@pytest.mark.parametrize("odd", [np.timedelta64(1, "s"), np.array([1], "m8[s]")])
def test_spans_of_time_are_not_sizes(odd: Any) -> None:
    """NumPy registers them as integers, but `int` of one raises TypeError."""
    x = md.ones((2, 2))
    for call in (
        lambda: md.moveaxis(x, 0, odd),
        lambda: md.reshape(x, odd),
        lambda: md.roll(x, odd),
        lambda: md.zeros(odd),
        lambda: md.permute_dims(x, odd),
        lambda: md.sum(x, axis=odd),
        lambda: md.squeeze(x, axis=odd),
    ):
        with pytest.raises((OptionError, md.DispatchError)):
            call()
