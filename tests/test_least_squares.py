"""`linalg.lstsq` against its normal equations and NumPy."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import LinAlgError, OptionError, ShapeError

RNG = np.random.default_rng(3)
SHAPES = [((8, 3), (8,)), ((8, 3), (8, 2)), ((3, 8), (3, 2)), ((4, 8, 3), (4, 8, 2))]


@pytest.mark.parametrize(("matrix", "right"), SHAPES)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
def test_the_rest_is_orthogonal_to_the_columns(
    matrix: Any, right: Any, kind: Any
) -> None:
    a, b = (RNG.normal(size=shape).astype(kind) for shape in (matrix, right))
    found = md.linalg.lstsq(md.from_numpy(a), md.from_numpy(b))
    y = np.asarray(found.solution)
    rest = a @ y - b
    normal = np.swapaxes(a, -1, -2).conj() @ rest
    assert np.abs(normal).max() < (1e-4 if kind is np.float32 else 1e-12)
    assert y.dtype == kind
    sums = (np.abs(rest) ** 2).sum(-1 if rest.ndim == 1 else -2)
    np.testing.assert_allclose(np.asarray(found.residuals), sums, rtol=1e-3, atol=1e-6)
    assert (np.asarray(found.rank) == min(matrix[-2:])).all()


def test_the_shortest_solution_of_a_matrix_without_full_rank() -> None:
    a = np.outer(RNG.normal(size=6), RNG.normal(size=4))
    b = RNG.normal(size=6)
    found = md.linalg.lstsq(md.from_numpy(a), md.from_numpy(b))
    wanted, _, rank, values = np.linalg.lstsq(a, b)
    np.testing.assert_allclose(np.asarray(found.solution), wanted, atol=1e-12)
    assert found.rank.item() == rank == 1
    np.testing.assert_allclose(np.asarray(found.singular_values), values, atol=1e-12)
    assert md.linalg.lstsq(md.zeros((2, 2)), md.ones(2)).solution.tolist() == [0.0, 0.0]


def test_rtol_leaves_small_singular_values_out() -> None:
    a = md.asarray([[1.0, 0.0], [0.0, 1e-3]])
    b = md.asarray([1.0, 1.0])
    assert md.linalg.lstsq(a, b).rank.item() == 2
    found = md.linalg.lstsq(a, b, rtol=0.01)
    assert (found.rank.item(), found.solution.tolist()) == (1, [1.0, 0.0])


def test_what_it_refuses() -> None:
    a, b = md.ones((3, 2)), md.ones(3)
    with pytest.raises(ShapeError, match="x1 has 3 rows, and x2 has 2"):
        md.linalg.lstsq(a, md.ones(2))
    with pytest.raises(ShapeError, match="x1 has 1 axes"):
        md.linalg.lstsq(b, b)
    with pytest.raises(OptionError, match="rtol is -1"):
        md.linalg.lstsq(a, b, rtol=-1)
    with pytest.raises(LinAlgError):
        md.linalg.lstsq(md.full((3, 2), np.nan), b)
