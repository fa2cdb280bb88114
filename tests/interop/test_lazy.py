"""dask and zarr with tensors: operands, masks, element types, construction."""

import operator
from typing import Any

import numpy as np
import pytest

import mdtensor as md

da: Any = pytest.importorskip("dask.array")
zarr: Any = pytest.importorskip("zarr")

pytestmark = pytest.mark.slow

VALUES = np.array([1.0, 2.0, 3.0])
X = md.asarray(VALUES)
SYMBOLS = [operator.add, operator.mul, operator.matmul, operator.eq, operator.lt]


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("make", [da.from_array, zarr.array])
def test_operands_must_be_converted(symbol: Any, make: Any) -> None:
    for a, b in ((X, make(VALUES)), (make(VALUES), X)):
        with pytest.raises(md.NoMethodError, match=r"Use asarray\(x[12]\) to make it"):
            symbol(a, b)


@pytest.mark.parametrize("make", [da.from_array, zarr.array])
def test_conversion_masks_and_indices(make: Any) -> None:
    assert md.asarray(make(VALUES)).tolist() == VALUES.tolist()
    assert X[make(np.array([True, False, True]))].tolist() == [1.0, 3.0]
    assert X[make(np.array([2, 0]))].tolist() == [3.0, 1.0]
    with pytest.raises(md.BoundsError, match="cannot index with Array"):
        X[make(VALUES)]


def test_both_are_made_of_tensors_and_element_types() -> None:
    assert da.from_array(np.asarray(X), chunks=2).sum().compute() == 6.0
    assert da.zeros(3, dtype=md.float32).dtype == md.float32
    stored = zarr.zeros(3, dtype=md.float32)
    stored[:] = np.asarray(X)
    assert (stored.dtype, stored[:].tolist()) == (np.float32, VALUES.tolist())
    assert zarr.array(np.asarray(X))[:].tolist() == VALUES.tolist()
