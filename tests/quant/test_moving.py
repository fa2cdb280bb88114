"""Moving codes on every grid: the numbers move as numbers do, exactly."""

from operator import itemgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.grids import EVERY, tensors

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt4Tensor, QParams


def an_axis(draw: Any, x: Any) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1)) if x.ndim else 0


def a_key(draw: Any, x: Any) -> Any:
    """Integers and slices, or slices and one row of integers; None and an ellipsis."""
    has_row = draw(st.booleans())
    keys: list[Any] = []
    for size in x.shape[: draw(st.integers(0, x.ndim))]:
        ends = st.none() | st.integers(-size - 1, size + 1)
        step = draw(st.sampled_from([None, 1, 2, -1]))
        kinds = [st.just(slice(draw(ends), draw(ends), step))]
        if size and not has_row:
            kinds.append(st.integers(-size, size - 1))
        if size and has_row and not any(isinstance(k, np.ndarray) for k in keys):
            row = st.lists(st.integers(-size, size - 1), max_size=5)
            kinds.append(row.map(lambda r: np.array(r, np.int64)))
        keys.append(draw(st.one_of(kinds)))
    if draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), None)
    return (*keys, ...) if draw(st.booleans()) else tuple(keys)


def a_shape(draw: Any, x: Any) -> tuple[int, ...]:
    """Another shape for as many elements, often with the axes of `x` among others."""
    ones = list(x.shape)
    for _ in range(draw(st.integers(0, 2))):
        ones.insert(draw(st.integers(0, len(ones))), 1)
    if len(ones) > 1 and draw(st.booleans()):
        at = draw(st.integers(0, len(ones) - 2))
        ones[at : at + 2] = [ones[at] * ones[at + 1]]
    return tuple(ones)


def a_wider_shape(draw: Any, x: Any) -> tuple[int, ...]:
    front = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    return front + tuple(draw(st.integers(0, 4)) if n == 1 else n for n in x.shape)


def then(function: Any, *rest: Any, **options: Any) -> Any:
    return lambda x: function(x, *rest, **options)


def twice(function: Any, axis: Any) -> Any:
    return lambda x: function([x, x], axis=axis)


def first_of(axis: int) -> Any:
    return lambda x: md.stack(md.unstack(x, axis=axis)[:1])


def new_axis(draw: Any, x: Any) -> int:
    return draw(st.integers(-x.ndim - 1, x.ndim))


def axes(draw: Any, x: Any) -> Any:
    return draw(st.permutations(range(x.ndim)))


def some_axis(draw: Any, x: Any) -> Any:
    return None if draw(st.booleans()) else an_axis(draw, x)


def a_row(draw: Any) -> Any:
    row = st.lists(st.integers(0, 2), max_size=4)
    return md.asarray(np.array(draw(row), np.int64))


def a_mask(draw: Any, x: Any) -> Any:
    """Of some neighbouring axes, whole slices before them."""
    first = draw(st.integers(0, x.ndim))
    sizes = x.shape[first : draw(st.integers(first, x.ndim))]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return (*[slice(None)] * first, rng.random(sizes) < 0.5) if sizes else ()


def some_counts(draw: Any) -> list[int]:
    return draw(st.lists(st.integers(0, 3), max_size=4))


def repeats(axis: int, counts: list[int]) -> Any:
    def move(x: Any) -> Any:
        size = x.shape[axis] if x.ndim else 0
        times = np.resize(np.array([*counts, 1], np.int64), size)
        return md.repeat(x, md.asarray(times), axis=axis)

    return move


def in_order(axis: int) -> Any:
    return lambda x: md.take_along_axis(x, md.argsort(x, axis=axis), axis=axis)


def pad_width(draw: Any) -> tuple[int, int]:
    return draw(st.sampled_from([(0, 0), (0, 0), (1, 2), (0, 3)]))


