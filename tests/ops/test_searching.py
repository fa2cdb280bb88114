"""Indices of extremes, of what is not zero and of insertion, against plain Python."""

import bisect
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.errors import DispatchError

LEAVES = md.leaves()[:15]
REAL = [leaf for leaf in LEAVES if leaf.dtype.is_integer or leaf.dtype.is_floating]
FLOATS = [leaf for leaf in REAL if leaf.dtype.is_floating]
NARROW = (md.Float16Tensor, md.BFloat16Tensor)


def name(leaf: Any) -> str:
    return str(leaf.dtype.name)


def wide(x: Any) -> Any:
    """16-bit floats in float32, where NumPy knows them; all others as they are."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("leaf", REAL, ids=name)
def test_extremes_are_where_numpy_has_them(
    leaf: Any, axis: Any, sample: Any, layouts: Any
) -> None:
    x = sample(leaf, (6, 7), seed=4)
    for operation, reference in ((md.argmax, np.argmax), (md.argmin, np.argmin)):
        want = reference(wide(x), axis=axis, keepdims=True)
        for y in layouts(x):
            found = operation(leaf.wrap(y), axis=axis, keepdims=True)
            assert type(found) is md.Int64Tensor and found.buffer.dtype == np.int64
            assert np.array_equal(found.buffer, want)


def test_the_first_of_equals_and_the_first_nan() -> None:
    for leaf in REAL:
        assert md.argmax(leaf([2, 7, 7])).tolist() == 1
        assert md.argmin(leaf([7, 2, 2])).tolist() == 1
        assert md.argmax(leaf(5)).buffer.shape == ()
    for leaf in FLOATS:
        x = leaf([1.0, math.nan, 9.0, math.nan, -9.0])
        assert md.argmax(x).tolist() == md.argmin(x).tolist() == 1
        assert md.argmax(leaf([-0.0, 0.0])).tolist() == 0
    assert md.argmax(md.zeros((2, 3, 4)), axis=-2).shape == (2, 4)


def test_neighbours_of_64_bits_are_told_apart() -> None:
    x = md.asarray([2**64 - 2, 2**64 - 1, 2**64 - 2], dtype=md.uint64)
    assert md.argmax(x).tolist() == 1
    assert md.argmin(md.asarray([-(2**63) + 1, -(2**63)])).tolist() == 1


@pytest.mark.parametrize("leaf", LEAVES, ids=name)
def test_what_is_not_zero(leaf: Any, sample: Any, layouts: Any) -> None:
    x = sample(leaf, (3, 4, 2), seed=5)
    true = np.array([value != 0 for value in x.ravel().tolist()]).reshape(x.shape)
    for y in layouts(x):
        given_ = leaf.wrap(y)
        for axis in (None, 1, (0, -1), ()):
            for keep in (False, True):
                found = md.count_nonzero(given_, axis=axis, keepdims=keep)
                want = true.sum(axis=axis, keepdims=keep)
                assert type(found) is md.Int64Tensor and found.shape == want.shape
                assert found.buffer.dtype == np.int64
                assert np.array_equal(found.buffer, want)
        places = md.nonzero(given_)
        assert all(type(at) is md.Int64Tensor for at in places)
        assert [at.tolist() for at in places] == [w.tolist() for w in true.nonzero()]
        rows = md.argwhere(given_)
        assert rows.buffer.dtype == np.int64
        assert rows.tolist() == np.stack(true.nonzero(), axis=1).tolist()


def test_of_nothing() -> None:
    nothing = md.zeros((2, 0))
    assert md.count_nonzero(nothing, axis=1).tolist() == [0, 0]
    assert md.count_nonzero(nothing).tolist() == 0
    assert [at.shape for at in md.nonzero(nothing)] == [(0,), (0,)]
    assert md.argwhere(nothing).shape == (0, 2)
    assert [md.argwhere(md.asarray(x)).shape for x in (0, 3)] == [(0, 0), (1, 0)]
    nowhere = md.searchsorted(md.zeros((0,)), md.ones((2, 1), dtype=md.int64))
    assert nowhere.tolist() == [[0], [0]]
    assert md.searchsorted(md.zeros((3,)), md.zeros((0, 2))).shape == (0, 2)


def rank(value: Any) -> tuple[bool, Any]:
    """An exact key of Python's own; NaN is above all others."""
    if isinstance(value, float) and not math.isfinite(value):
        return math.isnan(value), 0 if math.isnan(value) else value
    return False, Fraction(value)


