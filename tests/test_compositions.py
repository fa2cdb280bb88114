"""`split` and `topk`: the operations that they are made of, against NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import BoundsError, DispatchError, OptionError, ShapeError

X = md.asarray(np.arange(24.0).reshape(2, 3, 4))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 1))
def test_split_against_numpy(sizes: list[int], axis: int) -> None:
    shape = [3, 3]
    shape[axis] = sum(sizes)
    array = np.arange(np.prod(shape)).reshape(shape)
    parts = md.split(md.from_numpy(array), sizes, axis=axis)
    wanted = np.split(array, np.cumsum(sizes)[:-1], axis=axis)
    assert len(parts) == len(sizes)
    for part, other in zip(parts, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(part), other)
        assert np.shares_memory(part.buffer, array) or not part.size


def test_split_keeps_the_grid_of_each_channel() -> None:
    codes = quant.QInt8Tensor(
        [[1, 2], [3, 4], [5, 6]], scale=[0.5, 0.25, 0.125], axis=0
    )
    first, rest = md.split(codes, (1, 2))
    assert first.scale.tolist() == [0.5]
    assert rest.scale.tolist() == [0.25, 0.125]
    assert rest.codes.tolist() == [[3, 4], [5, 6]]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8), st.booleans(), st.data())
def test_topk_is_the_start_of_a_stable_sort(
    values: list[int], largest: bool, data: Any
) -> None:
    k = data.draw(st.integers(0, len(values)))
    found = md.topk(md.asarray([values, values]), k, largest=largest)
    order = sorted(
        range(len(values)), key=lambda i: -values[i] if largest else values[i]
    )
    assert found.indices.tolist() == [order[:k]] * 2
    assert found.values.tolist() == [[values[i] for i in order[:k]]] * 2
    assert type(found.indices) is md.Int64Tensor


def test_topk_of_codes_axes_and_nan() -> None:
    codes = quant.QInt8Tensor([5, -3, 7], scale=0.5)
    found = md.topk(codes, 2)
    assert found.values.codes.tolist() == [7, 5]
    assert md.topk(X, 1, axis=0).values.shape == (1, 3, 4)
    top = md.topk(md.asarray([1.0, float("nan"), 2.0]), 2)
    assert top.indices.tolist() == [1, 2]


def test_other_kinds_of_tensors() -> None:
    lazy = md.topk(X.to("lazy"), 2)
    assert lazy.values.tolist() == md.topk(X, 2).values.tolist()
    one, other = md.split(quant.shadow(X), (1, 1))
    assert one.sqnr == other.sqnr == float("inf")
    assert [part.shape for part in md.split(np.ones(3), [1, 2])] == [(1,), (2,)]


def test_wrong_arguments() -> None:
    with pytest.raises(ShapeError, match=r"sizes \(1, 1\) do not add up to 3"):
        md.split(X, (1, 1), axis=1)
    with pytest.raises(ShapeError, match="do not add up"):
        md.split(X, (4, -1), axis=1)
    with pytest.raises(OptionError, match=r"sizes is 2.*such as \(1, 1\)"):
        md.split(X, 2)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="sizes is"):
        md.split(X, (1.5, 0.5))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="axis"):
        md.split(X, (2,), axis=3)
    with pytest.raises(BoundsError, match="k is 5, and axis 2 has 4 elements"):
        md.topk(X, 5)
    with pytest.raises(BoundsError, match="k is -1"):
        md.topk(X, -1)
    with pytest.raises(OptionError, match=r"k is 1\.5"):
        md.topk(X, 1.5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="largest"):
        md.topk(X, 1, largest=2)  # type: ignore[arg-type]
    for wrong in ([1, 2], 3):
        with pytest.raises(DispatchError, match="not a tensor"):
            md.split(wrong, (1, 1))
