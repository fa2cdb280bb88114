"""A smaller range than the weights', if that costs less."""

import numpy as np

from mdtensor.quant.weights.format import FloatArray
from mdtensor.quant.weights.layer import Grids, Layer, Rounded

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
