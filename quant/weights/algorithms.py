"""GPTQ: each weight's rounding error is made good by the weights after it."""

from dataclasses import replace

import numpy as np

from mdtensor import LinAlgError
from mdtensor.quant.weights.format import (
    FloatArray,
    check_count,
    check_flag,
    check_number,
)
from mdtensor.quant.weights.layer import Grids, Layer, Rounded, seen
from mdtensor.quant.weights.moments import InputMoments

# Round to nearest.


def rtn(layer: Layer) -> Rounded:
    """Each weight to the nearest code of the grid that covers its group.

    scale = max|w| / high;    code = round_half_even(w / scale)

    No weight is off by more than half a step.

    Source: Jacob et al. 2018, section 3.
    """
    grids = layer.covering(layer.weights)
    return Rounded(grids.codes(layer.weights), grids)


# A smaller range than the weights', if that costs less.

#: Parts of the range that are tried, the whole of it first.
SHARES = np.linspace(1.0, 0.3, 71)


def mse(layer: Layer) -> Rounded:
    """Round to nearest on the grid with the least squared error of the weights.

    argmin over t in [0.3, 1] of  sum over the group of (w - round(w; t · range))²

    for each group by itself. The whole range is a candidate, so the error of the
    weights is at most that of `rtn`; that of the outputs mostly.

    Source: Banner et al. 2019, "Post training 4-bit quantization", section 3.
    """
    grids = least_squares(layer, layer.weights)
    return Rounded(grids.codes(layer.weights), grids)


def least_squares(layer: Layer, weights: FloatArray) -> Grids:
    """The grids with the least squared error of each group."""
    groups = layer.groups
    best = layer.covering(weights)
    least = groups.reduce(np.add, (best.nearest(weights) - weights) ** 2)
    for share in SHARES[1:]:
        grids = layer.covering(weights, float(share))
        error = groups.reduce(np.add, (grids.nearest(weights) - weights) ** 2)
        best = best.replaced(error < least, grids)
        least = np.minimum(error, least)
    return best


#: Inputs that are rounded before the error reaches those beyond.
BLOCK = 64


# Grids are fixed before weights move, so that blocks stay as stored in any order of
# inputs (decision 0020).
def gptq(layer: Layer, *, damping: float = 0.01, act_order: bool = True) -> Rounded:
    """Round input by input; what each rounding did is made good by those that follow.

    H = G + damping · mean(diag G) · I;    U: upper Cholesky factor of H⁻¹
    for each input j:  e = (w_j - round(w_j)) / U_jj;    w_k -= e · U_jk  for k > j

    Grids are those of `mse` and stay as they are while weights move.

    Args:
        damping: what is added to the diagonal, in parts of its mean, >= 0. With fewer
            samples than inputs it must be above 0.
        act_order: begin with the inputs of most energy, G_jj, whose errors then have
            most weights left to be made good by.

    Raises:
        OptionError: no samples, or a negative damping.
        LinAlgError: H has no inverse.

    Source: Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for
    Generative Pre-trained Transformers", algorithm 1; `act_order` of its code.
    """
    seen(layer, "gptq")
    grids = least_squares(layer, layer.weights)
    return compensated(layer, grids, damping, act_order)


def compensated(
    layer: Layer, grids: Grids, damping: float = 0.01, act_order: bool = True
) -> Rounded:
    """What `gptq` makes of a layer on grids that are given."""
    inputs = seen(layer, "gptq")
    check_number("damping", damping, 0)
    check_flag("act_order", act_order)
    energy = np.diag(inputs.gram)
    order = np.argsort(-energy, kind="stable") if act_order else np.arange(energy.size)
    factor = _factor(inputs, damping, order)
    codes = np.empty_like(layer.weights)
    codes[:, order] = _rounded(layer.weights[:, order], _columns(grids, order), factor)
    return Rounded(codes, grids)


def _factor(
    inputs: InputMoments, damping: float, order: np.typing.NDArray[np.int64]
) -> FloatArray:
    """The upper Cholesky factor of H⁻¹, inputs in `order`."""
    gram = inputs.gram[np.ix_(order, order)].copy()
    diagonal = np.diag(gram).copy()
    # An input that was always 0 says nothing: it is rounded by itself.
    diagonal[diagonal == 0] = 1.0
    np.fill_diagonal(gram, diagonal + damping * diagonal.mean())
    try:
        lower = np.linalg.cholesky(gram)
        inverse = np.linalg.inv(lower)
        factor: FloatArray = np.linalg.cholesky(inverse.T @ inverse).T
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"{inputs.count} samples do not determine {inputs.inputs} inputs",
            f"Give more samples, or a damping above {damping:g}",
            "gptq",
        ) from None
    return factor


def _columns(grids: Grids, order: np.typing.NDArray[np.int64]) -> Grids:
    """A grid for each weight, inputs in `order`."""
    scale = grids.groups.spread(grids.scale)[:, order]
    zero = grids.groups.spread(grids.zero)[:, order]
    return Grids(scale, zero, grids.groups, grids.format)


def _rounded(weights: FloatArray, grids: Grids, factor: FloatArray) -> FloatArray:
    """Codes of weights whose errors wander to the right."""
    left, codes = weights.copy(), np.empty_like(weights)
    low, high = grids.format.low, grids.format.high
    for start in range(0, left.shape[1], BLOCK):
        block = slice(start, min(start + BLOCK, left.shape[1]))
        errors = np.empty((left.shape[0], block.stop - start))
        for at in range(start, block.stop):
            scale, zero = grids.scale[:, at], grids.zero[:, at]
            codes[:, at] = np.clip(np.rint(left[:, at] / scale) + zero, low, high)
            error = (left[:, at] - scale * (codes[:, at] - zero)) / factor[at, at]
            left[:, at : block.stop] -= np.outer(error, factor[at, at : block.stop])
            errors[:, at - start] = error
        left[:, block.stop :] -= errors @ factor[block, block.stop :]
    return codes


# Half-quadratic quantization: grids from the weights alone, robust to outliers.


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


# Activation-aware weight quantization: steps where inputs are large are finer.

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
