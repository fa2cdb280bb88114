"""How operands lie: merging and reordering dimensions loses no element."""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.numpy import layout


@st.composite
def views(draw: st.DrawFn) -> Any:
    """An array of up to five dimensions: steps, reversals, repeats, another order."""
    shape = draw(st.lists(st.integers(1, 3), max_size=5))
    x = np.arange(np.prod([2 * n for n in shape], dtype=int), dtype=np.int16)
    x = x.reshape([2 * n for n in shape])
    for axis, n in enumerate(shape):
        part = draw(
            st.sampled_from([slice(n), slice(None, None, 2), slice(None, None, -2)])
        )
        x = x[(slice(None),) * axis + (part,)]
    if shape and draw(st.booleans()):
        x = np.broadcast_to(x[:1], x.shape)
    return x.transpose(draw(st.permutations(range(x.ndim))))


def offsets(sizes: Any, steps: Any) -> list[int]:
    """Bytes to each element, in the order of indices."""
    indices = itertools.product(*map(range, sizes))
    return [sum(i * s for i, s in zip(at, steps, strict=True)) for at in indices]


@given(views())
def test_merged_dimensions_reach_the_same_elements(x: Any) -> None:
    sizes, steps = layout.merge_axes(x)
    assert offsets(sizes, steps) == offsets(x.shape, x.strides)
    assert len(sizes) <= max(x.ndim, 1)


@given(views())
def test_dimensions_are_merged_jointly(x: Any) -> None:
    y = np.empty(x.shape, np.float64)
    sizes, first, second = layout.merge_axes(x, y)
    assert offsets(sizes, first) == offsets(x.shape, x.strides)
    assert offsets(sizes, second) == offsets(y.shape, y.strides)


@given(views())
def test_axes_in_order_are_those_of_the_first(x: Any) -> None:
    y = np.arange(x.size).reshape(x.shape)
    a, b = layout.in_order(x, y)
    assert list(np.abs(a.strides)) == sorted(np.abs(x.strides), reverse=True)
    pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
    assert sorted(zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)) == (
        sorted(pairs)
    )


def test_a_row_of_memory_is_one_dimension() -> None:
    x = np.zeros((2, 3, 4), np.float32)
    assert layout.merge_axes(x).tolist() == [[24], [4]]
    assert layout.merge_axes(x[0, 0, 0]).tolist() == [[1], [4]]
    assert layout.merge_axes(np.broadcast_to(x[:, :1], x.shape)).tolist() == [
        [2, 3, 4],
        [48, 0, 4],
    ]
    assert layout.lines(x).tolist() == [[2, 3, 4], [48, 16, 4]]


def test_contiguity_is_one_answer_for_all() -> None:
    x = np.zeros((4, 4))
    for flags in itertools.product((True, False), repeat=3):
        arrays = [x if flag else x.T for flag in flags]
        assert layout.is_contiguous(*arrays) == all(flags)
    record = np.zeros(3, [("a", "i1"), ("b", "f8")])
    assert not layout.is_contiguous(record["b"])
    assert layout.is_contiguous()


@pytest.mark.parametrize("dtype", [np.int8, np.float64, ml_dtypes.bfloat16])
def test_shared_elements_are_seen(dtype: Any) -> None:
    x = np.zeros((3, 1), dtype)
    assert not layout.repeats(x)
    assert layout.repeats(np.broadcast_to(x, (3, 2)))
    assert not layout.repeats(np.broadcast_to(x, (1, 3, 1)))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=4),
    st.sampled_from([1, 2, 4]),
)
def test_shared_bytes_are_seen_for_any_strides(
    axes: list[tuple[int, int]], itemsize: int
) -> None:
    shape = [n for n, _ in axes]
    steps = [step for _, step in axes]
    memory = np.zeros(256, np.int8)[100:].view(f"u{itemsize}")
    x = np.lib.stride_tricks.as_strided(memory, shape, steps)
    starts = [
        sum(at * step for at, step in zip(index, steps, strict=True))
        for index in np.ndindex(*shape)
    ]
    touched = [start + k for start in starts for k in range(itemsize)]
    assert layout.repeats(x) == (len(set(touched)) < len(touched))


def test_shared_bytes_of_large_arrays_are_seen_at_once() -> None:
    strided = np.lib.stride_tricks.as_strided
    x = np.zeros(100, np.int8)
    assert layout.repeats(strided(x, (50, 50), (1, 1)))
    assert layout.repeats(np.broadcast_to(x, (10**12, 100)))
    assert not layout.repeats(strided(x, (3, 2), (2, 3)))
