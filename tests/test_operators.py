"""Operators of tensors among tensors, Python numbers, NumPy's, and strangers."""

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError, ShapeError, WriteError

BINARY = {
    operator.add: md.add,
    operator.sub: md.sub,
    operator.mul: md.mul,
    operator.truediv: md.div,
    operator.floordiv: md.floor_divide,
    operator.mod: md.remainder,
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


@each("other", OTHERS)
@each("symbol", BINARY)
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


BITS = {
    operator.pow: md.pow,
    operator.and_: md.bitwise_and,
    operator.or_: md.bitwise_or,
    operator.xor: md.bitwise_xor,
    operator.lshift: md.bitwise_left_shift,
    operator.rshift: md.bitwise_right_shift,
}


@pytest.mark.parametrize("other", [3, [2, 0, 1], np.int64(3), np.array([2, 0, 1])])
@pytest.mark.parametrize("symbol", BITS, ids=lambda f: f.__name__)
def test_integers_on_both_sides(symbol: Callable[[Any, Any], Any], other: Any) -> None:
    numbers = np.array([6, 1, 3])
    x, y = md.asarray(numbers), md.asarray(other) if type(other) is list else other
    for a, b in ((x, y), (y, x)):
        found = symbol(a, b)
        assert type(found) is md.Int64Tensor
        assert found.tolist() == symbol(*map(np.asarray, (a, b))).tolist()
        assert found.tolist() == BITS[symbol](md.asarray(a), md.asarray(b)).tolist()


def test_truth_values_have_bits() -> None:
    x = md.asarray([True, False])
    assert type(x & True) is type(True | x) is type(x ^ x) is type(~x) is md.BoolTensor
    assert [(x & True).tolist(), (True | x).tolist()] == [[True, False], [True, True]]
    assert [(x ^ True).tolist(), (~x).tolist()] == [[False, True], [False, True]]


def test_signs() -> None:
    x = md.asarray([3, -4])
    assert [(+x).tolist(), abs(x).tolist(), (~x).tolist()] == [
        *([3, -4], [3, 4], [-4, 3]),
    ]
    assert (+x).buffer is not x.buffer
    assert abs(md.asarray(3 + 4j)).tolist() == 5.0
    assert complex(md.asarray(3 + 4j)) == 3 + 4j
    assert complex(md.asarray([2])) == 2


NUMPY_VALUES = [
    np.array([3.0, -2.0, 0.5], np.float32),
    np.array([3.0, -2.0, 0.5], np.float64),
    np.array([3, -2, 5], np.int8),
    np.float32(3.0),
    np.float64(3.0),
    np.int16(3),
]


@each("other", NUMPY_VALUES)
@each("symbol", BINARY)
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


IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.ipow: operator.pow,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}


