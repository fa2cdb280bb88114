"""Rounding against Python's math, and against NumPy for every type."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.elements import COMPLEX, FLOATS, INTEGERS, as_numpy, edges, same

import mdtensor as md
from mdtensor.errors import DispatchError

IN_PYTHON = {
    md.floor: (math.floor, np.floor),
    md.ceil: (math.ceil, np.ceil),
    md.trunc: (math.trunc, np.trunc),
    md.round: (round, np.rint),
}
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


@pytest.mark.parametrize("operation", IN_PYTHON, **named)
@given(st.floats(-1e18, 1e18) | st.integers(-20, 20).map(lambda n: n / 2))
def test_as_python_rounds(operation: Any, value: float) -> None:
    found = operation(md.asarray(value, dtype=md.float64)).tolist()
    assert found == IN_PYTHON[operation][0](value)
    assert math.copysign(1, found) == math.copysign(1, value) or found


@pytest.mark.parametrize("operation", IN_PYTHON, **named)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_float(operation: Any, dtype: md.DType) -> None:
    x = edges(dtype)
    found = operation(md.from_numpy(x))
    assert found.dtype is dtype
    assert same(found.buffer, as_numpy(IN_PYTHON[operation][1], dtype, x))


@pytest.mark.parametrize("operation", IN_PYTHON, **named)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_stay(operation: Any, dtype: md.DType) -> None:
    x = md.from_numpy(edges(dtype))
    found = operation(x)
    assert same(found.buffer, x.buffer)
    assert not np.shares_memory(found.buffer, x.buffer)


def test_halves_go_to_the_even_one() -> None:
    x = md.asarray([-1.5, -0.5, 0.5, 1.5, 2.5])
    assert md.round(x).tolist() == [-2.0, 0.0, 0.0, 2.0, 2.0]
    z = md.asarray([0.5 + 1.5j, -2.5 - 0.5j])
    assert md.round(z).tolist() == [0 + 2j, -2 + 0j]


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers_round_part_by_part(dtype: md.DType) -> None:
    x = edges(dtype)
    assert same(md.round(md.from_numpy(x)).buffer, as_numpy(np.rint, dtype, x))


def test_what_has_no_whole_part() -> None:
    for operation in IN_PYTHON:
        with pytest.raises(DispatchError, match="Use astype"):
            operation(md.asarray([True]))
    for operation in (md.floor, md.ceil, md.trunc):
        with pytest.raises(DispatchError, match=r"Use real\(x\)"):
            operation(md.asarray([1j]))
