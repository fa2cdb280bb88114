"""Pooling methods for dense tensors on the host.

1-d pooling runs as 2-d pooling of images of height 1.
"""

from mdtensor.dispatch.operation import method
from mdtensor.generics.pool import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    global_avg_pool2d,
    max_pool1d,
    max_pool2d,
)
from mdtensor.kernels.numpy import pool as kernel, reduction
from mdtensor.ops import steps
from mdtensor.ops.operands import deduced
from mdtensor.spec.windows import pool1d_window, pool_window
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, RealTensor


@method(max_pool2d, prepare=steps.max_pool2d_step)
def max_pool2d(
    x: RealTensor,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
) -> Tensor:
    options = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    size = deduced(max_pool2d, x, **options, ceil_mode=ceil_mode).shape[2:]
    window = pool_window(**options)
    steps = (window.kernel, window.stride, window.padding)
    return x.wrap(kernel.max_pool2d(x.buffer, *steps, size))


@method(avg_pool2d, prepare=steps.avg_pool2d_step)
def avg_pool2d(
    x: FloatingTensor,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    options = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    modes = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    size = deduced(avg_pool2d, x, **options, **modes).shape[2:]
    window = pool_window(**options)
    steps = (window.kernel, window.stride, window.padding)
    return x.wrap(kernel.avg_pool2d(x.buffer, *steps, size, count_include_pad))


@method(global_avg_pool2d, prepare=steps.global_avg_pool2d_step)
def global_avg_pool2d(x: FloatingTensor, /) -> Tensor:
    deduced(global_avg_pool2d, x)
    return x.wrap(reduction.mean(x.buffer, (2, 3), keepdims=True))


@method(max_pool1d)
def max_pool1d(
    x: RealTensor,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
) -> Tensor:
    options = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    size = (1, deduced(max_pool1d, x, **options, ceil_mode=ceil_mode).shape[2])
    window = pool1d_window(**options)
    steps = (window.kernel, window.stride, window.padding)
    return x.wrap(kernel.max_pool2d(x.buffer[:, :, None], *steps, size)[:, :, 0])


@method(avg_pool1d)
def avg_pool1d(
    x: FloatingTensor,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Tensor:
    options = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    modes = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    size = (1, deduced(avg_pool1d, x, **options, **modes).shape[2])
    window = pool1d_window(**options)
    steps = (window.kernel, window.stride, window.padding, size, count_include_pad)
    return x.wrap(kernel.avg_pool2d(x.buffer[:, :, None], *steps)[:, :, 0])


@method(adaptive_avg_pool2d)
def adaptive_avg_pool2d(x: FloatingTensor, /, *, output_size: object) -> Tensor:
    size = deduced(adaptive_avg_pool2d, x, output_size=output_size).shape[2:]
    return x.wrap(kernel.adaptive_avg_pool2d(x.buffer, size))


@method(adaptive_max_pool2d)
def adaptive_max_pool2d(x: RealTensor, /, *, output_size: object) -> Tensor:
    size = deduced(adaptive_max_pool2d, x, output_size=output_size).shape[2:]
    return x.wrap(kernel.adaptive_max_pool2d(x.buffer, size))
