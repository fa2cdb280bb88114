"""Running sums, products and differences against Python's own, and NumPy."""

import itertools
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError

LEAVES = md.leaves()[:15]
NUMBERS = [leaf for leaf in LEAVES if leaf is not md.BoolTensor]
INTEGERS = [leaf for leaf in LEAVES if leaf.dtype.is_integer]
INEXACT = [leaf for leaf in NUMBERS if not leaf.dtype.is_integer]


def wrapped(value: int, dtype: md.DType) -> int:
    """`value` modulo the number of values of an integer type."""
    least = int(dtype.minimum)
    return (value - least) % 2**dtype.bits + least


@given(st.sampled_from(INTEGERS), st.booleans(), st.data())
def test_integers_run_exactly(leaf: Any, initial: bool, data: st.DataObject) -> None:
    one = st.integers(int(leaf.dtype.minimum), int(leaf.dtype.maximum))
    values = data.draw(st.lists(one, max_size=6))
    held = data.draw(st.sampled_from([None, md.int8, md.uint32, md.uint64]))
    default = md.int64 if leaf.dtype.kind == "signed integer" else md.uint64
    cases: list[tuple[Any, Any, int]] = [
        (md.cumulative_sum, operator.add, 0),
        (md.cumulative_prod, operator.mul, 1),
    ]
    for operation, step, start in cases:
        found = operation(leaf(values), dtype=held, include_initial=initial)
        want = list(itertools.accumulate(values, step, initial=start))
        assert found.dtype is (held or default)
        exact = want if initial else want[1:]
        assert found.tolist() == [wrapped(value, found.dtype) for value in exact]


@given(st.sampled_from(INTEGERS), st.integers(0, 4), st.data())
def test_differences_of_integers_wrap(leaf: Any, n: int, data: st.DataObject) -> None:
    one = st.integers(int(leaf.dtype.minimum), int(leaf.dtype.maximum))
    before, values, after = (data.draw(st.lists(one, max_size=4)) for _ in range(3))
    found = md.diff(leaf(values), n=n, prepend=leaf(before), append=leaf(after))
    exact = [*before, *values, *after]
    for _ in range(n):
        exact = [b - a for a, b in itertools.pairwise(exact)]
    assert type(found) is leaf
    assert found.tolist() == [wrapped(value, leaf.dtype) for value in exact]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("leaf", INEXACT, ids=lambda leaf: leaf.dtype.name)
def test_along_an_axis_of_any_layout(leaf: Any, axis: int, layouts: Any) -> None:
    storage = leaf.dtype.storage
    exact = np.random.default_rng(3).integers(-3, 4, (3, 4, 2)).astype(float)
    x = exact.astype(storage)
    for y in layouts(x):
        given_ = leaf.wrap(y)
        for operation, reference in (
            (md.cumulative_sum, np.cumsum),
            (md.cumulative_prod, np.cumprod),
            (md.diff, np.diff),
        ):
            found = operation(given_, axis=axis)
            assert type(found) is leaf and found.buffer.dtype == storage
            assert np.array_equal(found.buffer, reference(exact, axis=axis))
        assert np.array_equal(y, x)


def test_16_bits_run_in_float32_and_round_once() -> None:
    for leaf, tiny in ((md.Float16Tensor, 2.0**-11), (md.BFloat16Tensor, 2.0**-8)):
        x = leaf([1.0, tiny, tiny, tiny])
        assert md.cumulative_sum(x).tolist() == [1, 1, 1 + 2 * tiny, 1 + 4 * tiny]
    large = md.asarray([60000.0, 60000.0, -60000.0], dtype=md.float16)
    assert md.cumulative_sum(large).tolist() == [60000.0, float("inf"), 60000.0]
    assert md.diff(large, n=2).tolist() == [float("-inf")]
    assert md.diff(large[1:], n=1, append=large[:0]).tolist() == [float("-inf")]


