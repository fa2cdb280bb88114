"""Pooling of codes: the maximum keeps the grid, a mean is rounded once."""

from typing import Any

from mdtensor import TensorSpec, avg_pool2d, global_avg_pool2d, max_pool2d, method
from mdtensor.generics.deduction import global_pooling, pooling
from mdtensor.generics.shapes import Window, check_image, pool_window
from mdtensor.kernels.cpu import steps
from mdtensor.ops.operands import checked
from mdtensor.quant.codes import (
    channels_first,
    channels_last,
    from_unsigned,
    unsigned,
    unsigned_grid,
)
from mdtensor.quant.deduction import rounded
from mdtensor.quant.ops.refusals import require_out, require_per_tensor
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, spec_of


def _window(
    shape: Any, kernel_size: Any, stride: Any, padding: Any, ceil: bool
) -> Window:
    """The window with the padding that `ceil_mode` asks for behind the image."""
    check_image(shape)
    window = pool_window(kernel_size, stride, padding)
    if not ceil:
        window.slide(*shape[2:])
        return window
    oh, ow = window.slide(*shape[2:], ceil_mode=True)
    top, left, _, _ = window.padding
    (kh, kw), (sh, sw) = window.kernel, window.stride
    bottom = max((oh - 1) * sh + kh - shape[2] - top, window.padding[2])
    right = max((ow - 1) * sw + kw - shape[3] - left, window.padding[3])
    return Window(window.kernel, window.stride, (top, left, bottom, right))


def max_pool2d_step(
    x: TensorSpec,
    /,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
) -> steps.MaxPool:
    """Codes [n, h, w, c] in and out."""
    window = _window(x.shape, kernel_size, stride, padding, ceil_mode)
    return steps.MaxPool(window.kernel, window.stride, window.padding)


@method(max_pool2d, prepare=max_pool2d_step)
def max_pool2d(
    x: NarrowTensor,
    /,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
) -> Any:
    step = checked(
        "max_pool2d",
        (x,),
        lambda: max_pool2d_step(
            spec_of(x),
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
        ),
    )
    return from_unsigned(channels_first(step(channels_last(unsigned(x)))), x.qparams)


def avg_pool2d_step(
    x: TensorSpec,
    /,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    out: QParams,
) -> steps.AvgPool:
    """Codes [n, h, w, c] in and out."""
    source, target = unsigned_grid(x.qparams), unsigned_grid(out)
    window = _window(x.shape, kernel_size, stride, padding, ceil_mode)
    return steps.AvgPool(
        window.kernel,
        window.stride,
        window.padding,
        ratio=source.fraction / target.fraction,
        x_zero_point=source.zero,
        zero_point=target.zero,
        count_include_pad=count_include_pad,
    )


@method(avg_pool2d, deduce=rounded(pooling), prepare=avg_pool2d_step)
def avg_pool2d(
    x: NarrowTensor,
    /,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    out: Any = None,
) -> Any:
    require_per_tensor("avg_pool2d", x)
    grid = require_out("avg_pool2d", out, x)
    step = checked(
        "avg_pool2d",
        (x,),
        lambda: avg_pool2d_step(
            spec_of(x),
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            out=grid,
        ),
    )
    return from_unsigned(channels_first(step(channels_last(unsigned(x)))), grid)


def global_avg_pool2d_step(x: TensorSpec, /, *, out: QParams) -> steps.Mean:
    """Codes [n, h, w, c] to [n, 1, 1, c]."""
    source, target = unsigned_grid(x.qparams), unsigned_grid(out)
    ratio = source.fraction / target.fraction
    return steps.Mean(ratio, source.zero, target.zero)


@method(
    global_avg_pool2d, deduce=rounded(global_pooling), prepare=global_avg_pool2d_step
)
def global_avg_pool2d(x: NarrowTensor, /, *, out: Any = None) -> Any:
    checked("global_avg_pool2d", (x,), lambda: check_image(x.shape))
    require_per_tensor("global_avg_pool2d", x)
    grid = require_out("global_avg_pool2d", out, x)
    step = global_avg_pool2d_step(spec_of(x), out=grid)
    return from_unsigned(channels_first(step(channels_last(unsigned(x)))), grid)
