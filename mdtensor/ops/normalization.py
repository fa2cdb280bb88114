"""Normalization of dense tensors on the host."""

from typing import Union

from mdtensor.dispatch import method
from mdtensor.generics.normalization import batch_norm, fold_batch_norm
from mdtensor.kernels.dense import normalization as kernel
from mdtensor.leaves import FloatingTensor
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor


@method(batch_norm)
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
    deduced(batch_norm, x, mean, var, weight, bias)
    m, v, s, b = mean.buffer, var.buffer, weight.buffer, bias.buffer
    return x.wrap(kernel.batch_norm(x.buffer, m, v, s, b, eps))


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
    deduced(fold_batch_norm, w, b, mean, var, weight, bias)
    before = b if b is None else b.buffer
    m, v, scale, offset = mean.buffer, var.buffer, weight.buffer, bias.buffer
    filters, shift = kernel.fold_batch_norm(w.buffer, before, m, v, scale, offset, eps)
    return w.wrap(filters), w.wrap(shift)
