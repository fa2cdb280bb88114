"""Sums, means and extremes against Python integers, fractions and NumPy."""

import functools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.errors import CastError, DispatchError, OptionError, ShapeError

LEAVES = md.leaves()[:15]
INTEGERS = [leaf for leaf in LEAVES if leaf.dtype.is_integer]
FLOATS = [leaf for leaf in LEAVES if leaf.dtype.is_floating]
COMPLEX = [leaf for leaf in LEAVES if leaf.dtype.is_complex]
REAL = [*INTEGERS, *FLOATS]
NARROW = (md.Float16Tensor, md.BFloat16Tensor)
#: Axes of three dimensions, each with what it is in NumPy.
AXES = [None, 0, 1, -1, (0, 2), (-1, 0, 1), ()]


def wide(x: Any) -> Any:
    """16-bit floats in float32, where NumPy knows them; all others as they are."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def wrapped(value: int, dtype: md.DType) -> int:
    """`value` modulo the number of values of an integer type."""
    least = int(dtype.minimum)
    return (value - least) % 2**dtype.bits + least


def flat(x: Any) -> Any:
    return x.buffer.ravel().tolist()


@given(st.sampled_from(INTEGERS), st.data())
def test_integers_are_added_and_multiplied_exactly(
    leaf: Any, data: st.DataObject
) -> None:
    one = st.integers(int(leaf.dtype.minimum), int(leaf.dtype.maximum))
    values = data.draw(st.lists(one, max_size=5))
    x = leaf(values)
    default = md.int64 if leaf.dtype.kind == "signed integer" else md.uint64
    held = data.draw(st.sampled_from([None, md.int8, md.uint16, md.int64, md.uint64]))
    for operation, exact in ((md.sum, sum(values)), (md.prod, math.prod(values))):
        found = operation(x, dtype=held)
        assert found.dtype is (held or default)
        assert found.tolist() == wrapped(exact, found.dtype)


def test_a_sum_of_truths_counts() -> None:
    x = md.asarray([[True, False], [True, True]])
    assert type(md.sum(x)) is type(md.prod(x)) is md.Int64Tensor
    assert md.sum(x, axis=0).tolist() == [2, 1]
    assert md.prod(x, axis=0).tolist() == [1, 0]


SMALL = st.lists(
    st.lists(st.integers(-40, 40), min_size=3, max_size=3), min_size=1, max_size=4
)


@given(SMALL, st.sampled_from([*FLOATS, *COMPLEX]), st.booleans())
def test_along_each_axis(rows: list[list[int]], leaf: Any, keep: bool) -> None:
    x = leaf(rows)
    columns = [list(column) for column in zip(*rows, strict=True)]
    everything = [functools.reduce(operator.iadd, rows, [])]
    cases: list[tuple[Any, list[list[int]]]] = [
        *((0, columns), (-1, rows), (None, everything), ((1, 0), everything))
    ]
    for axis, groups in cases:
        options = {"axis": axis, "keepdims": keep}
        sums = [Fraction(sum(g)) for g in groups]
        means = [Fraction(sum(g), len(g)) for g in groups]
        assert flat(md.sum(x, **options)) == [rounded(s, leaf) for s in sums]
        assert flat(md.mean(x, **options)) == [rounded(m, leaf) for m in means]


def rounded(value: Fraction, leaf: Any) -> Any:
    """The quotient in float32 for floats of 16 bits, else in the type of the parts."""
    kind = np.float64 if leaf in (md.Float64Tensor, md.Complex128Tensor) else np.float32
    parts = np.array([value.numerator, value.denominator]).astype(kind)
    return (parts[0] / parts[1]).astype(leaf.dtype.storage).item()


@pytest.mark.parametrize("target", LEAVES, ids=lambda leaf: leaf.dtype.name)
def test_dtype_holds_all_but_imaginary_parts(target: Any) -> None:
    for leaf in LEAVES:
        x = leaf.wrap(np.array([1, 0, 1, 1]).astype(leaf.dtype.storage))
        below = leaf.dtype.is_complex and not target.dtype.is_complex
        for operation in (md.sum, md.prod, md.cumulative_sum, md.cumulative_prod):
            if target is md.BoolTensor:
                with pytest.raises(OptionError, match="dtype is bool"):
                    operation(x, dtype=md.bool)
            elif below:
                with pytest.raises(CastError, match=f"{target.dtype} cannot represent"):
                    operation(x, dtype=target.dtype.name)
            else:
                found = operation(x, dtype=target.dtype)
                assert (
                    type(found) is target and found.buffer.dtype == target.dtype.storage
                )
        if not below and target is not md.BoolTensor:
            assert md.sum(x, dtype=target.dtype).tolist() == 3
            assert md.prod(x[2:], dtype=target.dtype).tolist() == 1


def test_elements_are_cast_before_they_are_added() -> None:
    x = md.asarray([300, 300], dtype=md.int16)
    assert md.sum(x, dtype=md.int8).tolist() == 88  # 2 * 44
    assert md.prod(x, dtype=md.uint8).tolist() == 44 * 44 % 256
    halves = md.asarray([2.0**-24, 1.0, 2.0**-24], dtype=md.float64)
    assert md.sum(halves, dtype=md.float32).tolist() == 1.0
    assert md.sum(halves).tolist() == 1 + 2.0**-23
    big = md.asarray([2**30 + 2**22 + 1], dtype=md.int64)
    assert md.sum(big, dtype=md.float64).tolist() == 2.0**30 + 2**22 + 1


ORDERED: list[tuple[Any, Any]] = [(md.max, np.max), (md.min, np.min)]


@each("axis", AXES)
@each("leaf", REAL)
def test_extremes_are_numpys(leaf: Any, axis: Any, sample: Any, layouts: Any) -> None:
    x = sample(leaf, (3, 4, 5), seed=1)
    for operation, reference in ORDERED:
        with np.errstate(invalid="ignore"):
            want = reference(wide(x), axis=axis, keepdims=True)
        for y in layouts(x):
            found = operation(leaf.wrap(y), axis=axis, keepdims=True)
            assert type(found) is leaf and found.buffer.dtype == x.dtype
            assert np.array_equal(wide(found.buffer), want, equal_nan=leaf in FLOATS)


@each("axis", AXES)
@each("leaf", LEAVES)
def test_all_and_any_of_what_is_not_zero(
    leaf: Any, axis: Any, sample: Any, layouts: Any
) -> None:
    x = sample(leaf, (2, 5, 2), seed=2)
    true = np.array([value != 0 for value in x.ravel().tolist()]).reshape(x.shape)
    for y in layouts(x):
        for operation, reference in ((md.all, np.all), (md.any, np.any)):
            found = operation(leaf.wrap(y), axis=axis)
            assert type(found) is md.BoolTensor and found.buffer.dtype == bool
            assert np.array_equal(found.buffer, reference(true, axis=axis))


def test_nan_is_true_and_a_zero_of_either_sign_is_not() -> None:
    for leaf in FLOATS:
        assert md.all(leaf([math.nan, 1.0])).tolist() is True
        assert md.any(leaf([0.0, -0.0])).tolist() is False
    assert md.any(md.Complex64Tensor([complex(0.0, math.nan)])).tolist() is True


@given(SMALL, st.sampled_from(FLOATS), st.sampled_from([0, 1, -1.5, 2.5, 1000]))
def test_variances_against_fractions(
    rows: list[list[int]], leaf: Any, correction: float
) -> None:
    x = leaf(rows)
    columns = list(zip(*rows, strict=True))
    found = md.var(x, axis=0, correction=correction)
    roots = md.std(x, axis=0, correction=correction, keepdims=True)
    assert type(found) is type(roots) is leaf and roots.shape == (1, 3)
    bound = 8 * float(precision(leaf))
    for got, root, column in zip(flat(found), flat(roots), columns, strict=True):
        want = variance(column, correction)
        assert (
            (math.isnan(got) and math.isnan(root))
            if want is None
            else (
                math.isclose(got, want, rel_tol=bound, abs_tol=bound)
                and math.isclose(root, math.sqrt(want), rel_tol=bound, abs_tol=bound)
            )
        )


def precision(leaf: Any) -> float:
    """The distance from 1 to the next number."""
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}.get(
        leaf.dtype.name, 2.0**-52
    )


def variance(values: tuple[int, ...], correction: float) -> float | None:
    """Σ (x - mean)² / (N - correction); None where that divisor is not above 0."""
    if len(values) <= correction:
        return None
    mean = Fraction(sum(values), len(values))
    squares = sum((value - mean) ** 2 for value in values)
    return float(squares / (len(values) - Fraction(correction)))


def test_variance_of_16_bits_does_not_overflow_on_the_way() -> None:
    x = md.asarray([-200.0, 200.0, 0.0, 0.0], dtype=md.float16)
    assert md.var(x).tolist() == 20000.0  # the squares add up to 80,000
    assert md.std(md.asarray([-60000.0, 60000.0], dtype=md.float16)).tolist() == 60000.0
    assert md.var(md.asarray([1.0, math.inf])).buffer.shape == ()
    assert math.isnan(md.var(md.asarray([1.0, math.inf])).tolist())


def test_shapes() -> None:
    x = md.zeros((2, 3, 4))
    assert md.sum(x, axis=(0, 2)).shape == (3,)
    assert md.mean(x, axis=1, keepdims=True).shape == (2, 1, 4)
    assert md.max(x, keepdims=True).shape == (1, 1, 1)
    assert md.sum(x, axis=()).shape == (2, 3, 4)
    assert md.sum(md.asarray(3.0)).tolist() == 3.0


REDUCTIONS: list[Callable[..., Any]] = [
    *(md.sum, md.prod, md.mean, md.max, md.min, md.all, md.any, md.var, md.std)
]


@pytest.mark.parametrize("operation", REDUCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("leaf", FLOATS, ids=lambda leaf: leaf.dtype.name)
def test_results_are_arrays_of_their_own(operation: Any, leaf: Any) -> None:
    x = leaf.wrap(np.broadcast_to(np.ones((), leaf.dtype.storage), (2, 3)))
    for axis in ((), 0, None):
        found = operation(x, axis=axis)
        assert isinstance(found.buffer, np.ndarray)
        assert not np.shares_memory(found.buffer, x.buffer)
        spread = 0.0 if operation in (md.var, md.std) else 1.0
        total = {(): 1.0, 0: 2.0, None: 6.0}[axis]
        assert set(flat(found)) == {total if operation is md.sum else spread}


def test_16_bits_are_summed_in_float32() -> None:
    for leaf, count in ((md.Float16Tensor, 5000), (md.BFloat16Tensor, 4096)):
        dtype = leaf.dtype
        assert md.sum(md.ones((count,), dtype=dtype)).tolist() == count
        columns = md.ones((count, 2), dtype=dtype)
        assert md.sum(columns, axis=0).tolist() == [count, count]
        assert md.mean(columns, axis=0).tolist() == [1.0, 1.0]
    big = md.full((3,), 60000.0, dtype=md.float16)
    assert md.sum(big).tolist() == md.prod(big).tolist() == math.inf
    assert md.mean(big).tolist() == 60000.0
    assert (
        md.prod(md.asarray([256.0, 512.0, 2.0**-8], dtype=md.float16)).tolist() == 512
    )


def test_an_infinite_part_leaves_the_other_alone() -> None:
    x = md.asarray([complex(math.inf, 1), complex(0, 2)])
    assert md.mean(x).tolist() == complex(math.inf, 1.5)
    assert md.mean(x, axis=()).tolist() == x.tolist()


def test_of_nothing() -> None:
    nothing = md.zeros((0, 3))
    assert md.sum(nothing, axis=0).tolist() == [0.0, 0.0, 0.0]
    assert md.prod(nothing, axis=0).tolist() == [1.0, 1.0, 1.0]
    assert md.all(nothing).tolist() is True and md.any(nothing).tolist() is False
    for operation in (md.mean, md.var, md.std):
        for leaf in FLOATS:
            x = leaf.wrap(np.empty((0, 3), leaf.dtype.storage))
            assert all(map(math.isnan, operation(x, axis=0).tolist()))
    assert md.max(nothing, axis=1).shape == (0,)
    for operation in (md.max, md.min, md.argmax, md.argmin):
        with pytest.raises(ShapeError) as caught:
            operation(nothing, axis=0)
        assert str(caught.value) == (
            f"{operation.__name__}(Float32Tensor[0,3]): "
            "cannot take the minimum or maximum of no elements: shape (0, 3), axis 0."
        )


def test_nan_is_every_extreme() -> None:
    for leaf in FLOATS:
        x = leaf([1.0, math.nan, 3.0])
        assert math.isnan(md.max(x).tolist()) and math.isnan(md.min(x).tolist())


SOFT = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=5)


@given(SOFT)
def test_softmax_against_exact_powers(values: list[float]) -> None:
    x = md.asarray(values)
    exact = np.array(values, np.float64)
    powers = [math.exp(v - max(exact)) for v in exact]
    want = [p / math.fsum(powers) for p in powers]
    found = md.softmax(x).tolist()
    assert np.allclose(found, want, rtol=2e-5, atol=1e-30)
    assert math.isclose(math.fsum(found), 1.0, rel_tol=1e-6)


def test_softmax_axes_and_types() -> None:
    x = md.asarray([[0.0, 1000.0], [0.0, 1000.0]])
    assert md.softmax(x).tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert md.softmax(x, axis=0).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert type(md.softmax(md.astype(x, md.float16))) is md.Float16Tensor
    assert md.softmax(md.zeros((2, 0))).shape == (2, 0)
    low = md.asarray([-math.inf, 0.0])
    assert md.softmax(low).tolist() == [0.0, 1.0]


def test_softmax_float16_rounds_once() -> None:
    x = np.linspace(-8, 8, 33).astype(np.float16)
    wide = np.exp(x.astype(np.float64) - x.max())
    want = (wide / wide.sum()).astype(np.float16)
    assert np.array_equal(md.softmax(md.asarray(x)).buffer, want)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: md.sum(x, axis=2), ShapeError),
        (lambda x: md.sum(x, axis=(0, -2)), ShapeError),
        (lambda x: md.mean(x, axis=-3), ShapeError),
        (lambda x: md.softmax(x, axis=2), ShapeError),
        (lambda x: md.softmax(x, axis=0.5), OptionError),
        (lambda x: md.softmax(md.asarray(1.0)), ShapeError),
        (lambda x: md.mean(md.asarray([True])), DispatchError),
        (lambda x: md.var(md.ones((2,), dtype=md.complex64)), DispatchError),
        (lambda x: md.softmax(md.ones((2,), dtype=md.int8)), DispatchError),
        (lambda x: md.max(md.asarray([True])), DispatchError),
        (lambda x: md.min(md.ones((2,), dtype=md.complex64)), DispatchError),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\w+\(\w+Tensor"):
        call(md.zeros((2, 3)))


REFUSALS: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda x: md.sum(x + 1j, dtype=md.float32),
        (
            "sum(Complex64Tensor[2,3]): float32 cannot represent the result for "
            "complex64 elements. Use real(x) or abs(x) first."
        ),
    ),
    (
        lambda x: md.prod(x, dtype="bool"),
        "prod(Float32Tensor[2,3]): dtype is bool. Use a numeric type.",
    ),
    (
        lambda x: md.any(x, keepdims="no"),
        "any(Float32Tensor[2,3]): keepdims is 'no'. Use True or False.",
    ),
    (
        lambda x: md.std(x, correction="1"),
        (
            "std(Float32Tensor[2,3]): correction must be a real number, but is '1'. "
            "Give a number, not a str or bool."
        ),
    ),
    (
        lambda x: md.min(x, axis=2),
        (
            "min(Float32Tensor[2,3]): axis 2 does not exist in 2 dimensions. "
            "Axes go from -2 to 1."
        ),
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSALS, ids=lambda case: str(case)[:12])
def test_what_refusals_say(call: Any, text: str) -> None:
    with pytest.raises(md.MdtensorError) as caught:
        call(md.zeros((2, 3)))
    assert str(caught.value) == text


def test_numpy_integers_are_axes() -> None:
    assert md.sum(md.ones((2, 3)), axis=np.int64(1)).tolist() == [3.0, 3.0]


def test_elements_lose_their_fractions_before_they_add_up() -> None:
    x = md.asarray([0.75, 1.5, -1.25])
    assert md.sum(x, dtype=md.int64).tolist() == 0
    assert md.prod(x, dtype=md.int8).tolist() == 0
    assert md.cumulative_sum(x, dtype=md.int8).tolist() == [0, 1, 0]
    assert md.cumulative_prod(x + 1, dtype=md.int8).tolist() == [1, 2, 0]
    assert md.linalg.trace(md.eye(2) * 1.5, dtype=md.int64).tolist() == 2
    with pytest.raises(
        CastError, match="1 of 3 values are out of range; uint8 represents"
    ):
        md.sum(x, dtype=md.uint8)
