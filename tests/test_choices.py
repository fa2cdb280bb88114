"""`select` and `nan_to_num` against NumPy and Python, and what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import CastError, DispatchError, OptionError, ShapeError

VALUES = st.lists(st.integers(-9, 9), min_size=1, max_size=9)


@given(VALUES, st.integers(-5, 5), st.integers(-5, 5))
def test_select_takes_the_first_condition_that_holds(
    values: list[int], low: int, high: int
) -> None:
    x = md.asarray(values)
    found = md.select([x < low, x > high], [-x, 7], x)
    wanted = [-v if v < low else 7 if v > high else v for v in values]
    assert type(found) is md.Int64Tensor
    assert found.tolist() == wanted


def test_select_broadcasts_and_promotes() -> None:
    rows, columns = md.asarray([[True], [False]]), md.asarray([False, True, False])
    choices = [md.asarray([1, 2, 3], dtype=md.int8), md.asarray([[0.5], [1.5]])]
    found = md.select([rows, columns], choices, default=-1)
    given = [np.asarray(x) for x in (rows, columns, *choices)]
    wanted = np.select(given[:2], given[2:], -1)
    assert found.dtype is md.float32
    assert found.tolist() == wanted.tolist()
    mask = np.array([True, False])
    assert md.select([mask], [md.asarray([1, 2])]).tolist() == [1, 0]
    q = quant.QInt8Tensor([4, 6], scale=0.5)
    assert md.select([md.asarray([False, True])], [q]).codes.tolist() == [0, 6]


def test_what_select_refuses() -> None:
    x = md.asarray([1, 2])
    for conditions, choices in (([], []), ([x > 1], [1, 2])):
        with pytest.raises(OptionError, match="Give one choice for each, at least one"):
            md.select(conditions, choices)
    with pytest.raises(OptionError, match=r"conditions is .*, not a list"):
        md.select(x > 1, [x])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="do not broadcast"):
        md.select([x > 1], [md.asarray([1, 2, 3])])
    with pytest.raises(DispatchError, match="True is not a tensor"):
        md.select([True], [x])


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32, md.float64])
def test_nan_to_num_keeps_finite_numbers(dtype: md.DType) -> None:
    special = md.asarray([math.nan, math.inf, -math.inf, -0.0, 1.5], dtype=dtype)
    found, limits = md.nan_to_num(special), md.finfo(dtype)
    assert found.dtype is dtype
    assert found.tolist() == [0.0, limits.max, limits.min, -0.0, 1.5]
    assert math.copysign(1, found[3].item()) == -1
    chosen = md.nan_to_num(special, nan=-1, posinf=2, neginf=3)
    assert chosen.tolist() == [-1.0, 2.0, 3.0, -0.0, 1.5]
    assert math.isinf(md.nan_to_num(special, posinf=math.inf)[1].item())


def test_types_without_nan_and_what_it_refuses() -> None:
    for x in (md.asarray([1, 2]), md.asarray([True])):
        assert md.nan_to_num(x) is x
    assert md.nan_to_num(np.array([np.nan])).dtype is md.float64
    others: tuple[Any, ...] = (md.asarray([1j]), quant.QInt8Tensor([1], scale=0.5))
    for other in others:
        with pytest.raises(DispatchError, match="nan_to_num is not defined for"):
            md.nan_to_num(other)
    with pytest.raises(OptionError, match="nan must be a real number"):
        md.nan_to_num(md.ones(1), nan="0")  # type: ignore[arg-type]
    with pytest.raises(CastError, match="float16 represents"):
        md.nan_to_num(md.ones(1, dtype=md.float16), posinf=1e6)
