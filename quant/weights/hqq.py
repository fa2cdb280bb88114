"""Half-quadratic quantization: grids from the weights alone, robust to outliers."""

import numpy as np

from mdtensor.quant.weights.format import FloatArray, check_count, check_number
from mdtensor.quant.weights.layer import Grids, Layer, Rounded


def hqq(
    layer: Layer,
    *,
    norm: float = 0.7,
    beta: float = 10.0,
    growth: float = 1.01,
    steps: int = 20,
) -> Rounded:
    """The grids with the least l_p norm of the weights' errors, p < 1.

    min over scale and zero point of  sum |w - round(w)|ᵖ

    by turns: the error e that is let go, by shrinking w - round(w), and then the grid
    that fits w - e best; beta grows each time. A zero point is a code, so it moves in
    whole steps, and the scale does the rest: scale = sum c (w - e) / sum c² for codes c
    less their zero point. The best grids of all steps are kept, those of `rtn` among
    them. Needs no samples.

    Args:
        norm: p, from 0.1 to 1: the smaller, the less outliers count.
        beta, growth: how little error is let go at first, and how fast less; from 1 on.
        steps: how many turns.

    Raises:
        OptionError: another value.

    Source: Badri and Shaji 2023, "Half-Quadratic Quantization of Large Machine Learning
    Models", equations 4 to 6.
    """
    check_number("norm", norm, 0.1, 1)
    check_count("steps", steps, 0)
    for name, value in (("beta", beta), ("growth", growth)):
        check_number(name, value, 1)
    weights, groups = layer.weights, layer.groups
    grids = best = layer.covering(weights)
    unit = groups.spread(best.scale)
    least = groups.reduce(np.add, np.abs(best.nearest(weights) - weights) ** norm)
    for _ in range(steps):
        codes = grids.codes(weights)
        let_go = unit * _shrunk((weights - grids.numbers(codes)) / unit, beta, norm)
        grids = _refitted(layer, grids, codes, weights - let_go)
        error = groups.reduce(np.add, np.abs(grids.nearest(weights) - weights) ** norm)
        best = best.replaced(error < least, grids)
        least = np.minimum(error, least)
        beta *= growth
    return Rounded(best.codes(weights), best)


def _shrunk(errors: FloatArray, beta: float, norm: float) -> FloatArray:
    """sign(x) · max(|x| - |x|ᵖ⁻¹ / beta, 0): small errors are not let go at all."""
    size = np.abs(errors)
    with np.errstate(divide="ignore"):
        kept: FloatArray = np.maximum(size - size ** (norm - 1) / beta, 0)
    return np.sign(errors) * kept


def _refitted(
    layer: Layer, grids: Grids, codes: FloatArray, weights: FloatArray
) -> Grids:
    """The grids that fit given codes best: the zero point first, then the scale."""
    groups, form, zero = layer.groups, layer.format, grids.zero
    if not form.symmetric:
        wanted = codes - weights / groups.spread(grids.scale)
        count = groups.reduce(np.add, np.ones_like(wanted))
        mean = groups.reduce(np.add, wanted) / count
        zero = np.clip(np.rint(mean), form.low, form.high)
    steps = codes - groups.spread(zero)
    weight = groups.reduce(np.add, steps * steps)
    scale = groups.reduce(np.add, steps * weights) / np.maximum(weight, 1)
    return layer.on(np.where(scale > 0, scale, grids.scale), zero)
