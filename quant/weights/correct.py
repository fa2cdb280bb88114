"""Bias correction: what rounding weights adds to every output, taken off its bias."""

from typing import Any

import numpy as np

from mdtensor import ShapeError
from mdtensor.quant.weights.format import matrix
from mdtensor.quant.weights.moments import moments_of
from mdtensor.quant.weights.result import alike, real_weights


def correct_bias(bias: Any, weights: Any, found: Any, samples: Any) -> Any:
    """The bias with which the mean of each output is that of the float layer.

    b' = b - (E[W' x] - E[W x]) = b - (W' - W) E[x]

    Args:
        bias: b, [outputs]; None for zeros.
        weights: W, [outputs, inputs, ...].
        found: W', of the same shape: what `quantize_weights` gave, a quantized tensor,
            or numbers.
        samples: x, as `quantize_weights` takes them.

    Returns:
        b', of the type of `bias`; of that of `weights` for None.

    Raises:
        ShapeError: shapes that do not fit.
        DataError: no samples; a NaN or an infinity.

    Example:
        >>> w, x = np.array([[1.0, 2.0]]), np.array([[1.0, 1.0], [3.0, 1.0]])
        >>> correct_bias(np.array([0.5]), w, w + 0.25, x).tolist()
        [-0.25]

    Source: Nagel et al. 2019, section 4.2, with E[x] measured.
    """
    wanted, real = matrix(real_weights(weights)), matrix(real_weights(found))
    if wanted.shape != real.shape:
        raise ShapeError(f"weights of {wanted.shape} compared with {real.shape}")
    offset = np.zeros(len(wanted)) if bias is None else real_weights(bias)
    if offset.shape != (len(wanted),):
        raise ShapeError(f"a bias of shape {offset.shape} for {len(wanted)} outputs")
    mean = moments_of(samples, wanted.shape[1]).mean
    return alike(offset - (real - wanted) @ mean, weights if bias is None else bias)
