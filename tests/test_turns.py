"""`swapaxes` and `rot90` against NumPy, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError, OptionError, ShapeError

ARRAY = np.arange(24).reshape(2, 3, 4)
AXES = st.integers(-3, 2)


@given(AXES, AXES, st.integers(-9, 9))
def test_against_numpy(first: int, second: int, k: int) -> None:
    x = md.asarray(ARRAY)
    swapped = md.swapaxes(x, first, second)
    assert swapped.tolist() == ARRAY.swapaxes(first, second).tolist()
    assert np.shares_memory(swapped, ARRAY)
    if (first - second) % 3:
        found = md.rot90(x, k, axes=(first, second))
        assert found.tolist() == np.rot90(ARRAY, k, (first, second)).tolist()


def test_codes_turn_with_their_grid() -> None:
    q = quant.QInt8Tensor([[1, 2], [3, 4]], scale=0.5)
    assert md.rot90(q).codes.tolist() == [[2, 4], [1, 3]]
    assert md.swapaxes(q, 0, 1).codes.tolist() == [[1, 3], [2, 4]]


def test_what_they_refuse() -> None:
    x = md.asarray(ARRAY)
    with pytest.raises(ShapeError, match="axis"):
        md.swapaxes(x, 0, 3)
    with pytest.raises(ShapeError, match="are the same axis"):
        md.rot90(x, axes=(0, -3))
    with pytest.raises(OptionError, match="k is"):
        md.rot90(x, 0.5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Give two axes"):
        md.rot90(x, axes=(0, 1, 2))  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        md.rot90(md.ones(3))
    with pytest.raises(DispatchError, match="is not a tensor"):
        md.swapaxes([[1]], 0, 1)
