"""Moving elements: against NumPy, and against the memory they stay in."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import CastError, OptionError, PromotionError, ShapeError

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]

LEAVES = DENSE


def counted(*shape: int) -> Any:
    return md.reshape(md.arange(int(np.prod(shape, dtype=int))), shape)


def test_reshape_is_a_view_where_strides_allow() -> None:
    x = counted(2, 6)
    assert md.reshape(x, (3, 4)).tolist() == np.arange(12).reshape(3, 4).tolist()
    assert np.shares_memory(md.reshape(x, (3, -1)).buffer, x.buffer)
    assert (
        md.reshape(x.T, (12,)).tolist()
        == np.arange(12).reshape(2, 6).T.ravel().tolist()
    )
    assert md.reshape(md.asarray(5), (1, 1)).tolist() == [[5]]
    assert md.reshape(md.asarray([5]), ()).tolist() == 5
    assert md.reshape(md.zeros((0, 3)), (3, -1)).shape == (3, 0)
    assert md.reshape(x, -1).shape == (12,)
    assert md.reshape(x, [np.int64(4), 3]).shape == (4, 3)


@given(st.permutations(range(3)))
def test_permute_dims(axes: list[int]) -> None:
    x = counted(2, 3, 4)
    found = md.permute_dims(x, axes)
    assert found.tolist() == x.buffer.transpose(axes).tolist()
    assert np.shares_memory(found.buffer, x.buffer)
    negative = [axis - 3 for axis in axes]
    assert md.permute_dims(x, negative).tolist() == found.tolist()


def test_concat_against_numpy() -> None:
    x, y = counted(2, 3), counted(2, 3)
    for axis in (0, 1, -1, None):
        want = np.concatenate([x.buffer, y.buffer], axis)
        assert md.concat([x, y], axis=axis).tolist() == want.tolist()
    assert md.concat((x, y)).shape == (4, 3)
    assert md.concat([counted(0, 3), x]).tolist() == x.tolist()
    assert not np.shares_memory(md.concat([x]).buffer, x.buffer)


@pytest.mark.parametrize(
    ("leaves", "result"),
    [
        ([md.Int8Tensor, md.UInt8Tensor], md.Int16Tensor),
        ([md.Int64Tensor, md.Float16Tensor], md.Float16Tensor),
        ([md.BoolTensor, md.Int8Tensor], md.Int8Tensor),
        ([md.Int8Tensor, md.UInt64Tensor, md.Float32Tensor], md.Float32Tensor),
        ([md.BoolTensor, md.BoolTensor], md.BoolTensor),
    ],
)
def test_concat_promotes_in_any_order(leaves: list[Any], result: type) -> None:
    arrays = [leaf([True]) for leaf in leaves]
    for order in (arrays, arrays[::-1]):
        joined = md.concat(order)
        assert type(joined) is result
        assert joined.tolist() == [1] * len(arrays)


def test_concat_takes_any_iterable_and_refuses() -> None:
    assert md.concat(x for x in (counted(1), counted(2))).tolist() == [0, 0, 1]
    with pytest.raises(PromotionError, match=r"^concat\(Int8Tensor\[1\], UInt64Tensor"):
        md.concat([md.Int8Tensor([1]), md.UInt64Tensor([1])])
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(3, 2\) differ off axis 0"):
        md.concat([counted(2, 3), counted(3, 2)])
    with pytest.raises(ShapeError, match="differ off axis 0"):
        md.concat([counted(2, 3), counted(2)])
    with pytest.raises(ShapeError, match="axis 0 does not exist in 0 dimensions"):
        md.concat([md.asarray(1)])


@pytest.mark.parametrize("leaf", LEAVES)
def test_pad(leaf: Any) -> None:
    x = leaf([[True, False]])
    widths = [(1, 0), (0, 2)]
    for value in (0, 1):
        found = md.pad(x, widths, value=value)
        assert type(found) is leaf
        want = np.pad(x.buffer, widths, constant_values=value)
        assert found.tolist() == want.tolist()


@pytest.mark.parametrize(
    ("leaf", "value"),
    [(md.Int8Tensor, 128), (md.Int8Tensor, 0.5), (md.UInt8Tensor, -1)],
)
def test_pad_with_what_does_not_fit(leaf: Any, value: float) -> None:
    with pytest.raises(CastError, match=r"^pad\(.*cannot represent"):
        md.pad(leaf([1]), [(1, 1)], value=value)


def test_pad_with_infinity() -> None:
    found = md.pad(md.asarray([1.0]), [(1, 1)], value=-float("inf"))
    assert found.tolist() == [-float("inf"), 1.0, -float("inf")]


@pytest.mark.parametrize("widths", [[(1, 1)], [(1, 1)] * 3, [(1, -1)] * 2, [(1,)] * 2])
def test_pad_widths_that_do_not_fit(widths: Any) -> None:
    with pytest.raises(ShapeError, match="does not fit 2 dimensions"):
        md.pad(counted(2, 2), widths)
    with pytest.raises(OptionError):
        md.pad(counted(2, 2), [(0.5, 1), (1, 1)])


def test_squeeze_and_expand_are_views() -> None:
    x = counted(1, 3, 1)
    for axis, shape in ((0, (3, 1)), (-1, (1, 3)), ((0, 2), (3,)), ((), (1, 3, 1))):
        found = md.squeeze(x, axis)
        assert found.shape == shape
        assert np.shares_memory(found.buffer, x.buffer)
    for axis in range(-4, 4):
        found = md.expand_dims(x, axis=axis)
        assert found.shape == np.expand_dims(x.buffer, axis).shape
        assert np.shares_memory(found.buffer, x.buffer)
    with pytest.raises(ShapeError, match=r"^squeeze\(.*axis 1 has size 3, not 1"):
        md.squeeze(x, 1)
    with pytest.raises(ShapeError, match="axis 4 does not exist in 4 dimensions"):
        md.expand_dims(x, axis=4)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: md.reshape(x, (4,)), ShapeError),
        (lambda x: md.reshape(x, (-1, -1)), ShapeError),
        (lambda x: md.reshape(x, (-1, 4)), ShapeError),
        (lambda x: md.reshape(x, (-2, 3)), ShapeError),
        (lambda x: md.reshape(x, (2.0, 3)), OptionError),
        (lambda x: md.reshape(md.zeros((0,)), (-1, 0)), None),
        (lambda x: md.permute_dims(x, (0, 0)), ShapeError),
        (lambda x: md.permute_dims(x, (0,)), ShapeError),
        (lambda x: md.permute_dims(x, (0, 2)), ShapeError),
        (lambda x: md.permute_dims(x, "ab"), OptionError),
    ],
)
def test_what_is_refused(call: Any, error: Any) -> None:
    if error is None:
        call(counted(2, 3))
    else:
        with pytest.raises(error, match=r"^(reshape|permute_dims)\(Int64Tensor"):
            call(counted(2, 3))
