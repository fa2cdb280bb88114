"""pandas and xarray with tensors: arithmetic, masks, element types, construction."""

import operator
from typing import Any

import numpy as np
import pytest

import mdtensor as md

pd: Any = pytest.importorskip("pandas")
xr: Any = pytest.importorskip("xarray")

pytestmark = pytest.mark.slow

VALUES = np.array([1.0, 2.0, 3.0])
X = md.asarray(VALUES)
SYMBOLS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.pow),
    *(operator.floordiv, operator.mod, operator.eq, operator.ne, operator.lt),
    operator.ge,
]


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_series_computes_with_tensors(symbol: Any) -> None:
    series = pd.Series([3.0, 2.0, 1.0], index=list("abc"), name="s")
    for found, wanted in (
        (symbol(series, X), symbol(series, VALUES)),
        (symbol(X, series), symbol(VALUES, series)),
    ):
        pd.testing.assert_series_equal(found, wanted)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_labelled_array_computes_with_tensors(symbol: Any) -> None:
    array = xr.DataArray([3.0, 2.0, 1.0], dims="a", coords={"a": [5, 6, 7]})
    for found, wanted in (
        (symbol(array, X), symbol(array, VALUES)),
        (symbol(X, array), symbol(VALUES, array)),
    ):
        assert isinstance(found, xr.DataArray)
        assert np.array_equal(found.a, wanted.a)
        assert np.array_equal(np.asarray(found.data), wanted.data)


def test_missing_values_stay_missing() -> None:
    holes = pd.array([1, None, 3])
    for found in (holes + X, X + holes):
        assert found.isna().tolist() == [False, True, False]


def test_frames_and_labelled_arrays_are_made_of_tensors() -> None:
    frame = pd.DataFrame({"a": X, "b": md.asarray([1, 2, 3], dtype=md.int8)})
    assert frame.dtypes.tolist() == [np.float64, np.int8]
    assert pd.Series(X).tolist() == VALUES.tolist()
    assert md.asarray(frame).tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert md.asarray(pd.Series(X)).tolist() == VALUES.tolist()
    labelled = xr.DataArray(X, dims="a")
    assert (labelled + 1).mean().item() == 3.0
    assert md.asarray(labelled).tolist() == VALUES.tolist()


def test_their_masks_and_indices_select() -> None:
    mask = [True, False, True]
    masks = (pd.Series(mask), pd.Index(mask), pd.array(mask), xr.DataArray(mask))
    for given in masks:
        assert X[given].tolist() == [1.0, 3.0]
    for given in (pd.Series([2, 0]), pd.Index([2, 0]), xr.DataArray([2, 0])):
        assert X[given].tolist() == [3.0, 1.0]
    assert X[None][pd.DataFrame([mask])].tolist() == [1.0, 3.0]
    with pytest.raises(md.BoundsError, match="cannot index with BooleanArray"):
        X[pd.array([True, None, False])]


def test_element_types_go_both_ways() -> None:
    series = pd.Series(VALUES)
    assert series.astype(md.float32).dtype == md.float32
    assert pd.Series([1, 2], dtype=md.int16).dtype == np.int16
    assert xr.DataArray(VALUES).astype(md.float32).dtype == md.float32
    assert md.zeros(2, dtype=series.dtype).dtype is md.float64
    with pytest.raises(md.OptionError, match="no element type like a Int8Dtype"):
        md.zeros(2, dtype=pd.Int8Dtype())


def test_dates_and_texts_are_told_a_way() -> None:
    dates = pd.to_datetime(["2024-02-29"])
    for given in (dates, dates - dates):
        with pytest.raises(md.CastError, match=r"the numbers alone, a.astype\('int"):
            md.asarray(given)
        assert md.asarray(given.astype("int64")).dtype is md.int64
    with pytest.raises(md.OptionError, match=r"no element type .*a.astype\(float"):
        md.asarray(pd.DataFrame({"name": ["x"], "count": [1]}))


def test_functions_name_the_conversion() -> None:
    for given in (pd.Series(VALUES), xr.DataArray(VALUES), pd.DataFrame([VALUES])):
        with pytest.raises(md.NoMethodError, match=r"Use asarray\(x2\) to make it"):
            md.add(X, given)
        with pytest.raises(md.MdtensorError, match=r"not a number|the value is a"):
            md.asarray(X, copy=True)[:] = given
