"""Arithmetic against Python's integers, and NumPy with explicit casts."""

import math
import operator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from support.each import each
from support.elements import (
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    REAL,
    as_numpy,
    edges,
    same,
    wrapped,
)

import mdtensor as md
from mdtensor.errors import CastError, DataError, DispatchError, PromotionError

EXACT = {
    md.add: operator.add,
    md.sub: operator.sub,
    md.mul: operator.mul,
    md.floor_divide: operator.floordiv,
    md.remainder: operator.mod,
    md.pow: operator.pow,
    md.minimum: min,
    md.maximum: max,
}


def floor_divide(a: Any, b: Any) -> Any:
    """NumPy's, but of infinities the floor of their quotient."""
    infinite = np.isinf(a) | np.isinf(b)
    return np.where(infinite, np.floor(a / b), np.floor_divide(a, b))


UFUNCS = {
    md.add: np.add,
    md.sub: np.subtract,
    md.mul: np.multiply,
    md.div: np.divide,
    md.floor_divide: floor_divide,
    md.remainder: np.remainder,
    md.pow: np.power,
    md.minimum: np.minimum,
    md.maximum: np.maximum,
}
ORDERED = (md.floor_divide, md.remainder, md.minimum, md.maximum)
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


def in_range(dtype: md.DType) -> st.SearchStrategy[int]:
    near = st.sampled_from(edges(dtype).tolist())
    return near | st.integers(int(dtype.minimum), int(dtype.maximum))


@pytest.mark.parametrize("operation", EXACT, **named)
@given(data=st.data())
def test_integers_are_exact_or_wrap(operation: Any, data: st.DataObject) -> None:
    a, b = (data.draw(st.sampled_from(INTEGERS)) for _ in range(2))
    x, y = data.draw(in_range(a)), data.draw(in_range(b))
    if operation is md.pow and abs(y) > 1000:
        y %= 97
    call = lambda: operation(md.asarray([x], dtype=a), md.asarray([y], dtype=b))  # noqa: E731
    try:
        common = md.promote_types(a, b)
    except PromotionError:
        with pytest.raises(PromotionError):
            call()
        return
    is_division = operation in (md.floor_divide, md.remainder)
    if (is_division and y == 0) or (operation is md.pow and y < 0):
        with pytest.raises(DataError):
            call()
        return
    found = call()
    assert found.dtype is common
    assert found.tolist() == [wrapped(EXACT[operation](x, y), common)]


def test_a_signaling_nan_is_a_nan() -> None:
    x = md.from_numpy(np.array([0x7F81], np.uint16).view(md.bfloat16.storage))
    for operation in (md.floor_divide, md.remainder, md.add, md.div):
        assert np.isnan(operation(x, md.ones(1, dtype=md.bfloat16)).astype(md.float32))


@pytest.mark.parametrize("operation", EXACT, **named)
@pytest.mark.parametrize("dtype", [md.int8, md.uint8], ids=str)
def test_every_pair_of_bytes(operation: Any, dtype: md.DType) -> None:
    codes = np.arange(dtype.minimum, dtype.maximum + 1)
    domain = {md.floor_divide: codes != 0, md.remainder: codes != 0}
    domain[md.pow] = (codes >= 0) & (codes < 40)
    rows, columns = codes[:, None], codes[domain.get(operation, slice(None))]
    x, y = (md.asarray(n.astype(dtype.storage)) for n in (rows, columns))
    exact = np.frompyfunc(EXACT[operation], 2, 1)(rows.astype(object), columns)
    want = np.asarray(exact % 256, np.int64).astype(dtype.storage)
    assert np.array_equal(operation(x, y).buffer, want)


