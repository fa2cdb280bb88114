"""Normalization by given statistics or by statistics of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.spec.options import number
from mdtensor.spec.shapes import (
    DYNAMIC,
    Axes,
    Integers,
    Shape,
    are_like,
    integers,
    is_size,
    normalize_axes,
)
from mdtensor.spec.spec import TensorSpec

# Shape rules of normalization.


def infer_batch_norm(
    x: TensorSpec, *statistics: TensorSpec, eps: float = 1e-5
) -> TensorSpec:
    """Infer type and shape of the first argument; axis 1 holds the channels."""
    # A negative eps could make the variance negative, and its root NaN.
    number(eps, "eps", least=0)
    check_statistics(x.shape, 1, [s.shape for s in statistics])
    return x


def infer_fold_batch_norm(
    w: TensorSpec, b: TensorSpec | None, *statistics: TensorSpec, eps: float = 1e-5
) -> tuple[TensorSpec, TensorSpec]:
    """Infer weights and bias, both of the type of the weights."""
    number(eps, "eps", least=0)
    given = [s.shape for s in (b, *statistics) if s is not None]
    check_statistics(w.shape, 0, given)
    return w, w.with_shape(w.shape[:1])


def check_statistics(shape: Shape, axis: int, statistics: Sequence[Shape]) -> None:
    """Raise unless each statistic has one number per index of `axis`."""
    # Before the loop: without the axis, every statistic would be reported instead.
    if len(shape) <= axis:
        raise ShapeError(
            f"shape {shape} does not have an axis of channels, axis {axis}",
            "Give the shape [n, c, ...]",
        )
    for found in statistics:
        if not are_like(found, shape[axis : axis + 1]):
            raise ShapeError(
                f"a statistic has shape {found}, but there are {shape[axis]} channels",
                f"Give it shape ({shape[axis]},)",
            )


def infer_layer_norm(
    x: TensorSpec,
    *weights: TensorSpec | None,
    normalized_shape: Integers,
    eps: float | None = None,
) -> TensorSpec:
    """Infer type and shape of an argument that ends in `normalized_shape`."""
    # `rms_norm` alone has None, for the eps of the type, as PyTorch has.
    if eps is not None:
        number(eps, "eps", least=0)
    sizes = last_sizes(normalized_shape)
    # The start is at least 0, because a negative one would take axes from the end.
    last = x.shape[max(x.ndim - len(sizes), 0) :]
    if len(last) != len(sizes) or not _fits(last, sizes):
        raise ShapeError(
            f"shape {x.shape} does not end in {sizes}",
            "Give normalized_shape the sizes of the last axes",
        )
    for weight in filter(None, weights):
        if weight.ndim != len(sizes) or not _fits(weight.shape, sizes):
            raise ShapeError(
                f"a weight has shape {weight.shape}, but the normalized shape is "
                f"{sizes}",
                f"Give it shape {sizes}",
            )
    return x


def last_sizes(normalized_shape: object) -> Shape:
    """Return the sizes of the last axes, at least one."""
    fix = "Use one or more sizes of 0 or more"
    sizes = integers(normalized_shape, "normalized_shape", fix)
    # No axes would normalize each element by itself, to 0 for every input.
    if not sizes or min(sizes) < 0:
        raise OptionError(f"normalized_shape is {shown(normalized_shape)}", fix)
    return sizes


def _fits(known: Shape, sizes: Shape) -> bool:
    # Only the tensor may have unknown sizes: the option is given as numbers.
    return all(m in (n, DYNAMIC) for m, n in zip(known, sizes, strict=True))


def infer_group_norm(
    x: TensorSpec,
    weight: TensorSpec | None = None,
    bias: TensorSpec | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> TensorSpec:
    """Infer type and shape of an argument whose channels split into groups."""
    number(eps, "eps", least=0)
    # Weights are per channel and not per group, as in PyTorch and ONNX.
    check_statistics(x.shape, 1, [w.shape for w in (weight, bias) if w is not None])
    channels = x.shape[1]
    if not is_size(num_groups) or num_groups < 1:
        raise OptionError(
            f"num_groups is {shown(num_groups)}", "Use an integer of 1 or more"
        )
    if channels != DYNAMIC and channels % num_groups:
        raise ShapeError(
            f"{channels} channels do not split into {num_groups} groups",
            "Choose a num_groups that divides the channels",
        )
    return x


def infer_instance_norm(
    x: TensorSpec,
    weight: TensorSpec | None = None,
    bias: TensorSpec | None = None,
    *,
    eps: float = 1e-5,
) -> TensorSpec:
    """Infer type and shape of an argument with axes after its channels."""
    # Each image and channel needs axes to average over; one element alone gives 0.
    if x.ndim < 3:
        raise ShapeError(
            f"shape {x.shape} ends at the channels, axis 1",
            "Give an axis after it: [n, c, l]",
        )
    return infer_group_norm(x, weight, bias, num_groups=1, eps=eps)


def infer_normalize(
    x: TensorSpec, *, p: float, axis: Axes | None, eps: float
) -> TensorSpec:
    """Infer type and shape of the argument."""
    number(eps, "eps", least=0)
    # Written with `not`, so that NaN is rejected as well.
    if not number(p, "p") > 0:
        raise OptionError(f"p is {shown(p)}", "Use a number above 0")
    normalize_axes(axis, x.ndim)
    return x


@generic(deduce=infer_batch_norm)
def batch_norm(
    x: object,
    mean: object,
    var: object,
    weight: object,
    bias: object,
    /,
    *,
    eps: float = 1e-5,
) -> Any:
    """Return (x - mean) / sqrt(var + eps) · weight + bias, channel by channel.

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


