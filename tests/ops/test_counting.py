"""`bincount` and `histogram` against counts of Python."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import (
    BoundsError,
    DataError,
    DispatchError,
    MdtensorError,
    OptionError,
    ShapeError,
    TraceError,
)


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 20))
def test_bincount_counts(values: list[int], least: int) -> None:
    counts = Counter(values)
    size = max(max(values, default=-1) + 1, least)
    for kind in (md.uint8, md.int32, md.int64, md.uint64):
        found = md.bincount(md.asarray(values, dtype=kind), minlength=least)
        assert found.dtype is md.int64
        assert found.tolist() == [counts[i] for i in range(size)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-99, 99)), min_size=1))
def test_weights_are_added_in_float64(pairs: list[tuple[int, int]]) -> None:
    x = md.asarray([i for i, _ in pairs])
    for kind in (md.float32, md.float16, md.int32, md.float64):
        weights = md.asarray([w for _, w in pairs], dtype=kind)
        found = md.bincount(x, weights=weights)
        assert found.dtype is md.float64
        wanted = [sum(w for i, w in pairs if i == n) for n in range(found.size)]
        assert found.tolist() == wanted


@given(st.lists(st.integers(-40, 40), max_size=30), st.integers(1, 8))
def test_histogram_counts_between_edges(values: list[int], bins: int) -> None:
    edges = np.linspace(-16, 16, bins + 1)
    wanted = [
        sum(a <= v < b or (i == bins - 1 and v == b) for v in values)
        for i, (a, b) in enumerate(pairwise(edges))
    ]
    for kind in (md.float32, md.float64, md.int32):
        x = md.asarray(values, dtype=kind)
        given_edges = md.histogram(x, md.asarray(edges))
        assert given_edges.counts.tolist() == wanted
        found = md.histogram(x, bins, range=(-16, 16))
        assert (found.counts.dtype, found.counts.size) == (md.int64, bins)
        np.testing.assert_allclose(np.asarray(found.edges), edges, rtol=1e-6)
        # Where an edge has no exact number, a count is about the edge that is returned.
        known = np.asarray(found.edges)
        again = md.histogram(x, md.asarray(known)).counts.tolist()
        assert found.counts.tolist() == again


def test_ends_are_the_extremes() -> None:
    found = md.histogram(md.asarray([[1.0, 2.0], [4.0, 5.0]]), 2)
    assert found.edges.tolist() == [1.0, 3.0, 5.0]
    assert found.counts.tolist() == [2, 2]
    empty = md.histogram(md.zeros(0), 2)
    assert (empty.counts.tolist(), empty.edges.tolist()) == ([0, 0], [0.0, 0.5, 1.0])
    nan = md.histogram(md.asarray([0.5, float("nan")]), 1, range=(0, 1))
    assert nan.counts.tolist() == [1]


def test_lazy_tensors_are_computed_and_traced_ones_raise() -> None:
    x = md.asarray([1, 2, 2])
    assert md.bincount(x.to("lazy")).tolist() == [0, 1, 2]
    with pytest.raises(TraceError):
        md.compile(md.bincount)(x)


WRONG: list[tuple[Any, type[MdtensorError], str]] = [
    (lambda: md.bincount(md.asarray([-1])), BoundsError, "least element is -1"),
    (lambda: md.bincount(md.asarray([1.0])), DispatchError, "not integers"),
    (lambda: md.bincount(md.zeros((2, 2), dtype=md.int64)), ShapeError, "2 axes"),
    (lambda: md.bincount(md.asarray([1]), weights=md.ones(2)), ShapeError, "weights"),
    (lambda: md.bincount(md.asarray([1]), minlength=-1), OptionError, "minlength"),
    (lambda: md.bincount([1]), DispatchError, "not a tensor"),
    (lambda: md.bincount(md.asarray([2**50])), ShapeError, "not fit into memory"),
    (
        lambda: md.bincount(md.asarray([2**63], dtype=md.uint64)),
        ShapeError,
        "not fit into memory",
    ),
    (lambda: md.histogram(md.ones(2), 0), OptionError, "bins is 0"),
    (
        lambda: md.histogram(md.asarray([2**53, 2**53 + 1])),
        DataError,
        "10 different edges from 9007199254740992 to 9007199254740993",
    ),
    (lambda: md.histogram(np.array([1e308, -1e308])), DataError, "different edges"),
    (
        lambda: md.histogram(md.ones(2), range=(1, 1 + 2**-52)),
        DataError,
        r"Use fewer bins, or another range",
    ),
    (lambda: md.histogram(md.ones(2), md.asarray([1.0, 0.0])), OptionError, "increase"),
    (lambda: md.histogram(md.ones(2), "auto"), OptionError, "auto"),
    (lambda: md.histogram(md.ones(2), range=(1, 0)), OptionError, "range"),
    (lambda: md.histogram(md.asarray([np.inf])), DataError, "infinite"),
    (lambda: md.histogram(md.asarray([True])), DispatchError, "bool"),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_calls_raise(call: Any, error: type[MdtensorError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