@each("operation", UFUNCS)
@each("a", NUMBERS)
def test_fractions_as_numpy_in_the_promoted_type(operation: Any, a: md.DType) -> None:
    for b in NUMBERS:
        try:
            common = md.promote_types(a, b)
        except PromotionError:
            continue
        if common.is_integer or (common.is_complex and operation in ORDERED):
            continue
        # test_complex.py compares these with the standard, which NumPy does not follow.
        is_mixed = common.is_complex and not (a.is_complex and b.is_complex)
        if is_mixed and operation is not md.pow:
            continue
        x, y = edges(a)[:, None], edges(b)[None, :]
        found = operation(md.from_numpy(x), md.from_numpy(y))
        want = as_numpy(UFUNCS[operation], common, x, y)
        assert found.dtype is common
        if operation in (md.minimum, md.maximum):  # of zeros, either one is meant
            assert np.array_equal(*(np.float64(v) for v in (found, want)), True)
        else:
            assert same(found.buffer, want)


@given(st.floats(width=16), st.floats(width=16))
def test_float16_rounds_once(a: float, b: float) -> None:
    x, y = md.asarray(a, dtype=md.float16), md.asarray(b, dtype=md.float16)
    with np.errstate(all="ignore"):
        for operation in (md.add, md.sub, md.mul):
            exact = EXACT[operation](np.float64(a), np.float64(b))
            want, found = np.float16(exact), operation(x, y).buffer
            assert found == want or (np.isnan(found) and np.isnan(want))