MOVES: dict[str, Any] = {
    "getitem": lambda d, x: itemgetter(a_key(d, x)),
    "reshape": lambda d, x: then(md.reshape, a_shape(d, x)),
    "permute": lambda d, x: then(md.permute_dims, axes(d, x)),
    "moveaxis": lambda d, x: then(md.moveaxis, an_axis(d, x), an_axis(d, x)),
    "transpose": lambda d, x: then(md.matrix_transpose),
    "squeeze": lambda d, x: then(md.squeeze, an_axis(d, x)),
    "expand": lambda d, x: then(md.expand_dims, axis=new_axis(d, x)),
    "flip": lambda d, x: then(md.flip, axis=some_axis(d, x)),
    "broadcast": lambda d, x: then(md.broadcast_to, a_wider_shape(d, x)),
    "concat": lambda d, x: twice(md.concat, some_axis(d, x)),
    "stack": lambda d, x: twice(md.stack, new_axis(d, x)),
    "unstack": lambda d, x: first_of(an_axis(d, x)),
    "take": lambda d, x: then(md.take, a_row(d), axis=an_axis(d, x)),
    "mask": lambda d, x: itemgetter(a_mask(d, x)),
    "tile": lambda d, x: then(md.tile, tuple(some_counts(d))),
    "repeat": lambda d, x: then(md.repeat, d(st.integers(0, 3)), axis=some_axis(d, x)),
    "repeats": lambda d, x: repeats(an_axis(d, x), some_counts(d)),
    "roll": lambda d, x: then(md.roll, d(st.integers(-9, 9)), axis=some_axis(d, x)),
    "pad": lambda d, x: then(md.pad, [pad_width(d) for _ in x.shape]),
    "where": lambda d, x: lambda v: md.where(md.asarray(True), v, v),
    "max": lambda d, x: then(md.max, axis=some_axis(d, x), keepdims=d(st.booleans())),
    "min": lambda d, x: then(md.min, axis=an_axis(d, x), keepdims=d(st.booleans())),
    "sort": lambda d, x: then(md.sort, axis=an_axis(d, x), descending=d(st.booleans())),
    "argsort": lambda d, x: in_order(an_axis(d, x)),
    "relu": lambda d, x: md.relu,
    "maximum": lambda d, x: lambda v: md.maximum(v, v[:1]),
}


def outcome(call: Any) -> Any:
    try:
        return call()
    except md.MdtensorError as error:
        return type(error)


@pytest.mark.parametrize("name", MOVES)
@given(x=tensors(dtypes=EVERY), data=st.data())
def test_numbers_move_as_numbers_do(name: str, x: Any, data: st.DataObject) -> None:
    move = MOVES[name](data.draw, x)
    wanted, got = outcome(lambda: move(quant.dequantize(x))), outcome(lambda: move(x))
    if got is md.GridError:  # scales would be nowhere
        assert x.qparams.axis is not None
    elif isinstance(wanted, type):
        assert got is wanted
    else:
        assert type(got) is type(x) and got.shape == wanted.shape
        numbers = np.asarray(quant.dequantize(got))
        assert np.array_equal(numbers, np.asarray(wanted))


@given(x=tensors(), data=st.data())
def test_tensors_on_grids_of_their_own_join(x: Any, data: st.DataObject) -> None:
    """Along the axis of scales, where they are laid end to end."""
    axis = x.qparams.axis
    if axis is None or x.qparams.block_size is not None:
        return
    size = data.draw(st.integers(0, 4))
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    scales = np.resize([0.5, 3.0, 0.1], size)
    like = x.qparams.replace(scale=scales, zero_point=x.qparams.maximum)
    y = quant.quantize(md.ones(shape), like)
    parts = [np.asarray(quant.dequantize(v)) for v in (x, y)]
    got = md.concat([x, y], axis=axis)
    assert np.array_equal(
        np.asarray(quant.dequantize(got)), np.concatenate(parts, axis)
    )


BLOCKS = QInt4Tensor(
    (np.arange(48).reshape(2, 24) % 16 - 8).astype(np.int8),
    QParams([[1, 2, 4], [8, 16, 32]], dtype=quant.qint4, axis=1, block_size=8),
)


