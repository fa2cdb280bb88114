"""Many scales in one tensor: pieces give what rational numbers give."""

import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.grids import EVERY, NARROW, grids, pairs, tensors

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QParams, qint16, qint32, quint8
from mdtensor.quant.grids.combine import pieces

AFFINE = (*NARROW, qint16, qint32)
OUTS = st.one_of(grids(shape=(), dtypes=(*NARROW, qint16)))
SUMS = {md.add: operator.add, md.sub: operator.sub}
EXTREMES = {md.maximum: np.maximum, md.minimum: np.minimum}
COMPARED = {
    md.equal: operator.eq,
    md.not_equal: operator.ne,
    md.less: operator.lt,
    md.less_equal: operator.le,
    md.greater: operator.gt,
    md.greater_equal: operator.ge,
}
NUMBERS = st.one_of(
    st.integers(-300, 300), st.sampled_from([0.25, -0.1, 1e30, 2.5, 10**40, True])
)


def parametrized(*operations: Any) -> Any:
    return pytest.mark.parametrize("operation", operations, ids=lambda f: f.__name__)


def codes(x: Any) -> Any:
    return np.asarray(x.codes).astype(np.int64)


def test_pieces_cover_all_places_once() -> None:
    first = QParams([[1, 2], [2, 1]], axis=1, block_size=2)
    second = QParams([1, 1, 2], [0, 1, 1], axis=1)
    found = {}
    for places, (a, b) in pieces((2, 3), first, second):
        for place in places.tolist():
            found[place] = float(a.scale), float(b.scale), b.zero
    assert found == {
        0: (1, 1, 0),
        1: (1, 1, 1),
        2: (2, 2, 1),
        3: (2, 1, 0),
        4: (2, 1, 1),
        5: (1, 2, 1),
    }
    assert list(pieces((0, 3), second)) == []


@parametrized(md.add, md.sub, md.mul, *EXTREMES)
@given(pair=pairs(NARROW), out=OUTS)
def test_with_out_any_two_grids_round_once(
    operation: Any, pair: Any, out: Any, exact: Any
) -> None:
    a, b = map(exact.reals, pair)
    compute = {md.mul: operator.mul, **SUMS, **EXTREMES}[operation]
    got = operation(*pair, out=out)
    assert got.qparams == out
    assert np.array_equal(codes(got), exact.codes(np.asarray(compute(a, b)), out))


FAR = Fraction(2) ** 200


@given(pair=pairs(NARROW), out=OUTS)
def test_quotients_round_once(pair: Any, out: Any, exact: Any) -> None:
    a, b = np.broadcast_arrays(*map(exact.reals, pair))
    if ((a == 0) & (b == 0)).any():
        with pytest.raises(md.CastError, match="0 / 0 is undefined"):
            md.div(*pair, out=out)
        return
    quotients = [x / y if y else x * FAR for x, y in zip(a.flat, b.flat, strict=True)]
    wanted = np.array([*quotients, None], object)[:-1].reshape(a.shape)
    assert np.array_equal(codes(md.div(*pair, out=out)), exact.codes(wanted, out))


@parametrized(md.add, md.sub, md.mul, *EXTREMES)
@given(pair=pairs(NARROW), data=st.data())
def test_without_out_the_result_is_exact_or_refused(
    operation: Any, pair: Any, data: Any, exact: Any
) -> None:
    x = pair[0]
    y = data.draw(st.sampled_from([*pair, x[:1]] if x.ndim else [*pair]))
    compute = {md.mul: operator.mul, **SUMS, **EXTREMES}[operation]
    try:
        got = operation(x, y)
    except md.GridError:
        assert x.qparams != y.qparams
        return
    except md.ShapeError:
        return
    wanted = np.asarray(compute(exact.reals(x), exact.reals(y)))
    assert np.array_equal(exact.reals(got), wanted)


@parametrized(*COMPARED)
@given(pair=pairs(AFFINE))
def test_numbers_compare_whatever_their_grids(
    operation: Any, pair: Any, exact: Any
) -> None:
    wanted = COMPARED[operation](*map(exact.reals, pair))
    assert np.array_equal(operation(*pair).buffer, np.asarray(wanted).astype(bool))


@parametrized(*COMPARED)
@given(x=tensors(EVERY), number=NUMBERS | st.floats())
def test_codes_compare_with_python_numbers(
    operation: Any, x: Any, number: Any, exact: Any
) -> None:
    is_finite = isinstance(number, int) or np.isfinite(number)
    a = exact.reals(x) if is_finite else np.zeros(x.shape)
    c = Fraction(number) if is_finite else number
    wanted = np.asarray(COMPARED[operation](a, c)).astype(bool)
    assert np.array_equal(operation(x, number).buffer, wanted)
    turned = np.asarray(COMPARED[operation](c, a)).astype(bool)
    assert np.array_equal(operation(number, x).buffer, turned)


WITH_NUMBERS = {
    md.add: operator.add,
    md.sub: operator.sub,
    md.mul: operator.mul,
    md.maximum: np.maximum,
    md.minimum: np.minimum,
}


