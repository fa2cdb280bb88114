"""A wrapper type from outside: operations on it, its unit, and what refuses it."""

import itertools
from typing import Any

import numpy as np
import pytest
from mdtensor_float8 import Float8Tensor, float8
from mdtensor_squared import squared_difference
from mdtensor_units import Quantity, QuantitySpec, Unit, UnitError

import mdtensor as md
from mdtensor.quant import QInt8Tensor

METRE, SECOND = Unit(m=1), Unit(s=1)


def metres(*values: float) -> Quantity:
    return Quantity(md.asarray(values), METRE)


def test_units_multiply() -> None:
    assert Unit(m=1, s=-2) == METRE / SECOND**2
    assert repr(METRE / SECOND**2) == "m·s^-2"
    assert Unit() == METRE / METRE
    assert repr(Unit()) == "1"
    assert len({METRE * SECOND, SECOND * METRE}) == 1


def check(found: Any, numbers: list[Any], unit: Unit) -> None:
    assert isinstance(found, Quantity)
    assert found.tensor.tolist() == numbers
    assert found.unit == unit


def test_equal_units_add() -> None:
    q = metres(1.0, 2.0)
    check(q + q, [2.0, 4.0], METRE)
    check(md.add(q, q), [2.0, 4.0], METRE)
    check(q - metres(1.0), [0.0, 1.0], METRE)
    check(md.maximum(q, metres(1.5)), [1.5, 2.0], METRE)


def test_different_units_do_not() -> None:
    q, t = metres(1.0, 2.0), Quantity([1.0], SECOND)
    with pytest.raises(UnitError) as caught:
        q + t
    assert str(caught.value) == (
        "add(Quantity[2], Quantity[1]): units are m and s. Convert one of them."
    )
    with pytest.raises(
        UnitError, match=r"sub\(Quantity\[2\], int\): units are m and 1"
    ):
        q - 1
    with pytest.raises(UnitError, match=r"less\(Quantity\[2\], Quantity\[1\]\)"):
        q < t  # noqa: B015
    assert isinstance(caught.value, md.MdtensorError)


def test_units_of_products_multiply_on_both_sides() -> None:
    q, x, t = metres(1.0, 2.0), md.asarray([3.0, 4.0]), Quantity([2.0, 4.0], SECOND)
    check(q * x, [3.0, 8.0], METRE)
    check(x * q, [3.0, 8.0], METRE)
    check(2 * q, [2.0, 4.0], METRE)
    check(q * 2.5, [2.5, 5.0], METRE)
    check(q / t, [0.5, 0.5], METRE / SECOND)
    check(1 / t, [0.5, 0.25], SECOND**-1)
    check(q @ q, 5.0, METRE**2)
    check(md.square(q), [1.0, 4.0], METRE**2)
    check(np.asarray([3.0, 4.0], np.float32) * q, [3.0, 8.0], METRE)
    check(np.float32(2) * q, [2.0, 4.0], METRE)


def test_a_quotient_of_one_unit_adds_to_numbers() -> None:
    check(metres(1.0, 2.0) / metres(2.0) + 1, [1.5, 2.0], Unit())


def test_comparisons_are_truth_values() -> None:
    found = metres(1.0, 2.0) < metres(1.5)
    assert isinstance(found, md.BoolTensor)
    assert found.tolist() == [True, False]
    assert (metres(1.0) == metres(1.0)).tolist() == [True]


def test_reductions_keep_the_unit() -> None:
    q = Quantity([[1.0, 2.0], [3.0, 6.0]], METRE)
    check(md.sum(q), 12.0, METRE)
    check(md.mean(q, axis=0), [2.0, 4.0], METRE)
    check(md.max(q, axis=1, keepdims=True), [[2.0], [6.0]], METRE)
    check(-q[0], [-1.0, -2.0], METRE)
    check(abs(-q[0]), [1.0, 2.0], METRE)
    check(md.reshape(q, (4,)), [1.0, 2.0, 3.0, 6.0], METRE)


