"""Pooling of codes: the maximum keeps the grid, a mean is rounded once."""

from functools import partial
from math import prod
from typing import Any

import numpy as np

from mdtensor import (
    Int64Tensor,
    ShapeError,
    TensorSpec,
    avg_pool2d,
    conv2d,
    global_avg_pool2d,
    max_pool2d,
    mean,
    method,
)
from mdtensor.errors import checked, describe
from mdtensor.generics.conv import pooling
from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.rescale import rescale
from mdtensor.quant import exact
from mdtensor.quant.codes import (
    unsigned_grid,
)
from mdtensor.quant.deduction import rounded_image, rounded_window
from mdtensor.quant.ops.bound import bound, bound_step
from mdtensor.quant.ops.errors import require_out, require_per_tensor
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    attempt,
    compiled,
    held,
    narrow,
    step_of_codes,
)
from mdtensor.quant.presets import ruled
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import ShortTensor, quantized, spec_of
from mdtensor.spec.windows import Window, check_image, padding4, pool_window

#: Sums of this many codes stay inside 32 bits.
MOST_PIXELS = (2**31 - 1) // 255
#: A compiled mean has a ratio for each number of codes that a window may hold.
MOST_COUNTS = 1024


def _window(
    shape: Any, kernel_size: Any, stride: Any, padding: Any, ceil: bool
) -> Window:
    """The window with the padding that `ceil_mode` asks for behind the image."""
    check_image(shape)
    window = pool_window(kernel_size, stride, padding)
    if not ceil:
        window.slide(*shape[2:])
        return window
    oh, ow = window.slide(shape[2], shape[3], ceil_mode=True)
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
    held(x.qparams)
    window = _window(x.shape, kernel_size, stride, padding, ceil_mode)
    return steps.MaxPool(window.kernel, window.stride, window.padding)


def _max_pooled(x: TensorSpec, **options: Any) -> TensorSpec:
    if not x.qparams.is_along(None, 0, 1):
        x.qparams.refuse_axis("grid")
    return pooling(x, **options)


@method(max_pool2d, deduce=_max_pooled, prepare=max_pool2d_step)
@bound
def max_pool2d(
    x: ShortTensor,
    /,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
) -> Any:
    _refuse_moving_axis(x)
    options = {"kernel_size": kernel_size, "stride": stride}
    options |= {"padding": padding, "ceil_mode": ceil_mode}
    prepare = partial(attempt, max_pool2d_step, spec_of(x), **options)
    step = checked("max_pool2d", (x,), prepare)
    if step is None:
        return lambda x: quantized(max_pool2d(x.codes, **options).buffer, x.qparams)
    return bound_step(step, x, grid=x.qparams, is_image=True)


def _refuse_moving_axis(x: Any) -> None:
    """A window mixes codes along height and width: they need one grid."""
    if not x.qparams.is_along(None, 0, 1):
        require_per_tensor("max_pool2d", x)


def avg_pool2d_step(
    x: TensorSpec,
    /,
    *,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    out: QParams | None = None,
) -> steps.AvgPool:
    """Codes [n, h, w, c] in and out."""
    source, target = unsigned_grid(held(x.qparams)), unsigned_grid(narrow(out))
    window = _window(x.shape, kernel_size, stride, padding, ceil_mode)
    if count_include_pad and window.padding != padding4(padding):
        raise NotCompiled("a compiled mean counts whole windows")
    if prod(window.kernel) > MOST_COUNTS:
        raise NotCompiled(f"a compiled mean is of at most {MOST_COUNTS} codes")
    return compiled(
        lambda: steps.AvgPool(
            window.kernel,
            window.stride,
            window.padding,
            ratio=source.fraction / target.fraction,
            x_zero_point=source.zero,
            zero_point=target.zero,
            count_include_pad=count_include_pad,
        )
    )


@method(
    avg_pool2d,
    deduce=rounded_window,
    prepare=avg_pool2d_step,
)
@bound
def avg_pool2d(
    x: ShortTensor,
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
    window = checked(
        "avg_pool2d",
        (x,),
        lambda: _window(x.shape, kernel_size, stride, padding, ceil_mode),
    )
    _refuse_nothing("avg_pool2d", x)
    border = padding4(padding) if count_include_pad else None
    if ruled("avg_pool2d", grid):
        return lambda x: ruled("avg_pool2d", grid)(x, window, border, grid)
    step = attempt(
        avg_pool2d_step,
        spec_of(x),
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        out=grid,
    )
    if step is None:
        return lambda x: _by_integers(x, window, border, grid)
    return bound_step(step, x, grid=grid, is_image=True)


def _refuse_nothing(name: str, x: Any) -> None:
    if 0 in x.shape[2:]:
        raise ShapeError(
            "cannot quantize the mean of an empty tensor", "", describe(name, x)
        )


def _by_integers(x: Any, window: Window, border: Any, grid: QParams) -> Any:
    """Sums and counts of windows on 64-bit integers; each quotient rounds once."""
    n, c, h, w = x.shape
    found = exact.steps_of(x).reshape(n * c, 1, h, w)
    inside = np.ones((1, 1, h, w), np.int64)
    sums = _summed(found, window, window.padding)
    if border is None:
        counts = _summed(inside, window, window.padding)
    else:
        around = zip(border, window.padding, strict=True)
        top, left, bottom, right = border
        inside = np.ones((1, 1, h + top + bottom, w + left + right), np.int64)
        counts = _summed(inside, window, tuple(p - b for b, p in around))
    ratio = x.qparams.fraction / grid.fraction
    rounded = np.empty(sums.shape, np.int64)
    for count in np.unique(counts):
        at = np.broadcast_to(counts == count, sums.shape)
        rounded[at] = exact.round_sum((sums[at], ratio / int(count)))
    rounded = rounded.reshape(n, c, *sums.shape[2:])
    return quantized(exact.to_codes(rounded, grid), grid)


def _summed(images: Any, window: Window, padding: Any) -> Any:
    ones = Int64Tensor.wrap(np.ones((1, 1, *window.kernel), np.int64))
    options = {"stride": window.stride, "padding": padding}
    return conv2d(Int64Tensor.wrap(images), ones, **options).buffer


def global_avg_pool2d_step(
    x: TensorSpec, /, *, out: QParams | None = None
) -> steps.Mean:
    """Codes [n, h, w, c] to [n, 1, 1, c]."""
    source, target = unsigned_grid(held(x.qparams)), unsigned_grid(narrow(out))
    ratio, pixels = source.fraction / target.fraction, prod(x.shape[2:])
    if pixels > MOST_PIXELS:
        raise NotCompiled(f"a sum of {pixels} codes could leave 32 bits")
    compiled(lambda: rescale([ratio / max(pixels, 1)]))
    return steps.Mean(ratio, source.zero, target.zero)


@method(
    global_avg_pool2d,
    deduce=rounded_image,
    prepare=global_avg_pool2d_step,
)
@bound
def global_avg_pool2d(x: ShortTensor, /, *, out: Any = None) -> Any:
    checked("global_avg_pool2d", (x,), lambda: check_image(x.shape))
    require_per_tensor("global_avg_pool2d", x)
    grid = require_out("global_avg_pool2d", out, x)
    _refuse_nothing("global_avg_pool2d", x)
    if ruled("global_avg_pool2d", grid):
        return lambda x: ruled("global_avg_pool2d", grid)(x, grid)
    step = step_of_codes(global_avg_pool2d_step, spec_of(x), out=grid)
    if step is None:
        return lambda x: mean(x, axis=(2, 3), keepdims=True, out=grid)
    return bound_step(step, x, grid=grid, is_image=True)
