"""Normalization: numbers shifted and scaled by their own statistics, or given ones."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.normalization import folded, per_channel


@generic(deduce=per_channel)
def batch_norm(
    x: Any, mean: Any, var: Any, weight: Any, bias: Any, /, *, eps: float = 1e-5
) -> Any:
    """(x - mean) / sqrt(var + eps) · weight + bias, channel by channel.

    Args:
        x: [n, c, ...], floating.
        mean, var, weight, bias: [c].
        eps: keeps the root from zero.

    Raises:
        ShapeError: a statistic is not [c].

    Example:
        >>> import mdtensor as md
        >>> x, one, zero = md.ones((1, 1, 1)), md.ones((1,)), md.zeros((1,))
        >>> md.batch_norm(x, zero, one, one, one, eps=0.0).tolist()
        [[[2.0]]]

    Source: ONNX `BatchNormalization`; Ioffe and Szegedy 2015.
    """


@generic(deduce=folded)
def fold_batch_norm(
    w: Any, b: Any, mean: Any, var: Any, weight: Any, bias: Any, /, *, eps: float = 1e-5
) -> Any:
    """Weights and bias of the one convolution that equals conv2d and batch_norm.

    w' = w · s,  b' = (b - mean) · s + bias,  with s = weight / sqrt(var + eps)

    Args:
        w: [out, ...] weights of the convolution.
        b: [out] its bias, or None.
        mean, var, weight, bias: [out], as in `batch_norm`.
        eps: as in `batch_norm`.

    Returns:
        (w', b'), computed in float64 and rounded once to the type of `w`.

    Example:
        >>> import mdtensor as md
        >>> w, one, zero = md.ones((1, 1, 1, 1)), md.ones((1,)), md.zeros((1,))
        >>> two = md.asarray([2.0])
        >>> w2, b2 = md.fold_batch_norm(w, None, one, one, two, zero, eps=0.0)
        >>> w2.tolist(), b2.tolist()
        ([[[[2.0]]]], [-2.0])

    Source: Jacob et al. 2018, "Quantization and Training ...", section 3.2.
    """
