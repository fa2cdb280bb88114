"""Transforms of weights that keep the function of a network.

smooth         ranges move from the inputs of a layer to its weights
equalize       neighbouring layers get equal ranges of channels
correct_bias   biases compensate for the mean error of rounded weights
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mdtensor import OptionError, ShapeError
from mdtensor.errors import shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.quant.weights.format import (
    FloatArray,
    check_count,
    check_flag,
    check_number,
    matrix,
)
from mdtensor.quant.weights.layer import cast_like, real_weights
from mdtensor.quant.weights.moments import moments_of


@explain_wrong_calls
def smooth(
    weights: object,
    samples: object,
    *,
    strength: float = 0.5,
    powers_of_two: bool = False,
) -> tuple[Any, Any]:
    """Return the scale s of SmoothQuant, and weights for inputs divided by s.

    s_j = max|x_j|ᵃ / max|W_j|¹⁻ᵃ;    (W diag(s)) (x / s) = W x

    Channels with large inputs move a part of their range to the weights, so one grid
    for all inputs has a smaller scale. The function changes only by the rounding of
    floats. A channel that is 0 in all inputs or in all weights has s = 1.

    Args:
        weights: W, [outputs, inputs, ...].
        samples: x, as for `quantize_weights`.
        strength: a, from 0 (the ranges of the weights become equal) to 1 (the ranges of
            the inputs become equal).
        powers_of_two: round s to powers of two: the function stays the same to the last
            bit, and ranges become equal up to a factor of sqrt(2).

    Returns:
        The new weights and s, both of the type of `weights`. You must divide the inputs
        by s, or let the layer before do it.

    Raises:
        OptionError: `strength` is out of range.
        ShapeError, DataError: as for `quantize_weights`.

    Example:
        >>> w, s = smooth(np.array([[1.0, 1.0]]), np.array([[16.0, 1.0]]))
        >>> w.tolist(), s.tolist()
        ([[4.0, 1.0]], [4.0, 1.0])

    Source: Xiao et al. 2022, "SmoothQuant", equation 4.
    """
    check_number("strength", strength, 0, 1)
    check_flag("powers_of_two", powers_of_two)
    real = real_weights(weights)
    flat = matrix(real)
    if real.ndim > 2:
        raise ShapeError(
            f"weights of shape {real.shape} have no scale for each patch element",
            "Smooth weights of two axes",
        )
    peaks = moments_of(samples, flat.shape[1]).peaks
    scale = smoothing_scale(peaks, np.abs(flat).max(axis=0), strength)
    if powers_of_two:
        scale = round_to_powers(scale)
    return cast_like(flat * scale, weights), cast_like(scale, weights)


def smoothing_scale(
    inputs: FloatArray, weights: FloatArray, strength: float
) -> FloatArray:
    """Return s of SmoothQuant from the largest magnitudes; 1 where one is 0."""
    # 0 on one side would make the scale 0 or infinite.
    found = np.ones_like(inputs)
    both = (inputs > 0) & (weights > 0)
    found[both] = inputs[both] ** strength / weights[both] ** (1 - strength)
    return found


def round_to_powers(scale: FloatArray) -> FloatArray:
    """Return the nearest powers of two, by their logarithms."""
    return np.exp2(np.rint(np.log2(scale)))


#: Sweeps end when no scale differs from 1 by more than this.
SETTLED = 1e-6


@explain_wrong_calls
def equalize(
    weights: Sequence[Any],
    biases: Sequence[Any] | None = None,
    *,
    sweeps: int = 20,
    powers_of_two: bool = False,
) -> tuple[list[Any], list[Any]]:
    """Return layers of the same function whose channels have equal ranges.

    For each layer, the layer after it, and each channel i between them:
    s_i = max|W1_i| / sqrt(max|W1_i| · max|W2_i|)
    W1_i ← W1_i / s_i,    b1_i ← b1_i / s_i,    W2_i ← W2_i · s_i

    The operation between two layers must satisfy f(s x) = s f(x) for s > 0: nothing,
    relu, leaky relu, max pool; not relu6, whose limit would change, nor hardswish. Then
    one scale for a whole layer is almost as good as one for each channel.

    Args:
        weights: the weights of consecutive layers, [outputs, inputs, ...]. Weights
            [channels, 1, ...] after a layer with `channels` outputs are depthwise.
        biases: the bias of each layer, None for a layer without; None for no biases.
        sweeps: the maximal number of passes over the layers; two layers need only one.
        powers_of_two: round s to powers of two: the function stays the same to the last
            bit, and ranges become equal up to a factor of 2.

    Returns:
        The weights and the biases, of the types of the arguments.

    Raises:
        ShapeError: the shapes of consecutive layers do not fit.
        OptionError: there are fewer than two layers, or `sweeps` is less than 1.
        DataError: a weight or bias is NaN or infinite.

    Example:
        >>> first, second = np.array([[8.0], [0.5]]), np.array([[0.5, 8.0]])
        >>> found, _ = equalize([first, second])
        >>> [w.tolist() for w in found]
        [[[2.0], [2.0]], [[2.0, 2.0]]]

    Source: Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and
    Bias Correction", section 4.1.
    """
    _check_rows(weights, biases)
    given = [None] * len(weights) if biases is None else list(biases)
    # Copies, because scales are applied in place and float64 arrays are not converted.
    layers = [real_weights(w).copy() for w in weights]
    offsets = [None if b is None else real_weights(b).copy() for b in given]
    check_count("sweeps", sweeps, 1)
    check_flag("powers_of_two", powers_of_two)
    _check(layers, offsets)
    for _ in range(sweeps):
        # A middle layer takes part in two pairs, so the second pair disturbs the first.
        moved = 0.0
        for at in range(len(layers) - 1):
            scale = _scale(layers[at], layers[at + 1])
            scale = round_to_powers(scale) if powers_of_two else scale
            _apply(layers, offsets, at, scale)
            moved = max(moved, float(np.abs(scale - 1).max()))
        if moved < SETTLED:
            break
    return _cast_all(layers, weights), _cast_all(offsets, given)


def _check_rows(weights: object, biases: object) -> None:
    # A single array is iterable too, and its rows would pass for layers.
    for name, given in (
        ("weights", weights),
        ("biases", () if biases is None else biases),
    ):
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise OptionError(
                f"{name} is {shown(given)}", "Give a list with an entry for each layer"
            )


def _cast_all(found: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    pairs = zip(found, given, strict=True)
    return [None if one is None else cast_like(one, like) for one, like in pairs]


def _inputs(weights: FloatArray, channels: int) -> FloatArray:
    """Return a view of weights with the axis of the inputs first."""
    # Depthwise: each output reads one input, so the outputs are the inputs.
    if weights.shape[1] == 1 and weights.shape[0] == channels:
        return weights
    return np.moveaxis(weights, 1, 0)


def _peaks(weights: FloatArray) -> FloatArray:
    found: FloatArray = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
    return found


def _scale(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the scale that the outputs of the first layer are divided by."""
    return balancing_scale(_peaks(first), _peaks(_inputs(second, len(first))))


