"""Reading and writing parts: against NumPy's own indexing with the same keys."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.errors import (
    BoundsError,
    CastError,
    DispatchError,
    MdtensorError,
    OptionError,
    PromotionError,
    ShapeError,
    WriteError,
)

LEAVES = md.leaves()[:15]
SHAPE = (2, 3, 4)


def counted(*shape: int, leaf: Any = md.Int64Tensor) -> Any:
    count = int(np.prod(shape, dtype=int))
    return leaf.wrap(np.arange(count).reshape(shape).astype(leaf.dtype.storage))


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


ENDS = st.one_of(st.none(), st.integers(-5, 5))
STEPS = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
BASIC = st.one_of(
    st.integers(-2, 1), st.builds(slice, ENDS, ENDS, STEPS), st.none(), st.just(...)
)


@st.composite
def arrays(draw: Any, dtypes: list[str], shapes: Any, least: int, most: int) -> Any:
    shape, dtype = draw(shapes), draw(st.sampled_from(dtypes))
    low = 0 if dtype[0] == "u" else least
    count = int(np.prod(shape, dtype=int))
    values = draw(st.lists(st.integers(low, most), min_size=count, max_size=count))
    return np.reshape(values, shape).astype(dtype)


SMALL = st.lists(st.integers(0, 2), max_size=2).map(tuple)
INTEGERS = arrays(["int8", "int64", "uint8", "uint64"], SMALL, -3, 2)
MASKS = st.one_of(
    arrays(["bool"], st.lists(st.integers(1, 2), max_size=2).map(tuple), 0, 1),
    arrays(["bool"], st.sampled_from([(2,), (3,), (2, 3), (3, 4), SHAPE]), 0, 1),
)
KEYS = st.one_of(
    INTEGERS, MASKS, st.lists(st.one_of(BASIC, INTEGERS, MASKS), max_size=4).map(tuple)
)


def tensors(key: Any) -> Any:
    """The same key with tensors for arrays."""
    if isinstance(key, tuple):
        return tuple(map(tensors, key))
    return md.asarray(key) if isinstance(key, np.ndarray) else key


@settings(max_examples=500)
@given(KEYS)
def test_getitem_against_numpy(key: Any) -> None:
    x = counted(*SHAPE)
    try:
        want = x.buffer[key]
    except IndexError:
        for refused in (key, tensors(key)):
            with pytest.raises(ShapeError, match=r"^getitem\(Int64Tensor\[2,3,4\]\): "):
                x[refused]
        return
    for found in (x[key], x[tensors(key)]):
        assert type(found) is md.Int64Tensor
        assert isinstance(found.buffer, np.ndarray)
        assert (found.shape, found.tolist()) == (want.shape, want.tolist())


@settings(max_examples=500)
@given(KEYS, st.data())
def test_setitem_against_numpy(key: Any, data: st.DataObject) -> None:
    x, want = counted(*SHAPE), counted(*SHAPE).buffer
    try:
        shape = want[key].shape
    except IndexError:
        before = x.tolist()
        with pytest.raises(ShapeError, match=r"^setitem\(Int64Tensor\[2,3,4\], int\):"):
            x[tensors(key)] = 0
        assert x.tolist() == before
        return
    kept = data.draw(st.integers(0, len(shape)))
    value = 100 + np.arange(np.prod(shape[kept:], dtype=int)).reshape(shape[kept:])
    want[key] = value
    x[tensors(key)] = md.asarray(value)
    assert x.tolist() == want.tolist()


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_type_is_read_and_written(leaf: Any) -> None:
    x = counted(3, leaf=leaf)
    assert type(x[1:]) is type(x[x == x[1]]) is type(x[md.asarray([0, 0])]) is leaf
    assert md.take(x, md.asarray([2, 0])).tolist() == [x[2].tolist(), x[0].tolist()]
    twice = md.take_along_axis(x, md.asarray([1, 1]))
    assert twice.tolist() == [x[1].tolist()] * 2
    x[0] = True
    x[1:] = x[:2]
    assert (x.buffer == np.array([1, 1, 1], leaf.dtype.storage)).all()
    x[md.asarray([False, True, False])] = leaf.wrap(np.zeros((), leaf.dtype.storage))
    assert (x.buffer == np.array([1, 0, 1], leaf.dtype.storage)).all()


def test_basic_keys_give_views_and_elements_are_copies() -> None:
    x = counted(2, 3)
    # With an Ellipsis, an element is a view, as in NumPy.
    views = (0, (slice(None), 1), (..., 0), None, md.asarray(1), (1, 2, ...))
    for key in views:
        assert np.shares_memory(x[key].buffer, x.buffer)
    copies = ((1, 2), (md.asarray(1), 2), md.asarray([0]), x > 2, (0, md.asarray([1])))
    for key in copies:
        assert not np.shares_memory(x[key].buffer, x.buffer)
    x[1, 2] = 99
    assert x[1, 2].tolist() == x[np.int64(1), -1].tolist() == 99


@pytest.mark.parametrize("leaf", LEAVES)
def test_elements_are_swapped_as_in_numpy(leaf: Any) -> None:
    x = counted(4, leaf=leaf)
    before, first = x.tolist(), x[0]
    x[0], x[3] = x[3], x[0]
    assert x.tolist() == [before[3], before[1], before[2], before[0]]
    assert first.tolist() == before[0]
    order = list(range(9))
    numbers = md.asarray(order)
    random.Random(0).shuffle(numbers)
    random.Random(0).shuffle(order)
    assert numbers.tolist() == order


def test_a_mask_without_axes_is_for_a_tensor_without_axes() -> None:
    x = md.asarray(7)
    assert x[md.asarray(True)].tolist() == [7]
    assert x[md.asarray(False)].shape == (0,)
    x[md.asarray(False)] = 1
    assert x.tolist() == 7
    x[()] = 8
    x[x == 8] = md.asarray([9])
    assert x.tolist() == 9


@pytest.mark.parametrize(
    "key",
    [
        "a", 1.5, True, [0], (0, [1]), np.array([0.5]), np.array(["a"]),
        (..., ...), slice(None, None, 0), slice("a"), (0, 0, 0), 2, -3,
        md.asarray([2]), md.asarray([-3]), md.asarray([2**63]), md.asarray([0.0]),
        md.asarray([True]), md.asarray([[True, True, True]]),
        (md.asarray([True, True]), md.asarray([0, 1, 2])),
    ],
    ids=repr,
)  # fmt: skip
def test_keys_that_are_refused(key: Any) -> None:
    x = counted(2, 3)
    with pytest.raises(ShapeError, match=r"^getitem\(Int64Tensor\[2,3\]\): "):
        x[key]
    with pytest.raises(ShapeError, match=r"^setitem\(Int64Tensor\[2,3\], int\): "):
        x[key] = 0
    assert x.tolist() == counted(2, 3).tolist()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 0)])
def test_a_mask_of_size_0_fits_axes_of_any_size(shape: tuple[int, ...]) -> None:
    x, mask = counted(2, 3), md.zeros(shape, dtype=md.bool)
    assert x[mask].shape == (0, *x.shape[len(shape) :])
    x[mask] = 7
    assert x.tolist() == counted(2, 3).tolist()


def test_errors_of_keys_read_well() -> None:
    x = counted(2, 3)
    assert text(ShapeError, lambda: x[[0, 1]]) == (
        "getitem(Int64Tensor[2,3]): cannot index with list. Use integers, slices, "
        "None, ... and tensors of integers or bools."
    )
    assert text(ShapeError, lambda: x[:, md.asarray([1, 3])]) == (
        "getitem(Int64Tensor[2,3]): an index is outside an axis of size 3. "
        "Indices go from -3 to 2."
    )
    assert text(ShapeError, lambda: x[md.asarray([True])]) == (
        "getitem(Int64Tensor[2,3]): a mask of shape (1,) does not fit axes of sizes "
        "(2,). Give it the sizes of the axes it masks."
    )
    assert text(ShapeError, lambda: x[md.asarray([0, 1]), md.asarray([0, 1, 2])]) == (
        "getitem(Int64Tensor[2,3]): shapes (2,) and (3,) do not broadcast. "
        "Make the sizes equal."
    )


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (
            128,
            CastError,
            (
                "setitem(Int8Tensor[3], int): int8 represents -128 to 127; "
                "cannot represent 128. Use astype(x, int16) first."
            ),
        ),
        (
            0.5,
            CastError,
            (
                "setitem(Int8Tensor[3], float): int8 represents integers, and 0.5 is "
                "not one. Round it, or use astype(x, float64) first."
            ),
        ),
        (
            md.asarray(1),
            PromotionError,
            (
                "setitem(Int8Tensor[3], Int64Tensor[]): int64 "
                "does not promote to int8. Use astype(value, int8)."
            ),
        ),
        (
            np.float64(1),
            PromotionError,
            (
                "setitem(Int8Tensor[3], Float64Tensor[]): "
                "float64 does not promote to int8. Use astype(value, int8)."
            ),
        ),
        (
            md.ones((2,), dtype=md.int8),
            ShapeError,
            (
                "setitem(Int8Tensor[3], "
                "Int8Tensor[2]): shapes (2,) and (3,) do not broadcast. Make the sizes "
                "equal."
            ),
        ),
        (
            md.ones((1, 3), dtype=md.int8),
            ShapeError,
            (
                "setitem(Int8Tensor[3], "
                "Int8Tensor[1,3]): shape (1, 3) does not broadcast to (3,)."
            ),
        ),
        (
            [1, 2, 3],
            OptionError,
            (
                "setitem(Int8Tensor[3], list): the value is a list. "
                "Give a Python number, a tensor or a NumPy array."
            ),
        ),
    ],
)
def test_values_that_are_refused(value: Any, error: type, words: str) -> None:
    x = md.asarray([1, 2, 3], dtype=md.int8)

    def write() -> None:
        x[...] = value

    assert text(error, write) == words
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_value_promotes_to_the_type_or_is_refused(leaf: Any) -> None:
    for other in LEAVES:
        x, value = counted(2, leaf=leaf), counted(leaf=other)
        if md.can_cast(other.dtype, leaf.dtype):
            x[1] = value
            assert x.tolist() == [0, 0]
        else:
            with pytest.raises(PromotionError):
                x[1] = value


def test_memory_may_be_shared() -> None:
    x = md.asarray([1, 0, 2])
    x[1:] = x[:-1]
    assert x.tolist() == [1, 1, 0]
    x[x] = md.asarray([5, 6, 7])
    assert x.tolist() == [7, 6, 0]
    x[md.asarray([2, 1, 0])] = x
    assert x.tolist() == [0, 6, 7]
    x[...] = x[::-1]
    assert x.tolist() == [7, 6, 0]


def test_a_view_writes_through() -> None:
    array = np.zeros((2, 2), np.float32)
    md.asarray(array)[:, 0] = 1
    assert array.tolist() == [[1, 0], [1, 0]]


def test_a_read_only_buffer_stays_as_it_is() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    x = md.asarray(array)

    def write() -> None:
        x[0] = 9

    assert text(WriteError, write) == (
        "setitem(Int64Tensor[3], int): the buffer is read-only. "
        "Write into asarray(x, copy=True)."
    )
    assert array.tolist() == [0, 1, 2]


AXIS = st.integers(-3, 2)


@given(AXIS, arrays(["int8", "int64", "uint64"], SMALL, -4, 3))
def test_take_against_numpy(axis: int, indices: Any) -> None:
    x = counted(*SHAPE)
    try:
        want = np.take(x.buffer, indices.astype(np.int64), axis)
    except IndexError:
        with pytest.raises(ShapeError, match="an index is outside an axis of size"):
            md.take(x, md.asarray(indices), axis=axis)
    else:
        found = md.take(x, md.asarray(indices), axis=axis)
        assert (found.shape, found.tolist()) == (want.shape, want.tolist())


@given(AXIS, arrays(["int8", "int64"], st.tuples(*[st.integers(1, 4)] * 3), -2, 1))
def test_take_along_axis_against_numpy(axis: int, indices: Any) -> None:
    x = counted(*SHAPE)
    given_ = md.asarray(indices)
    off = [(n, m) for n, m in zip(SHAPE, indices.shape, strict=True)]
    del off[axis]
    if all(n == m or 1 in (n, m) for n, m in off):
        want = np.take_along_axis(x.buffer, indices.astype(np.int64), axis)
        found = md.take_along_axis(x, given_, axis=axis)
        assert (found.shape, found.tolist()) == (want.shape, want.tolist())
    else:
        with pytest.raises(ShapeError, match="do not broadcast"):
            md.take_along_axis(x, given_, axis=axis)


def test_taking_is_refused() -> None:
    x, one = counted(2, 3), md.asarray([0])
    assert text(OptionError, lambda: md.take(x, one)) == (
        "take(Int64Tensor[2,3], Int64Tensor[1]): axis is missing, and x has 2 "
        "dimensions. Pass axis=."
    )
    assert text(ShapeError, lambda: md.take_along_axis(x, one)) == (
        "take_along_axis(Int64Tensor[2,3], Int64Tensor[1]): indices have 1 dimensions, "
        "x has 2. Give both the same number of axes."
    )
    for taken in (md.take, md.take_along_axis):
        with pytest.raises(DispatchError, match="indices is Float32Tensor"):
            taken(x, md.asarray([[0.0]]), axis=0)
        with pytest.raises(ShapeError, match="axis 2 does not exist in 2 dimensions"):
            taken(x, md.asarray([[0]]), axis=2)
    with pytest.raises(ShapeError, match="an index is outside an axis of size 3"):
        md.take_along_axis(x, md.asarray([[3]]), axis=1)


JOINS = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": max,
    "min": min,
}


@pytest.mark.parametrize("reduction", JOINS)
@given(AXIS, arrays(["int8", "int64"], st.tuples(*[st.integers(0, 4)] * 3), -4, 3))
def test_scatter_against_loops(reduction: str, axis: int, indices: Any) -> None:
    x, given_ = counted(*SHAPE), md.asarray(indices)
    updates = counted(*indices.shape) + 5
    off = [(n, m) for n, m in zip(indices.shape, SHAPE, strict=True)]
    size = off.pop(axis)[1]
    call = partial(md.scatter, x, given_, updates, axis=axis, reduction=reduction)
    if any(n > m for n, m in off):
        with pytest.raises(ShapeError, match="do not fit into"):
            call()
        return
    if indices.size and not (-size <= indices.min() and indices.max() < size):
        with pytest.raises(BoundsError, match=f"outside an axis of size {size}"):
            call()
        return
    want = np.array(x.tolist(), dtype=object)
    for place in np.ndindex(indices.shape):
        target = list(place)
        target[axis] = int(indices[place]) % size
        key = tuple(target)
        want[key] = JOINS[reduction](want[key], int(updates.buffer[place]))
    assert call().tolist() == want.tolist()
    assert x.tolist() == counted(*SHAPE).tolist()


def test_scatter_rounds_after_each_update() -> None:
    x, at = md.asarray([1.0], dtype=md.float16), md.asarray([0, 0, 0])
    added = md.asarray([2.0**-11, 2.0**-11, 2.0**-10], dtype=md.float16)
    # 1 + 2**-11 is a tie, which rounds to the even 1; so does the second.
    found = md.scatter(x, at, added, reduction="add")
    assert found.tolist() == [1 + 2.0**-10] and found.dtype is md.float16
    huge = md.asarray([127], dtype=md.int8)
    one = md.asarray([1], dtype=md.int8)
    wrapped = md.scatter(huge, md.asarray([-1]), one, reduction="add")
    assert wrapped.tolist() == [-128]
    nan = md.scatter(md.asarray([1.0]), md.asarray([0]), md.asarray([np.nan]))
    assert np.isnan(nan.tolist()[0])


def test_scatter_is_refused() -> None:
    x, at = counted(3), md.asarray([0])
    assert text(ShapeError, lambda: md.scatter(x, at, counted(2))) == (
        "scatter(Int64Tensor[3], Int64Tensor[1], Int64Tensor[2]): indices have shape "
        "(1,), updates have (2,). Give both the same shape."
    )
    with pytest.raises(PromotionError, match="float32 does not promote to int64"):
        md.scatter(x, at, md.asarray([0.5]))
    with pytest.raises(OptionError, match="reduction='max' of bool"):
        md.scatter(x > 1, at, at > 1, reduction="max")
    with pytest.raises(OptionError, match="reduction"):
        md.scatter(x, at, at, reduction="sum")


def test_an_index_of_any_size_is_outside() -> None:
    x = md.zeros((2, 3))
    for index in (2**63, -(2**63) - 1, 10**30):
        with pytest.raises(MdtensorError, match=r"^getitem\(Float32Tensor\[2,3\]\)"):
            x[index]
        with pytest.raises(MdtensorError, match=r"^setitem\(Float32Tensor\[2,3\]"):
            x[index] = 1


def test_indices_are_checked_also_where_nothing_is_picked() -> None:
    """NumPy looks at none of several there, and takes 2**64 - 1 for -1."""
    x, far = md.zeros((2, 0, 3)), md.asarray([5])
    huge, none = md.asarray([2**64 - 1]), md.asarray([], dtype=md.int64)
    say = "an index is outside an axis of size"
    assert f"{say} 3" in text(ShapeError, lambda: x[none, ..., far])
    assert f"{say} 3" in text(ShapeError, lambda: md.take(x, far, axis=2))
    assert f"{say} 2" in text(ShapeError, lambda: md.take(x, far, axis=0))
    assert f"{say} 2" in text(ShapeError, lambda: x[huge])
    assert f"{say} 2" in text(ShapeError, lambda: md.take(x, huge, axis=0))
    assert md.take(x, none, axis=1).shape == x[:, none].shape == (2, 0, 3)


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 0)])
def test_nothing_is_written_where_one_index_is_outside(shape: tuple[int, ...]) -> None:
    x = md.zeros(shape)
    for key in ([0, 5], [[1], [-4]], [0, 2**64 - 1], [True, True]):
        assert text(ShapeError, lambda key=key: x.__setitem__(md.asarray(key), 1))
    codes = md.zeros((3,), dtype=md.int8)
    assert "300" in text(CastError, lambda: codes.__setitem__(md.asarray([0]), 300))
    assert not md.any(x)


def test_one_element_is_an_array_too() -> None:
    at = md.asarray(1)
    for part in (counted(2)[at], counted(2)[1], md.take(counted(2), at, axis=0)):
        assert type(part.buffer) is np.ndarray
        assert part.shape == () and part.tolist() == 1
