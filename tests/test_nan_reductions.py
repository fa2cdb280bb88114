"""Reductions that leave NaN out, against those of the elements that are left."""

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError, ShapeError

NAN = math.nan
VALUES = st.lists(st.sampled_from([NAN, *range(-9, 10)]), min_size=1, max_size=12)


@given(VALUES)
def test_one_row_against_python(values: list[float]) -> None:
    left = [v for v in values if v == v]
    for kind in (md.float32, md.float64, md.float16, md.bfloat16):
        x = md.asarray(values, dtype=kind)
        assert md.nansum(x).item() == sum(left)
        found = md.nanmean(x)
        assert found.dtype is kind
        if not left:
            results = (found, md.nanmax(x), md.nanmin(x))
            assert all(math.isnan(one.item()) for one in results)
            continue
        mean = md.astype(md.asarray(sum(left) / len(left), dtype=md.float64), kind)
        assert found.item() == mean.item()
        assert md.nanmax(x).item() == max(left)
        assert md.nanmin(x).item() == min(left)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmax", "nanmin"])
def test_axes_against_numpy(name: str, axis: Any) -> None:
    rng = np.random.default_rng(4)
    array = rng.normal(size=(3, 4, 5))
    array[rng.random(array.shape) < 0.4] = np.nan
    array[1] = np.nan
    array[0, 0, 0] = np.inf
    for keepdims in (False, True):
        options: Any = {"axis": axis, "keepdims": keepdims}
        found = np.asarray(getattr(md, name)(md.asarray(array), **options))
        wanted = getattr(np, name)(array, **options)
        np.testing.assert_allclose(found, wanted, rtol=1e-14, strict=True)


def test_integers_have_no_nan() -> None:
    x = md.asarray([[1, 5], [2, 4]])
    assert md.nansum(x).tolist() == 12
    assert md.nanmean(x, axis=0).tolist() == [1.5, 4.5]
    assert md.nanmax(x, axis=1).tolist() == [5, 4]
    assert md.nanmin(x).dtype is md.int64


def test_lazy_and_compiled_calls_have_the_same_results() -> None:
    x = md.asarray([[1.0, NAN, 4.0], [2.0, 3.0, NAN]])
    for call in (md.nansum, md.nanmean, md.nanmax, md.nanmin):
        wanted = call(x, axis=1).tolist()
        compiled = md.compile(lambda x, call=call: call(x, axis=1))
        assert [compiled(x).tolist() for _ in range(3)] == [wanted] * 3
        assert call(x.to("lazy"), axis=1).tolist() == wanted


def test_other_elements_and_axes_raise() -> None:
    codes = quant.quantize(md.ones(3), quant.QParams(0.1, dtype=quant.qint8))
    for call in (md.nansum, md.nanmean, md.nanmax, md.nanmin):
        with pytest.raises(DispatchError, match=r"nan\w+ is not defined for"):
            call(codes)
        with pytest.raises(DispatchError):
            call(md.asarray([True]))
        with pytest.raises(ShapeError):
            call(md.ones(3), axis=1)
        with pytest.raises(DispatchError):
            call([1.0])


def test_types_of_results() -> None:
    x = md.asarray([1.0, float("nan"), 2.5], dtype="float32")
    assert md.nansum(x, dtype="float64").dtype is md.float64
    assert md.nanmean(x, dtype="float64").dtype is md.float64
    assert md.nanmean(md.asarray([1, 2]), dtype=md.float32).item() == 1.5
    # As xarray calls them.
    assert md.nanmean(x, axis=None, dtype=None).item() == 1.75


@given(VALUES, st.sampled_from([0, 1, 0.5]))
def test_spread_against_exact_numbers(values: list[float], correction: float) -> None:
    left = [Fraction(v) for v in values if v == v]
    for kind in (md.float32, md.float64, md.float16, md.bfloat16):
        x = md.asarray(values, dtype=kind)
        spread = md.nanvar(x, correction=correction)
        root = md.nanstd(x, correction=correction)
        assert spread.dtype is root.dtype is kind
        if len(left) <= correction:
            assert math.isnan(spread.item()) and math.isnan(root.item())
            continue
        middle = sum(left) / len(left)
        exact = sum((v - middle) ** 2 for v in left) / (
            len(left) - Fraction(correction)
        )
        near = md.finfo(kind).eps
        assert math.isclose(spread.item(), exact, rel_tol=near, abs_tol=near)
        assert math.isclose(root.item(), math.sqrt(exact), rel_tol=near, abs_tol=near)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nanmedian"])
def test_spread_and_middle_against_numpy(name: str, axis: Any, keepdims: bool) -> None:
    array = np.random.default_rng(6).normal(size=(3, 4, 5))
    array[array > 1] = NAN
    array[0, :, 0] = NAN
    array[:, 1, 2] = np.inf
    options: Any = {"axis": axis, "keepdims": keepdims}
    found = getattr(md, name)(md.asarray(array), **options)
    wanted = getattr(np, name)(array, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, strict=True)
    whole = md.asarray([[1, 2], [4, 8]])
    plain = getattr(np, name)(np.asarray(whole), axis=0)
    assert getattr(md, name)(whole, axis=0).tolist() == plain.tolist()


@given(VALUES)
def test_nanmedian_is_the_median_of_what_is_left(values: list[float]) -> None:
    left = [v for v in values if v == v]
    for kind in (md.float16, md.float32):
        found = md.nanmedian(md.asarray(values, dtype=kind))
        assert found.dtype is kind
        wanted = statistics.median(left) if left else NAN
        assert str(found.item()) == str(float(wanted))
