"""Floats that are not NumPy's own: rounded once, whatever they come from.

The oracle rounds rational numbers to the table of all that a type holds.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from math import inf

import ml_dtypes
import numpy as np
import pytest

from mdtensor.kernels.cpu.user.views import float8_casts
from mdtensor.kernels.numpy import conversion, float16, pool, ufunc

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)  # no infinity, and its largest is even
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
E3M4 = np.dtype(ml_dtypes.float8_e3m4)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES = [E4M3, E5M2, E3M4]
WIDE = [np.dtype(t) for t in ("f2", "f4", "f8")]

each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def everything(dtype):
    """All numbers of a type of 8 bits, by their bits."""
    return np.arange(256, dtype=np.uint8).view(dtype)


@cache
def finite(dtype):
    """All finite numbers, ascending."""
    numbers = everything(dtype).astype(np.float64)
    return sorted({Fraction(x) for x in numbers[np.isfinite(numbers)].tolist()})


def rounded(exact, dtype):
    """`exact` to nearest, ties to the even bits; None if it is beyond all."""
    table = finite(dtype)
    step = table[-1] - table[-2]
    table = [-table[-1] - step, *table, table[-1] + step]
    if not table[0] <= exact <= table[-1]:
        return None
    at = bisect_left(table, exact)
    low, high = table[max(at - 1, 0)], table[at]
    if exact - low == high - exact:
        found = low if is_even(low, dtype) else high
    else:
        found = low if exact - low < high - exact else high
    return None if found in (table[0], table[-1]) else found


def is_even(number, dtype):
    """Whether the last bit is 0; beyond the largest number it is what that has not."""
    most = finite(dtype)[-1]
    if abs(number) > most:
        return not is_even(most, dtype)
    return np.array(float(number)).astype(dtype).view(np.uint8) % 2 == 0


def near(dtype):
    """Every number, every tie, and what lies just beside them; in float64."""
    table = np.array([float(x) for x in finite(dtype)])
    step = table[-1] - table[-2]
    ties = (table[1:] + table[:-1]) / 2
    ends = [table[-1] + step / 2, -table[-1] - step / 2]
    points = np.concatenate([table, ties, ends])
    return np.concatenate(
        [points, np.nextafter(points, inf), np.nextafter(points, -inf)]
    )


def same(found, exact, dtype):
    """Whether an element is what the oracle says; None is what comes after the ends."""
    want = rounded(Fraction(exact), dtype)
    number = float(found)
    return number == want if want is not None else not np.isfinite(number)


@each_type
@pytest.mark.parametrize("source", WIDE, ids=str)
def test_floats_round_once(dtype, source):
    with np.errstate(over="ignore"):
        x = near(dtype).astype(source)
    found = conversion.nearest(x, dtype)
    assert found.dtype == dtype
    wrong = [a for a, b in zip(x.tolist(), found, strict=True) if not same(b, a, dtype)]
    assert wrong == []


@each_type
@pytest.mark.parametrize("source", ["i2", "i4", "i8", "u8"])
def test_integers_round_once(dtype, source):
    small = [n for n in range(-1000, 1000) if n >= 0 or source != "u8"]
    powers = [2**k + d for k in range(10, 15) for d in (-1, 0, 1)]
    halfway = [49152 * 2**30 + 1, 2**62 - 1] if source[1] == "8" else []
    x = np.array(small + powers + halfway, source)
    found = conversion.nearest(x, dtype)
    wrong = [a for a, b in zip(x.tolist(), found, strict=True) if not same(b, a, dtype)]
    assert wrong == []


@each_type
def test_what_is_outside(dtype):
    x = near(dtype)
    want = [rounded(Fraction(a), dtype) is None for a in x.tolist()]
    assert conversion.outside(x, dtype).tolist() == want
    infinities = np.array([inf, -inf])
    holds = dtype != E4M3
    assert conversion.outside(infinities, dtype).tolist() == [not holds] * 2


def test_saturating_ends_at_the_largest_number():
    x = np.array([448, 464, 464.001, -1e300, inf, -inf])
    assert conversion.saturating(x, E4M3).tolist() == [448, 448, 448, -448, 448, -448]
    assert conversion.saturating(x[-2:], E5M2).tolist() == [inf, -inf]


@pytest.mark.parametrize("source", [*TYPES, BFLOAT16, *WIDE], ids=str)
@each_type
def test_what_is_exact(dtype, source):
    """Exactly those casts are that lose no number and no infinity."""
    if source in TYPES:
        x = everything(source)
        back = x.astype(np.float32).astype(dtype).astype(np.float32)
        want = np.array_equal(back, x.astype(np.float32), equal_nan=True)
        assert conversion.is_exact(source, dtype) == want
    else:
        assert not conversion.is_exact(source, dtype)
        assert conversion.is_exact(dtype, source)


@each_type
@pytest.mark.parametrize(
    "operation", [np.add, np.subtract, np.multiply, np.divide], ids=lambda f: f.__name__
)
def test_every_pair_is_rounded_from_the_exact_result(dtype, operation):
    """float32 has so many digits that rounding its result again does no harm."""
    a = everything(dtype)
    x, y = np.repeat(a, 256), np.tile(a, 256)
    found = ufunc.binary(operation, x, y, dtype)
    assert found.dtype == dtype
    with np.errstate(all="ignore"):
        # Exact but for quotients, of which float64 leaves no tie where there is none.
        want = operation(x.astype(np.float64), y.astype(np.float64))
    want = conversion.nearest(want, dtype)
    is_nan = np.isnan(want.astype(np.float32))
    assert (np.isnan(found.astype(np.float32)) == is_nan).all()
    assert (found.view(np.uint8) == want.view(np.uint8))[~is_nan].all()


@each_type
@pytest.mark.parametrize("function", [np.sqrt, np.exp, np.negative, np.isnan, np.floor])
def test_large_arrays_are_looked_up(dtype, function):
    x = np.tile(everything(dtype), float16.LARGE // 128)
    large, small = float16.unary(function, x), float16.unary(function, x[:256])
    assert large.dtype == small.dtype
    assert large.tobytes() == np.tile(small, float16.LARGE // 128).tobytes()
    strided = float16.unary(function, x[::2])
    assert strided.tobytes() == large[::2].tobytes()


@each_type
def test_large_casts_are_looked_up(dtype):
    with np.errstate(over="ignore"):
        x = np.concatenate([near(dtype), [inf, -inf, 0.0, -0.0]]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), [np.float32(np.nan)]])
    many = np.tile(x, float16.LARGE // len(x) + 1)
    small, large = (float16.round_to(v, dtype) for v in (x, many))
    assert large.tobytes() == np.tile(small, len(many) // len(x)).tobytes()
    backward = float16.round_to(many[::-1], dtype)
    assert backward.tobytes() == large[::-1].tobytes()
    wide = float16.widen(np.tile(everything(dtype), 64)[::-1])
    want = np.tile(everything(dtype).astype(np.float32), 64)[::-1]
    assert np.array_equal(wide, want, equal_nan=True)


def test_pairs_broadcast_in_their_table():
    x, y = everything(E5M2)[:, None], np.tile(everything(E5M2), (64, 1, 1))
    found = float16.binary(np.multiply, x, y)
    assert found.shape == (64, 256, 256)
    small = float16.binary(np.multiply, x[7], y[3, 0])
    assert found[5, 7].tobytes() == small.tobytes()
    assert float16.binary(np.less, x, y).dtype == bool


def test_the_border_of_a_pool_is_no_number():
    """-inf would be NaN in a type without infinities."""
    x = np.full((1, 1, 2, 2), -3.0).astype(E4M3)
    found = pool.max_pool2d(x, (2, 2), (2, 2), (1, 1, 1, 1), (2, 2))
    assert found.dtype == E4M3
    assert found.tolist() == [[[[-3.0, -3.0], [-3.0, -3.0]]]]


def test_integers_of_few_bits_are_no_floats():
    assert not float16.is_narrow(np.dtype(ml_dtypes.int4))
    assert not float16.is_narrow(np.dtype("V1"))
    assert float16.is_narrow(E4M3)


@each_type
def test_tables_of_casts_say_what_numpy_says(dtype):
    casts = float8_casts(dtype.name)
    with np.errstate(over="ignore"):
        x = np.concatenate([near(dtype), [inf, -inf, np.nan]]).astype(np.float32)
    points = np.concatenate([x, np.nextafter(x, np.float32(inf))])
    points = np.concatenate([points, np.nextafter(x, np.float32(-inf))])
    found = np.array([casts.narrow(a) for a in points], np.uint8)
    want = points.astype(dtype)
    is_nan = np.isnan(want.astype(np.float32))
    assert (found == want.view(np.uint8))[~is_nan].all()
    assert np.isnan(found[is_nan].view(dtype).astype(np.float32)).all()
    wide = [casts.widen(h) for h in range(256)]
    assert np.array_equal(wide, everything(dtype).astype(np.float32), equal_nan=True)
