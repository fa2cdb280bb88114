"""Operators of tensors among tensors, Python numbers, NumPy's, and strangers."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DispatchError

BINARY = {
    operator.add: md.add,
    operator.sub: md.sub,
    operator.mul: md.mul,
    operator.truediv: md.div,
    operator.eq: md.equal,
    operator.ne: md.not_equal,
    operator.lt: md.less,
    operator.le: md.less_equal,
    operator.gt: md.greater,
    operator.ge: md.greater_equal,
}
X = [1.5, -2.0, 4.0]
OTHERS: list[Any] = [
    md.asarray([3.0, -2.0, 0.5]),
    md.asarray([3, -2, 5], dtype=md.int8),
    2,
    0.5,
    True,
]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("symbol", BINARY, ids=lambda f: f.__name__)
def test_is_the_operation_on_both_sides(
    symbol: Callable[[Any, Any], Any], other: Any
) -> None:
    x = md.asarray(X)
    for a, b in ((x, other), (other, x)):
        by_symbol, by_name = symbol(a, b), BINARY[symbol](a, b)
        assert type(by_symbol) is type(by_name)
        assert by_symbol.tolist() == by_name.tolist()
        numbers = [np.asarray(v) if isinstance(v, md.Tensor) else v for v in (a, b)]
        assert by_symbol.tolist() == symbol(*numbers).tolist()


NUMPY_VALUES = [
    np.array([3.0, -2.0, 0.5], np.float32),
    np.array([3.0, -2.0, 0.5], np.float64),
    np.array([3, -2, 5], np.int8),
    np.float32(3.0),
    np.float64(3.0),
    np.int16(3),
]


@pytest.mark.parametrize("other", NUMPY_VALUES, ids=lambda v: f"{v.dtype}{v.shape}")
@pytest.mark.parametrize("symbol", BINARY, ids=lambda f: f.__name__)
def test_numpy_on_either_side_becomes_a_tensor(
    symbol: Callable[[Any, Any], Any], other: Any
) -> None:
    x = md.asarray(X)
    for a, b in ((x, other), (other, x)):
        found = symbol(a, b)
        same = symbol(*(md.asarray(v) for v in (a, b)))
        assert type(found) is type(same)
        assert found.tolist() == same.tolist()


def test_matrix_product_and_negation() -> None:
    x, array = md.asarray([[1.0, 2.0]]), np.array([[3.0], [4.0]], np.float32)
    assert (x @ md.asarray(array)).tolist() == (x @ array).tolist() == [[11.0]]
    assert type(array @ x) is md.Float32Tensor
    assert (array @ x).tolist() == [[3.0, 6.0], [4.0, 8.0]]
    assert (-x).tolist() == [[-1.0, -2.0]]


def test_numpy_scalars_bring_their_type() -> None:
    x = md.asarray([1.0])
    assert type(x + np.float64(1)) is type(np.float64(1) + x) is md.Float64Tensor
    assert type(md.add(x, np.float64(1))) is md.Float64Tensor
    assert type(md.asarray([1], dtype=md.int8) + np.int8(1)) is md.Int8Tensor


UFUNCS = {
    np.add: md.add,
    np.subtract: md.sub,
    np.multiply: md.mul,
    np.divide: md.div,
    np.true_divide: md.div,
    np.maximum: md.maximum,
    np.minimum: md.minimum,
    np.equal: md.equal,
    np.less: md.less,
    np.greater_equal: md.greater_equal,
    np.matmul: md.matmul,
}


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_ufuncs_run_our_operations(ufunc: np.ufunc) -> None:
    x, y = md.asarray([1.0, 5.0]), np.array([3.0, 2.0], np.float32)
    assert ufunc(x, y).tolist() == UFUNCS[ufunc](x, md.asarray(y)).tolist()
    assert ufunc(y, x).tolist() == UFUNCS[ufunc](md.asarray(y), x).tolist()


@pytest.mark.parametrize("ufunc", [np.exp, np.tanh, np.negative], ids=repr)
def test_unary_ufuncs(ufunc: np.ufunc) -> None:
    x = md.asarray([0.5, -1.0])
    found = ufunc(x)
    assert type(found) is md.Float32Tensor
    assert np.array_equal(np.asarray(found), ufunc(np.asarray(x)))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.power(x, 2),
        lambda x: np.add.reduce(x),
        lambda x: np.add(x, 1, where=np.array([True])),
        lambda x: np.add(np.zeros(1, np.float32), x, out=np.zeros(1, np.float32)),
        lambda x: np.logical_and(x, x),
    ],
)
def test_other_ufuncs_are_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(DispatchError, match="has no counterpart here"):
        call(md.asarray([1.0]))


def test_a_refusal_reads_well() -> None:
    with pytest.raises(DispatchError) as caught:
        np.power(md.asarray([1.0]), 2)
    assert str(caught.value) == (
        "power(Float32Tensor[1], int): numpy.power has no counterpart here. "
        "Use numpy.asarray(x) to leave mdtensor."
    )


def test_in_place_operators_make_new_tensors() -> None:
    x = y = md.asarray([1.0])
    x += 1
    assert (x.tolist(), y.tolist()) == ([2.0], [1.0])
    array = np.zeros(1, np.float32)
    with pytest.raises(DispatchError):
        array += y


class Stranger:
    """Answers every operator from the right."""

    def answer(self, _: object) -> str:
        return "mine"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = answer
    __lt__ = __le__ = __gt__ = __ge__ = answer  # the reflected comparisons


@pytest.mark.parametrize(
    "symbol",
    [
        *(operator.add, operator.sub, operator.mul, operator.truediv),
        *(operator.matmul, operator.lt, operator.le, operator.gt, operator.ge),
    ],
    ids=lambda f: f.__name__,
)
def test_strangers_get_their_turn(symbol: Callable[[Any, Any], Any]) -> None:
    assert symbol(md.asarray([1.0]), Stranger()) == "mine"
    for other in ("text", None, [1], b""):
        with pytest.raises(TypeError):
            symbol(md.asarray([1.0]), other)
        with pytest.raises(TypeError):
            symbol(other, md.asarray([1.0]))


def test_equality_with_strangers_is_identity() -> None:
    x = md.asarray([1.0])
    assert (x == "text") is False
    assert (x != None) is True  # noqa: E711
    assert x in [x]


def test_operators_reach_the_methods_of_strangers() -> None:
    class Money:
        def __init__(self, amount: float) -> None:
            self.amount = amount

    @md.method(md.add)
    def add(x1: md.Float32Tensor, x2: Money, /) -> Money:
        return Money(float(x1) + x2.amount)

    operation = md.add.operation
    try:
        assert (md.asarray(1.0) + Money(2.0)).amount == 3.0
        with pytest.raises(TypeError):
            Money(2.0) + md.asarray(1.0)
    finally:
        operation.remove_method(operation.methods[-1])
