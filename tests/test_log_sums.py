"""`logsumexp` against exact logarithms of sums, and at infinities."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, ShapeError

NUMBERS = st.lists(st.floats(-700, 700), min_size=1, max_size=9)


@given(NUMBERS, st.sampled_from([0, 10_000, -10_000]))
def test_one_row_against_python(values: list[float], far: int) -> None:
    top = max(values)
    wanted = far + top + math.log(math.fsum(math.exp(v - top) for v in values))
    x = md.asarray([far + v for v in values], dtype=md.float64)
    assert math.isclose(md.logsumexp(x).item(), wanted, rel_tol=1e-12, abs_tol=1e-10)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_and_types(axis: Any, keepdims: bool) -> None:
    array = np.random.default_rng(5).normal(size=(2, 3, 4))
    wanted = np.log(np.exp(array).sum(axis=axis, keepdims=keepdims))
    for dtype, error in ((md.float64, 1e-14), (md.float32, 1e-6), (md.float16, 2e-3)):
        x = md.astype(md.asarray(array), dtype, casting="round")
        found = md.logsumexp(x, axis=axis, keepdims=keepdims)
        assert found.dtype is dtype
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=error, atol=error)


def test_infinities_and_nan() -> None:
    inf, nan = math.inf, math.nan
    rows = md.asarray([[-inf, -inf], [inf, 1.0], [-inf, 2.0], [nan, 1.0], [inf, -inf]])
    assert str(md.logsumexp(rows, axis=1).tolist()) == "[-inf, inf, 2.0, nan, inf]"


def test_what_it_refuses() -> None:
    with pytest.raises(DispatchError, match=r"x is int64. Use astype\(x, float32"):
        md.logsumexp(md.asarray([1]))
    with pytest.raises(DispatchError, match="logsumexp is not defined for"):
        md.logsumexp(md.asarray([1j]))
    with pytest.raises(ShapeError):
        md.logsumexp(md.zeros((0,)))
