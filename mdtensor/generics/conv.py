"""Convolution, and normalization by channel, which folds into it."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch import generic
from mdtensor.generics.rules.conv import convolution, folded, per_channel


@generic(deduce=convolution)
def conv2d(
    x: Any,
    w: Any,
    b: Any = None,
    /,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    out: Any = None,
) -> Any:
    """2-D cross-correlation of images with a bank of filters.

    Args:
        x: [n, c, h, w].
        w: [out, c / groups, kh, kw]; `groups == c` is a depthwise convolution.
        b: [out], or None.
        stride, dilation: one integer or (height, width).
        padding: one integer, (height, width) or (top, left, bottom, right); the
            image is continued with zeros.
        groups: input and output channels are split into this many groups.
        out: grid of a quantized result. Without it the accumulators are returned:
            a `QInt32Tensor`, exact.

    Returns:
        [n, out, oh, ow] of the promoted type.

    Raises:
        ShapeError: channels, groups, bias or window do not fit.
        OptionError: a stride or dilation below 1, a negative padding.

    Example:
        >>> import mdtensor as md
        >>> x, w = md.ones((1, 1, 3, 3)), md.ones((1, 1, 3, 3))
        >>> md.conv2d(x, w, padding=1)[0, 0].tolist()
        [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]

    Source: ONNX `Conv`; PyTorch, `torch.nn.functional.conv2d`.
    """


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
