"""From Python values to buffers: what is taken, what is refused."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.coercion import host_array
from mdtensor.errors import CastError, ShapeError

BF16 = md.bfloat16.storage.type
INTEGERS = [leaf.dtype for leaf in md.leaves()[:15] if leaf.dtype.is_integer]


@given(st.sampled_from(INTEGERS), st.integers(-(2**70), 2**70))
def test_integers_fit_or_are_refused(dtype: md.DType, value: int) -> None:
    if dtype.minimum <= value <= dtype.maximum:
        found = host_array([value], dtype)
        assert found.dtype == dtype.storage
        assert found.tolist() == [value]
    else:
        with pytest.raises((CastError, ShapeError)):
            host_array([value], dtype)


@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=2, max_size=4))
def test_one_misfit_refuses_the_whole(values: list[int]) -> None:
    fits = all(-(2**63) <= v < 2**63 for v in values)
    if fits:
        assert host_array(values, md.int64).tolist() == values
    else:
        with pytest.raises(CastError):
            host_array(values, md.int64)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4))
def test_unsigned_integers_are_exact(values: list[int]) -> None:
    assert host_array(values, md.uint64).tolist() == values
    assert md.asarray(values).tolist() == values


def test_huge_integers_overflow() -> None:
    """No element type holds them, and infinity is not what they are."""
    for dtype in (md.float16, md.float64, md.int64):
        with pytest.raises(CastError):
            host_array([10**400, -(10**400)], dtype)


@given(st.floats(allow_nan=False))
def test_floats_round_to_nearest(value: float) -> None:
    """A finite number that would become infinite is refused."""
    number = complex(value, -value)
    with np.errstate(over="ignore"):
        for dtype in (md.float16, md.float32, md.float64, md.complex64, md.complex128):
            given = number if dtype.is_complex else value
            wanted = dtype.storage.type(given)
            if np.isfinite(value) and not np.isfinite(wanted):
                with pytest.raises(CastError):
                    host_array(given, dtype)
            else:
                assert host_array(given, dtype) == wanted


@given(
    st.one_of(
        st.floats(-1e30, 1e30),
        st.builds(
            lambda m, e, tiny: (m + 0.5 + tiny) * 2.0**e,  # halfway, or near it
            *(st.integers(128, 255), st.integers(-100, 100)),
            st.sampled_from([0.0, 2.0**-40, -(2.0**-40)]),
        ),
    )
)
def test_bfloat16_is_rounded_once(value: float) -> None:
    near = host_array(value, md.bfloat16)
    found = Fraction(float(near))
    upper, lower = (np.nextafter(near, BF16(end)) for end in (4e38, -4e38))
    exact = Fraction(value)
    best = min(abs(Fraction(float(n)) - exact) for n in (lower, found, upper))
    assert abs(found - exact) == best
    ties = [n for n in (lower, upper) if abs(Fraction(float(n)) - exact) == best]
    if ties:
        assert near.view(np.uint16) % 2 == 0


@pytest.mark.parametrize(
    ("values", "dtype", "error"),
    [
        ([1.5], md.int8, CastError),
        ([1.0], md.int8, CastError),
        ([1], md.bool, CastError),
        (["a"], md.float32, CastError),
        (["1"], md.int8, CastError),
        ([1j], md.float32, CastError),
        ([None], md.float32, CastError),
        ([[1], [2, 3]], md.int8, ShapeError),
        ([[1.0], 2.0], md.float32, ShapeError),
        (np.array([1.0]), md.float32, CastError),
        (np.int16(1), md.int8, CastError),
        ([2**80], md.float32, None),
        ([10**400, -1], md.float16, CastError),
        ([2**80, 0.5], md.float64, None),
        ([1, 2**63], md.uint64, None),
        ([np.uint64(2**63), 1], md.uint64, None),
        ([np.uint8(1), 300], md.uint8, CastError),
        ([BF16(1), 1], md.bfloat16, None),
        ([BF16(1), 0.5], md.float64, None),
        ([1j, 2], md.complex64, None),
        ([1j], md.bfloat16, CastError),
        ([-1, 2**63], md.uint64, CastError),
        ([{}], md.int8, CastError),
        ([True, 2], md.int8, None),
        ([], md.int8, None),
        ([[]], md.bool, None),
    ],
    ids=str,
)
def test_what_is_refused(values: Any, dtype: md.DType, error: Any) -> None:
    if error is None:
        assert host_array(values, dtype).dtype == dtype.storage
    else:
        with pytest.raises(error):
            host_array(values, dtype)


def test_arrays_are_shared() -> None:
    array = np.arange(4, dtype=np.int8)
    assert host_array(array, md.int8) is array
    assert host_array(np.int8(3), md.int8).shape == ()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([300], "cannot represent int64 values of 300. Use dtype=int16"),
        ([2**70], f"cannot represent integer values of {2**70}. "),
        ([float("nan"), 1.5], "nan is among the values. Replace it first, or use "),
        ({1, 2}, "values of type set are not numbers that uint8 can represent"),
        ((n for n in (1,)), "values of type generator are not numbers"),
        ([1, None], "values of type NoneType are not numbers"),
        (["1", "2"], "values of type str are not numbers"),
        ([1, b"2"], "values of type bytes are not numbers"),
        ([1, 2j], "values of type complex128 are not numbers"),
        ([2**70, 2j], "values of type complex are not numbers"),
    ],
)
def test_errors_name_the_values(values: Any, said: str) -> None:
    with pytest.raises(CastError) as caught:
        host_array(values, md.uint8)
    assert said in str(caught.value)


def test_errors_read_well() -> None:
    with pytest.raises(CastError) as caught:
        host_array([1, 300], md.uint8)
    assert str(caught.value) == (
        "uint8 represents 0 to 255; cannot represent int64 values from 1 to 300. "
        'Use dtype=int16 or astype(asarray(values), uint8, casting="saturate").'
    )
    with pytest.raises(CastError) as fraction:
        host_array([1.5], md.int64)
    assert str(fraction.value) == (
        "int64 represents integers, and the values are float64, of 1.5. "
        'Use astype(asarray(values), int64, casting="round").'
    )
    with pytest.raises(CastError) as array:
        host_array(np.zeros(1), md.float32)
    assert str(array.value) == (
        "the array holds float64, not float32. Use astype(asarray(a), float32)."
    )
    with pytest.raises(ShapeError) as ragged:
        host_array([[1], [2, 3]], md.int8)
    assert str(ragged.value) == (
        "the values do not form an array of numbers. "
        "Give numbers, or sequences of equal length."
    )
    with pytest.raises(CastError) as numbers:
        host_array([0, 1], md.bool)
    assert str(numbers.value) == ("values of int64 are not bools. Use asarray(a) != 0.")


@pytest.mark.parametrize("small", [0.5, 1j, True, 1])
def test_large_integers_stand_in_any_order(small: complex) -> None:
    wide = md.complex128 if isinstance(small, complex) else md.float64
    for values in ([small, 2**70], [2**70, small]):
        assert host_array(values, wide).tolist() == values
        with pytest.raises(CastError):
            host_array(values, md.int64)
    with pytest.raises(CastError, match="are not numbers"):
        host_array([0.5, 2**70, "x"], wide)
