"""The algorithms: functions of a layer that return codes and grids."""

from dataclasses import replace

import numpy as np

from mdtensor import LinAlgError
from mdtensor.quant.weights.format import (
    FloatArray,
    check_count,
    check_flag,
    check_number,
)
from mdtensor.quant.weights.layer import Grids, Layer, Rounded, require_inputs
from mdtensor.quant.weights.moments import InputMoments


def rtn(layer: Layer) -> Rounded:
    """Round each weight to the nearest code of the grid that covers its group.

    scale = max|w| / high;    code = round_half_even(w / scale)

    The error of a weight is at most half a scale.

    Source: Jacob et al. 2018, section 3.
    """
    grids = layer.grids_of_range(layer.weights)
    return Rounded(grids.codes(layer.weights), grids)


#: Parts of the range that `mse` tries, the whole range first.
SHARES = np.linspace(1.0, 0.3, 71)


def mse(layer: Layer) -> Rounded:
    """Round to nearest on the grid with the least squared error of the weights.

    argmin over t in [0.3, 1] of  sum over the group of (w - round(w; t · range))²

    for each group by itself. The whole range is a candidate, so the error of weights is
    at most the error of `rtn`; for the error of outputs this holds mostly.

    Source: Banner et al. 2019, "Post training 4-bit quantization", section 3.
    """
    grids = least_squares(layer, layer.weights)
    return Rounded(grids.codes(layer.weights), grids)


def least_squares(layer: Layer, weights: FloatArray) -> Grids:
    """Return the grids with the least squared error of each group."""
    groups = layer.groups
    best = layer.grids_of_range(weights)
    least = groups.reduce(np.add, (best.nearest(weights) - weights) ** 2)
    for share in SHARES[1:]:
        grids = layer.grids_of_range(weights, float(share))
        error = groups.reduce(np.add, (grids.nearest(weights) - weights) ** 2)
        best = best.replace_where(error < least, grids)
        least = np.minimum(error, least)
    return best


#: How many inputs are rounded before their errors are passed to all later inputs: one
#: product of matrices for a block is faster than many updates of all weights.
BLOCK = 64


# Grids are fixed before weights move, so that blocks stay as stored in any order of
# inputs (decision 0020).
def gptq(layer: Layer, *, damping: float = 0.01, act_order: bool = True) -> Rounded:
    """Round input by input; later weights compensate for the error of earlier ones.

    H = G + damping · mean(diag G) · I;    U: upper Cholesky factor of H⁻¹
    for each input j:  e = (w_j - round(w_j)) / U_jj;    w_k -= e · U_jk  for k > j

    The grids are the grids of `mse`; they stay the same while weights change.

    Args:
        damping: added to the diagonal, relative to its mean, >= 0. With fewer samples
            than inputs it must be positive.
        act_order: begin with the inputs of largest energy, G_jj. Most weights are still
            unrounded then and can compensate for their errors.

    Raises:
        OptionError: samples are missing, or the damping is negative.
        LinAlgError: H is not invertible.

    Source: Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for
    Generative Pre-trained Transformers", algorithm 1; `act_order` from its code.
    """
    require_inputs(layer, "gptq")
    grids = least_squares(layer, layer.weights)
    return compensate(layer, grids, damping, act_order)


def compensate(
    layer: Layer, grids: Grids, damping: float = 0.01, act_order: bool = True
) -> Rounded:
    """Round a layer by `gptq` on the given grids."""
    inputs = require_inputs(layer, "gptq")
    check_number("damping", damping, 0)
    check_flag("act_order", act_order)
    energy = np.diag(inputs.gram)
    order = np.argsort(-energy, kind="stable") if act_order else np.arange(energy.size)
    factor = _factor(inputs, damping, order)
    codes = np.empty_like(layer.weights)
    codes[:, order] = _round_columns(
        layer.weights[:, order], _columns(grids, order), factor
    )
    return Rounded(codes, grids)


def _factor(
    inputs: InputMoments, damping: float, order: np.typing.NDArray[np.int64]
) -> FloatArray:
    """Return the upper Cholesky factor of H⁻¹, inputs in `order`."""
    gram = inputs.gram[np.ix_(order, order)].copy()
    diagonal = np.diag(gram).copy()
    # An input that was always 0 would make H singular. With 1 on the diagonal and 0
    # elsewhere its weight is rounded by itself.
    diagonal[diagonal == 0] = 1.0
    np.fill_diagonal(gram, diagonal + damping * diagonal.mean())
    try:
        lower = np.linalg.cholesky(gram)
        # H⁻¹ = L⁻ᵀ L⁻¹ is symmetric and positive definite by construction.
        inverse = np.linalg.inv(lower)
        factor: FloatArray = np.linalg.cholesky(inverse.T @ inverse).T
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"the Hessian of {inputs.inputs} inputs is not positive definite, as "
            f"estimated from {inputs.count} samples",
            f"Give more samples, or a damping above {damping:g}",
            "gptq",
        ) from None
    return factor


def _columns(grids: Grids, order: np.typing.NDArray[np.int64]) -> Grids:
    """Return a grid for each weight, inputs in `order`."""
    scale = grids.groups.spread(grids.scale)[:, order]
    zero = grids.groups.spread(grids.zero)[:, order]
    return Grids(scale, zero, grids.groups, grids.format)


def _round_columns(weights: FloatArray, grids: Grids, factor: FloatArray) -> FloatArray:
    """Return the codes of weights, moving each error to the columns on its right."""
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


