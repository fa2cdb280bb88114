"""The error function against Python's own."""

import math

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DispatchError

FLOATS = [md.bfloat16, md.float16, md.float32, md.float64]


def grid(dtype: md.DType) -> np.ndarray:
    """Numbers between the points of the table, beyond its end, and very small ones."""
    near = np.linspace(-6.1, 6.1, 20011)
    small = [s * 2.0**-k for k in range(1, 120, 7) for s in (1, -1)]
    with np.errstate(under="ignore"):
        return np.concatenate([near, small]).astype(dtype.storage)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_erf_is_right_to_the_last_digit(dtype: md.DType) -> None:
    x = grid(dtype)
    want = np.array([math.erf(v) for v in x.astype(np.float64)])
    found = md.erf(md.from_numpy(x)).buffer
    assert found.dtype == dtype.storage
    if dtype is md.float64:
        assert (np.abs(found - want) <= 2 * np.spacing(np.abs(want))).all()
    elif dtype is md.float32:
        ulp = np.spacing(np.abs(want).astype(np.float32))
        assert (np.abs(found.astype(np.float64) - want) <= 1.1 * ulp).all()
    else:
        with np.errstate(under="ignore"):
            assert np.array_equal(found, want.astype(dtype.storage))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_erf_at_the_ends(dtype: md.DType) -> None:
    x = md.asarray([-math.inf, -0.0, 0.0, math.inf, math.nan], dtype=dtype)
    found = md.erf(x).tolist()
    assert found[:4] == [-1.0, 0.0, 0.0, 1.0]
    assert math.copysign(1, found[1]) == -1.0
    assert math.isnan(found[4])


def test_erf_of_many_blocks_and_any_strides() -> None:
    x = np.linspace(-3, 3, 60000).reshape(300, 200)
    whole = md.erf(md.from_numpy(x)).buffer
    part = md.erf(md.from_numpy(x[::-2, ::3])).buffer
    assert np.array_equal(part, whole[::-2, ::3])
    one = np.broadcast_to(np.float64(0.5), (2, 0, 3))
    assert md.erf(md.from_numpy(one)).shape == (2, 0, 3)
    assert md.erf(md.asarray(0.5)).shape == ()


def test_erf_is_for_floats() -> None:
    with pytest.raises(DispatchError):
        md.erf(md.asarray([1]))
