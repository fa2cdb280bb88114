"""Sums over samples: the same for any split but for rounding, in bounded memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor import DataError, OptionError
from mdtensor.quant import InputMoments

X = np.random.default_rng(1).standard_normal((40, 6))


def seen(*batches):
    moments = InputMoments(6)
    for batch in batches:
        moments.observe(batch)
    return moments


def test_by_hand():
    moments = seen(X)
    assert moments.count == 40
    np.testing.assert_allclose(moments.gram, X.T @ X)
    np.testing.assert_allclose(moments.mean, X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(moments.mean_magnitude, np.abs(X).mean(axis=0))
    assert (moments.peaks == np.abs(X).max(axis=0)).all()


@given(st.lists(st.integers(0, 40), max_size=4).map(sorted), st.data())
def test_any_split_and_any_tree_of_merges_but_for_rounding(cuts, data):
    whole = seen(X)
    parts = [seen(part) for part in np.split(X, cuts)]
    while len(parts) > 1:
        first = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(first)
    for found in (parts[0], seen(*np.split(X, cuts))):
        assert found.count == whole.count
        assert (found.peaks == whole.peaks).all()
        np.testing.assert_allclose(found.gram, whole.gram, atol=1e-12)
        np.testing.assert_allclose(found.sums, whole.sums, atol=1e-12)


def test_the_error_of_outputs_is_that_of_the_samples():
    rng = np.random.default_rng(2)
    w, v = rng.standard_normal((2, 3, 6))
    wanted = np.linalg.norm(X @ (v - w).T) / np.linalg.norm(X @ w.T)
    assert seen(X[:7], X[7:]).error(v, w) == pytest.approx(wanted)


def test_memory_does_not_grow_with_batches():
    rng = np.random.default_rng(0)
    moments = InputMoments(64)
    moments.observe(rng.standard_normal((256, 64)))
    tracemalloc.start()
    try:
        for _ in range(100):
            moments.observe(rng.standard_normal((256, 64)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20  # a batch has 128 KiB, all of them 12.5 MiB


def test_nothing_is_kept_of_a_bad_batch():
    moments = seen(X)
    with pytest.raises(DataError, match="NaN, infinite or too large to square"):
        moments.observe(np.full((1, 6), np.inf))
    assert moments.count == 40
    assert np.isfinite(moments.gram).all()


@pytest.mark.parametrize("inputs", [0, -3, 2.0, "many"])
def test_inputs_are_counted(inputs):
    with pytest.raises(OptionError, match="Use 1 or more"):
        InputMoments(inputs)


def test_no_samples_have_no_mean():
    for name in ("mean", "mean_magnitude"):
        with pytest.raises(DataError, match="there are no samples"):
            getattr(InputMoments(6), name)
