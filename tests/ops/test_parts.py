"""Parts of complex numbers."""

from typing import Any

import numpy as np
import pytest
from support.elements import COMPLEX, REAL, edges, same

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError, ShapeError


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers_have_parts(dtype: md.DType) -> None:
    z = edges(dtype)
    half = md.float32 if dtype is md.complex64 else md.float64
    parts = md.real(md.from_numpy(z)), md.imag(md.from_numpy(z))
    for found, want in zip(parts, (z.real, z.imag), strict=True):
        assert found.dtype is half
        assert same(found.buffer, want)
        assert not np.shares_memory(found.buffer, z)
    conjugate = md.conj(md.from_numpy(z)).buffer
    assert same(conjugate.real, z.real)
    assert same(conjugate.imag, -z.imag)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_real_numbers_are_their_own(dtype: md.DType) -> None:
    x = md.from_numpy(edges(dtype))
    for operation in (md.real, md.conj):
        found = operation(x)
        assert same(found.buffer, x.buffer)
        assert not np.shares_memory(found.buffer, x.buffer)
    is_wide = dtype in (md.float64, md.int32, md.uint32)  # exact there only
    wide = "complex128" if is_wide else "complex64"
    with pytest.raises(DispatchError, match=rf"Use astype\(x, {wide}\)"):
        md.imag(x)


def test_truth_values_have_no_parts() -> None:
    for operation in (md.real, md.imag, md.conj):
        with pytest.raises(DispatchError):
            operation(md.asarray([True]))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("key", [..., (..., None), slice(None, None, -2), (0, ...)])
def test_pairs_of_parts_share_memory(dtype: md.DType, key: Any) -> None:
    z = edges(dtype)[key]
    pairs = md.view_as_real(md.from_numpy(z))
    assert pairs.dtype is (md.float32 if dtype is md.complex64 else md.float64)
    assert same(pairs.buffer, np.stack([z.real, z.imag], axis=-1))
    assert np.shares_memory(pairs.buffer, z)
    back = md.view_as_complex(pairs)
    assert back.dtype is dtype and same(back.buffer, z)
    assert np.shares_memory(back.buffer, z)


def test_pairs_of_a_read_only_tensor_are_read_only() -> None:
    z = np.array([1 + 2j])
    z.flags.writeable = False
    pairs = md.view_as_real(md.from_numpy(z))
    with pytest.raises(md.errors.WriteError):
        pairs[0, 0] = 5


def test_parts_that_are_apart_are_copied() -> None:
    x = np.arange(6.0).reshape(2, 3)
    found = md.view_as_complex(md.from_numpy(x.T))
    assert found.tolist() == [0 + 3j, 1 + 4j, 2 + 5j]
    assert md.view_as_complex(md.zeros((3, 0, 2))).shape == (3, 0)
    assert md.view_as_real(md.zeros((0, 3), dtype=md.complex64)).shape == (0, 3, 2)


def test_other_pairs_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"axis of size 2, got shape \(3,\)"):
        md.view_as_complex(md.zeros((3,)))
    with pytest.raises(ShapeError, match=r"got shape \(\)"):
        md.view_as_complex(md.asarray(1.0))
    with pytest.raises(PromotionError, match="float32 or float64, not float16"):
        md.view_as_complex(md.zeros((2,), dtype=md.float16))
    with pytest.raises(DispatchError):
        md.view_as_real(md.zeros((2,)))