@each("second", REAL)
@each("first", REAL)
def test_search_is_exact_between_any_two_types(
    first: Any, second: Any, sample: Any
) -> None:
    ascending = sorted(sample(first, (23,), seed=6).tolist(), key=rank)
    x1 = first.wrap(np.array(ascending, first.dtype.storage))
    x2 = second.wrap(sample(second, (5, 6), seed=7))
    keys = [rank(value) for value in ascending]
    for side, find in (("left", bisect.bisect_left), ("right", bisect.bisect_right)):
        found = md.searchsorted(x1, x2, side=side)
        want = [[find(keys, rank(value)) for value in row] for row in x2.tolist()]
        assert type(found) is md.Int64Tensor and found.buffer.dtype == np.int64
        assert found.tolist() == want


BIG = [2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1]


@given(st.data())
def test_search_between_neighbours_that_float64_confuses(data: st.DataObject) -> None:
    near = st.sampled_from(BIG).flatmap(lambda n: st.integers(n - 2, n + 2))
    integers = data.draw(st.lists(near, min_size=1, max_size=9).map(sorted))
    queries = data.draw(st.lists(near.map(float), min_size=1, max_size=5))
    x1, x2 = md.UInt64Tensor(integers), md.Float64Tensor(queries)
    for side, find in (("left", bisect.bisect_left), ("right", bisect.bisect_right)):
        want = [find(integers, Fraction(value)) for value in queries]
        assert md.searchsorted(x1, x2, side=side).tolist() == want
        floats = md.sort(x2)
        turned = [find(floats.tolist(), value) for value in integers]
        assert md.searchsorted(floats, x1, side=side).tolist() == turned


@given(st.lists(st.integers(-5, 5), max_size=8), st.integers(-6, 6))
def test_search_counts_what_is_less(values: list[int], query: int) -> None:
    x = md.Int16Tensor(values)
    order = md.argsort(x)
    found = md.searchsorted(x, md.Int8Tensor(query), sorter=order)
    assert found.shape == ()
    assert found.tolist() == md.count_nonzero(md.less(x, query)).tolist()
    small = md.astype(order, md.uint8)
    up_to = md.searchsorted(x, md.Float16Tensor(query), side="right", sorter=small)
    assert up_to.tolist() == md.count_nonzero(md.less_equal(x, query)).tolist()


@each("second", LEAVES)
@each("first", LEAVES)
def test_where_promotes_and_keeps_each_value(
    first: Any, second: Any, sample: Any
) -> None:
    x1, x2 = first.wrap(sample(first, (4, 1), 8)), second.wrap(sample(second, (6,), 9))
    condition = np.random.default_rng(10).integers(0, 2, (3, 4, 6)).astype(bool)
    try:
        dtype = md.result_type(x1, x2)
    except md.PromotionError as error:
        with pytest.raises(md.PromotionError, match=error.problem):
            md.where(md.BoolTensor(condition), x1, x2)
        return
    found = md.where(md.BoolTensor(condition), x1, x2)
    assert found.dtype is dtype and found.shape == (3, 4, 6)
    assert found.buffer.dtype == dtype.storage
    with np.errstate(all="ignore"):
        a, b = x1.buffer.astype(dtype.storage), x2.buffer.astype(dtype.storage)
    for at in np.ndindex(3, 4, 6):
        want = a[at[1], 0] if condition[at] else b[at[2]]
        assert found.buffer[at].tobytes() == want.tobytes()


def test_where_rounds_once() -> None:
    tie = 2**30 + 2**22  # halfway between two bfloat16; in float32 so is tie + 1
    x = md.asarray([tie, tie + 1], dtype=md.int64)
    chosen = md.where(md.asarray([True, True]), x, md.zeros((), dtype=md.bfloat16))
    assert chosen.tolist() == [2.0**30, 2.0**30 + 2**23]


