"""`median` and `quantile` against rational numbers and NumPy."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError, OptionError, ShapeError
from mdtensor.order_statistics import CHOICES, POSITIONS

VALUES = st.lists(st.integers(-50, 50), min_size=1, max_size=9)


@given(VALUES)
def test_median_of_integers_is_the_exact_middle(values: list[int]) -> None:
    ordered = sorted(values)
    n = len(ordered)
    wanted = Fraction(ordered[(n - 1) // 2] + ordered[n // 2], 2)
    for kind in (md.int32, md.float32, md.float64):
        assert md.median(md.asarray(values, dtype=kind)).item() == wanted


@given(VALUES, st.integers(0, 16))
def test_linear_quantiles_are_exact_fractions(
    values: list[int], sixteenths: int
) -> None:
    ordered, part = sorted(values), Fraction(sixteenths, 16)
    at = (len(ordered) - 1) * part
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    wanted = ordered[low] + (ordered[high] - ordered[low]) * (at - low)
    found = md.quantile(md.asarray(values, dtype=md.float64), float(part))
    assert found.item() == wanted


@pytest.mark.parametrize("method", [*POSITIONS, *CHOICES])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("q", [0, 1.0, 0.3, [0.1, 0.5, 0.77]])
def test_quantile_against_numpy(method: Any, axis: Any, q: Any) -> None:
    array = np.random.default_rng(7).normal(size=(3, 4, 5))
    for keepdims in (False, True):
        options = {"axis": axis, "method": method, "keepdims": keepdims}
        found = np.asarray(md.quantile(md.asarray(array), q, **options))
        wanted = np.quantile(array, q, **options)
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-14, strict=True)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_median_against_numpy(axis: Any) -> None:
    array = np.random.default_rng(8).normal(size=(5, 4)).astype(np.float32)
    found = np.asarray(md.median(md.asarray(array), axis=axis, keepdims=True))
    np.testing.assert_array_equal(found, np.median(array, axis=axis, keepdims=True))


def test_types_nan_and_infinities() -> None:
    assert type(md.median(md.asarray([1, 2]))) is type(md.mean(md.asarray([1, 2])))
    rows = md.asarray([[1.0, np.nan, 2.0], [np.inf, np.inf, 1.0]])
    assert str(md.median(rows, axis=1).tolist()) == "[nan, inf]"
    assert (
        str(md.quantile(rows, [0.6, 1], axis=1).tolist()) == "[[nan, inf], [nan, inf]]"
    )
    half = md.asarray([1.0, 2.0], dtype=md.float16)
    assert md.quantile(half, 0.25) == 1.25
    assert md.quantile(half, 0.25).dtype is md.float16


def test_what_they_refuse() -> None:
    x = md.asarray([1.0, 2.0])
    for part in (-0.1, 1.5, float("nan")):
        with pytest.raises(OptionError, match="q is"):
            md.quantile(x, part)
    with pytest.raises(OptionError, match="method is 'middle'"):
        md.quantile(x, 0.5, method="middle")
    with pytest.raises(ShapeError, match="no elements"):
        md.median(md.zeros((0,)))
    with pytest.raises(ShapeError):
        md.median(x, axis=1)
    with pytest.raises(OptionError, match="q has 2 axes"):
        md.quantile(x, md.ones((1, 1)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "fix"),
    [
        (quant.QInt8Tensor([1], scale=0.5), "Use dequantize(x) or x.codes."),
        (md.asarray([1j]), "Use real(x), imag(x) or abs(x)."),
        (md.asarray([True]), "Use astype(x, int64)."),
    ],
)
def test_errors_of_elements_that_are_not_real(x: Any, fix: str) -> None:
    calls = {
        "median": md.median,
        "quantile": lambda x: md.quantile(x, 0.5),
        "percentile": lambda x: md.percentile(x, 50),
        "nansum": md.nansum,
        "bincount": md.bincount,
        "cov": md.cov,
    }
    for name, call in calls.items():
        with pytest.raises(DispatchError) as caught:
            call(x)
        text = f": {name} is not defined for {x.dtype}. {fix}"
        assert str(caught.value) == f"{name}({type(x).__name__}[1]){text}"


@pytest.mark.parametrize("q", [0, 100, 30.0, [10, 50, 77.5]])
def test_percentile_is_the_quantile_of_parts_of_100(q: Any) -> None:
    array = np.random.default_rng(7).normal(size=(3, 4))
    for axis in (None, 0):
        found = np.asarray(md.percentile(md.asarray(array), q, axis=axis))
        wanted = np.percentile(array, q, axis=axis)
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-14, strict=True)
    with pytest.raises(OptionError, match="from 0 to 100"):
        md.percentile(md.asarray(array), 100.5)