@pytest.mark.parametrize("symbol", IN_PLACE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("other", [2, [1, 3, 2], np.array([[1], [3]])[1]])
def test_in_place_operators_write(
    symbol: Callable[[Any, Any], Any], other: Any
) -> None:
    numbers = np.arange(12).reshape(2, 6)
    x = md.asarray(numbers.copy())[:, ::2]
    y = md.asarray(other) if type(other) is list else other
    view = x[1:, ::-1]
    want = IN_PLACE[symbol](numbers[:, ::2], np.asarray(other)).tolist()
    assert symbol(x, y) is x
    assert x.tolist() == want
    assert view.tolist() == [want[1][::-1]]


def test_in_place_quotients_and_products_write() -> None:
    x = y = md.asarray([[1.0, 2.0], [3.0, 4.0]])
    x /= 2
    x @= x
    assert y is x
    assert x.tolist() == [[1.75, 2.5], [3.75, 5.5]]
    truth = md.asarray([True, False])
    truth |= True
    assert truth.tolist() == [True, True]


def test_in_place_operators_read_before_they_write() -> None:
    x = md.asarray([1, 2, 3, 4])
    x += x[::-1]
    assert x.tolist() == [5, 5, 5, 5]
    x = md.asarray([1, 2, 3, 4])
    part = x[1:]
    part -= x[:-1]
    assert x.tolist() == [1, 1, 1, 1]


READ_ONLY = np.zeros(2, np.int64)
READ_ONLY.flags.writeable = False
BROKEN = {
    "div(Int64Tensor[2], Float32Tensor[2]): the result is Float32Tensor[2], which "
    "Int64Tensor[2] cannot take in place. Use x = div(x, ...) for a new tensor.": (
        *(PromotionError, operator.itruediv, md.asarray([1, 2])),
        md.asarray([1.0, 2.0]),
    ),
    "add(Int64Tensor[2], Int64Tensor[3,1]): the result is Int64Tensor[3,2], which "
    "Int64Tensor[2] cannot take in place. Use x = add(x, ...) for a new tensor.": (
        *(ShapeError, operator.iadd, md.asarray([1, 2])),
        md.asarray([[1], [2], [3]]),
    ),
    "setitem(Int64Tensor[2], Int64Tensor[2]): the buffer is read-only. "
    "Write into asarray(x, copy=True).": (
        *(WriteError, operator.iadd, md.asarray(READ_ONLY)),
        1,
    ),
}


@pytest.mark.parametrize("text", BROKEN)
def test_in_place_errors_write_nothing(text: str) -> None:
    error, symbol, x, y = BROKEN[text]
    before = x.tolist()
    with pytest.raises(error) as caught:
        symbol(x, y)
    assert str(caught.value) == text
    assert x.tolist() == before


class Stranger:
    """Answers every operator from the right."""

    def answer(self, _: object) -> str:
        return "mine"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = answer
    __rfloordiv__ = __rmod__ = __rpow__ = __rlshift__ = __rrshift__ = answer
    __rand__ = __ror__ = __rxor__ = answer
    __lt__ = __le__ = __gt__ = __ge__ = answer  # the reflected comparisons


@pytest.mark.parametrize(
    "symbol",
    [
        *(operator.add, operator.sub, operator.mul, operator.truediv),
        *(operator.floordiv, operator.pow, operator.and_),
        *(operator.or_, operator.xor, operator.lshift, operator.rshift),
        *(operator.isub, operator.ipow, operator.iand),
        *(operator.matmul, operator.lt, operator.le, operator.gt, operator.ge),
    ],
    ids=lambda f: f.__name__,
)
def test_strangers_get_their_turn(symbol: Callable[[Any, Any], Any]) -> None:
    assert symbol(md.asarray([1.0]), Stranger()) == "mine"
    for other in ("text", None, [1], b""):
        with pytest.raises(DispatchError):
            symbol(md.asarray([1.0]), other)
        with pytest.raises(DispatchError):
            symbol(other, md.asarray([1.0]))


class Silent(Stranger):
    """Is asked, and has no answer."""

    asked = 0

    def __radd__(self, _: object) -> Any:
        self.asked += 1
        return NotImplemented

    __add__ = __radd__


class Buffer:
    """Hands its elements over, as tensors of other libraries do."""

    def __dlpack__(self) -> None: ...


REFUSED: tuple[tuple[Any, str, str], ...] = (
    (None, "NoneType", ""),
    ("s", "str", ""),
    ([1], "list", " Use asarray({x}) to make it a tensor."),
    (range(2), "range", " Use asarray({x}) to make it a tensor."),
    (Buffer(), "Buffer", " Use from_dlpack({x}) to make it a tensor."),
    (Fraction(1, 2), "Fraction", " Use float({x})."),
    (md.float16, "DType", " Use astype(x, dtype) for another element type."),
)


@pytest.mark.parametrize(("other", "kind", "fix"), REFUSED)
def test_what_no_one_answers_is_our_error(other: Any, kind: str, fix: str) -> None:
    numbers = "NumericTensor | LogicalTensor | int | float | complex"
    for call, types, name in (
        (lambda: md.asarray([1.0]) + other, f"Float32Tensor, {kind}", "x2"),
        (lambda: other + md.asarray([1.0]), f"{kind}, Float32Tensor", "x1"),
    ):
        with pytest.raises(DispatchError) as caught:
            call()
        way = fix.format(x=name)
        head = f"add({types}): no method: {name} is {kind}, not {numbers}.{way} Nearest"
        assert str(caught.value).startswith(head)


def test_a_stranger_without_an_answer_is_asked_once_from_the_right() -> None:
    silent = Silent()
    with pytest.raises(DispatchError, match=r"x2 is Silent"):
        md.asarray([1.0]) + silent
    assert silent.asked == 1
    with pytest.raises(DispatchError, match=r"x1 is Silent"):
        silent + md.asarray([1.0])
    assert silent.asked == 2


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


def test_errors_for_lists_name_asarray() -> None:
    x = md.ones((2,))
    for other in ([1, 2], (1, 2)):
        for sign in (operator.add, operator.eq, operator.gt):
            with pytest.raises(DispatchError, match=r"Use asarray\(x2\) to make it"):
                sign(x, other)


@pytest.mark.parametrize("symbol", ["lt", "le", "gt", "ge", "add", "sub", "matmul"])
@pytest.mark.parametrize("other", [int, list, md.Tensor, type("M", (type,), {})])
def test_a_class_is_no_operand(symbol: str, other: type) -> None:
    """Its instances have `__gt__`, but the class itself does not compare."""
    x = md.asarray([1.0, 2.0])
    operation = getattr(operator, symbol)
    for pair in ((x, other), (other, x)):
        with pytest.raises(DispatchError):
            operation(*pair)


def test_a_metaclass_may_compare() -> None:
    class Meta(type):
        def __gt__(cls, other: object) -> Any:
            return cls, other

    class Kind(metaclass=Meta): ...

    x = md.asarray(1.0)
    assert (x < Kind) == (Kind, x)


def test_round_gives_whole_numbers_of_the_same_type() -> None:
    x = md.asarray([0.5, 1.5, -2.5, 2.6])
    for found in (round(x), round(x, 0), round(x, None)):
        assert type(found) is md.Float32Tensor
        assert found.tolist() == [0.0, 2.0, -2.0, 3.0]
    assert round(md.asarray([1, 2])).tolist() == [1, 2]
    with pytest.raises(md.OptionError, match=r"ndigits is 2.*Use round\(x \* 10"):
        round(x, 2)


@pytest.mark.parametrize("value", [3, 7, 2.0, 2.5, True, "a", None, float("nan")])
def test_contains_means_an_equal_element_at_any_depth(value):
    for array in (np.array([[1, 2], [3, 4]]), np.array([3.0]), np.zeros((0, 2), int)):
        assert (value in md.asarray(array)) is bool(np.any(array == value))


def test_a_row_is_contained_as_numpy_has_it():
    x = md.asarray([[1, 2], [3, 4]])
    assert x[0] in x
    assert np.array([5, 4]) in x
    with pytest.raises(md.ShapeError, match="do not broadcast"):
        _ = md.ones(3) in x
