"""Sets of elements against Python's dictionaries, for every type."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md

LEAVES = md.leaves()[:15]
FLOATS = [leaf for leaf in LEAVES if leaf.dtype.is_floating]


def distinct(values: list[Any]) -> tuple[list[Any], list[int], list[int], list[int]]:
    """Values, first indices, inverse, counts; a NaN equals nothing."""
    first: dict[Any, int] = {}
    groups = []
    for i, value in enumerate(values):
        groups.append(first.setdefault(value if value == value else ("nan", i), i))
    starts = sorted(first.values(), key=lambda i: order(values[i]))
    inverse = [starts.index(group) for group in groups]
    return (
        [values[i] for i in starts],
        starts,
        inverse,
        [groups.count(i) for i in starts],
    )


def order(value: Any) -> Any:
    """NaN after all others; of complex numbers, the real parts first."""
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    if value == value:
        return (0, *parts)
    return (1, *((math.isnan(p), 0 if math.isnan(p) else p) for p in parts))


def shown(x: Any) -> list[str]:
    """Values so that zeros of both signs differ, and NaN does not."""
    return [repr(value) for value in x.tolist()]


@each("shape", [(0,), (), (1,), (40,), (3, 4, 5), (2, 0)])
@each("leaf", LEAVES)
def test_sets_are_those_of_python(
    leaf: Any, shape: tuple[int, ...], sample: Any, layouts: Any
) -> None:
    x = sample(leaf, shape, seed=12)
    values, indices, inverse, counts = distinct(x.ravel().tolist())
    for y in layouts(x):
        found = md.unique_all(leaf.wrap(y))
        assert [type(part) for part in found] == [leaf, *[md.Int64Tensor] * 3]
        assert found.values.buffer.dtype == x.dtype
        assert shown(found.values) == [repr(value) for value in values]
        assert found.indices.tolist() == indices
        assert found.inverse_indices.shape == x.shape
        assert found.inverse_indices.buffer.ravel().tolist() == inverse
        assert found.counts.tolist() == counts
        assert all(part.buffer.dtype == np.int64 for part in found[1:])


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.dtype.name)
def test_all_four_agree(leaf: Any, sample: Any) -> None:
    x = leaf.wrap(sample(leaf, (6, 20), seed=13))
    found = md.unique_all(x)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    counted, inverted = md.unique_counts(x), md.unique_inverse(x)
    assert counted._fields == ("values", "counts")
    assert inverted._fields == ("values", "inverse_indices")
    for values in (counted.values, inverted.values, md.unique_values(x)):
        assert type(values) is leaf
        assert shown(values) == shown(found.values)
    assert counted.counts.tolist() == found.counts.tolist()
    assert inverted.inverse_indices.tolist() == found.inverse_indices.tolist()
    assert int(md.sum(found.counts)) == x.size


@given(st.lists(st.integers(2**64 - 5, 2**64 - 1), max_size=12))
def test_64_bits_are_told_apart(values: list[int]) -> None:
    found = md.unique_counts(md.UInt64Tensor(values))
    assert found.values.tolist() == sorted(set(values))
    assert found.counts.tolist() == [values.count(v) for v in sorted(set(values))]


def test_each_nan_is_its_own_and_the_first_zero_stands_for_both() -> None:
    for leaf in FLOATS:
        x = leaf([math.nan, -0.0, 0.0, math.nan, 1.0])
        found = md.unique_all(x)
        assert shown(found.values) == ["-0.0", "1.0", "nan", "nan"]
        assert found.counts.tolist() == [2, 1, 1, 1]
        assert found.indices.tolist() == [1, 4, 0, 3]
        assert shown(md.unique_values(leaf([0.0, -0.0]))) == ["0.0"]


def test_the_buffer_of_one_value_is_left_alone() -> None:
    x = np.array([3], np.int8)
    values = md.unique_values(md.asarray(x)).buffer
    assert not np.shares_memory(values, x)


REAL = [leaf for leaf in LEAVES if not leaf.dtype.is_complex]


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("left", REAL, ids=lambda leaf: leaf.__name__)
def test_membership(left: type[md.Tensor], invert: bool) -> None:
    x = md.astype(md.asarray([[0, 1, 1], [3, 0, 2]]), left.dtype, casting="wrap")
    for right in REAL:
        members = md.astype(md.asarray([1, 3]), right.dtype, casting="wrap")
        among = {*members.tolist()}
        want = [[(value in among) != invert for value in row] for row in x.tolist()]
        assert md.isin(x, members, invert=invert).tolist() == want


def test_membership_is_exact() -> None:
    big = md.asarray([2**53, 2**53 + 1])
    power = md.asarray([2.0**53], dtype=md.float64)
    assert md.isin(big, power).tolist() == [True, False]
    assert md.isin(big, 2**53 + 1).tolist() == [False, True]
    assert md.isin(2**53, big).tolist() is True
    x, members = md.asarray([math.nan, -0.0]), md.asarray([math.nan, 0.0])
    assert md.isin(x, members).tolist() == [False, True]
    assert md.isin(md.asarray([1]), md.zeros((0,))).tolist() == [False]
    with pytest.raises(md.CastError, match="cannot represent 300"):
        md.isin(md.asarray([1], dtype=md.int8), 300)
