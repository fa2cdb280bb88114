"""SmoothQuant: what is hard to quantize in the inputs moves into the weights."""

from typing import Any

import numpy as np

from mdtensor import ShapeError
from mdtensor.quant.weights.format import FloatArray, check_flag, check_number, matrix
from mdtensor.quant.weights.moments import moments_of
from mdtensor.quant.weights.result import alike, real_weights


def smooth(
    weights: Any, samples: Any, *, strength: float = 0.5, powers_of_two: bool = False
) -> tuple[Any, Any]:
    """Weights for inputs that are divided by s, and s.

    s_j = max|x_j|ᵃ / max|W_j|¹⁻ᵃ;    (W diag(s)) (x / s) = W x

    Channels with large inputs give a part of their range to the weights, so that one
    grid for all inputs has finer steps. The function stays what it was, to the rounding
    of floats. A channel that is 0 in all inputs or in all weights has s = 1.

    Args:
        weights: W, [outputs, inputs, ...].
        samples: x, as `quantize_weights` takes them.
        strength: a, from 0 (the ranges of weights become equal) to 1 (those of inputs).
        powers_of_two: round s to powers of two, so that the function stays the same to
            the last bit; ranges are then equal to a factor of sqrt(2).

    Returns:
        The new weights, and s, which the layer before absorbs or the inputs are
        divided by; of the type of `weights`.

    Raises:
        OptionError: another strength.
        ShapeError, DataError: as of `quantize_weights`.

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
    scale = share(peaks, np.abs(flat).max(axis=0), strength)
    if powers_of_two:
        scale = rounded_to_powers(scale)
    return alike(flat * scale, weights), alike(scale, weights)


def share(inputs: FloatArray, weights: FloatArray, strength: float) -> FloatArray:
    """What inputs with these largest magnitudes are divided by; 1 where one is 0."""
    found = np.ones_like(inputs)
    both = (inputs > 0) & (weights > 0)
    found[both] = inputs[both] ** strength / weights[both] ** (1 - strength)
    return found


def rounded_to_powers(scale: FloatArray) -> FloatArray:
    """The nearest powers of two, by their logarithms."""
    return np.exp2(np.rint(np.log2(scale)))
