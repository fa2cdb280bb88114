"""Operations do what the rules in force say, deduction included."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import PromotionError
from mdtensor.promotion import RULE_SETS
from mdtensor.promotion.tables import SHORT
from mdtensor.spec.spec import TensorSpec

TYPES = [md.dtype(name) for name in SHORT]
NUMPY = [
    t for t in TYPES if not t.is_complex and t is not md.bfloat16 and t is not md.bool
]


def operand(dtype: md.DType, shape: tuple[int, ...]) -> Any:
    """Numbers that each type holds, and that wrap or round in narrow ones."""
    count = int(np.prod(shape, dtype=int))
    values = np.resize([0, 1, 100, 127], count).reshape(shape)
    return md.asarray(values.astype(dtype.storage))


def common(*operands: Any) -> md.DType | None:
    try:
        return md.result_type(*operands)
    except PromotionError:
        return None


@pytest.mark.parametrize("operation", [np.add, np.multiply, np.maximum])
def test_with_numpy_rules_numbers_are_numpys(operation: np.ufunc) -> None:
    ours = {np.add: md.add, np.multiply: md.mul, np.maximum: md.maximum}[operation]
    with md.promotion_rules("numpy"):
        for a, b in product(NUMPY, NUMPY):
            x, y = operand(a, (4, 1)), operand(b, (4,))
            theirs = operation(np.asarray(x), np.asarray(y))
            found = ours(x, y)
            assert found.dtype is md.dtype(theirs.dtype), (a, b)
            np.testing.assert_array_equal(np.asarray(found), theirs)


def test_truth_values_with_numbers_as_numpy() -> None:
    with md.promotion_rules("numpy"):
        for a in NUMPY:
            x, y = operand(a, (4,)), operand(md.bool, (4,))
            np.testing.assert_array_equal(
                np.asarray(x + y), np.asarray(x) + np.asarray(y), strict=True
            )


@pytest.mark.parametrize("scalar", [3, 2.5], ids=repr)
def test_with_numpy_rules_scalars_are_numpys(scalar: float) -> None:
    with md.promotion_rules("numpy"):
        for a in NUMPY:
            x = operand(a, (4,))
            for found, theirs in (
                (x * scalar, np.asarray(x) * scalar),
                (scalar - x, scalar - np.asarray(x)),
            ):
                np.testing.assert_array_equal(np.asarray(found), theirs, strict=True)


def test_the_rules_of_a_cell_do_not_outlive_them() -> None:
    """What is kept for one rule set is not used under another."""
    x, y = operand(md.int32, (2,)), operand(md.float32, (2,))
    for _ in range(2):
        assert (x + y).dtype is (x + 1.5).dtype is md.float32
        with md.promotion_rules("numpy"):
            assert (x + y).dtype is (x + 1.5).dtype is md.float64
        with md.promotion_rules("strict"):
            for bad in (lambda: x + y, lambda: x + 1.5, lambda: md.maximum(x, y)):
                with pytest.raises(PromotionError):
                    bad()


def test_pypto_cells_wrap_and_overflow() -> None:
    """What the owner's rule costs, in numbers."""
    one = md.asarray([-1], dtype=md.int32)
    with md.promotion_rules("pypto"):
        found = md.asarray([4294967295], dtype=md.uint32) + one
        assert (found.dtype, found.tolist()) == (md.int32, [-2])
        lost = md.asarray([70000]) + md.asarray([0.0], dtype=md.float16)
        assert (lost.dtype, lost.tolist()) == (md.float16, [float("inf")])
        half = md.asarray([1.0], dtype=md.float16)
        brain = md.asarray([1.0], dtype=md.bfloat16)
        assert ((half + brain).dtype, (brain + half).dtype) == (
            md.float16,
            md.bfloat16,
        )


def calls(a: Any, b: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Operations and their promoted operands, from square matrices of types a and b."""
    image, taps = md.reshape(a, (1, 1, 2, 2)), md.reshape(b, (1, 1, 2, 2))
    return [
        (md.add, (a, b)),
        (md.mul, (a, b[0])),
        (md.matmul, (a, b)),
        (md.linear, (a, b, a[0])),
        (md.linear, (a, a, b[0])),
        (md.conv2d, (image, taps, a[0, :1])),
        (md.concat, (a, b)),
        (md.where, (a, b)),
    ]


def run(operation: Any, operands: tuple[Any, ...]) -> Any:
    if operation is md.where:
        return operation(md.asarray([True, False]), *operands)
    return operation(operands) if operation is md.concat else operation(*operands)


def deduce(operation: Any, operands: tuple[Any, ...]) -> Any:
    specs = [TensorSpec(type(x), x.shape) for x in operands]
    if operation is md.where:
        specs = [TensorSpec(md.BoolTensor, (2,)), *specs]
    return operation.operation.rule(*specs)


@pytest.mark.parametrize("rules", RULE_SETS)
def test_every_operation_follows_the_rules(rules: str) -> None:
    with md.promotion_rules(rules):
        for a, b in product(TYPES[1:], TYPES[1:]):
            for operation, operands in calls(operand(a, (2, 2)), operand(b, (2, 2))):
                expected = common(*operands)
                if expected is not None:
                    found = run(operation, operands)
                    assert found.dtype is expected, (operation, a, b)
                    assert deduce(operation, operands).type is type(found)
                    continue
                for attempt in (run, deduce):
                    with pytest.raises(PromotionError):
                        attempt(operation, operands)


def test_comparisons_are_the_same_under_all_rules() -> None:
    """Of any two types, and with Python numbers that a narrow float would round."""
    found = {rules: list(_comparisons(rules)) for rules in RULE_SETS}
    assert all(same == found["default"] for same in found.values())
    big, minus = md.asarray([2**64 - 1], dtype=md.uint64), md.asarray([-1])
    with md.promotion_rules("strict"):
        assert (big > minus).tolist() == [True]


def _comparisons(rules: str) -> Iterator[list[bool]]:
    with md.promotion_rules(rules):
        for a, b in product(TYPES, TYPES):
            yield (operand(a, (4,)) == operand(b, (4,))).tolist()
        for a, scalar in product(TYPES, (True, 100, 0.1, 0.1 + 0j, 1j)):
            yield (operand(a, (4,)) == scalar).tolist()
        for a in (t for t in TYPES if t.is_floating or t.is_complex):
            yield (md.asarray([0.1, 1.0], dtype=a) == 0.1).tolist()


def test_new_tensors_have_the_same_types_under_all_rules() -> None:
    for rules in RULE_SETS:
        with md.promotion_rules(rules):
            made = [md.asarray([1]), md.asarray([1.0]), md.asarray([1j])]
            assert [x.dtype for x in made] == [md.int64, md.float32, md.complex64]