def test_parts_are_read_and_written() -> None:
    q = metres(1.0, 2.0)
    q[0] = metres(5.0)[0]
    q += metres(1.0)
    check(q, [6.0, 3.0], METRE)
    with pytest.raises(UnitError, match=r"setitem\(Quantity\[2\], int\)"):
        q[0] = 1
    with pytest.raises(md.BoundsError):
        q[7]


def test_it_prints_on_one_line() -> None:
    assert repr(metres(1.0) / Quantity([2.0], SECOND)) == (
        "Quantity(Float32Tensor[1]([0.5]), m·s^-1)"
    )


def test_tensors_of_any_type_are_inside() -> None:
    check(Quantity(md.asarray([16.0], dtype=float8), METRE) * 3, [48.0], METRE)
    q = Quantity(QInt8Tensor([1, 2], scale=0.5), METRE)
    found = q * q
    assert isinstance(found, Quantity)
    assert type(found.tensor).__name__ == "QInt32Tensor"
    assert found.unit == METRE**2
    assert isinstance((Quantity([True], METRE) * 2).tensor, md.Int64Tensor)


def test_what_has_no_method_says_what_would_work() -> None:
    with pytest.raises(md.DispatchError) as caught:
        md.sin(metres(1.0))
    assert str(caught.value).startswith(
        "sin(Quantity): no method: x is Quantity, not FloatingTensor | ComplexTensor. "
        "Use q.tensor for the numbers without their unit. Nearest: sin("
    )
    with pytest.raises(TypeError):
        metres(1.0) + "1"


def spec(x: Any) -> Any:
    if isinstance(x, Quantity):
        return QuantitySpec(md.TensorSpec(type(x.tensor), x.shape), x.unit)
    return md.TensorSpec(type(x), x.shape) if isinstance(x, md.Tensor) else x


@pytest.mark.parametrize("operation", [md.add, md.mul, md.div, md.less, md.matmul])
@pytest.mark.parametrize("second", [0, 1, 2])
def test_deduction_is_what_comes_out(operation: Any, second: int) -> None:
    q = Quantity([[1.0, 2.0], [3.0, 4.0]], METRE)
    other = (q, Quantity(md.ones((2, 2)), SECOND), md.ones((2, 2), dtype=md.int8))[
        second
    ]
    for operands in ((q, other), (other, q)):
        try:
            result = operation(*operands)
        except UnitError as error:
            with pytest.raises(UnitError, match=str(error.problem)):
                md.infer(operation, *map(spec, operands))
        else:
            assert md.infer(operation, *map(spec, operands)) == spec(result)


def test_deduction_of_reductions() -> None:
    q = Quantity(md.ones((2, 3)), METRE)
    assert md.infer(md.sum, spec(q), axis=0) == spec(md.sum(q, axis=0))
    with pytest.raises(md.BoundsError):
        md.infer(md.sum, spec(q), axis=5)


def test_two_packages_meet_in_the_users_code() -> None:
    """Neither knows the other; the method belongs to whoever has both."""

    @md.method(squared_difference)
    def squared_difference_(x1: Quantity, x2: Quantity, /) -> Quantity:
        return md.square(x1 - x2)

    check(squared_difference(metres(3.0), metres(1.0)), [4.0], METRE**2)
    with pytest.raises(UnitError):
        squared_difference(metres(3.0), Quantity([1.0], SECOND))


def test_all_pairs_of_its_calls_are_decided() -> None:
    others = [*md.leaves(), Quantity, bool, int, float, complex, type(None)]
    assert {Float8Tensor, QInt8Tensor} < set(others)
    pairs = [p for p in itertools.product(others, others) if Quantity in p]
    binary = [f for f in md.operations().values() if len(f.operation.dispatched) == 2]
    for operation in binary:
        for types in pairs:
            try:
                operation.select(*types)
            except md.DispatchError as error:
                assert "more than one" not in error.problem, (operation, types)
