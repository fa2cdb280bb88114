"""`interp` and `trapezoid` against fractions and NumPy."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, ShapeError

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


ANY = st.sampled_from([-2.0, 0.0, 1.0, 3.0, np.inf, -np.inf, np.nan])


@given(st.lists(ANY, min_size=2, max_size=5), st.lists(st.integers(-2, 10)))
def test_a_value_that_is_not_finite_stays_at_its_point(
    values: list[float], at: list[int]
) -> None:
    xp, fp, x = np.arange(0.0, len(values)), np.float64(values), np.float64(at) / 2
    with np.errstate(invalid="ignore"):
        wanted = np.interp(x, xp, fp)
    found = md.interp(*map(md.asarray, (x, xp, fp)))
    np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


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


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_gradient_against_numpy(axis: Any) -> None:
    rng = np.random.default_rng(8)
    array, places = rng.normal(size=(4, 4)), np.cumsum(rng.uniform(0.1, 2, 4))
    for x in (0.5, places):
        found = md.gradient(md.asarray(array), x, axis=axis)
        steps = (x, x) if axis is None else (x,)
        wanted = np.gradient(array, *steps, axis=axis)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert isinstance(found, tuple) is (axis is None)


@given(st.lists(ANY | st.just(1e20), min_size=2, max_size=6), st.sampled_from([1, 0.5]))
def test_an_element_does_not_change_its_own_slope(
    values: list[float], distance: float
) -> None:
    with np.errstate(invalid="ignore"):
        wanted = np.gradient(np.float64(values), distance)
    found = md.gradient(md.asarray(values, dtype=md.float64), distance)
    np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


@given(st.lists(st.integers(-99, 99), min_size=2, max_size=9), st.integers(1, 9))
def test_gradient_of_whole_numbers_is_exact(values: list[int], step: int) -> None:
    ends = [values[1] - values[0], values[-1] - values[-2]]
    pairs = zip(values, values[2:], strict=False)
    inside = [Fraction(after - before, 2) for before, after in pairs]
    wanted = [ends[0], *inside, ends[1]]
    places = md.asarray([step * i for i in range(len(values))])
    assert md.gradient(md.asarray(values)).tolist() == wanted
    # The steps are equal, so both ways have the same slopes up to a rounding.
    found = md.gradient(md.asarray(values), places)
    assert found.dtype is md.float64
    np.testing.assert_allclose(found, [float(w / step) for w in wanted], rtol=1e-14)
    narrow = md.asarray(values, dtype=md.float16)
    assert md.gradient(narrow).dtype is md.float16


def test_what_gradient_refuses() -> None:
    x = md.ones((2, 1))
    with pytest.raises(ShapeError, match="axis 1 has 1 elements"):
        md.gradient(x)
    with pytest.raises(ShapeError, match=r"Give a number, or x of \(2,\)"):
        md.gradient(x, md.ones(3), axis=0)
    with pytest.raises(ShapeError, match="axis"):
        md.gradient(x, axis=2)
    with pytest.raises(OptionError, match="x must be a real number"):
        md.gradient(x, "1", axis=0)
    with pytest.raises(DispatchError, match="gradient is not defined for"):
        md.gradient(md.asarray([1j, 2]))
