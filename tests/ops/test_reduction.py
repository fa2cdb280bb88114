"""Sums, means and extremes against Python integers and fractions."""

import functools
import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, ShapeError

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]

INTEGERS = [leaf for leaf in DENSE if leaf.dtype.is_integer]
FLOATS = [md.Float16Tensor, md.Float32Tensor, md.Float64Tensor]


@given(st.sampled_from(INTEGERS), st.data())
def test_sums_of_integers_are_exact(leaf: Any, data: st.DataObject) -> None:
    dtype = leaf.dtype
    one = st.integers(int(dtype.minimum), int(dtype.maximum))
    values = data.draw(st.lists(one, max_size=5))
    found = md.sum(leaf(values))
    signed = dtype.kind == "signed integer"
    assert type(found) is (md.Int64Tensor if signed else md.UInt64Tensor)
    offset = 2**63 if signed else 0
    assert found.tolist() == (sum(values) + offset) % 2**64 - offset


def test_a_sum_of_truths_counts() -> None:
    x = md.asarray([[True, False], [True, True]])
    assert type(md.sum(x)) is md.Int64Tensor
    assert md.sum(x, axis=0).tolist() == [2, 1]


SMALL = st.lists(
    st.lists(st.integers(-40, 40), min_size=3, max_size=3), min_size=1, max_size=4
)


@given(SMALL, st.sampled_from(FLOATS), st.booleans())
def test_along_each_axis(rows: list[list[int]], leaf: Any, keep: bool) -> None:
    x = leaf(rows)
    columns = [list(column) for column in zip(*rows, strict=True)]
    everything = [functools.reduce(operator.iadd, rows, [])]
    cases: list[tuple[Any, list[list[int]]]] = [
        *((0, columns), (-1, rows), (None, everything), ((1, 0), everything))
    ]
    for axis, groups in cases:
        options = {"axis": axis, "keepdims": keep}
        means = [Fraction(sum(g), len(g)) for g in groups]
        assert flat(md.sum(x, **options)) == [float(sum(g)) for g in groups]
        assert flat(md.max(x, **options)) == [max(g) for g in groups]
        assert flat(md.mean(x, **options)) == [rounded(m, leaf) for m in means]
        if not isinstance(axis, tuple):
            assert flat(md.argmax(x, **options)) == [g.index(max(g)) for g in groups]


def flat(x: Any) -> Any:
    return x.buffer.ravel().tolist()


def rounded(mean: Fraction, leaf: Any) -> float:
    """The quotient in float32 for float16, else in the type itself, then rounded."""
    wide = np.float32 if leaf is md.Float16Tensor else leaf.dtype.storage.type
    quotient = wide(mean.numerator) / wide(mean.denominator)
    return float(leaf.dtype.storage.type(quotient))


def test_shapes() -> None:
    x = md.zeros((2, 3, 4))
    assert md.sum(x, axis=(0, 2)).shape == (3,)
    assert md.mean(x, axis=1, keepdims=True).shape == (2, 1, 4)
    assert md.max(x, keepdims=True).shape == (1, 1, 1)
    assert md.argmax(x, axis=-2).shape == (2, 4)
    assert md.sum(x, axis=()).shape == (2, 3, 4)
    assert md.sum(md.asarray(3.0)).tolist() == 3.0


def test_float16_is_summed_in_float32() -> None:
    x = md.ones((5000,), dtype=md.float16)
    assert md.sum(x).tolist() == 5000.0
    columns = md.ones((5000, 2), dtype=md.float16)
    assert md.sum(columns, axis=0).tolist() == [5000.0, 5000.0]
    assert md.mean(columns, axis=0).tolist() == [1.0, 1.0]
    assert md.sum(md.full((3,), 60000.0, dtype=md.float16)).tolist() == math.inf
    assert md.mean(md.full((3,), 60000.0, dtype=md.float16)).tolist() == 60000.0


def test_of_nothing() -> None:
    nothing = md.zeros((0, 3))
    assert md.sum(nothing, axis=0).tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(md.mean(nothing, axis=0).tolist()).all()
    assert md.max(nothing, axis=1).shape == (0,)
    for operation in (md.max, md.argmax):
        with pytest.raises(ShapeError) as caught:
            operation(nothing, axis=0)
        assert str(caught.value) == (
            f"{operation.__name__}(Float32Tensor[0,3]): "
            "the extreme of nothing: shape (0, 3), axis 0."
        )


def test_nan_is_the_maximum_and_the_first_of_equals_is_found() -> None:
    x = md.asarray([1.0, math.nan, 3.0])
    assert math.isnan(md.max(x).tolist())
    assert md.argmax(x).tolist() == 1
    assert md.argmax(md.asarray([2, 7, 7])).tolist() == 1
    assert type(md.argmax(md.asarray([2, 7, 7]))) is md.Int64Tensor


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
        (lambda x: md.argmax(x, axis=(0, 1)), OptionError),
        (lambda x: md.softmax(md.asarray(1.0)), ShapeError),
        (lambda x: md.mean(md.ones((2,), dtype=md.int8)), DispatchError),
        (lambda x: md.softmax(md.ones((2,), dtype=md.int8)), DispatchError),
        (lambda x: md.max(md.asarray([True])), DispatchError),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^\w+\(\w+Tensor"):
        call(md.zeros((2, 3)))


def test_numpy_integers_are_axes() -> None:
    assert md.sum(md.ones((2, 3)), axis=np.int64(1)).tolist() == [3.0, 3.0]
