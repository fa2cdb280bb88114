"""Comparison against Python's, which is exact for numbers of any two types."""

import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.elements import COMPLEX, DTYPES, edges

import mdtensor as md
from mdtensor.errors import DispatchError, MdtensorError, PromotionError

REAL = [dtype for dtype in DTYPES if dtype not in COMPLEX]

EQUAL = {md.equal: operator.eq, md.not_equal: operator.ne}
ORDER = {
    md.less: operator.lt,
    md.less_equal: operator.le,
    md.greater: operator.gt,
    md.greater_equal: operator.ge,
}
COMPARISONS = EQUAL | ORDER
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


def number(dtype: md.DType) -> st.SearchStrategy[Any]:
    """A number that a tensor of `dtype` is made of."""
    near = [2**k + d for k in (0, 8, 24, 53, 62, 63) for d in (-1, 0, 1)]
    near += [-n for n in near]
    # A finite number that would become infinite is no element.
    parts = {md.complex64: md.float32, md.complex128: md.float64}.get(dtype, dtype)
    most = float(parts.maximum) if parts.is_floating else 0.0
    floats = st.sampled_from(near).map(float) | st.floats() | st.just(math.nan)
    floats = floats.map(lambda n: n if abs(n) <= most or not math.isfinite(n) else most)
    if dtype is md.bool:
        return st.booleans()
    if dtype.is_floating:
        return floats
    if dtype.is_complex:
        return st.builds(complex, floats, st.just(0.0) | floats)
    held = [n for n in near if dtype.minimum <= n <= dtype.maximum]
    return st.sampled_from(held + edges(dtype).tolist())


def numbers(dtypes: list[md.DType]) -> st.SearchStrategy[Any]:
    """A 0-d tensor of any of the types; Python compares what they hold exactly."""

    def of(dtype: md.DType) -> st.SearchStrategy[Any]:
        return number(dtype).map(lambda value: md.asarray(value, dtype=dtype))

    return st.sampled_from(dtypes).flatmap(of)


@pytest.mark.parametrize("operation", COMPARISONS, **named)
@given(data=st.data())
def test_numbers_compare_exactly(operation: Any, data: st.DataObject) -> None:
    dtypes = DTYPES if operation in EQUAL else REAL
    x, y = (data.draw(numbers(dtypes)) for _ in range(2))
    want = in_python(operation, x.tolist(), y.tolist())
    found = operation(x, y)
    assert type(found) is md.BoolTensor
    assert found.tolist() is want


def in_python(operation: Any, x: Any, y: Any) -> bool:
    """Python compares integers with floats exactly, but not with complex numbers."""
    if operation in EQUAL and complex in (type(x), type(y)):
        equal = x.real == y.real and x.imag == y.imag
        return equal is (operation is md.equal)
    return bool(COMPARISONS[operation](x, y))


@pytest.mark.parametrize("dtype", [md.int64, md.uint64], ids=str)
def test_a_fraction_is_between_two_integers(dtype: md.DType) -> None:
    integers = md.asarray([0, 1, 2, 3, 2**53 - 1, 2**53, 2**53 + 1], dtype=dtype)
    floats = [-0.5, 0.5, 1.5, 2.0, 2.5, 2.0**53, 2.0**52 + 0.5, 2.0**64, -(2.0**63)]
    for operation, compare in COMPARISONS.items():
        for value in floats:
            want = [compare(n, value) for n in integers.tolist()]
            assert operation(integers, value).tolist() == want
            want = [compare(value, n) for n in integers.tolist()]
            assert operation(np.float64(value), integers).tolist() == want


@given(numbers(DTYPES), st.integers(-(2**63), 2**64 - 1))
def test_integer_scalars_compare_exactly(x: Any, scalar: int) -> None:
    for operation in EQUAL if x.dtype.is_complex else COMPARISONS:
        assert operation(x, scalar).tolist() is in_python(operation, x.tolist(), scalar)
        assert operation(scalar, x).tolist() is in_python(operation, scalar, x.tolist())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_giant_scalars_compare(dtype: md.DType) -> None:
    x = md.asarray([True, True]) if dtype is md.bool else md.ones((2,), dtype=dtype)
    for giant in (2**70, 10**400):
        assert (x == giant).tolist() == [False, False]
        assert (x != -giant).tolist() == [True, True]
        if not dtype.is_complex:
            assert (x < giant).tolist() == [True, True]
            assert (x < -giant).tolist() == [False, False]


HUGE = [10**400, -(10**400), 10**30, int(1e30), 2**64, 2**64 + 1, -(2**70) - 1]
WIDE = [math.inf, -math.inf, math.nan, 1e30, 0.0, 2.0**64, -(2.0**70)]


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32, md.float64])
def test_floats_compare_exactly_with_integers_of_any_size(dtype: md.DType) -> None:
    with np.errstate(over="ignore"):
        x = md.asarray(np.array(WIDE).astype(dtype.storage))
    for value in HUGE:
        for operation, compare in COMPARISONS.items():
            held = x.tolist()
            assert operation(x, value).tolist() == [compare(f, value) for f in held]
            assert operation(value, x).tolist() == [compare(value, f) for f in held]


def test_scalars_with_a_fraction_are_weak() -> None:
    x = md.asarray([0.1, 0.2])
    assert (x == 0.1).tolist() == (x == 0.1 + 0j).tolist() == [True, False]
    assert (x == np.float64(0.1)).tolist() == [False, False]
    assert (md.asarray([1, 2]) < 1.5).tolist() == [True, False]
    assert (md.asarray([0.1], dtype=md.bfloat16) == 0.1).tolist() == [True]
    assert (md.asarray([0.1j]) == 0.1j).tolist() == [True]
    assert (md.asarray([0.1j]) == np.complex128(0.1j)).tolist() == [False]
    assert (md.asarray([3, 4]) == 3 + 0j).tolist() == [True, False]


def test_a_complex_number_equals_an_integer_exactly() -> None:
    x = md.asarray([2**53, 2**53 + 1])
    for other in (complex(2**53), md.asarray(2.0**53 + 0j, dtype=md.complex128)):
        assert (x == other).tolist() == [True, False]
        assert (other != x).tolist() == [False, True]
    nan = md.asarray([complex(0, math.nan), complex(math.nan, 0)])
    assert (nan == nan).tolist() == (nan == 0).tolist() == [False, False]
    assert (nan != nan).tolist() == (nan != 2**70).tolist() == [True, True]


def test_complex_numbers_have_no_order() -> None:
    for operation in ORDER:
        with pytest.raises(DispatchError, match=r"Use real\(x\), imag"):
            operation(md.asarray([1j]), 1)
        with pytest.raises(MdtensorError):
            operation(md.asarray([1]), 1j)


@pytest.mark.parametrize("operation", COMPARISONS, **named)
def test_something_is_a_tensor(operation: Any) -> None:
    with pytest.raises(PromotionError) as caught:
        operation(1, 2.5)
    assert str(caught.value) == (
        f"{operation.__name__}(int, float): only Python scalars given. "
        "Make one a tensor."
    )


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32, md.float64])
def test_whole_numbers_up_to_where_floats_skip_some(dtype: md.DType) -> None:
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name]
    most = 2**digits
    x = md.asarray([most, -most, 0], dtype=dtype)
    for value in (most, most + 1, -most, -most - 1, 2**70):
        assert md.equal(x, value).tolist() == [n == value for n in (most, -most, 0)]
        assert md.less(x, value).tolist() == [n < value for n in (most, -most, 0)]
