"""Decision trees and probabilities of pairs against their oracles."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import BoundsError, DataError, ShapeError
from mdtensor.kernels.cpu.generic import estimators as compiled
from mdtensor.kernels.reference import estimators as reference

VALUES = [-np.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan]
FLOATS = [md.float16, md.bfloat16, md.float32, md.float64]
INTEGERS = [np.int8, np.uint8, np.int32, np.int64]


def trees(draw: Any, features: int) -> tuple[np.ndarray, ...]:
    """Thresholds, features, children and roots: a child comes after its parent."""
    count, roots = draw(st.integers(0, 9)), draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    at = np.arange(count)[:, None]
    children = rng.integers(at + 1, count + 1, (count, 3))
    leaves = -1 - rng.integers(0, 20, (count, 3))
    children = np.where(
        (children == count) | (rng.random((count, 3)) < 0.3), leaves, children
    )
    starts = rng.integers(-3, max(count, 1), roots) if count else -1 - np.arange(roots)
    thresholds = rng.choice(VALUES, count)
    return thresholds, rng.integers(0, features, count), children, starts


@given(st.integers(0, 6), st.integers(1, 4), st.sampled_from(FLOATS), st.data())
def test_paths(count: int, features: int, dtype: Any, data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    x = rng.choice(VALUES, (count, features))
    thresholds, *indices = trees(data.draw, features)
    wanted = reference.walk_trees(x, thresholds, *indices)
    kinds = [data.draw(st.sampled_from(INTEGERS)) for _ in indices]
    given_ = [
        md.asarray(one.astype(kind if one.min(initial=0) >= 0 else np.int32))
        for one, kind in zip(indices, kinds, strict=True)
    ]
    numbers = [md.astype(md.asarray(one), dtype) for one in (x, thresholds)]
    found = md.decision_trees(*numbers, *given_)
    assert type(found) is md.Int64Tensor
    assert np.array_equal(found, wanted)
    turned = md.asarray(np.asfortranarray(x))
    assert np.array_equal(md.decision_trees(turned, numbers[1], *given_), wanted)


def test_the_common_type_compares() -> None:
    """0.1 of float32 is above 0.1 of float64."""
    children, first = md.asarray([[-1, -2, -3]]), md.asarray([0])
    x = md.asarray(np.float32([[0.1]]))
    found = md.decision_trees(x, md.asarray(np.float64([0.1])), first, children, first)
    assert found.tolist() == [[1]]


@pytest.mark.parametrize(
    ("children", "feature", "root", "error", "words"),
    [
        ([[1, -1, -1]], 0, 0, BoundsError, "above 0, the last node"),
        ([[-1, -1, -1]], 0, 1, BoundsError, "above 0, the last node"),
        ([[-1, -1, -1]], 1, 0, BoundsError, "outside of 0 to 0, the columns"),
        ([[-1, -1, -1]], -1, 0, BoundsError, "outside of 0 to 0, the columns"),
        ([[0, -1, -1]], 0, 0, DataError, "does not end"),
    ],
)
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64])
def test_broken_trees(
    children: Any, feature: int, root: int, error: Any, words: str, kind: Any
) -> None:
    x, thresholds = md.asarray([[0.0]]), md.asarray([0.0])
    largest = np.uint64(2**64 - 1) if kind is np.uint64 and root else root
    roots = np.array([largest], kind)
    with pytest.raises(error, match=words):
        md.decision_trees(
            x,
            thresholds,
            md.asarray([feature]),
            md.asarray(children),
            md.asarray(roots),
        )


def test_wrong_shapes() -> None:
    x, thresholds, whole = md.ones((2, 3)), md.ones((2,)), md.asarray([0, 0])
    with pytest.raises(ShapeError, match=r"children has shape \(2, 2\)"):
        md.decision_trees(x, thresholds, whole, md.asarray([[0, 0]] * 2), whole)
    with pytest.raises(ShapeError, match="1, 1 and 1 axes"):
        md.decision_trees(md.ones((3,)), thresholds, whole, whole, whole)
    with pytest.raises(ShapeError, match="2 pairs"):
        md.pairwise_probabilities(md.ones((1, 2)))


def test_the_kernel_reports() -> None:
    """Each reason is a number of its own."""
    codes = {compiled.ENDED, compiled.NO_NODE, compiled.NO_FEATURE, compiled.NO_END}
    assert len(codes) == 4


@given(st.integers(2, 5), st.integers(0, 4), st.integers(0, 999))
def test_pairs(count: int, rows: int, seed: int) -> None:
    shape = rows, count * (count - 1) // 2
    x = np.random.default_rng(seed).uniform(1e-7, 1 - 1e-7, shape)
    found = np.asarray(md.pairwise_probabilities(md.asarray(x)))
    wanted = [reference.couple_pairs(row, count) for row in x.tolist()]
    assert np.allclose(found, np.reshape(wanted, (rows, count)), rtol=1e-9, atol=1e-12)
    assert np.allclose(found.sum(axis=1), 1)
    # A single pair has an exact solution, which minimizes the sum of squares.
    if count == 2:
        assert np.allclose(found[:, :1], x, atol=0.01)
