"""Recurrent layers with quantized weights: near those of the dequantized weights."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QParams, dequantize, qint4, qint8, quantize

LAYERS = {"lstm": (4, {}), "gru": (3, {"reset_after": True}), "rnn": (1, {})}
T, N, IN, K = 5, 3, 7, 20
RNG = np.random.default_rng(4)
X = md.asarray(RNG.standard_normal((T, N, IN), np.float32))


def weights(gates: int, inputs: int, **grid: Any) -> Any:
    numbers = RNG.uniform(-0.3, 0.3, (gates * K, inputs)).astype(np.float32)
    return quantize(md.asarray(numbers), QParams(**grid))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("lengths", [None, [5, 0, 2]])
def test_near_the_layer_of_floats(name: str, lengths: Any) -> None:
    """Words of 16 bits lose less than a thousandth of the largest state."""
    (gates, options), operation = LAYERS[name], getattr(md, name)
    scales = RNG.uniform(0.002, 0.003, gates * K)
    w = weights(gates, IN, scale=scales, axis=0, dtype=qint8)
    r = weights(gates, K, scale=0.0025, dtype=qint8)
    b = md.asarray(RNG.standard_normal((2, gates * K), np.float32))
    h = md.asarray(RNG.uniform(-1, 1, (N, K)).astype(np.float32))
    more = [] if name != "lstm" else [None, None]
    more += [None if lengths is None else md.asarray(np.array(lengths))]
    found = operation(X, w, r, b, h, *more, **options)
    wanted = operation(X, dequantize(w), dequantize(r), b, h, *more, **options)
    difference = np.abs(np.asarray(found) - np.asarray(wanted)).max()
    assert 0 < difference < 1e-3


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("grid", [{"zero_point": 3}, {"dtype": qint4}], ids=str)
def test_weights_on_other_grids_are_dequantized(name: str, grid: Any) -> None:
    (gates, options), operation = LAYERS[name], getattr(md, name)
    kind = {"scale": 0.05, "dtype": qint8, **grid}
    w, r = weights(gates, IN, **kind), weights(gates, K, **kind)
    found = operation(X, w, r, **options)
    wanted = operation(X, dequantize(w), dequantize(r), **options)
    assert found.tolist() == wanted.tolist()


def test_wide_floats_keep_their_type() -> None:
    w, r = (weights(1, n, scale=0.003, dtype=qint8) for n in (IN, K))
    found = md.rnn(md.astype(X, md.float64), w, r)
    assert type(found) is md.Float64Tensor


def test_errors() -> None:
    w, r = (weights(4, n, scale=0.003, dtype=qint8) for n in (IN, K))
    with pytest.raises(md.ShapeError, match="Give it shape"):
        md.lstm(X, w, w)
    with pytest.raises(md.BoundsError, match="outside of 0 to 5"):
        lengths = md.asarray(np.array([1, 2, 6]))
        md.lstm(X, w, r, None, None, None, None, lengths)
    with pytest.raises(md.OptionError, match="activations"):
        md.lstm(X, w, r, activations=("sigmoid",))