@given(st.lists(st.integers(-9, 9), max_size=5), st.sampled_from(INEXACT))
def test_differences_undo_running_sums(values: list[int], leaf: Any) -> None:
    sums = md.cumulative_sum(leaf(values), include_initial=True)
    assert sums.shape == (len(values) + 1,)
    assert md.diff(sums).tolist() == values
    products = md.cumulative_prod(leaf(values), include_initial=True).tolist()
    exact = itertools.accumulate(values, operator.mul, initial=1)
    assert products == [Fraction(value) for value in exact] or leaf in (
        md.Float16Tensor,
        md.BFloat16Tensor,
    )


def test_truth_values_count_up_and_have_no_differences() -> None:
    x = md.asarray([True, False, True])
    assert type(md.cumulative_sum(x)) is md.Int64Tensor
    assert md.cumulative_sum(x).tolist() == [1, 1, 2]
    assert md.cumulative_prod(x).tolist() == [1, 0, 0]
    with pytest.raises(DispatchError, match="x is BoolTensor, not NumericTensor"):
        md.diff(x)


def test_differences_promote_what_is_around() -> None:
    x = md.asarray([1, 4], dtype=md.int8)
    around = {"prepend": md.asarray([0.5]), "append": md.asarray([True])}
    found = md.diff(x, **around)
    assert type(found) is md.Float32Tensor and found.tolist() == [0.5, 3.0, -3.0]
    assert md.diff(x, n=0, **around).tolist() == [0.5, 1.0, 4.0, 1.0]
    assert md.diff(x, n=10**9).shape == (0,)


def test_of_nothing() -> None:
    assert md.cumulative_sum(md.zeros((0,))).shape == (0,)
    found = md.cumulative_prod(md.zeros((2, 0)), axis=1, include_initial=True)
    assert found.tolist() == [[1.0], [1.0]]
    assert md.diff(md.zeros((0, 2)), axis=0).shape == (0, 2)


X = md.zeros((2, 3))
LITERAL: dict[str, Callable[[], Any]] = {
    "cumulative_sum(Float32Tensor[2,3]): axis is missing, and x has 2 dimensions. "
    "Pass axis=.": lambda: md.cumulative_sum(X),
    "cumulative_prod(Float32Tensor[]): axis is missing, and x has 0 dimensions. "
    "Pass axis=.": lambda: md.cumulative_prod(md.asarray(1.0)),
    "cumulative_sum(Float32Tensor[2,3]): include_initial is 1. Use True or "
    "False.": lambda: md.cumulative_sum(X, axis=0, include_initial=1),
    "diff(Float32Tensor[2,3]): n is -1. Use an integer of 0 or more.": (
        lambda: md.diff(X, n=-1)
    ),
    "diff(Float32Tensor[]): axis -1 does not exist in 0 dimensions. "
    "Give it an axis first.": lambda: md.diff(md.asarray(1.0)),
    "diff(Float32Tensor[2,3]): prepend is a int. Use a tensor.": (
        lambda: md.diff(X, prepend=0)
    ),
    "diff(Float32Tensor[2,3]): prepend is a type. Use a tensor.": (
        lambda: md.diff(X, prepend=md.BoolTensor)
    ),
    "diff(Float32Tensor[2,3]): append is a ndarray. Use a tensor.": (
        lambda: md.diff(X, append=np.zeros((2, 1)))
    ),
    "diff(Float32Tensor[2,3]): shapes (2, 3) and (1, 1) differ in more "
    "than axis 1. Make all other sizes equal.": (
        lambda: md.diff(X, append=md.zeros((1, 1)))
    ),
}


@pytest.mark.parametrize("text", LITERAL)
def test_what_refusals_say(text: str) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        LITERAL[text]()
    assert str(caught.value) == text


def test_results_are_no_views() -> None:
    x = md.asarray([1.0, 2.0])
    for found in (md.diff(x, n=0), md.cumulative_sum(x)):
        assert not np.shares_memory(found.buffer, x.buffer)
