"""Sums over samples: the same for any split but for rounding, in bounded memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor import DataError, OptionError
from mdtensor.quant import InputMoments
from mdtensor.quant.weights.moments import GroupedMoments

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


def test_groups_that_are_seen_together_are_those_seen_alone() -> None:
    rng = np.random.default_rng(5)
    batches = [rng.standard_normal((3, n, 9)).astype(np.float32) for n in (40, 1, 7)]
    together, alone = GroupedMoments(3, 9), [InputMoments(9) for _ in range(3)]
    for batch in batches:
        together.observe(batch)
        for moments, rows in zip(alone, batch, strict=True):
            moments.observe(rows)
    for one, other in zip(together.split(), alone, strict=True):
        assert one.count == other.count == 48
        for name in ("sums", "magnitudes", "peaks", "gram"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    order = np.array([4, 0, 8, 1, 2, 3, 7, 6, 5])
    turned, wanted = alone[0].reordered(order), InputMoments(9)
    for batch in batches:
        wanted.observe(batch[0][:, order])
    assert turned.peaks.tolist() == wanted.peaks.tolist()
    np.testing.assert_allclose(turned.gram, wanted.gram, rtol=1e-12)
