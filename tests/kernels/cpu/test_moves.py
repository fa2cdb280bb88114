"""Steps that move codes, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu.program.steps import Concat, Move, Take

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


def drawn(shape):
    return np.random.default_rng(len(shape)).integers(0, 256, shape, np.uint8)


@st.composite
def views(draw):
    """A shape, and functions of NumPy in a row that give views of such an array."""
    shape = draw(SHAPES)
    looks, view = [], np.empty(shape, np.uint8)
    for _ in range(draw(st.integers(0, 4))):
        axis = draw(st.integers(0, view.ndim - 1)) if view.ndim else 0
        start, step = draw(st.integers(-3, 4)), draw(st.sampled_from((-2, -1, 1, 2)))
        order = draw(st.permutations(range(view.ndim)))
        look = draw(
            st.sampled_from(
                (
                    lambda a, order=order: a.transpose(order),
                    lambda a, axis=axis: np.expand_dims(a, axis),
                    lambda a, axis=axis: np.broadcast_to(
                        np.expand_dims(a, axis), (*a.shape[:axis], 3, *a.shape[axis:])
                    ),
                    lambda a, axis=axis, start=start, step=step: (
                        a[(*[slice(None)] * axis, slice(start, None, step))]
                        if a.ndim
                        else a
                    ),
                )
            )
        )
        looks.append(look)
        view = look(view)

    def look(array):
        for each in looks:
            array = each(array)
        return array

    return shape, look


WORDS = st.sampled_from([1, 2, 8, 16, 24])


@given(st.tuples(WORDS, WORDS, WORDS, WORDS), st.permutations(range(4)), st.booleans())
def test_transposes_of_whole_words(shape, order, flips):
    """Where rows are whole words of 8 bytes, blocks of 8 x 8 bytes are transposed."""
    x = drawn(shape)
    step = Move(lambda a: (a[:, ::-1] if flips else a).transpose(order))
    assert np.array_equal(step(x), step.look(x))


@given(views())
def test_move(drawn_view):
    shape, look = drawn_view
    x, step = drawn(shape), Move(look)
    want = look(x)
    try:
        got = step(x)
    except ValueError as error:
        assert "separate axes, got" in str(error)
        # Neighbouring axes may merge, so only a view with many axes may raise.
        assert sum(n > 1 for n in want.shape) > 6
        return
    assert step.output_shape(shape) == want.shape
    assert np.array_equal(got, want)


def test_what_is_no_view_is_refused():
    with pytest.raises(ValueError, match="returned a copy"):
        Move(np.copy)(drawn((3, 4)))


@given(SHAPES, st.data())
def test_take(shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    size = shape[axis]
    indices = data.draw(st.lists(st.integers(-size, size - 1), max_size=6))
    x, step = drawn(shape), Take(np.array(indices, np.int64), axis)
    want = np.take(x, np.array(indices, np.int64), axis)
    assert step.output_shape(shape) == want.shape
    assert np.array_equal(step(x), want)


@given(SHAPES, st.integers(1, 4), st.data())
def test_concat(shape, size, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, y = drawn(shape), 255 - drawn((*shape[:axis], size, *shape[axis + 1 :]))
    assert np.array_equal(Concat(axis)(x, y), np.concatenate((x, y), axis))


@given(SHAPES, st.integers(1, 4), st.data())
def test_concat_of_words(shape, size, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, y = drawn((*shape, 4)), 255 - drawn((*shape[:axis], size, *shape[axis + 1 :], 4))
    x, y = x.view(np.float32)[..., 0], y.view(np.float32)[..., 0]
    found = Concat(axis, np.dtype(np.float32))(x, y)
    assert found.tobytes() == np.concatenate((x, y), axis).tobytes()
