"""`interp` and `trapezoid` against fractions and NumPy."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import ShapeError

VALUES = st.integers(-20, 20)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8), st.lists(VALUES))
def test_interp_against_numpy(pairs: list[tuple[int, int]], at: list[int]) -> None:
    points = dict(sorted(pairs))
    # NumPy drops NaN where there is one point alone.
    ends = [np.inf, -np.inf, *([np.nan] if len(points) > 1 else [])]
    xp, fp = np.float64([*points]), np.float64([*points.values()])
    x = np.float64([*at, *points, *ends]) + 0.5 * (len(at) % 2)
    for beyond in ({}, {"left": -7.0, "right": 9.0}):
        found = md.interp(*map(md.asarray, (x, xp, fp)), **beyond)
        wanted = np.interp(x, xp, fp, **beyond)
        np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


def test_nan_stays_beside_one_point() -> None:
    found = md.interp(md.asarray([np.nan, 3.0]), md.asarray([1.0]), md.asarray([2.0]))
    assert np.isnan(found[0].item()) and found[1].item() == 2.0


def test_the_result_is_rounded_once() -> None:
    x, xp, fp = (np.random.default_rng(i).normal(size=50) for i in range(3))
    given_ = [np.float32(a) for a in (x, np.sort(xp), fp)]
    found = md.interp(*map(md.asarray, given_))
    wanted = np.interp(*map(np.float64, given_)).astype(np.float32)
    assert np.asarray(found).tobytes() == wanted.tobytes()
    assert md.interp(md.asarray([[1, 2]]), *map(md.asarray, given_[1:])).shape == (1, 2)


@given(st.lists(VALUES, min_size=1, max_size=9))
def test_trapezoid_of_integers_is_exact(values: list[int]) -> None:
    wanted = sum((Fraction(a + b, 2) for a, b in pairwise(values)), Fraction(0))
    for kind in (md.int32, md.float32, md.float64):
        y = md.asarray(values, dtype=kind)
        assert md.trapezoid(y).item() == wanted
        assert md.trapezoid(y, dx=0.5).item() == wanted / 2
        places = md.asarray(np.arange(len(values)) * 2)
        assert md.trapezoid(y, places).item() == wanted * 2


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_trapezoid_along_axes(axis: int) -> None:
    rng = np.random.default_rng(2)
    y, x = rng.normal(size=(4, 5)), np.sort(rng.normal(size=(4, 5)), axis)
    for places in (None, x, np.sort(rng.normal(size=y.shape[axis]))):
        given_ = None if places is None else md.asarray(places)
        found = np.asarray(md.trapezoid(md.asarray(y), given_, axis=axis))
        wanted = np.trapezoid(y, places, axis=axis)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, strict=True)


def test_wrong_shapes_raise() -> None:
    x: Any = md.ones(3)
    with pytest.raises(ShapeError, match="one value for each point"):
        md.interp(x, md.ones(2), x)
    with pytest.raises(ShapeError, match="one value for each point"):
        md.interp(x, md.zeros(0), md.zeros(0))
    with pytest.raises(ShapeError, match=r"x has the shape \(2,\)"):
        md.trapezoid(x, md.ones(2))
    with pytest.raises(ShapeError):
        md.trapezoid(x, axis=1)