#: The first block of 8, and the last one twice.
FIRST_AND_LAST_TWICE = np.concatenate([np.arange(8), *[np.arange(16, 24)] * 2])
KEPT = [
    (lambda x: x[:, 8:], [[2, 4], [16, 32]], 1, 8),
    (lambda x: x[:, :13], [[1, 2], [8, 16]], 1, 8),
    (lambda x: x[:, 9:14], [[2], [16]], 1, 8),
    (lambda x: x[:, 4:12], [[1, 2], [8, 16]], 1, 4),
    (lambda x: x[:, ::2], [[1, 2, 4], [8, 16, 32]], 1, 4),
    (lambda x: x[1], [8, 16, 32], 0, 8),
    (lambda x: x[:, 9], [2, 16], 0, 1),
    (lambda x: x[0, -1], 4, None, None),
    (lambda x: md.flip(x), [[32, 16, 8], [4, 2, 1]], 1, 8),
    (lambda x: x.T, [[1, 8], [2, 16], [4, 32]], 0, 8),
    (lambda x: md.concat([x, x[:, :1]], axis=1), [[1, 2, 4, 1], [8, 16, 32, 8]], 1, 8),
    (lambda x: md.stack([x, x])[1], [[1, 2, 4], [8, 16, 32]], 1, 8),
    (lambda x: md.reshape(x, (1, 2, 1, 24)), [[[[1, 2, 4]], [[8, 16, 32]]]], 3, 8),
    (lambda x: md.broadcast_to(x[1:, :3], (2, 3)), [[8], [8]], 1, 8),
    (lambda x: md.reshape(x, (48,)), [1, 2, 4, 8, 16, 32], 0, 8),
    (lambda x: md.reshape(x, (3, 16)), [[1, 2], [4, 8], [16, 32]], 1, 8),
    (lambda x: md.reshape(x, (6, 8)), [[1], [2], [4], [8], [16], [32]], 1, 8),
    (lambda x: x[:, np.arange(24) >= 8], [[2, 4], [16, 32]], 1, 8),
    (lambda x: md.tile(x, (1, 2)), [[1, 2, 4] * 2, [8, 16, 32] * 2], 1, 8),
    (lambda x: md.repeat(x, 2, axis=1), [[1, 2, 4], [8, 16, 32]], 1, 16),
    (lambda x: x[:, FIRST_AND_LAST_TWICE], [[1, 4, 4], [8, 32, 32]], 1, 8),
    (lambda x: md.roll(x, 8), [[32, 1, 2], [4, 8, 16]], 1, 8),
    (lambda x: md.max(x[:1], axis=0), [1, 2, 4], 0, 8),
    (lambda x: md.broadcast_to(x[:, 8:9], (2, 20)), [[2], [16]], 1, 20),
]


@pytest.mark.parametrize(("move", "scales", "axis", "size"), KEPT)
def test_blocks_stay_blocks(move: Any, scales: Any, axis: int, size: int) -> None:
    got = move(BLOCKS).qparams
    assert (got.scale.tolist(), got.axis, got.block_size) == (scales, axis, size)


UNEVEN = (
    "blocks of 8 along axis 1 are cut to different sizes. Cut at multiples of 8, or "
    "requantize to one grid first."
)
NO_AXIS = (
    "shape (16, 3) does not have an axis of size 24, and scales differ along axis 1 of "
    "(2, 24). Keep that axis, or use requantize(x, out=QParams(...)) to one grid first."
)
INSIDE = (
    "12 indices are not whole blocks of 8. Give whole blocks in all tensors but the "
    "last, or requantize to one grid first."
)
NO_ROW = (
    "scales differ along axis 1. Index with integers of one dimension, or requantize "
    "to one grid first."
)
REFUSED = [
    (lambda x: md.reshape(x, (16, 3)), NO_AXIS),
    (lambda x: md.concat([x[:, :12], x], axis=1), INSIDE),
    (lambda x: x[:, np.array([[0]])], NO_ROW),
    (lambda x: x[:, 3:], UNEVEN),
    (lambda x: md.flip(x[:, :12]), UNEVEN),
]


@pytest.mark.parametrize(("refused", "text"), REFUSED)
def test_what_would_leave_scales_nowhere_is_refused(refused: Any, text: str) -> None:
    with pytest.raises(md.GridError) as raised:
        refused(BLOCKS)
    assert str(raised.value).split("]): ")[1] == text


def test_a_size_that_is_not_known_keeps_scales_where_they_are() -> None:
    spec = md.TensorSpec(QInt4Tensor, (-1, 24), BLOCKS.qparams)
    assert md.infer(md.permute_dims, spec, (1, 0)).shape == (24, -1)
    blocks = md.TensorSpec(QInt4Tensor, (2, -1), BLOCKS.qparams)
    with pytest.raises(md.GridError, match="whose size is not known"):
        md.infer(md.flip, blocks)
    assert md.infer(md.getitem, blocks, (1,)).qparams.scale.tolist() == [8, 16, 32]