def test_where_takes_weak_numbers_and_is_no_view() -> None:
    x = md.asarray([1, 2, 3], dtype=md.int8)
    big = md.greater(x, 1)
    found = md.where(big, x, 0)
    assert type(found) is md.Int8Tensor and found.tolist() == [0, 2, 3]
    assert type(md.where(big, 0.5, x)) is md.Float32Tensor
    assert type(md.where(big, x, 1j)) is md.Complex64Tensor
    assert md.where(big, md.asarray(True), False).tolist() == [False, True, True]
    always = md.where(md.asarray(True), x, x)
    assert not np.shares_memory(always.buffer, x.buffer)
    assert md.where(md.asarray(True), md.asarray(1.0), 2).buffer.shape == ()


@pytest.mark.parametrize(
    "call",
    [
        lambda: md.argmax(md.asarray([True])),
        lambda: md.argmin(md.asarray([1j])),
        lambda: md.searchsorted(md.asarray([1j]), md.asarray([1])),
        lambda: md.searchsorted(md.asarray([1]), 1j),
        lambda: md.where(md.asarray([1]), 1, md.asarray([2])),
        lambda: md.where(True, md.asarray([1]), 2),
    ],
)
def test_types_without_the_meaning_have_no_method(call: Callable[[], Any]) -> None:
    with pytest.raises(DispatchError, match="no method"):
        call()


X = md.zeros((2, 3))
V = md.asarray([1.0, 2.0])
LITERAL: dict[str, Callable[[], Any]] = {
    "argmin(Float32Tensor[2,3]): axis is (0, 1). Use an integer.": (
        lambda: md.argmin(X, axis=(0, 1))
    ),
    "argmax(Float32Tensor[2,3]): keepdims is None. Use True or False.": (
        lambda: md.argmax(X, keepdims=None)
    ),
    "count_nonzero(Float32Tensor[2,3]): axes (0, -2) repeat. Name each axis once.": (
        lambda: md.count_nonzero(X, axis=(0, -2))
    ),
    "nonzero(Float32Tensor[]): nonzero cannot give indices into a 0-dimensional "
    "tensor. Use reshape(x, (1,)) first.": (lambda: md.nonzero(md.asarray(1.0))),
    "searchsorted(Float32Tensor[2,3], Float32Tensor[2]): x1 has 2 dimensions. "
    "Use one dimension.": lambda: md.searchsorted(X, V),
    "searchsorted(Float32Tensor[2], Float32Tensor[2]): side is 'middle'. "
    "Use one of 'left', 'right'.": lambda: md.searchsorted(V, V, side="middle"),
    "searchsorted(Float32Tensor[2], Float32Tensor[2]): sorter is a list. "
    "Use the result of argsort(x1).": lambda: md.searchsorted(V, V, sorter=[0, 1]),
    "searchsorted(Float32Tensor[2], Float32Tensor[2]): sorter is a Float32Tensor. "
    "Use the result of argsort(x1).": lambda: md.searchsorted(V, V, sorter=V),
    "searchsorted(Float32Tensor[2], Float32Tensor[2]): sorter has shape (3,), "
    "x1 has shape (2,).": (lambda: md.searchsorted(V, V, sorter=md.asarray([0, 1, 0]))),
    "searchsorted(Float32Tensor[2], Float32Tensor[2], Int64Tensor[2]): sorter has an "
    "index out of bounds for 2 elements. Use the result of argsort(x1).": (
        lambda: md.searchsorted(V, V, sorter=md.asarray([0, 2]))
    ),
    "where(BoolTensor[2], Float32Tensor[2,3], int): shapes (2,) and (2, 3) and () do "
    "not broadcast. Make the sizes equal.": lambda: md.where(V > 1, X, 0),
    "where(BoolTensor[2], Int8Tensor[2], int): int8 represents -128 to 127; cannot "
    "represent 300. Use astype(x, int16) first.": (
        lambda: md.where(V > 1, md.asarray([1, 2], dtype=md.int8), 300)
    ),
    "where(BoolTensor[2], int, float): only Python scalars given. "
    "Make one a tensor.": lambda: md.where(V > 1, 1, 2.0),
}


@pytest.mark.parametrize("text", LITERAL)
def test_what_refusals_say(text: str) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        LITERAL[text]()
    assert str(caught.value) == text


def test_a_negative_sorter_is_refused() -> None:
    with pytest.raises(md.OptionError, match="out of bounds for 2 elements"):
        md.searchsorted(V, V, sorter=md.asarray([0, -1], dtype=md.int8))
