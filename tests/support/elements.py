"""Numbers that arithmetic stumbles over, of every type, and NumPy as the oracle."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import mdtensor as md

DTYPES = [leaf.dtype for leaf in md.leaves()[:15]]
NUMBERS = DTYPES[1:]
INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
FLOATS = [dtype for dtype in DTYPES if dtype.is_floating]
COMPLEX = [dtype for dtype in DTYPES if dtype.is_complex]
REAL = INTEGERS + FLOATS
INEXACT = FLOATS + COMPLEX

_FLOATS = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1e-8, 88.5, 700.0, 65504.0, np.inf]
_PARTS = [0.0, -0.0, 1.0, -1.5, 1e-10, 40.0, np.inf, np.nan]


def edges(dtype: md.DType) -> Any:
    """A line of numbers of `dtype`, its ends and its exceptions among them."""
    if dtype is md.bool:
        return np.array([False, True])
    if dtype.is_integer:
        near = [0, 1, 2, 3, 7, 8, dtype.bits - 1, dtype.bits, dtype.maximum - 1]
        all_ = {*near, *(-n for n in near), dtype.minimum, dtype.maximum}
        held = sorted(n for n in all_ if dtype.minimum <= n <= dtype.maximum)
        return np.array(held, dtype.storage)
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            return np.array(
                [complex(*z) for z in product(_PARTS, _PARTS)], dtype.storage
            )
        ends = [dtype.maximum, float(np.nextafter(np.float32(0), np.float32(1)))]
        signed = [sign * x for x in _FLOATS + ends for sign in (1, -1)]
        return np.array([*signed, np.nan]).astype(dtype.storage)


def as_numpy(ufunc: Callable[..., Any], dtype: md.DType, *operands: Any) -> Any:
    """NumPy's result of operands cast to `dtype`; 16-bit floats in float32."""
    is_narrow = dtype.is_floating and dtype.bits == 16
    with np.errstate(all="ignore"):
        cast = [np.asarray(x).astype(dtype.storage, copy=False) for x in operands]
        if is_narrow:
            cast = [x.astype(np.float32) for x in cast]
        found = np.asarray(ufunc(*cast))
        is_rounded = is_narrow and found.dtype == np.float32
        return found.astype(dtype.storage) if is_rounded else found


def near(found: Any, want: Any, ulps: float) -> bool:
    """Whether float32 is near float64 numbers; zeros have their signs.

    Args: ulps: the largest error, in last places of the nearest float32.
    """
    wanted = want.astype(np.float32)
    places = np.spacing(np.maximum(np.abs(wanted), np.float32(2.0**-126)))
    with np.errstate(invalid="ignore"):
        off = np.abs(found.astype(np.float64) - want) <= ulps * places
    signs = (np.signbit(found) == np.signbit(want)) | (want != 0)
    equal = (found == wanted) | (np.isnan(found) & np.isnan(want))
    return found.dtype == np.float32 and bool(((off & signs) | (equal & signs)).all())


def same(found: Any, want: Any) -> bool:
    """Whether two arrays have one type and shape, and the same bits except in NaN."""
    if (found.dtype, found.shape) != (want.dtype, want.shape):
        return False
    if found.dtype.kind == "c":
        return same(found.real, want.real) and same(found.imag, want.imag)
    if found.dtype.kind in "biu":
        return bool(np.array_equal(found, want))
    x, y = (a.astype(np.float64) for a in (found, want))
    signs = np.signbit(x) == np.signbit(y)
    return bool(np.array_equal(x, y, equal_nan=True) and np.all(signs | np.isnan(x)))


def wrapped(value: int, dtype: md.DType) -> int:
    """`value` modulo 2**bits, in the range of `dtype`."""
    low = int(dtype.minimum)
    return (value - low) % 2**dtype.bits + low