def hqq(
    layer: Layer,
    *,
    norm: float = 0.7,
    beta: float = 10.0,
    growth: float = 1.01,
    steps: int = 20,
) -> Rounded:
    """Find the grids that minimize the l_p norm of the weight error, p <= 1.

    min over scale and zero point of  sum |w - round(w)|ᵖ

    Each iteration first chooses the error e to ignore, by shrinking w - round(w), and
    then the grid that fits w - e best; beta grows each time. A zero point is a code, so
    it is rounded to an integer first; then the scale is fitted: scale = sum c (w - e) /
    sum c², where c are the codes minus their zero point. The result is the best grid of
    all iterations and of `rtn`. This algorithm does not need samples.

    Args:
        norm: p, from 0.1 to 1: the smaller, the less outliers count.
        beta: at least 1. In the first iteration, e is 0 where |w - round(w)| is at most
            beta**(-1 / (2 - p)) times the scale.
        growth: the factor of beta from one iteration to the next; at least 1.
        steps: the number of iterations.

    Raises:
        OptionError: an option is out of range.

    Source: Badri and Shaji 2023, "Half-Quadratic Quantization of Large Machine Learning
    Models", equations 4 to 6.
    """
    check_number("norm", norm, 0.1, 1)
    check_count("steps", steps, 0)
    for name, value in (("beta", beta), ("growth", growth)):
        check_number(name, value, 1)
    weights, groups = layer.weights, layer.groups
    grids = best = layer.grids_of_range(weights)
    # In units of the first scale: beta then means the same for weights of any size.
    unit = groups.spread(best.scale)
    least = groups.reduce(np.add, np.abs(best.nearest(weights) - weights) ** norm)
    for _ in range(steps):
        codes = grids.codes(weights)
        dropped = unit * _shrink((weights - grids.numbers(codes)) / unit, beta, norm)
        grids = _refit(layer, grids, codes, weights - dropped)
        error = groups.reduce(np.add, np.abs(grids.nearest(weights) - weights) ** norm)
        best = best.replace_where(error < least, grids)
        least = np.minimum(error, least)
        beta *= growth
    return Rounded(best.codes(weights), best)


def _shrink(errors: FloatArray, beta: float, norm: float) -> FloatArray:
    """Return sign(x) · max(|x| - |x|ᵖ⁻¹ / beta, 0), which is 0 for small errors."""
    size = np.abs(errors)
    with np.errstate(divide="ignore"):
        shrunk: FloatArray = np.maximum(size - size ** (norm - 1) / beta, 0)
    return np.sign(errors) * shrunk


def _refit(layer: Layer, grids: Grids, codes: FloatArray, weights: FloatArray) -> Grids:
    """Return the grids that fit the codes best: first zero points, then scales."""
    groups, form, zero = layer.groups, layer.format, grids.zero
    if not form.symmetric:
        wanted = codes - weights / groups.spread(grids.scale)
        count = groups.reduce(np.add, np.ones_like(wanted))
        mean = groups.reduce(np.add, wanted) / count
        zero = np.clip(np.rint(mean), form.low, form.high)
    centred = codes - groups.spread(zero)
    weight = groups.reduce(np.add, centred * centred)
    # Codes are integers: below 1 the sum of squares is 0, and then the old scale stays.
    scale = groups.reduce(np.add, centred * weights) / np.maximum(weight, 1)
    return layer.grids_from_scales(np.where(scale > 0, scale, grids.scale), zero)


#: Smaller mean magnitudes, relative to the largest, are treated like this one.
SMALLEST = 1e-4


# The scale of the inputs is part of the result, because the codes are wrong without it
# (decision 0020).
def awq(layer: Layer, *, candidates: int = 20) -> Rounded:
    """Round W · diag(s) to nearest; you must divide the inputs by s.

    s = E[|x|]ᵃ, scaled so that max(s) · min(s) = 1;  a in [0, 1] by search:
    argmin over a of |round(W diag(s)) diag(s)⁻¹ x - W x|²

    a = 0 is `rtn` and a candidate, so the error on the samples is at most the error of
    `rtn`. The layer before (a norm, a product) can absorb the division of the inputs.

    Args:
        candidates: how many exponents a are tried, from 0 to below 1.

    Raises:
        OptionError: samples are missing, or `candidates` is less than 1.

    Source: Lin et al. 2023, "AWQ: Activation-aware Weight Quantization", section 3.2.
    """
    inputs = require_inputs(layer, "awq")
    found = [
        _rtn_with_input_scale(layer, s)
        for s in scales(inputs.mean_magnitude, candidates)
    ]
    errors = [inputs.energy(one.numbers - layer.weights) for one in found]
    return found[int(np.argmin(errors))]


def scales(magnitude: FloatArray, candidates: int) -> list[FloatArray]:
    """Return the scales to try for inputs with these mean magnitudes; ones first."""
    check_count("candidates", candidates, 1)
    return [_normal(magnitude, at / candidates) for at in range(candidates)]


def _normal(magnitude: FloatArray, power: float) -> FloatArray:
    """Return magnitude**power, scaled so that max · min = 1."""
    largest = magnitude.max()
    if largest == 0:
        return np.ones_like(magnitude)
    scale: FloatArray = np.maximum(magnitude / largest, SMALLEST) ** power
    centred: FloatArray = scale / np.sqrt(scale.max() * scale.min())
    return centred


def _rtn_with_input_scale(layer: Layer, scale: FloatArray) -> Rounded:
    # The inputs are divided by the float32 scale, so the weights need the same numbers.
    scale = scale.astype(np.float32).astype(np.float64)
    wide = rtn(replace(layer, weights=layer.weights * scale))
    return replace(wide, input_scale=scale)
