"""Moving elements: against NumPy, and against the memory they stay in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import (
    CastError,
    DispatchError,
    MdtensorError,
    OptionError,
    PromotionError,
    ShapeError,
    WriteError,
)

LEAVES = md.leaves()[:15]


def counted(*shape: int, leaf: Any = md.Int64Tensor) -> Any:
    values = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    return leaf.wrap(values.astype(leaf.dtype.storage))


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def same(found: Any, want: Any) -> bool:
    """Equal in shape and elements, and no NumPy scalar."""
    is_array = isinstance(found.buffer, np.ndarray)
    return is_array and found.shape == want.shape and bool((found.buffer == want).all())


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
    with pytest.raises(
        ShapeError, match=r"\(2, 3\) and \(3, 2\) differ in more than axis 0"
    ):
        md.concat([counted(2, 3), counted(3, 2)])
    with pytest.raises(ShapeError, match="differ in more than axis 0"):
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
    with pytest.raises(CastError, match=r"^pad\(.*(cannot represent|is not one)"):
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
    with pytest.raises(OptionError, match=r"on all sides give \[\(3, 3\)\] \* 2"):
        md.pad(counted(2, 2), 3)


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
    for axes in ((0, 1), (-1, 0), (2, -2), ()):
        found = md.expand_dims(x, axes)
        assert found.shape == np.expand_dims(x.buffer, axes).shape
    with pytest.raises(IndexError, match="axis 4 does not exist in 4 dimensions"):
        md.expand_dims(x, 4)
    with pytest.raises(ShapeError, match=r"^squeeze\(.*axis 1 has size 3, not 1"):
        md.squeeze(x, 1)
    with pytest.raises(ShapeError, match="axis 4 does not exist in 4 dimensions"):
        md.expand_dims(x, axis=4)
    with pytest.raises(MdtensorError, match=r"^expand_dims\(.*None"):
        md.expand_dims(x, axis=None)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: md.reshape(x, (4,)), ShapeError),
        (lambda x: md.reshape(x, (-1, -1)), ShapeError),
        (lambda x: md.reshape(x, (-1, 4)), ShapeError),
        (lambda x: md.reshape(x, (-2, 3)), ShapeError),
        (lambda x: md.reshape(x, (2.0, 3)), OptionError),
        (lambda x: md.reshape(x[:0], (-1, 0)), ShapeError),
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


def test_reshape_copies_as_asked() -> None:
    x = counted(2, 3)
    assert not np.shares_memory(md.reshape(x, (6,), copy=True).buffer, x.buffer)
    assert np.shares_memory(md.reshape(x, (6,), copy=False).buffer, x.buffer)
    assert not np.shares_memory(md.reshape(x.T, (6,), copy=None).buffer, x.buffer)
    assert md.reshape(x.T, (3, 1, 2), copy=False).shape == (3, 1, 2)
    assert md.reshape(counted(0, 3), (3, 0), copy=False).shape == (3, 0)
    assert text(OptionError, lambda: md.reshape(x.T, (6,), copy=False)) == (
        "reshape(Int64Tensor[3,2]): the strides do not allow a view of shape (6,). "
        "Use copy=None."
    )


SIZES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(SIZES, st.lists(st.integers(0, 3), max_size=4).map(tuple))
def test_broadcast_to_against_numpy(shape: Any, wanted: Any) -> None:
    x = counted(*shape)
    try:
        want = np.broadcast_to(x.buffer, wanted)
    except ValueError:
        with pytest.raises(ShapeError, match=r"^broadcast_to\(Int64Tensor"):
            md.broadcast_to(x, wanted)
    else:
        assert same(md.broadcast_to(x, wanted), want)


def test_broadcast_to_is_a_view_that_cannot_be_written() -> None:
    x = counted(3)
    found = md.broadcast_to(x, (2, 3))
    assert np.shares_memory(found.buffer, x.buffer)
    assert found.buffer.strides[0] == 0
    with pytest.raises(WriteError, match="the buffer is read-only"):
        found[0, 0] = 9
    assert text(ShapeError, lambda: md.broadcast_to(x, (3, 2))) == (
        "broadcast_to(Int64Tensor[3]): shapes (3,) and (3, 2) do not broadcast. "
        "Make the sizes equal."
    )
    assert text(ShapeError, lambda: md.broadcast_to(x, (1,))) == (
        "broadcast_to(Int64Tensor[3]): shape (3,) does not broadcast to (1,)."
    )
    assert text(ShapeError, lambda: md.broadcast_to(x, (-1, 3))) == (
        "broadcast_to(Int64Tensor[3]): shape (-1, 3) has a negative size. "
        "Use sizes of 0 or more."
    )


def test_broadcast_arrays() -> None:
    x, y = md.asarray([[1.0], [2.0]]), md.asarray([3, 4], dtype=md.int8)
    found = md.broadcast_arrays(x, y)
    assert isinstance(found, tuple)
    assert [type(part) for part in found] == [md.Float32Tensor, md.Int8Tensor]
    assert [part.tolist() for part in found] == [
        [[1.0, 1.0], [2.0, 2.0]],
        [[3, 4], [3, 4]],
    ]
    assert md.broadcast_arrays() == ()
    assert md.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert text(ShapeError, lambda: md.broadcast_arrays(counted(2), counted(3))) == (
        "broadcast_arrays(Int64Tensor[2], Int64Tensor[3]): shapes (2,) and (3,) do not "
        "broadcast. Make the sizes equal."
    )
    with pytest.raises(DispatchError):
        md.broadcast_arrays(counted(2), 1)


AXIS = st.integers(-3, 2)
AXES = st.lists(AXIS, max_size=3, unique_by=lambda axis: axis % 3).map(tuple)


@given(st.one_of(st.none(), AXIS, AXES))
def test_flip_against_numpy(axis: Any) -> None:
    x = counted(2, 3, 4)
    found = md.flip(x, axis=axis)
    assert same(found, np.flip(x.buffer, axis))
    assert np.shares_memory(found.buffer, x.buffer)


@given(st.data())
def test_moveaxis_against_numpy(data: st.DataObject) -> None:
    x, source = counted(2, 3, 4), data.draw(AXES)
    destination = data.draw(AXES.filter(lambda axes: len(axes) == len(source)))
    found = md.moveaxis(x, source, destination)
    assert same(found, np.moveaxis(x.buffer, source, destination))
    assert np.shares_memory(found.buffer, x.buffer)
    assert same(md.moveaxis(x, 0, -1), np.moveaxis(x.buffer, 0, -1))


def test_moveaxis_refuses() -> None:
    x = counted(2, 3, 4)
    assert text(ShapeError, lambda: md.moveaxis(x, (0, 1), 2)) == (
        "moveaxis(Int64Tensor[2,3,4], tuple, int): axes (0, 1) do not move to (2,). "
        "Give each source once, and a destination of its own."
    )
    for source, destination in (((0, 0), (0, 1)), ((0, 1), (2, 2)), ((0, -3), (0, 1))):
        with pytest.raises(ShapeError, match="each source once"):
            md.moveaxis(x, source, destination)
    with pytest.raises(ShapeError, match="axis 3 does not exist in 3 dimensions"):
        md.moveaxis(x, 0, 3)
    with pytest.raises(OptionError, match="source is 'a'"):
        md.moveaxis(x, "a", 0)


@given(st.integers(-9, 9), st.one_of(st.none(), AXIS, AXES))
def test_roll_against_numpy(shift: int, axis: Any) -> None:
    x = counted(2, 3, 4)
    assert same(md.roll(x, shift, axis=axis), np.roll(x.buffer, shift, axis))
    if isinstance(axis, tuple):
        shifts = tuple(shift + at for at in range(len(axis)))
        assert same(md.roll(x, shifts, axis=axis), np.roll(x.buffer, shifts, axis))


def test_roll_refuses() -> None:
    x = counted(2, 3)
    assert md.roll(md.asarray(5), 1).tolist() == 5
    assert md.roll(counted(0), 1).shape == (0,)
    assert text(OptionError, lambda: md.roll(x, (1, 2), axis=0)) == (
        "roll(Int64Tensor[2,3]): 2 shifts for 1 axes. Give one for each."
    )
    with pytest.raises(OptionError, match="2 shifts for 1 axes"):
        md.roll(x, (1, 2))
    with pytest.raises(OptionError, match=r"shift is 1.5"):
        md.roll(x, 1.5)
    with pytest.raises(ShapeError, match="axis 2 does not exist"):
        md.roll(x, 1, axis=2)


@given(st.data())
def test_repeat_against_numpy(data: st.DataObject) -> None:
    x = counted(2, 3)
    axis = data.draw(st.sampled_from([None, 0, 1, -1]))
    size = x.size if axis is None else x.shape[axis]
    times = data.draw(st.integers(0, 3))
    assert same(md.repeat(x, times, axis=axis), np.repeat(x.buffer, times, axis))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    for dtype in (md.int8, md.int64, md.uint64):
        for given_ in (counts, counts[:1], counts[0]):
            found = md.repeat(x, md.asarray(given_, dtype=dtype), axis=axis)
            assert same(found, np.repeat(x.buffer, given_, axis))


def test_repeat_refuses() -> None:
    x = counted(3)
    assert text(OptionError, lambda: md.repeat(x, -1)) == (
        "repeat(Int64Tensor[3], int): repeats is -1. Use integers of 0 or more."
    )
    assert text(OptionError, lambda: md.repeat(x, md.asarray([1, -1, 1]))) == (
        "repeat(Int64Tensor[3], Int64Tensor[3]): a number of repeats is below 0. "
        "Use integers of 0 or more."
    )
    assert text(ShapeError, lambda: md.repeat(x, md.asarray([1, 1]))) == (
        "repeat(Int64Tensor[3], Int64Tensor[2]): repeats have shape (2,), but the axis "
        "has size 3. Give one number, or one for each index."
    )
    for huge in (2**62, md.asarray(2**62), md.asarray(2**64 - 1)):
        with pytest.raises((ShapeError, OptionError)):
            md.repeat(x, huge)


@given(SIZES, st.integers(-4, 3), st.integers(1, 3))
def test_stack_and_unstack_against_numpy(shape: Any, axis: int, count: int) -> None:
    arrays = [counted(*shape) for _ in range(count)]
    buffers = [x.buffer + 10 * i for i, x in enumerate(arrays)]
    tensors = [md.asarray(buffer) for buffer in buffers]
    if not -len(shape) - 1 <= axis <= len(shape):
        with pytest.raises(ShapeError, match=f"axis {axis} does not exist"):
            md.stack(tensors, axis=axis)
        return
    found = md.stack(tensors, axis=axis)
    assert same(found, np.stack(buffers, axis))
    parts = md.unstack(found, axis=axis)
    assert isinstance(parts, tuple)
    assert all(map(same, parts, buffers))
    assert all(np.shares_memory(p.buffer, found.buffer) or not p.size for p in parts)


def test_stack_promotes_and_refuses() -> None:
    x, y = counted(2, leaf=md.Int8Tensor), counted(2, leaf=md.Float32Tensor)
    assert type(md.stack([x, y])) is type(md.stack([y, x])) is md.Float32Tensor
    assert text(ShapeError, lambda: md.stack([counted(2), counted(3)])) == (
        "stack(Int64Tensor[2], Int64Tensor[3]): shapes (2,) and (3,) differ. "
        "Give arrays of one shape."
    )
    with pytest.raises(ShapeError, match="differ"):
        md.stack([counted(), counted(1)])
    with pytest.raises(DispatchError, match="no arguments"):
        md.stack([])


@given(SIZES, st.lists(st.integers(0, 3), max_size=4).map(tuple))
def test_tile_against_numpy(shape: Any, counts: Any) -> None:
    x = counted(*shape)
    found = md.tile(x, counts)
    assert same(found, np.tile(x.buffer, counts))
    assert not np.shares_memory(found.buffer, x.buffer)


def test_tile_refuses() -> None:
    assert md.tile(counted(2), 2).tolist() == [0, 1, 0, 1]
    assert text(OptionError, lambda: md.tile(counted(2), (2, -1))) == (
        "tile(Int64Tensor[2], tuple): repetitions is (2, -1). Use integers of 0 or "
        "more."
    )
    assert text(ShapeError, lambda: md.tile(counted(2), (2**30, 2**30))) == (
        "tile(Int64Tensor[2]): the result does not fit into memory. "
        "Ask for fewer elements."
    )


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_type_moves(leaf: Any) -> None:
    strided = leaf.wrap(counted(4, 6, leaf=leaf).buffer[::2, ::-3])
    frozen = md.broadcast_to(counted(2, leaf=leaf), (3, 2))
    for x in (strided, frozen, counted(0, 2, leaf=leaf), counted(leaf=leaf)):
        numpy = x.buffer
        pairs = [
            (md.flip(x), np.flip(numpy)),
            (md.roll(x, 1), np.roll(numpy, 1)),
            (md.repeat(x, 2), np.repeat(numpy, 2)),
            (md.tile(x, (2,)), np.tile(numpy, 2)),
            (md.stack([x, x]), np.stack([numpy, numpy])),
            (md.concat([x, x], axis=None), np.concatenate([numpy, numpy], None)),
            (md.moveaxis(x, (), ()), numpy),
            (md.reshape(x, (-1,), copy=True), numpy.reshape(-1)),
            (md.expand_dims(x, 0), numpy[None]),
            (md.broadcast_to(x, (2, *x.shape)), np.broadcast_to(numpy, (2, *x.shape))),
        ]
        for found, want in pairs:
            assert type(found) is leaf
            assert same(found, want)


def test_padding_is_of_one_number() -> None:
    with pytest.raises(OptionError) as caught:
        md.pad(md.ones(2), [(1, 0)], value=md.ones((1, 1), dtype=md.complex64))
    assert str(caught.value) == (
        "pad(Float32Tensor[2]): Complex64Tensor[1,1] is not a number. "
        "Give a Python number."
    )
    with pytest.raises(CastError):
        md.pad(md.asarray([1]), [(1, 0)], value=0.5)


def test_a_time_span_is_no_size() -> None:
    """NumPy counts it as an integer."""
    with pytest.raises(OptionError):
        md.moveaxis(md.ones((2, 3)), 0, np.array([1], "m8[s]"))
    with pytest.raises(MdtensorError):
        md.reshape(md.ones((2, 3)), (np.timedelta64(6, "s"),))


@pytest.mark.parametrize("shape", [(0, -1), (-1, 0), (2, 0, -1)])
def test_a_size_that_every_number_fits_is_refused(shape: tuple[int, ...]) -> None:
    for old in ((0, 3), (0,), (4, 0)):
        for call in (md.reshape, lambda x, new: md.infer(md.reshape, x, new)):
            with pytest.raises(ShapeError, match="every size in place of -1"):
                call(md.zeros(old), shape)
    assert md.reshape(md.zeros((0, 3)), (-1, 3)).shape == (0, 3)
    assert md.reshape(md.zeros((0, 3)), (0, 7)).shape == (0, 7)