def test_integers_divide_and_take_powers_by_the_book() -> None:
    x = md.asarray([7, -7, 7, -7])
    y = md.asarray([2, 2, -2, -2])
    assert (x // y).tolist() == [3, -4, -4, 3]
    assert (x % y).tolist() == [1, 1, -1, -1]
    low = md.asarray([-(2**63)])
    assert (low // -1).tolist() == [-(2**63)]
    assert (low % -1).tolist() == [0]
    assert (md.asarray([0, 3, -1]) ** 0).tolist() == [1, 1, 1]
    assert (md.asarray([3], dtype=md.uint8) ** 6).tolist() == [729 % 256]


def test_float_division_and_powers_follow_ieee() -> None:
    inf, nan = math.inf, math.nan
    x, y = md.asarray([1.0, -1.0, 0.0, -7.5]), md.asarray([0.0, 0.0, 0.0, 2.0])
    assert np.array_equal((x // y).tolist(), [inf, -inf, nan, -4.0], True)
    assert np.array_equal((x % y).tolist(), [nan, nan, nan, 0.5], True)
    base = md.asarray([1.0, nan, -8.0, 0.0, -0.0, -inf])
    power = md.asarray([nan, 0.0, 1 / 3, -1.0, -1.0, 3.0])
    assert np.array_equal((base**power).tolist(), [1, 1, nan, inf, -inf, -inf], True)


def sign(x: Any) -> Any:
    """NumPy's, but of complex numbers with one NaN both parts are NaN."""
    if x.dtype.kind != "c":
        return np.sign(x)
    return np.where(np.isnan(x), complex(math.nan, math.nan), np.sign(x))


UNARY = {
    md.neg: (np.negative, NUMBERS),
    md.positive: (np.positive, NUMBERS),
    md.abs: (np.absolute, NUMBERS),
    md.sign: (sign, NUMBERS),
    md.square: (np.square, NUMBERS),
    md.reciprocal: (lambda x: 1 / x, INEXACT),
}


@pytest.mark.parametrize("operation", UNARY, **named)
def test_unary(operation: Any) -> None:
    ufunc, dtypes = UNARY[operation]
    for dtype in dtypes:
        x = edges(dtype)
        found = operation(md.from_numpy(x))
        assert found.buffer.dtype == found.dtype.storage
        assert same(found.buffer, as_numpy(ufunc, dtype, x))


def test_of_what_is_no_number() -> None:
    found = md.sign(md.asarray([-0.0, math.nan, -math.inf])).tolist()
    assert np.array_equal(found, [0.0, math.nan, -1.0], True)
    assert md.sign(md.asarray([3 + 4j, 0])).tolist() == [
        pytest.approx(0.6 + 0.8j),
        0,
    ]
    assert md.abs(md.asarray([-128], dtype=md.int8)).tolist() == [-128]
    assert type(md.abs(md.asarray([1j], dtype=md.complex128))) is md.Float64Tensor
    for operation in UNARY:
        with pytest.raises(DispatchError, match="Use astype"):
            operation(md.asarray([True]))
    with pytest.raises(DispatchError, match=r"Use astype\(x, float32\)"):
        md.reciprocal(md.asarray([1]))


REFUSED = {
    "floor_divide(Int8Tensor[3], Int8Tensor[3]): 2 of 3 divisors are 0. Mask them "
    "first, or use astype(x, float32) on one operand.": (
        lambda x: md.floor_divide(x, md.asarray([0, 1, 0], dtype=md.int8))
    ),
    "remainder(Int8Tensor[3], int): 1 of 1 divisors are 0. Mask them first, or use "
    "astype(x, float32) on one operand.": lambda x: x % 0,
    "pow(Int8Tensor[3], Int8Tensor[3]): 1 of 3 exponents are negative, and int8 cannot "
    "represent fractions. Use astype(x, float32) on one operand.": lambda x: x**x,
    "pow(UInt8Tensor[1], int): the exponent -1 is negative, and uint8 cannot "
    "represent fractions. Use astype(x, float32) on one operand.": (
        lambda _: md.asarray([3], dtype=md.uint8) ** -1
    ),
    "pow(BoolTensor[1], bool): bool is not a number type. "
    "Use astype(x, int8) on one operand.": lambda _: md.asarray([True]) ** True,
    "floor_divide(Int8Tensor[3], int): int8 represents -128 to 127; cannot represent "
    "300. Use astype(x, int16) first.": lambda x: x // 300,
    "pow(int, int): only Python scalars given. Make one a tensor.": (
        lambda _: md.pow(2, 3)
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    x = md.asarray([-1, 2, 3], dtype=md.int8)
    with pytest.raises(md.MdtensorError) as caught:
        REFUSED[text](x)
    assert str(caught.value) == text


def tensor(draw: Any, dtype: md.DType, shape: tuple[int, ...], number: Any) -> Any:
    count = math.prod(shape)
    values = draw(st.lists(number, min_size=count, max_size=count))
    return md.reshape(md.asarray(values, dtype=dtype), shape)


@given(
    data=st.data(),
    shapes=mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3),
)
def test_clip_is_the_minimum_of_the_maximum(data: st.DataObject, shapes: Any) -> None:
    dtype = data.draw(st.sampled_from(REAL))
    held = edges(dtype)
    number = st.sampled_from(held[np.isfinite(held.astype(np.float64))].tolist())
    x, low, high = (
        tensor(data.draw, dtype, shape, number) for shape in shapes.input_shapes
    )
    ends = sorted(data.draw(st.tuples(number, number)))
    low = data.draw(st.sampled_from([low, ends[0], None]))
    high = data.draw(st.sampled_from([high, ends[1], None]))
    want = x if low is None else md.maximum(x, low)
    want = want if high is None else md.minimum(want, high)
    found = md.clip(x, low, high)
    assert (found.dtype, found.shape) == (dtype, want.shape)
    assert found.tolist() == want.tolist()
    assert not np.shares_memory(found.buffer, x.buffer)


def test_clip_and_nan() -> None:
    for dtype in FLOATS:
        x = md.asarray([math.nan, 1.0, 9.0], dtype=dtype)
        *found, last = md.clip(x, 2, 6).tolist()[::-1]
        assert (found, math.isnan(last)) == ([6.0, 2.0], True)
        bound = md.asarray([0.0, math.nan, 2.0], dtype=dtype)
        found = md.clip(x, max=bound).tolist()
        assert np.array_equal(found, [math.nan, math.nan, 2.0], True)
    assert md.clip(md.asarray([1.0], dtype=md.bfloat16), 3.01).tolist() == [3.015625]


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32])
@pytest.mark.parametrize("bound", [1e39, 10**40])
def test_clip_to_numbers_beyond_a_float(dtype: md.DType, bound: Any) -> None:
    """On the open side they clip nothing; on the other no element could be right."""
    x = md.asarray([-2.0, 3.0], dtype=dtype)
    assert md.clip(x, -bound, bound).tolist() == [-2.0, 3.0]
    for limits in ({"max": -bound}, {"min": bound}):
        with pytest.raises(md.CastError, match=f"{dtype} represents .* cannot"):
            md.clip(x, **limits)
    assert md.clip(x, max=-math.inf).tolist() == [-math.inf] * 2


X = md.asarray([1, 5], dtype=md.int8)
UNFIT = {
    "clip(Int8Tensor[2]): int8 does not represent all values of min, a tensor of "
    "int16. Use astype(min, int8).": {"min": md.asarray([1], dtype=md.int16)},
    "clip(Int8Tensor[2]): int8 does not represent all values of max, a tensor of "
    "float32. Use astype(max, int8).": {"max": md.asarray(2.0)},
    "clip(Int8Tensor[2]): min is a ndarray. Give a Python number or a tensor.": {
        "min": np.zeros(2, np.int8)
    },
    "clip(Int8Tensor[2]): min 2 is above max 1. Swap them.": {"min": 2, "max": 1},
    "clip(Int8Tensor[2]): int8 represents -128 to 127; cannot represent 200. "
    "Use astype(x, int16) first.": {"max": 200},
    "clip(Int8Tensor[2]): int8 represents integers, and 0.5 is not one. "
    "Round it, or use astype(x, float64) first.": {"max": 0.5},
    "clip(Int8Tensor[2]): shapes (2,) and (3,) do not broadcast. "
    "Make the sizes equal.": {"min": md.ones((3,), dtype=md.int8)},
}


@pytest.mark.parametrize("text", UNFIT)
def test_clip_refuses_unfit_bounds(text: str) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        md.clip(X, **UNFIT[text])
    assert str(caught.value) == text


def test_clip_takes_narrower_bounds() -> None:
    low = md.asarray([[2], [0]], dtype=md.uint8)
    assert md.clip(md.asarray([1, 9]), low, 8).tolist() == [[2, 8], [1, 8]]
    with pytest.raises(CastError):
        md.clip(X, 1j)


@pytest.mark.parametrize("operation", UFUNCS, **named)
def test_truths_are_no_numbers(operation: Any) -> None:
    truth = md.asarray([True, False])
    with pytest.raises(PromotionError):
        operation(truth, md.asarray([True]))
    for other, kind in ((3, md.Int64Tensor), (0.5, md.Float32Tensor)):
        if operation is md.div and other == 3:
            continue
        assert type(operation(truth, other)) is kind


def test_float_scalars_are_weak() -> None:
    x = md.asarray([0.1, 0.2])
    assert type(x * 2) is type(x + 0.5) is type(2**x) is md.Float32Tensor
    assert type(md.asarray([1], dtype=md.int8) + 0.5) is md.Float32Tensor
    assert type(md.asarray([1], dtype=md.int8) ** 2) is md.Int8Tensor
    assert type(x * 1j) is type(1j**x) is md.Complex64Tensor
    assert (x + math.inf).tolist() == [math.inf, math.inf]
    for number in (1e300, 10**400):
        with pytest.raises(CastError, match="float32 represents"):
            x + number


@pytest.mark.parametrize(("a", "b"), [*product(COMPLEX, FLOATS)], ids=str)
def test_complex_meets_real(a: md.DType, b: md.DType) -> None:
    x, y = md.asarray([1 + 2j], dtype=a), md.asarray([2.0], dtype=b)
    assert md.mul(x, y).tolist() == md.mul(y, x).tolist() == [2 + 4j]
    assert md.mul(x, y).dtype is md.promote_types(a, b)
