"""Convolution of dense tensors on the host, and normalization by channel."""

from typing import Any, Union

from mdtensor.dispatch import method
from mdtensor.generics.conv import batch_norm, conv2d, fold_batch_norm
from mdtensor.generics.shapes import conv_window
from mdtensor.kernels.dense import conv as kernel
from mdtensor.leaves import FloatingTensor, NumericTensor
from mdtensor.ops.operands import deduced
from mdtensor.tensor import Tensor


@method(conv2d)
def conv2d(
    x: NumericTensor,
    w: NumericTensor,
    b: Union[NumericTensor, None],
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    spec = deduced(conv2d, x, w, b, **options, groups=groups)
    result: type[Tensor] = spec.type
    window = conv_window(w.shape, **options)
    y = kernel.conv2d(
        x.buffer,
        w.buffer,
        b if b is None else b.buffer,
        window.stride,
        window.padding,
        window.dilation,
        groups,
        result.dtype.storage,
    )
    return result.wrap(y)


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
