"""Round to nearest."""

from mdtensor.quant.weights.layer import Layer, Rounded


def rtn(layer: Layer) -> Rounded:
    """Each weight to the nearest code of the grid that covers its group.

    scale = max|w| / high;    code = round_half_even(w / scale)

    No weight is off by more than half a step.

    Source: Jacob et al. 2018, section 3.
    """
    grids = layer.covering(layer.weights)
    return Rounded(grids.codes(layer.weights), grids)
