"""`cov` and `corrcoef` against fractions and NumPy."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, ShapeError

ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2)


@given(ROWS, st.integers(0, 1))
def test_cov_of_integers_against_fractions(pairs: Any, correction: int) -> None:
    a, b = ([Fraction(pair[i]) for pair in pairs] for i in range(2))
    n = len(pairs)
    rows = [[v - sum(row) / n for v in row] for row in (a, b)]
    wanted = [
        [
            float(sum(p * q for p, q in zip(x, y, strict=True)) / (n - correction))
            for y in rows
        ]
        for x in rows
    ]
    for kind in (md.int32, md.float64):
        x = md.asarray([[*map(int, a)], [*map(int, b)]], dtype=kind)
        found = np.asarray(md.cov(x, correction=correction))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_against_numpy(dtype: str) -> None:
    array = np.random.default_rng(1).normal(size=(4, 30)).astype(dtype)
    wide, x = array.astype(np.float64), md.asarray(array)
    limit = {"float32": 2e-7, "float64": 1e-14}[dtype]
    for ours, theirs in ((md.cov, np.cov), (md.corrcoef, np.corrcoef)):
        found = ours(x)
        assert found.dtype is x.dtype
        np.testing.assert_allclose(np.asarray(found), theirs(wide), limit, limit)
        one = ours(x[0])
        assert one.shape == ()
        np.testing.assert_allclose(np.asarray(one), theirs(wide[0]), limit)


def test_a_constant_has_no_correlation() -> None:
    found = md.corrcoef(md.asarray([[1.0, 2.0], [3.0, 3.0]])).tolist()
    assert found[0][0] == 1.0
    assert all(np.isnan(one) for one in (found[0][1], *found[1]))


def test_wrong_calls_raise() -> None:
    with pytest.raises(ShapeError, match="3 axes"):
        md.cov(md.ones((2, 2, 2)))
    with pytest.raises(ShapeError, match="1 observations are too few"):
        md.cov(md.ones((2, 1)))
    with pytest.raises(OptionError, match="correction is -1"):
        md.cov(md.ones(3), correction=-1)
    with pytest.raises(DispatchError, match="corrcoef is not defined for"):
        md.corrcoef(md.asarray([True]))