@parametrized(*WITH_NUMBERS)
@given(x=tensors(AFFINE), number=NUMBERS, out=OUTS)
def test_numbers_and_codes_round_once(
    operation: Any, x: Any, number: Any, out: Any, exact: Any
) -> None:
    a, c = exact.reals(x), np.array(Fraction(number), object)
    compute = WITH_NUMBERS[operation]
    got = operation(x, number, out=out), operation(number, x, out=out)
    assert np.array_equal(codes(got[0]), exact.codes(np.asarray(compute(a, c)), out))
    assert np.array_equal(codes(got[1]), exact.codes(np.asarray(compute(c, a)), out))


@given(x=tensors(AFFINE), number=NUMBERS.filter(bool), out=OUTS)
def test_quotients_with_numbers_round_once(
    x: Any, number: Any, out: Any, exact: Any
) -> None:
    a, c = exact.reals(x), Fraction(number)
    assert np.array_equal(
        codes(md.div(x, number, out=out)), exact.codes(np.asarray(a / c), out)
    )
    inverse = np.array([c / v if v else c * FAR for v in a.flat] + [None], object)
    wanted = exact.codes(inverse[:-1].reshape(a.shape), out)
    assert np.array_equal(codes(md.div(number, x, out=out)), wanted)


@given(x=tensors(NARROW), out=OUTS)
def test_functions_round_once_on_every_scale(x: Any, out: Any, exact: Any) -> None:
    a = exact.reals(x)
    positive = np.where(a > 0, a, Fraction(0))
    assert np.array_equal(codes(md.relu(x, out=out)), exact.codes(positive, out))
    assert np.array_equal(exact.reals(md.relu(x)), positive)
    six = np.where(positive < 6, positive, Fraction(6))
    assert np.array_equal(codes(md.relu6(x, out=out)), exact.codes(six, out))
    found = md.sigmoid(x, out=out)
    for place in list(np.ndindex(x.shape))[:5]:
        assert codes(found)[place] == codes(md.sigmoid(x[place], out=out))


@given(x=tensors(AFFINE), data=st.data(), out=OUTS)
def test_reductions_along_one_scale_are_those_of_numbers(
    x: Any, data: Any, out: Any, exact: Any
) -> None:
    if not x.ndim:
        return
    axis, a = data.draw(st.integers(0, x.ndim - 1)), exact.reals(x)
    keepdims = data.draw(st.booleans())
    is_split = x.qparams.axis == axis or x.qparams.block_size is not None
    try:
        total = md.sum(x, axis=axis, keepdims=keepdims)
    except md.GridError:
        assert is_split or x.dtype is qint32
        return
    sums = np.asarray(np.sum(a, axis, keepdims=keepdims, initial=Fraction(0)))
    assert np.array_equal(exact.reals(total), sums)
    if x.shape[axis]:
        mean = md.mean(x, axis=axis, keepdims=keepdims, out=out)
        assert np.array_equal(
            codes(mean), exact.codes(np.asarray(sums / x.shape[axis]), out)
        )


@given(x=tensors(NARROW), data=st.data())
def test_softmax_by_rows_of_one_scale(x: Any, data: Any) -> None:
    if x.ndim < 2 or not x.size:
        return
    axis, out = data.draw(st.integers(0, x.ndim - 1)), QParams(1 / 256, dtype=quint8)
    try:
        got = md.softmax(x, axis=axis, out=out)
    except md.GridError:
        assert x.qparams.axis is not None
        return
    for place in list(np.ndindex(x.shape))[:5]:
        row = (*place[:axis], slice(None), *place[axis + 1 :])
        one = md.softmax(quant.requantize(x[row], out=_first(x[row])), out=out)
        assert np.array_equal(codes(got[row]), codes(one))


def _first(x: Any) -> QParams:
    """The one grid of a row."""
    grid = x.qparams
    scale, zero = grid.scale.reshape(-1)[0], int(grid.zero_point.reshape(-1)[0])
    return QParams(scale, zero, dtype=grid.dtype, narrow_range=grid.narrow_range)


def test_other_rules_take_one_scale() -> None:
    x = QInt8Tensor([[1, 2]], scale=[0.5, 0.25], axis=1)
    out = QParams(0.5, rounding="tflite_ref")
    calls = [
        lambda: md.add(x, x, out=out),
        lambda: md.mul(x, x, out=out),
        lambda: md.tanh(x, out=out),
        lambda: md.softmax(x, axis=0, out=out),
    ]
    for call in calls:
        with pytest.raises(md.GridError, match="scales differ along axis 1"):
            call()
    with pytest.raises(md.OptionError) as raised:
        md.add(QInt8Tensor([1], scale=0.5), 1, out=out)
    assert str(raised.value) == (
        "add(QInt8Tensor[1], int): only rounding='exact' computes with Python numbers. "
        "Quantize the number, or pass out=QParams(..., rounding='exact')."
    )


def test_products_on_two_axes_have_no_one_grid() -> None:
    rows = QInt8Tensor([[1, 2]], scale=[0.5], axis=0)
    columns = QInt8Tensor([[1, 2]], scale=[0.5, 0.25], axis=1)
    with pytest.raises(md.GridError) as raised:
        rows * columns
    assert str(raised.value) == (
        "mul(QInt8Tensor[1,2], QInt8Tensor[1,2]): the grids differ: "
        "(1 scales=0.5..0.5, axis=0) and (2 scales=0.5..0.25, axis=1). "
        "Pass out=QParams(...), or requantize one to the grid of the other."
    ).replace("0.5..0.25", "0.25..0.5")
