"""Normalization methods for dense tensors on the host."""

from typing import Any, Union

from mdtensor.dispatch.operation import method
from mdtensor.generics.normalization import (
    batch_norm,
    fold_batch_norm,
    group_norm,
    instance_norm,
    last_sizes,
    layer_norm,
    normalize,
    rms_norm,
)
from mdtensor.kernels.numpy import normalization as kernel
from mdtensor.ops import steps
from mdtensor.ops.operands import deduced
from mdtensor.ops.reduction_steps import batch_norm_step
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axes
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor

Weight = Union[FloatingTensor, None]


@method(batch_norm, prepare=batch_norm_step)
def batch_norm(
    x: FloatingTensor,
    mean: FloatingTensor,
    var: FloatingTensor,
    weight: FloatingTensor,
    bias: FloatingTensor,
    /,
    *,
    eps: float,
) -> Tensor:
    deduced(batch_norm, x, mean, var, weight, bias, eps=eps)
    m, v, s, b = mean.buffer, var.buffer, weight.buffer, bias.buffer
    return x.wrap(kernel.batch_norm(x.buffer, m, v, s, b, number(eps, "eps")))


@method(fold_batch_norm)
def fold_batch_norm(
    w: FloatingTensor,
    b: Union[FloatingTensor, None],
    mean: FloatingTensor,
    var: FloatingTensor,
    weight: FloatingTensor,
    bias: FloatingTensor,
    /,
    *,
    eps: float,
) -> tuple[Tensor, Tensor]:
    deduced(fold_batch_norm, w, b, mean, var, weight, bias, eps=eps)
    before, least = _buffer(b), number(eps, "eps")
    m, v, scale, offset = mean.buffer, var.buffer, weight.buffer, bias.buffer
    filters, shift = kernel.fold_batch_norm(
        w.buffer, before, m, v, scale, offset, least
    )
    return w.wrap(filters), w.wrap(shift)


@method(layer_norm, prepare=steps.layer_norm_step)
def layer_norm(
    x: FloatingTensor,
    weight: Weight,
    bias: Weight,
    /,
    *,
    normalized_shape: object,
    eps: float,
) -> Tensor:
    options = {"normalized_shape": normalized_shape, "eps": eps}
    deduced(layer_norm, x, weight, bias, **options)
    count, least = len(last_sizes(normalized_shape)), number(eps, "eps")
    affine = (_buffer(weight), _buffer(bias))
    return x.wrap(kernel.layer_norm(x.buffer, count, *affine, least))


@method(rms_norm, prepare=steps.rms_norm_step)
def rms_norm(
    x: FloatingTensor, weight: Weight, /, *, normalized_shape: object, eps: float | None
) -> Tensor:
    deduced(rms_norm, x, weight, normalized_shape=normalized_shape, eps=eps)
    count = len(last_sizes(normalized_shape))
    least = None if eps is None else number(eps, "eps")
    return x.wrap(kernel.rms_norm(x.buffer, count, _buffer(weight), least))


@method(group_norm)
def group_norm(
    x: FloatingTensor, weight: Weight, bias: Weight, /, *, num_groups: int, eps: float
) -> Tensor:
    deduced(group_norm, x, weight, bias, num_groups=num_groups, eps=eps)
    affine, least = (_buffer(weight), _buffer(bias)), number(eps, "eps")
    return x.wrap(kernel.group_norm(x.buffer, num_groups, *affine, least))


@method(instance_norm)
def instance_norm(
    x: FloatingTensor, weight: Weight, bias: Weight, /, *, eps: float
) -> Tensor:
    deduced(instance_norm, x, weight, bias, eps=eps)
    affine, least = (_buffer(weight), _buffer(bias)), number(eps, "eps")
    # Instance normalization is group normalization with one channel per group.
    return x.wrap(kernel.group_norm(x.buffer, max(x.shape[1], 1), *affine, least))


@method(normalize)
def normalize(
    x: FloatingTensor, /, *, p: float, axis: int | tuple[int, ...] | None, eps: float
) -> Tensor:
    deduced(normalize, x, p=p, axis=axis, eps=eps)
    axes, power, least = (
        normalize_axes(axis, x.ndim),
        number(p, "p"),
        number(eps, "eps"),
    )
    return x.wrap(kernel.normalize(x.buffer, power, axes, least))


def _buffer(x: Tensor | None) -> Any:
    return None if x is None else x.buffer
