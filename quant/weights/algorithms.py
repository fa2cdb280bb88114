"""GPTQ: each weight's rounding error is made good by the weights after it."""

import numpy as np

from mdtensor import LinAlgError
from mdtensor.quant.weights.format import FloatArray, check_flag, check_number
from mdtensor.quant.weights.layer import Grids, Layer, Rounded, seen
from mdtensor.quant.weights.moments import InputMoments
from mdtensor.quant.weights.mse import least_squares

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
