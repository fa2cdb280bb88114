"""What is checked before a kernel runs, and whose name the error bears."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import MdtensorError, OptionError, PromotionError, ShapeError
from mdtensor.ops import operands
from mdtensor.ops.operands import (
    checked,
    comparison_buffers,
    deduced,
    joint,
    on_host,
    spec,
)


def fail(error: MdtensorError) -> None:
    raise error


def test_an_error_without_a_call_gets_this_one() -> None:
    x = md.ones((2,))
    with pytest.raises(ShapeError) as caught:
        checked("f", (x, 1), lambda: fail(ShapeError("bad", "Better")))
    assert str(caught.value) == "f(Float32Tensor[2], int): bad. Better."
    assert caught.value.__cause__ is None


def test_an_error_that_names_its_call_keeps_it() -> None:
    with pytest.raises(OptionError) as caught:
        checked("f", (), lambda: fail(OptionError("bad", "", "g(int)")))
    assert str(caught.value) == "g(int): bad."


def test_other_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        checked("f", (), lambda: 1 / 0)
    assert checked("f", (), lambda: 7) == 7


def test_joint_gives_buffers_and_the_promoted_leaf() -> None:
    x, n = md.ones((2, 1)), md.ones((3,), dtype=md.int8)
    a, b, leaf = joint(md.add, x, n)
    assert (a is x.buffer, b is n.buffer, leaf) == (True, True, md.Float32Tensor)
    a, b, leaf = joint(md.add, n, 2)
    assert (b.dtype, b.shape, leaf) == (np.int8, (), md.Int8Tensor)
    a, b, leaf = joint(md.add, 0.5, n)
    assert (a.dtype, b.dtype, leaf) == (np.float32, np.int8, md.Float32Tensor)


def test_compared_keeps_integers_exact() -> None:
    n, x = md.ones((1,), dtype=md.int8), md.ones((1,))
    assert comparison_buffers(md.equal, n, 2**70)[1] == 2**70
    assert comparison_buffers(md.equal, n, 0.5)[1].dtype == np.float64
    assert comparison_buffers(md.equal, x, 0.5)[1].dtype == np.float32
    assert comparison_buffers(md.equal, x, 2**24 + 1)[1].tolist() == 2**24 + 1
    assert comparison_buffers(md.equal, 2**64 - 1, x)[0].tolist() == 2**64 - 1


def test_deduced_names_only_what_is_given() -> None:
    x, w = md.ones((1, 1, 2, 2)), md.ones((1, 1, 1, 1))
    assert deduced(md.conv2d, x, w, None).shape == (1, 1, 2, 2)
    with pytest.raises(ShapeError) as caught:
        deduced(md.conv2d, x, md.ones((1, 1, 3, 3)), None)
    assert str(caught.value).startswith(
        "conv2d(Float32Tensor[1,1,2,2], Float32Tensor[1,1,3,3]): a window of 3"
    )


def test_spec_and_host() -> None:
    x = md.ones((2,))
    assert spec(x) == md.TensorSpec(md.Float32Tensor, (2,))
    assert spec(3) == 3
    on_host("f", x, 1, None)


def test_what_was_deduced_is_told_apart_by_types_and_rules() -> None:
    x = md.ones((2, 3))
    assert md.reshape(x, (3, 2)).shape == (3, 2)
    for shape in ((3, 2.0), (3.0, 2), (True, 6)):
        with pytest.raises(OptionError):
            md.reshape(x, shape)
    assert md.sum(x, axis=1).shape == (2,)
    for axis in (1.0, True):
        with pytest.raises(OptionError):
            md.sum(x, axis=axis)
    halves, wholes = md.ones((2,), dtype=md.float16), md.ones((2,), dtype=md.int32)
    for rules, dtype in (("default", md.float16), ("numpy", md.float64)):
        with md.promotion_rules(rules):
            assert md.concat([halves, wholes]).dtype is dtype
    with md.promotion_rules("strict"), pytest.raises(PromotionError):
        md.concat([halves, wholes])


def test_deductions_are_forgotten_before_they_fill_memory() -> None:
    for n in range(operands.CACHE_SIZE + 8):
        md.permute_dims(md.empty((n % 7, n)), (1, 0))
    assert len(operands._INFERENCES) <= operands.CACHE_SIZE


TIE = 1 + 2**-8  # halfway between two bfloat16


@pytest.mark.parametrize(
    ("x", "number", "rounded"),
    [
        (md.zeros(2, dtype=md.bfloat16), TIE + 2**-40, 1 + 2**-7),
        (md.zeros(2, dtype=md.bfloat16), TIE, 1.0),
        (md.zeros(2, dtype=md.bfloat16), 2**63, 2.0**63),
        (md.zeros(2, dtype=md.bfloat16), -(2**64) - 1, -(2.0**64)),
        (md.zeros(2), 2**60 + 2**36 + 1, 2.0**60 + 2**37),
        (md.zeros(2), 2**90 + 2**66 + 1, 2.0**90 + 2**67),
        (md.zeros(2), 2**60 + 2**36, 2.0**60),
        (md.zeros(2, dtype=md.float64), 2**53 + 1, 2.0**53),
        (md.zeros(2, dtype=md.complex64), 2**60 + 2**36 + 1, 2.0**60 + 2**37),
    ],
)
def test_a_python_number_is_rounded_once(x: Any, number: Any, rounded: float) -> None:
    written = md.zeros_like(x)
    written[0] = number
    results = [
        *(x + number, number - x, written[:1]),
        md.where(md.asarray([False, True]), x, number)[:1],
        md.pad(x, pad_width=[(1, 0)], value=number)[:1],
    ]
    assert [result[0].item() for result in results] == [rounded] * 5
    assert md.asarray([number], dtype=x.dtype)[0].item() == rounded


def test_the_bounds_of_clip_may_be_of_any_size() -> None:
    x = md.asarray([1.0, 2.0], dtype=md.float16)
    assert md.clip(x, max=10**400).tolist() == [1, 2]
    assert md.clip(x, min=-(10**30), max=1).tolist() == [1, 1]


def test_a_float64_of_numpys_own_is_compared_as_one() -> None:
    x = md.asarray([1, 2, 3], dtype=md.int8)
    assert md.isin(x, np.float64(2.0)).tolist() == [False, True, False]
    assert md.searchsorted(x, np.float64(2.5)).item() == 2


@pytest.mark.parametrize("operation", [md.add, md.less, md.atan2, md.isin, md.minimum])
def test_numbers_of_numpy_are_tensors_and_numbers_of_python_are_not(
    operation: Any,
) -> None:
    assert isinstance(operation(np.float64(1.5), 2), md.Tensor)
    with pytest.raises((PromotionError, md.DispatchError)):
        operation(1.5, 2)


@given(st.integers(-(2**70), 2**70))
def test_python_integers_are_rounded_once(value: int) -> None:
    for dtype in (md.bfloat16, md.float32, md.float64):
        # The two neighbours in the type decide, so twice rounded is seen.
        near = md.full(1, value, dtype=dtype)
        gap = abs(Fraction(near.tolist()[0]) - value)
        for side in (float("inf"), -float("inf")):
            other = md.nextafter(near, md.full(1, side, dtype=dtype)).tolist()[0]
            assert gap <= abs(Fraction(other) - value)
        for found in (
            md.zeros(1, dtype=dtype) + value,
            md.ones(1, dtype=dtype) * value,
            md.asarray([value], dtype=dtype),
        ):
            assert found.tolist() == near.tolist()