@generic(deduce=infer_fold_batch_norm)
def fold_batch_norm(
    w: object,
    b: object,
    mean: object,
    var: object,
    weight: object,
    bias: object,
    /,
    *,
    eps: float = 1e-5,
) -> Any:
    """Fold batch_norm into the weights and bias of the conv2d before it.

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


@generic(deduce=infer_layer_norm)
def layer_norm(
    x: object,
    weight: object = None,
    bias: object = None,
    /,
    *,
    normalized_shape: Integers,
    eps: float = 1e-5,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return (x - mean) / sqrt(var + eps) · weight + bias over the last axes.

    Args:
        x: [..., *normalized_shape], floating or quantized.
        weight, bias: of shape `normalized_shape`, floating, or None.
        normalized_shape: the sizes of the last axes, which share mean and variance;
            one integer for one axis.
        eps: keeps the root from zero.
        out, rounding: grid and rounding rule of a quantized result; the exact real
            number rounds once.

    Raises:
        ShapeError: `x` does not end in `normalized_shape`, or a weight is not of it.
        OptionError: `eps` is not a number, or negative.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1.0, 3.0], [10.0, 30.0]])
        >>> md.layer_norm(x, normalized_shape=2, eps=0.0).tolist()
        [[-1.0, 1.0], [-1.0, 1.0]]

    Source: ONNX `LayerNormalization`; PyTorch, `torch.nn.functional.layer_norm`, which
        takes `normalized_shape` second; Ba et al. 2016.
    """


@generic(deduce=infer_layer_norm)
def rms_norm(
    x: object,
    weight: object = None,
    /,
    *,
    normalized_shape: Integers,
    eps: float | None = None,
    out: object = None,
    rounding: str | None = None,
) -> Any:
    """Return x / sqrt(mean(x²) + eps) · weight over the last axes.

    Args:
        x, weight, normalized_shape, out, rounding: as in `layer_norm`.
        eps: None is the distance from 1 to the next number of the type that computes,
            float32 for 16-bit floats.

    Raises:
        ShapeError, OptionError: as in `layer_norm`.

    Example:
        >>> import mdtensor as md
        >>> md.rms_norm(md.asarray([3.0, 3.0]), normalized_shape=2, eps=0.0).tolist()
        [1.0, 1.0]

    Source: ONNX `RMSNormalization`; PyTorch, `torch.nn.functional.rms_norm`; Zhang and
        Sennrich 2019.
    """


@generic(deduce=infer_group_norm)
def group_norm(
    x: object,
    weight: object = None,
    bias: object = None,
    /,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> Any:
    """Return (x - mean) / sqrt(var + eps) · weight + bias per group of channels.

    Args:
        x: [n, c, ...], floating.
        weight, bias: [c], or None.
        num_groups: the channels are split into this many groups, and all numbers of
            one group share mean and variance.
        eps: keeps the root from zero.

    Raises:
        ShapeError: `num_groups` does not divide the channels, or a weight is not [c].
        OptionError: `eps` is not a number, or negative.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1.0, 3.0, 10.0, 30.0]])
        >>> md.group_norm(x, num_groups=2, eps=0.0).tolist()
        [[-1.0, 1.0, -1.0, 1.0]]

    Source: ONNX `GroupNormalization`; PyTorch, `torch.nn.functional.group_norm`, which
        takes `num_groups` second; Wu and He 2018.
    """


@generic(deduce=infer_instance_norm)
def instance_norm(
    x: object, weight: object = None, bias: object = None, /, *, eps: float = 1e-5
) -> Any:
    """Return (x - mean) / sqrt(var + eps) · weight + bias per image and channel.

    Args:
        x: [n, c, ...] with at least one axis after the channels, floating.
        weight, bias: [c], or None.
        eps: keeps the root from zero.

    Raises:
        ShapeError: `x` ends at the channels, or a weight is not [c].
        OptionError: `eps` is not a number, or negative.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[[1.0, 3.0], [10.0, 30.0]]])
        >>> md.instance_norm(x, eps=0.0).tolist()
        [[[-1.0, 1.0], [-1.0, 1.0]]]

    Source: ONNX `InstanceNormalization`; PyTorch,
        `torch.nn.functional.instance_norm`; Ulyanov et al. 2016.
    """


@generic(deduce=infer_normalize)
def normalize(
    x: object, /, *, p: float = 2.0, axis: Axes | None = 1, eps: float = 1e-12
) -> Any:
    """Return x / max(norm, eps), with norm = (sum |x|^p)^(1/p) along `axis`.

    Args:
        x: any shape, floating.
        p: above 0; infinity for the largest magnitude.
        axis: one or several; PyTorch calls it `dim`.
        eps: keeps the divisor from zero.

    Raises:
        ShapeError: the axis does not exist.
        OptionError: `p` is not above 0, or `eps` is negative.

    Example:
        >>> import mdtensor as md
        >>> md.normalize(md.asarray([3.0, 4.0]), p=1, axis=0).tolist()
        [0.4285714328289032, 0.5714285969734192]

    Source: ONNX `LpNormalization`; PyTorch, `torch.nn.functional.normalize`.
    """
