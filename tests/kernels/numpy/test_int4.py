"""Two codes a byte: against Python integers, and against ONNX's own packing."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.numpy.conversion import choose_int4, pack_int4, unpack_int4
from mdtensor.kernels.reference import elementwise as oracle

SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@pytest.mark.parametrize("signed", [True, False])
@given(shape=SHAPES, seed=st.integers(0, 99), step=st.sampled_from([1, -1, 2]))
def test_rows_are_those_of_the_oracle(signed, shape, seed, step):
    low, high = (-8, 8) if signed else (0, 16)
    dtype = np.int8 if signed else np.uint8
    wide = (*shape[:-1], 2 * shape[-1]) if shape else ()
    drawn = np.random.default_rng(seed).integers(low, high, wide).astype(dtype)
    codes = drawn[..., ::step] if shape else drawn
    packed = pack_int4(codes)
    rows = codes.reshape(-1, *codes.shape[-1:]).tolist() if codes.size else []
    wanted = [oracle.pack_int4(np.atleast_1d(row).tolist()) for row in rows]
    assert packed.dtype == np.uint8
    assert packed.reshape(-1).tolist() == [byte for row in wanted for byte in row]
    again = unpack_int4(packed, codes.shape, signed)
    assert again.dtype == dtype and again.flags.c_contiguous
    assert np.array_equal(again, codes) and again.shape == codes.shape


def test_every_byte_is_two_codes():
    packed = np.arange(256, dtype=np.uint8)
    for signed in (True, False):
        got = unpack_int4(packed, (512,), signed)
        assert got.tolist() == oracle.unpack_int4(packed.tolist(), 512, signed)
        assert np.array_equal(pack_int4(got), packed)


def test_one_code_of_each_byte():
    packed = np.arange(256, dtype=np.uint8)
    for signed in (True, False):
        both = unpack_int4(packed, (512,), signed).reshape(256, 2)
        for high in (0, 1):
            found = choose_int4(packed, np.full(256, high), signed)
            assert found.dtype == both.dtype
            assert np.array_equal(found, both[:, high])


def test_codes_have_as_many_axes_as_arrays():
    codes = np.full((1,) * 64, 3, np.uint8)
    packed = pack_int4(codes)
    assert unpack_int4(packed, codes.shape, False).shape == codes.shape


def test_the_order_is_that_of_onnx():
    numpy_helper = pytest.importorskip("onnx.numpy_helper")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.array([1, 2, 3, -4, 7], np.int8)
    stored = numpy_helper.from_array(codes.astype(ml_dtypes.int4))
    assert pack_int4(codes).tobytes() == stored.raw_data == b"\x21\xc3\x07"
