"""Activation-aware weight quantization: steps where inputs are large are finer."""

from dataclasses import replace

import numpy as np

from mdtensor.quant.weights.format import FloatArray, check_count
from mdtensor.quant.weights.layer import Layer, Rounded, seen
from mdtensor.quant.weights.rtn import rtn

#: The smallest mean magnitude that counts, in parts of the largest.
SMALLEST = 1e-4


# The scale of the inputs is part of the result, because the codes are wrong without it
# (decision 0020).
def awq(layer: Layer, *, candidates: int = 20) -> Rounded:
    """Round W · diag(s) to nearest; the inputs are to be divided by s.

    s = E[|x|]ᵃ, scaled so that max(s) · min(s) = 1;  a in [0, 1] by search:
    argmin over a of |round(W diag(s)) diag(s)⁻¹ x - W x|²

    a = 0 is `rtn` and a candidate, so the error on the samples is at most that. The
    division of the inputs is for the layer before to absorb (a norm, a product).

    Args:
        candidates: how many a are tried, from 0 to below 1.

    Raises:
        OptionError: no samples, or fewer than one candidate.

    Source: Lin et al. 2023, "AWQ: Activation-aware Weight Quantization", section 3.2.
    """
    inputs = seen(layer, "awq")
    found = [_scaled(layer, s) for s in scales(inputs.mean_magnitude, candidates)]
    errors = [inputs.energy(one.numbers - layer.weights) for one in found]
    return found[int(np.argmin(errors))]


def scales(magnitude: FloatArray, candidates: int) -> list[FloatArray]:
    """What is tried for inputs with these mean magnitudes; ones first."""
    check_count("candidates", candidates, 1)
    return [_normal(magnitude, at / candidates) for at in range(candidates)]


def _normal(magnitude: FloatArray, power: float) -> FloatArray:
    """magnitude**power in the middle of 1."""
    largest = magnitude.max()
    if largest == 0:
        return np.ones_like(magnitude)
    scale: FloatArray = np.maximum(magnitude / largest, SMALLEST) ** power
    centred: FloatArray = scale / np.sqrt(scale.max() * scale.min())
    return centred


def _scaled(layer: Layer, scale: FloatArray) -> Rounded:
    scale = scale.astype(np.float32).astype(np.float64)  # what the inputs will meet
    wide = rtn(replace(layer, weights=layer.weights * scale))
    return replace(wide, input_scale=scale)
