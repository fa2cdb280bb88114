"""Merged axes: the same elements in the same order, and as few axes as there can be."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.cuda_text import Memory

from mdtensor.kernels.loops.walk import AXES, jumps_of, walk


@st.composite
def operands(draw: Any) -> tuple[tuple[int, ...], list[Any]]:
    """A shape, and views of an array that broadcast to it, in any memory order."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=5)))
    views = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = [draw(st.sampled_from((1, n))) for n in shape]
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(st.sampled_from((1, 2, -1))) for _ in shape]
        made = np.arange(np.prod([2 * n for n in sizes], dtype=int))
        array = made.reshape([2 * sizes[axis] for axis in order])
        array = array.transpose(np.argsort(order))
        cut = tuple(slice(None, None, s) for s in steps)
        array = array[cut][tuple(slice(0, n) for n in sizes)]
        lead = draw(st.integers(0, len(shape)))
        dropped = (0,) * lead if all(n == 1 for n in sizes[:lead]) else ()
        views.append(array[(*dropped, ...)])
    return shape, views


def places(found: Any, operand: int) -> list[int]:
    """Where `mdt::walk::at` looks, in Python."""
    count, rank = map(int, found[:2])
    table = found[2:].reshape(-1, AXES)
    at = []
    for i in range(count):
        place = 0
        for axis in range(rank - 1, 0, -1):
            place += i % int(table[0, axis]) * int(table[1 + operand, axis])
            i //= int(table[0, axis])
        at.append(place + i * int(table[1 + operand, 0]))
    return at


@given(operands())
def test_a_walk_meets_the_elements_of_numpy_in_order(made: Any) -> None:
    shape, views = made
    found = walk(shape, [jumps_of(Memory(view), shape) for view in views])
    for number, view in enumerate(views):
        base = view.base if view.base is not None else view
        start = (view.ctypes.data - base.ctypes.data) // view.itemsize
        wanted = np.broadcast_to(view, shape).ravel().tolist()
        met = [start + place for place in places(found, number)]
        assert met == wanted


def test_contiguous_operands_have_one_axis() -> None:
    shape = (2, 3, 4, 5)
    whole, one = Memory(np.zeros(shape)), Memory(np.zeros(()))
    found = walk(shape, [jumps_of(whole, shape), jumps_of(one, shape)])
    assert found[:2].tolist() == [120, 1]
    row = Memory(np.zeros(5))
    found = walk(shape, [jumps_of(whole, shape), jumps_of(row, shape)])
    assert found[:2].tolist() == [120, 2]


def test_too_many_axes_are_counted() -> None:
    shape = (2,) * 18
    checked = Memory(np.zeros(shape)[(slice(None), slice(0, 1)) * 9])
    assert walk(shape, [jumps_of(Memory(np.zeros(shape)), shape)])[1] == 1
    with pytest.raises(ValueError, match=r"^1[0-9] axes remain of \(2, 2, .*above 8"):
        walk(shape, [jumps_of(checked, shape)])


def test_what_does_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) does not broadcast to \(2,\)"):
        jumps_of(Memory(np.zeros(3)), (2,))
    with pytest.raises(ValueError, match="does not broadcast"):
        jumps_of(Memory(np.zeros((1, 2))), (2,))
