"""Parts of complex numbers."""

import numpy as np
import pytest
from support.elements import COMPLEX, REAL, edges, same

import mdtensor as md
from mdtensor.errors import DispatchError


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