def balancing_scale(ours: FloatArray, theirs: FloatArray) -> FloatArray:
    """Return the s with ours / s = theirs · s; 1 where either is 0."""
    # 0 on one side would make the scale 0 or infinite.
    scale = np.ones_like(ours)
    both = (ours > 0) & (theirs > 0)
    scale[both] = np.sqrt(ours[both] / theirs[both])
    return scale


def _apply(
    layers: list[FloatArray],
    offsets: list[FloatArray | None],
    at: int,
    scale: FloatArray,
) -> None:
    """Divide layer `at` and its bias by `scale`, and multiply the next, in place."""
    layers[at] /= _column(scale, layers[at].ndim)
    bias = offsets[at]
    if bias is not None:
        bias /= scale
    behind = _inputs(layers[at + 1], len(scale))
    behind *= _column(scale, behind.ndim)


def _column(scale: FloatArray, ndim: int) -> FloatArray:
    return scale.reshape(-1, *[1] * (ndim - 1))


def _check(layers: list[FloatArray], offsets: list[FloatArray | None]) -> None:
    if len(layers) < 2 or len(offsets) != len(layers):
        raise OptionError(
            f"{len(layers)} layers and {len(offsets)} biases",
            "Give two layers or more, and a bias or None for each",
        )
    for weights, bias in zip(layers, offsets, strict=True):
        if weights.ndim < 2 or not weights.size:
            raise ShapeError(
                f"weights have shape {weights.shape}", "Give [outputs, inputs, ...]"
            )
        if bias is not None and bias.shape != weights.shape[:1]:
            raise ShapeError(
                f"the bias has shape {bias.shape}, but the layer has "
                f"{weights.shape[0]} outputs",
                f"Give it shape ({weights.shape[0]},)",
            )
    for first, second in pairwise(layers):
        if len(_inputs(second, len(first))) != len(first):
            raise ShapeError(
                f"a layer has {second.shape[1]} inputs, but the layer before it has "
                f"{len(first)} outputs",
                "Give layers in the order in which they run",
            )


@explain_wrong_calls
def correct_bias(bias: object, weights: object, found: object, samples: object) -> Any:
    """Return the bias that gives each output the mean of the float layer.

    b' = b - (E[W' x] - E[W x]) = b - (W' - W) E[x]

    Args:
        bias: b, [outputs]; None for zeros.
        weights: W, [outputs, inputs, ...].
        found: W', of the same shape: a result of `quantize_weights`, a quantized
            tensor, or numbers.
        samples: x, as for `quantize_weights`.

    Returns:
        b', of the type of `bias`, or of `weights` if `bias` is None.

    Raises:
        ShapeError: the shapes do not fit.
        DataError: `samples` is empty, or one contains a NaN or an infinity.

    Example:
        >>> w, x = np.array([[1.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 1.0]])
        >>> correct_bias(np.array([0.5]), w, w + 0.25, x).tolist()
        [-0.25]

    Source: Nagel et al. 2019, section 4.2, with E[x] measured.
    """
    wanted, real = matrix(real_weights(weights)), matrix(real_weights(found))
    if wanted.shape != real.shape:
        raise ShapeError(
            f"the shapes of the weights differ, {wanted.shape} and {real.shape}",
            "Compare weights of one layer",
        )
    offset = np.zeros(len(wanted)) if bias is None else real_weights(bias)
    if offset.shape != (len(wanted),):
        raise ShapeError(
            f"the bias has shape {offset.shape}, but the layer has {len(wanted)} "
            "outputs",
            f"Give it shape ({len(wanted)},)",
        )
    mean = moments_of(samples, wanted.shape[1]).mean
    return cast_like(offset - (real - wanted) @ mean, weights if bias is None else bias)
