"""Arithmetic against Python integers, NumPy with explicit casts, and fractions."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import (
    CastError,
    DispatchError,
    OptionError,
    PromotionError,
    ShapeError,
)

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]

PLAIN = [leaf.dtype for leaf in DENSE]
NUMBERS = PLAIN[1:]
INTEGERS = [dtype for dtype in PLAIN if dtype.is_integer]
FLOATS = [dtype for dtype in PLAIN if dtype.is_floating]
UFUNCS = {
    md.add: np.add,
    md.sub: np.subtract,
    md.mul: np.multiply,
    md.minimum: np.minimum,
    md.maximum: np.maximum,
}
EXACT = {
    md.add: operator.add,
    md.sub: operator.sub,
    md.mul: operator.mul,
    md.minimum: min,
    md.maximum: max,
}
COMPARISONS = {
    md.equal: operator.eq,
    md.not_equal: operator.ne,
    md.less: operator.lt,
    md.less_equal: operator.le,
    md.greater: operator.gt,
    md.greater_equal: operator.ge,
}
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


def wrapped(value: int, dtype: md.DType) -> int:
    low, count = int(dtype.minimum), 2**dtype.bits
    return (value - low) % count + low


def in_range(dtype: md.DType) -> st.SearchStrategy[int]:
    return st.integers(int(dtype.minimum), int(dtype.maximum))


@pytest.mark.parametrize("operation", EXACT, **named)
@given(data=st.data())
def test_integers_wrap(operation: Any, data: st.DataObject) -> None:
    a, b = (data.draw(st.sampled_from(INTEGERS)) for _ in range(2))
    x, y = data.draw(in_range(a)), data.draw(in_range(b))
    try:
        common = md.promote_types(a, b)
    except PromotionError:
        with pytest.raises(PromotionError):
            operation(md.asarray(x, dtype=a), md.asarray(y, dtype=b))
        return
    found = operation(md.asarray([x], dtype=a), md.asarray([y], dtype=b))
    assert found.dtype is common
    assert found.tolist() == [wrapped(EXACT[operation](x, y), common)]


@pytest.mark.parametrize("operation", [md.add, md.sub, md.mul], **named)
@pytest.mark.parametrize("dtype", [md.int8, md.uint8], ids=str)
def test_every_pair_of_bytes(operation: Any, dtype: md.DType) -> None:
    codes = np.arange(256).astype(dtype.storage)
    x, y = md.asarray(codes[:, None]), md.asarray(codes[None, :])
    exact = EXACT[operation](codes[:, None].astype(int), codes[None, :].astype(int))
    assert np.array_equal(operation(x, y).buffer, exact.astype(dtype.storage))


AWKWARD = [0.0, -0.0, 1.0, -1.5, 1e-8, 65504.0, 6e4, 3e38, -3e38, math.inf, math.nan]


@pytest.mark.parametrize("operation", [*UFUNCS, md.div], **named)
@pytest.mark.parametrize(
    ("a", "b"),
    [(a, b) for a, b in product(NUMBERS, NUMBERS) if a.is_floating or b.is_floating],
    ids=str,
)
def test_floats_as_numpy_in_the_promoted_type(
    operation: Any, a: md.DType, b: md.DType
) -> None:
    x, y = values(a)[:, None], values(b)[None, :]
    common = md.promote_types(a, b)
    found = operation(md.from_numpy(x), md.from_numpy(y))
    with np.errstate(all="ignore"):
        ufunc = UFUNCS.get(operation, np.divide)
        want = ufunc(x.astype(common.storage), y.astype(common.storage))
    assert found.dtype is common
    if operation in (md.minimum, md.maximum):  # of zeros, either one is meant
        found, want = found + 0, want + want.dtype.type(0)
    assert np.asarray(found).tobytes() == want.tobytes()


def values(dtype: md.DType) -> Any:
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            return np.array(AWKWARD).astype(dtype.storage)
    return np.array([dtype.minimum, 0, 1, 3, dtype.maximum], dtype.storage)


@given(st.floats(width=16), st.floats(width=16))
def test_float16_rounds_once(a: float, b: float) -> None:
    x, y = md.asarray(a, dtype=md.float16), md.asarray(b, dtype=md.float16)
    with np.errstate(all="ignore"):
        for operation in (md.add, md.sub, md.mul):
            exact = EXACT[operation](np.float64(a), np.float64(b))
            want, found = np.float16(exact), operation(x, y).buffer
            assert found == want or (np.isnan(found) and np.isnan(want))


@pytest.mark.parametrize("operation", COMPARISONS, **named)
@given(data=st.data())
def test_numbers_compare_exactly(operation: Any, data: st.DataObject) -> None:
    x, y = (data.draw(numbers()) for _ in range(2))
    want = COMPARISONS[operation](x.tolist(), y.tolist())
    found = operation(x, y)
    assert type(found) is md.BoolTensor
    assert found.tolist() is want


def numbers() -> st.SearchStrategy[Any]:
    """A 0-d tensor of any type; Python compares what they hold exactly."""
    edges = [2**k + d for k in (0, 8, 24, 53, 62, 63) for d in (-1, 0, 1)]
    edges += [-edge for edge in edges]

    def of(dtype: md.DType) -> st.SearchStrategy[Any]:
        if dtype.is_floating:
            near = st.sampled_from(edges).map(float)
            found = st.one_of(near, st.floats(), st.just(math.nan))
        else:
            held = [e for e in edges if dtype.minimum <= e <= dtype.maximum]
            found = st.one_of(st.sampled_from(held), in_range(dtype))
        if dtype is md.bool:
            found = st.booleans()
        return found.map(lambda v: md.asarray(v, dtype=dtype))

    return st.sampled_from(PLAIN).flatmap(of)


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


@given(numbers(), st.integers(-(2**63), 2**64 - 1))
def test_integer_scalars_compare_exactly(x: Any, scalar: int) -> None:
    for operation, compare in COMPARISONS.items():
        assert operation(x, scalar).tolist() is compare(x.tolist(), scalar)
        assert operation(scalar, x).tolist() is compare(scalar, x.tolist())


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_giant_scalars_compare(dtype: md.DType) -> None:
    x = md.ones((2,), dtype=dtype) if dtype is not md.bool else md.asarray([True] * 2)
    for giant in (2**70, 10**400):
        assert (x < giant).tolist() == [True, True]
        assert (x < -giant).tolist() == [False, False]
        assert (x == giant).tolist() == [False, False]
        assert (x == -giant).tolist() == [False, False]


def test_float_scalars_are_weak() -> None:
    x = md.asarray([0.1, 0.2])
    assert (x == 0.1).tolist() == [True, False]
    assert (x == np.float64(0.1)).tolist() == [False, False]
    assert (md.asarray([1, 2]) < 1.5).tolist() == [True, False]
    assert type(x * 2) is type(x + 0.5) is md.Float32Tensor
    assert type(md.asarray([1], dtype=md.int8) + 0.5) is md.Float32Tensor
    assert type(md.asarray([1], dtype=md.int8) + 1) is md.Int8Tensor
    assert (x + 1e300).tolist() == [math.inf, math.inf]
    assert (x + 10**400).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("operation", [*UFUNCS, *COMPARISONS, md.div], **named)
def test_broadcasting(operation: Any) -> None:
    x, y = md.ones((2, 1, 3)), md.ones((4, 1))
    assert operation(x, y).shape == (2, 4, 3)
    assert operation(x, md.zeros((0, 1, 1, 1))).shape == (0, 2, 1, 3)
    assert operation(md.asarray(1.0), 1).shape == ()
    with pytest.raises(ShapeError, match=rf"^{operation.__name__}\(.*do not broadcast"):
        operation(x, md.ones((2,)))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_unary(dtype: md.DType) -> None:
    x = values(dtype)
    tensor = md.from_numpy(x.copy())
    with np.errstate(all="ignore"):
        assert np.array_equal(md.neg(tensor).buffer, -x, equal_nan=dtype.is_floating)
    numbers_ = x.tolist()
    relu = [v if v > 0 or v != v else 0 for v in numbers_]
    six = [min(v, 6) if v == v else v for v in relu]
    for operation, want in ((md.relu, relu), (md.relu6, six)):
        found = operation(tensor)
        assert found.dtype is dtype
        assert np.array_equal(found.buffer, want, equal_nan=dtype.is_floating)
    assert tensor.buffer.tobytes() == x.tobytes()


def test_clip() -> None:
    x = md.asarray([-3.0, 0.25, 9.0, math.nan])
    for low, high, want in (
        (0, 6, [0.0, 0.25, 6.0]),
        (None, 6, [-3.0, 0.25, 6.0]),
        (0.5, None, [0.5, 0.5, 9.0]),
        (None, None, [-3.0, 0.25, 9.0]),
        (2, 2, [2.0, 2.0, 2.0]),
    ):
        *found, last = md.clip(x, low, high).tolist()
        assert found == want
        assert math.isnan(last)
    assert md.clip(md.asarray([1, 5]), max=3).tolist() == [1, 3]
    with pytest.raises(OptionError):
        md.clip(x, 1, 0)
    for bound in (200, 0.5, math.nan):
        with pytest.raises(CastError, match=r"^clip\(Int8Tensor\[1\]\): int8 repr"):
            md.clip(md.asarray([1], dtype=md.int8), max=bound)


def exact_hard(x: Fraction, alpha: Fraction, beta: Fraction) -> Fraction:
    return min(max(alpha * x + beta, Fraction(0)), Fraction(1))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


ACTIVATIONS: dict[Any, Callable[[float], float]] = {
    md.exp: lambda x: math.exp(x) if x < 700 else math.inf,
    md.tanh: math.tanh,
    md.sigmoid: sigmoid,
    md.hardsigmoid: lambda x: float(
        exact_hard(Fraction(x), Fraction(1, 6), Fraction(1, 2))
    ),
    md.hardswish: lambda x: float(
        Fraction(x) * exact_hard(Fraction(x), Fraction(1, 6), Fraction(1, 2))
    ),
}
TOLERANCE = {"float16": 2**-11, "float32": 2**-21, "float64": 2**-50}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("operation", ACTIVATIONS, **named)
def test_activations(operation: Any, dtype: md.DType) -> None:
    spread = np.linspace(-9, 9, 181)
    x = np.concatenate([spread, [-3.0, 3.0, -60.0, 60.0, 1e4, -1e4]])
    x = x.astype(dtype.storage)
    with np.errstate(over="ignore"):
        want = np.array([ACTIVATIONS[operation](float(v)) for v in x])
        want = want.astype(dtype.storage).astype(np.float64)
    found = operation(md.from_numpy(x))
    assert found.dtype is dtype
    tiny = float(np.finfo(dtype.storage).tiny)
    room = TOLERANCE[dtype.name]
    assert np.allclose(
        found.buffer.astype(np.float64), want, rtol=room, atol=room / 8 + tiny
    )


@pytest.mark.parametrize("operation", ACTIVATIONS, **named)
def test_activations_at_the_ends(operation: Any) -> None:
    ends = {
        md.exp: (0.0, math.inf),
        md.tanh: (-1.0, 1.0),
        md.sigmoid: (0.0, 1.0),
        md.hardsigmoid: (0.0, 1.0),
        md.hardswish: (0.0, math.inf),
    }
    for dtype in FLOATS:
        x = md.asarray([-math.inf, math.inf, math.nan], dtype=dtype)
        *found, last = operation(x).tolist()
        assert np.array_equal(found, ends[operation], equal_nan=True)
        assert math.isnan(last)


def test_hardsigmoid_takes_its_slope_and_offset() -> None:
    x = md.asarray([-10.0, 1.0, 10.0])
    assert md.hardsigmoid(x, alpha=0.25, beta=0.5).tolist() == [0.0, 0.75, 1.0]


@pytest.mark.parametrize("operation", ACTIVATIONS, **named)
def test_activations_are_for_floats(operation: Any) -> None:
    with pytest.raises(DispatchError, match="x is Int8Tensor, not FloatingTensor"):
        operation(md.asarray([1], dtype=md.int8))


@pytest.mark.parametrize("operation", [*UFUNCS, md.div], **named)
def test_truths_are_no_numbers(operation: Any) -> None:
    with pytest.raises(PromotionError):
        operation(md.asarray([True]), md.asarray([False]))
    assert md.add(md.asarray([True]), 1).tolist() == [2]


def test_no_operand_is_written_to() -> None:
    x = np.array([-2.0, 8.0], np.float32)
    for operation in (*ACTIVATIONS, md.neg, md.relu, md.relu6):
        operation(md.from_numpy(x))
    for operation in (*UFUNCS, *COMPARISONS, md.div):
        operation(md.from_numpy(x), md.from_numpy(x))
    assert x.tolist() == [-2.0, 8.0]


HUGE = [10**400, -(10**400), 10**30, int(1e30), 2**64, 2**64 + 1, -(2**70) - 1]
WIDE_FLOATS = [
    float("inf"),
    float("-inf"),
    float("nan"),
    1e30,
    0.0,
    2.0**64,
    -(2.0**70),
]
IN_PYTHON = {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("value", HUGE)
def test_floats_compare_exactly_with_integers_of_any_size(dtype, value) -> None:
    with np.errstate(over="ignore"):
        array = np.array(WIDE_FLOATS).astype(dtype)
    x = md.asarray(array)
    for name, theirs in IN_PYTHON.items():
        ours, python = getattr(md, name), getattr(operator, theirs)
        assert ours(x, value).tolist() == [python(float(f), value) for f in array]
        assert ours(value, x).tolist() == [python(value, float(f)) for f in array]
