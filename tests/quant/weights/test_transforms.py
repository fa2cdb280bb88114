"""smooth, equalize, correct_bias: the float function stays, the int8 error falls."""

from itertools import pairwise

import numpy as np
import pytest

import mdtensor as md
from mdtensor import DataError, OptionError, ShapeError, quant
from mdtensor.quant import quint8

RNG = np.random.default_rng(7)
W = RNG.standard_normal((24, 32))
#: Inputs of which three channels are 40 times the rest.
X = RNG.standard_normal((300, 32)) * np.where(np.arange(32) % 11 == 3, 40.0, 1.0)


def on_grid(x):
    """Inputs by one uint8 grid for all."""
    observer = quant.MinMaxObserver()
    observer.observe(x)
    codes = quant.quantize(md.asarray(x), observer.qparams(quint8))
    return np.asarray(quant.dequantize(codes)).astype(float)


def relative(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def int8_error(w, x, axis=0):
    """Of outputs, inputs and weights of 8 bits."""
    weights = quant.quantize_weights(w, axis=axis).numbers()
    return relative(on_grid(x) @ weights.T, x @ w.T)


def test_smooth_keeps_the_function_and_lowers_the_error_of_8_bits():
    w, s = quant.smooth(W, X)
    np.testing.assert_allclose((X / s) @ w.T, X @ W.T, rtol=1e-9, atol=1e-9)
    assert int8_error(w, X / s) < 0.5 * int8_error(W, X)


def test_smooth_by_powers_of_two_keeps_every_bit():
    w, s = quant.smooth(W, X, powers_of_two=True)
    assert (np.log2(s) == np.rint(np.log2(s))).all()
    assert ((X / s)[:, None] * w == X[:, None] * W).all()
    assert int8_error(w, X / s) < 0.6 * int8_error(W, X)


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_the_ends_of_strength(strength):
    w, s = quant.smooth(W, X, strength=strength)
    equal = np.abs(X / s).max(axis=0) if strength else np.abs(w).max(axis=0)
    np.testing.assert_allclose(equal, 1.0)


def test_smooth_leaves_channels_that_are_0():
    w, x = W.copy(), X.copy()
    w[:, 4], x[:, 9] = 0, 0
    assert quant.smooth(w, x)[1][[4, 9]].tolist() == [1.0, 1.0]


def row(*shapes, spread=30.0):
    """Layers whose channels differ by a factor of 900."""
    layers = [RNG.standard_normal(shape) for shape in shapes]
    for w in layers:
        w *= spread ** RNG.uniform(-1, 1, (w.shape[0], *[1] * (w.ndim - 1)))
    return layers


def relu_net(layers, biases, x):
    for at, (w, b) in enumerate(zip(layers, biases, strict=True)):
        x = x @ w.T + b
        x = np.maximum(x, 0) if at < len(layers) - 1 else x
    return x


def test_equalize_keeps_the_function_and_lowers_the_error_of_one_scale():
    layers = row((40, 32), (48, 40), (10, 48))
    biases = [RNG.standard_normal(len(w)) for w in layers]
    found, moved = quant.equalize(layers, biases)
    wanted = relu_net(layers, biases, X)
    np.testing.assert_allclose(relu_net(found, moved, X), wanted, rtol=1e-9)

    def error(chosen, offsets):
        real = [quant.quantize_weights(w, axis=None).numbers() for w in chosen]
        return relative(relu_net(real, offsets, X), wanted)

    assert error(found, moved) < 0.5 * error(layers, biases)
    for first, second in pairwise(found):
        ours, theirs = np.abs(first).max(axis=1), np.abs(second).max(axis=0)
        np.testing.assert_allclose(ours, theirs, rtol=0.01)


def test_equalize_by_powers_of_two_keeps_every_bit():
    layers = row((40, 32), (10, 40))
    biases = [RNG.standard_normal(len(w)) for w in layers]
    found, moved = quant.equalize(layers, biases, powers_of_two=True)
    assert (relu_net(found, moved, X) == relu_net(layers, biases, X)).all()
    assert (found[0] != layers[0]).any()


def test_equalize_through_a_depthwise_layer():
    layers = row((12, 3, 1, 1), (12, 1, 3, 3), (5, 12, 1, 1))
    found, _ = quant.equalize(layers)
    image = md.asarray(RNG.standard_normal((2, 3, 6, 6)))

    def run(chosen):
        a, b, c = map(md.asarray, chosen)
        x = md.relu(md.conv2d(image, a, None))
        x = md.relu(md.conv2d(x, b, None, groups=12, padding=1))
        return np.asarray(md.conv2d(x, c, None))

    np.testing.assert_allclose(run(found), run(layers), rtol=1e-7)
    spread = [
        np.ptp(np.log(np.abs(w).max(axis=(1, 2, 3)))) for w in (layers[1], found[1])
    ]
    assert spread[1] < 0.8 * spread[0]


def test_equalize_leaves_channels_that_are_0():
    first, second = np.ones((3, 4)), np.ones((2, 3))
    first[1], second[:, 2] = 0, 0
    (a, b), offsets = quant.equalize([first * 16, second], [np.zeros(3), None])
    assert a[:, 0].tolist() == [4.0, 0.0, 16.0]
    assert b[0].tolist() == [4.0, 1.0, 0.0]
    assert offsets[1] is None


def test_the_correction_of_a_bias_removes_the_mean_shift():
    x = X + RNG.uniform(0, 3, 32)
    found = quant.quantize_weights(W, bits=3)
    bias = RNG.standard_normal(24)
    wanted = (x @ W.T + bias).mean(axis=0)
    shifted = (x @ found.numbers().T + bias).mean(axis=0)
    assert np.abs(shifted - wanted).max() > 0.1
    for given in (found, found.tensor, found.numbers(), md.asarray(found.numbers())):
        corrected = quant.correct_bias(bias, W, given, x)
        mean = (x @ found.numbers().T + corrected).mean(axis=0)
        np.testing.assert_allclose(mean, wanted, atol=1e-9)
    from_nothing = quant.correct_bias(None, W, found, x)
    np.testing.assert_allclose(from_nothing, corrected - bias, atol=1e-9)


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32, md.float64])
def test_tensors_stay_tensors_of_their_type(dtype):
    w, v = (md.asarray(a, dtype=dtype) for a in (W, W.T))
    x = md.asarray(X, dtype=dtype)
    smoothed, scale = quant.smooth(w, x)
    (first, second), (bias, none) = quant.equalize([w, v], [w[:, 0], None])
    corrected = quant.correct_bias(w[:, 0], w, quant.quantize_weights(w), x)
    for tensor in (smoothed, scale, first, second, bias, corrected):
        assert tensor.dtype is dtype
    assert none is None
    narrow = quant.smooth(W.astype(np.float32), X)
    assert [a.dtype for a in narrow] == [np.float32, np.float32]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda: quant.smooth(W, X, strength=2),
            OptionError,
            "strength is 2. Use a number from 0 to 1.",
        ),
        (
            lambda: quant.smooth(W.reshape(24, 8, 2, 2), X),
            ShapeError,
            "(24, 8, 2, 2) have no scale for each patch element. Smooth weights of two",
        ),
        (lambda: quant.smooth(W, X[:0]), DataError, "there are no samples."),
        (
            lambda: quant.equalize([W]),
            OptionError,
            "1 layers and 1 biases. Give two layers or more, and a bias",
        ),
        (
            lambda: quant.equalize([W, W.T], [None]),
            OptionError,
            "2 layers and 1 biases",
        ),
        (lambda: quant.equalize([W, W.T], sweeps=0), OptionError, "sweeps is 0. Use a"),
        (
            lambda: quant.equalize([W, W]),
            ShapeError,
            "a layer has 32 inputs, but the layer before it has 24",
        ),
        (
            lambda: quant.equalize([W, W.T], [W[0], None]),
            ShapeError,
            "the bias has shape (32,), but the layer has 24 outputs",
        ),
        (
            lambda: quant.equalize([W, W.T * np.inf]),
            DataError,
            "a weight is NaN, infinite or beyond float32.",
        ),
        (
            lambda: quant.correct_bias(W[0], W, W, X),
            ShapeError,
            "the bias has shape (32,), but the layer has 24 outputs",
        ),
        (
            lambda: quant.correct_bias(None, W, W[:, :2], X),
            ShapeError,
            "weights differ, (24, 32) and (24, 2)",
        ),
    ],
)
def test_what_is_wrong_is_said(call, error, said):
    with pytest.raises(error) as raised:
        call()
    assert said in str(raised.value)
