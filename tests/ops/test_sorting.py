"""Order against Python's own stable sort, for every type."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError

LEAVES = md.leaves()[:15]
REAL = [leaf for leaf in LEAVES if leaf.dtype.is_integer or leaf.dtype.is_floating]


def key(value: Any) -> tuple[bool, Any]:
    """NaN is above all others, and equal to NaN."""
    return (True, 0) if value != value else (False, value)


def shown(values: Any) -> list[str]:
    """Values so that zeros of both signs differ, and NaN does not."""
    return [repr(value) for value in values]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("leaf", REAL, ids=lambda leaf: leaf.dtype.name)
def test_order_is_that_of_python(
    leaf: Any, axis: int, sample: Any, layouts: Any
) -> None:
    x = sample(leaf, (9, 11), seed=11)
    for y in layouts(x):
        for down in (False, True):
            found = md.sort(leaf.wrap(y), axis=axis, descending=down)
            order = md.argsort(leaf.wrap(y), axis=axis, descending=down)
            assert type(found) is leaf and found.buffer.dtype == x.dtype
            assert type(order) is md.Int64Tensor and order.buffer.dtype == np.int64
            lines = (np.moveaxis(a, axis, 0).T for a in (x, found.buffer, order.buffer))
            for line, sorted_, at in zip(*(a.tolist() for a in lines), strict=True):
                where = range(len(line))
                want = sorted(where, key=lambda i: key(line[i]), reverse=down)
                assert at == want
                assert shown(sorted_) == shown(line[i] for i in want)
        assert x.tobytes() == np.ascontiguousarray(y).tobytes()


@given(st.lists(st.integers(2**64 - 9, 2**64 - 1), max_size=9), st.booleans())
def test_64_bits_are_told_apart(values: list[int], down: bool) -> None:
    found = md.sort(md.UInt64Tensor(values), descending=down)
    assert found.tolist() == sorted(values, reverse=down)
    signed = [value - 2**64 - 2**62 for value in values]
    assert md.sort(md.Int64Tensor(signed), descending=down).tolist() == sorted(
        signed, reverse=down
    )


FLOATS = st.floats(width=16) | st.sampled_from([0.0, -0.0, math.nan])


@given(st.lists(FLOATS, max_size=20), st.booleans())
def test_sort_takes_what_argsort_finds(values: list[float], down: bool) -> None:
    x = md.Float16Tensor(values)
    for stable in (False, True):
        order = md.argsort(x, descending=down, stable=stable)
        found = md.sort(x, descending=down, stable=stable)
        assert shown(found.tolist()) == shown(values[i] for i in order.tolist())


def test_long_runs_of_equals_keep_their_order() -> None:
    """Long enough for what NumPy does with large arrays only."""
    for leaf in REAL:
        x = leaf.wrap((np.arange(1000) % 3).astype(leaf.dtype.storage))
        for down in (False, True):
            order = md.argsort(x, descending=down).buffer
            for value in (0, 1, 2):
                same = order[order % 3 == value]
                assert np.array_equal(same, np.sort(same)) and len(same) in (333, 334)
    signs = np.where(np.arange(1000) % 2, np.float32(-0.0), np.float32(0.0))
    assert md.sort(md.asarray(signs)).buffer.tobytes() == signs.tobytes()


def test_shapes_and_layouts() -> None:
    assert md.sort(md.zeros((2, 0))).shape == (2, 0)
    assert md.argsort(md.zeros((2, 0)), axis=0, descending=True).shape == (2, 0)
    row = np.broadcast_to(np.array([2, 1, 3], np.int8), (2, 3))
    assert md.sort(md.asarray(row), descending=True).tolist() == [[3, 2, 1]] * 2
    for down in (False, True):
        found = md.sort(md.asarray([3, 1, 2]), descending=down).buffer
        assert found.flags.c_contiguous and found.flags.writeable


LITERAL: dict[str, Callable[[], Any]] = {
    "sort(Float32Tensor[]): axis -1 does not exist in 0 dimensions. "
    "Give it an axis first.": lambda: md.sort(md.asarray(1.0)),
    "argsort(Float32Tensor[2]): axis 1 does not exist in 1 dimensions. "
    "Axes go from -1 to 0.": lambda: md.argsort(md.zeros((2,)), axis=1),
    "sort(Float32Tensor[2]): axis is None. Use an integer.": (
        lambda: md.sort(md.zeros((2,)), axis=None)
    ),
    "sort(Float32Tensor[2]): descending is 'up'. Use True or False.": (
        lambda: md.sort(md.zeros((2,)), descending="up")
    ),
    "argsort(Float32Tensor[2]): stable is 0. Use True or False.": (
        lambda: md.argsort(md.zeros((2,)), stable=0)
    ),
}


@pytest.mark.parametrize("text", LITERAL)
def test_what_refusals_say(text: str) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        LITERAL[text]()
    assert str(caught.value) == text


@pytest.mark.parametrize("operation", [md.sort, md.argsort])
@pytest.mark.parametrize("x", [md.asarray([True]), md.asarray([1j])])
def test_only_real_numbers_have_an_order(operation: Any, x: Any) -> None:
    with pytest.raises(DispatchError, match=f"x is {type(x).__name__}, not RealTensor"):
        operation(x)
