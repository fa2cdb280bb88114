"""Recurrent layers against their formula, one unit at a time, in float64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import BoundsError, OptionError, ShapeError
from mdtensor.generics.recurrent import ACTIVATIONS, functions_of
from mdtensor.kernels.reference import recurrent as reference

ROOM = {md.float64: 1e-12, md.float32: 2e-5, md.float16: 5e-3, md.bfloat16: 4e-2}
SIZES = st.tuples(*[st.integers(0, 4), *[st.integers(1, 4)] * 3])
ENTRY = st.sampled_from([*ACTIVATIONS, ("leaky_relu", 0.3), ("affine", 0.5, 0.25)])
#: Gates, functions and the option that is on or off, by operation.
LAYERS: dict[Any, tuple[int, int, str]] = {
    md.lstm: (4, 3, "coupled"),
    md.gru: (3, 2, "reset_after"),
    md.rnn: (1, 1, ""),
}


def operands(operation: Any, sizes: Any, draw: Any) -> list[Any]:
    """Arrays of a layer; those that may be omitted are None at times."""
    (t, n, i, k), gates = sizes, LAYERS[operation][0]
    shapes = [(t, n, i), (gates * k, i), (gates * k, k), (2, gates * k), (n, k)]
    shapes += [(n, k), (3, k)] if operation is md.lstm else []
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = [rng.uniform(-1, 1, shape) for shape in shapes]
    given_ = [
        x if at < 3 or draw(st.booleans()) else None for at, x in enumerate(arrays)
    ]
    lengths = rng.integers(0, t + 1, n) if draw(st.booleans()) else None
    return [*given_, lengths]


def tensors(arrays: list[Any], dtype: md.DType) -> list[Any]:
    *given_, lengths = arrays
    made = [
        None if x is None else md.astype(md.asarray(x), dtype, casting="wrap")
        for x in given_
    ]
    return [*made, None if lengths is None else md.asarray(lengths)]


def rounded(tensor: Any) -> Any:
    """The numbers of a tensor in float64, or integers."""
    if tensor is None:
        return None
    array = np.asarray(tensor.buffer)
    return array if array.dtype.kind == "i" else array.astype(np.float64)


@pytest.mark.parametrize("operation", LAYERS, ids=lambda f: f.__name__)
@given(SIZES, st.sampled_from([*ROOM]), st.data())
def test_against_the_formula(operation: Any, sizes: Any, dtype: Any, data: Any) -> None:
    _, count, flag = LAYERS[operation]
    given_ = tensors(operands(operation, sizes, data.draw), dtype)
    functions = data.draw(st.tuples(*[ENTRY] * count))
    clip = data.draw(st.sampled_from([None, 0.4]))
    options: dict[str, Any] = {"activations": functions, "clip": clip}
    if flag:
        options[flag] = data.draw(st.booleans())
    found = operation(*given_, **options)
    oracle = getattr(reference, operation.__name__)
    resolved = functions_of(functions, count)
    want = oracle(*map(rounded, given_), resolved, *list(options.values())[1:])
    assert (found.dtype, found.shape) == (dtype, want.shape)
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(
        np.asarray(found.buffer, np.float64), want, atol=ROOM[dtype] * scale
    )


def test_nothing_is_written() -> None:
    rng = np.random.default_rng(3)
    shapes = [(3, 2, 4), (8, 4), (8, 2), (2, 8), (2, 2), (2, 2), (3, 2)]
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    before = [x.copy() for x in arrays]
    md.lstm(*map(md.from_numpy, arrays))
    assert all(map(np.array_equal, arrays, before))


def test_large_arguments_saturate() -> None:
    x, w, r = md.full((1, 1, 1), 1e4), md.ones((4, 1)), md.zeros((4, 1))
    assert md.lstm(x, w, r)[0].tolist() == [[np.tanh(np.float32(1))]]
    assert md.lstm(md.neg(x), w, r)[0].tolist() == [[0.0]]


def test_types_promote() -> None:
    x, w = md.ones((1, 1, 1), dtype=md.float16), md.ones((1, 1))
    assert md.rnn(x, w, w).dtype is md.float32


X, W, R = md.ones((3, 2, 1)), md.ones((4, 1)), md.ones((4, 1))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((X, W, md.ones((3, 1))), r"r has shape \(3, 1\)"),
        ((X, md.ones((3, 1)), R), r"w has shape \(3, 1\)"),
        ((X, W, R, md.ones((8,))), r"b has shape \(8,\)"),
        ((X, W, R, None, md.ones((1, 1))), r"h has shape \(1, 1\)"),
        ((X, W, R, None, None, None, md.ones((1, 1))), r"p has shape \(1, 1\)"),
        ((X, W, R, *[None] * 4, md.asarray([1])), r"lengths has shape \(1,\)"),
        ((md.ones((3, 1)), W, R), "x, w and r have 2, 2 and 2 axes"),
    ],
)
def test_shapes_that_do_not_fit(arguments: Any, wanted: str) -> None:
    with pytest.raises(ShapeError, match=wanted):
        md.lstm(*arguments)


@pytest.mark.parametrize("lengths", [[1, 4], [-1, 2]])
def test_lengths_outside_of_the_sequence(lengths: list[int]) -> None:
    with pytest.raises(BoundsError, match="outside of 0 to 3"):
        md.lstm(X, W, R, *[None] * 4, md.asarray(lengths))


@pytest.mark.parametrize(
    "options",
    [
        {"activations": "tanh"},
        {"activations": ["tanh"]},
        {"activations": ["tanh", "tanh", "no"]},
        {"activations": ["tanh", "tanh", ("elu", 1, 2, 3)]},
        {"activations": ["tanh", "tanh", ("elu", "1")]},
        {"clip": 0},
        {"clip": -1.0},
        {"coupled": 1},
    ],
)
def test_wrong_options(options: Any) -> None:
    with pytest.raises(OptionError):
        md.lstm(X, W, R, **options)


def test_sizes_that_are_unknown() -> None:
    x = md.TensorSpec(md.Float32Tensor, (md.Dim("t"), md.Dim("n"), 1))
    found = md.infer(md.lstm, x, W, R)
    assert found == md.TensorSpec(md.Float32Tensor, (-1, md.Dim("n"), 1))
