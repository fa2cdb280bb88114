"""Pooling of codes: a maximum stays on the grid, a mean is rounded once."""

from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

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
from mdtensor.extend import Window, check_image, flag, padding4, pool_window, shape_rule
from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.rescale import rescale
from mdtensor.quant import exact
from mdtensor.quant.codes import (
    unsigned_grid,
)
from mdtensor.quant.deduction import rounded_image, rounded_window
from mdtensor.quant.ops.bound import Run, bind_once, bind_step
from mdtensor.quant.ops.errors import require_out, require_per_tensor
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    attempt,
    find_step,
    make_step,
    require_8bit,
    require_output_grid,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import QuantizedTensor, ShortTensor, quantized, spec_of

#: The largest number of 8-bit codes whose sum fits 32 bits.
MOST_PIXELS = (2**31 - 1) // 255
#: The largest window of a compiled mean, which stores a ratio for each count of codes.
MOST_COUNTS = 1024
IntArray = npt.NDArray[np.int64]


def _window(
    shape: tuple[int, ...],
    kernel_size: object,
    stride: object,
    padding: object,
    ceil: bool,
) -> Window:
    """Return the window; for `ceil_mode` with more padding at the bottom and right."""
    check_image(shape)
    window = pool_window(kernel_size, stride, padding)
    if not flag(ceil, "ceil_mode"):
        window.slide(shape[2], shape[3])
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
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
) -> steps.MaxPool:
    """Return the step of a maximum in each window, on codes [n, h, w, c].

    Raises:
        NotCompiled: kernels cannot read the grid.
    """
    require_8bit(x.qparams)
    window = _window(x.shape, kernel_size, stride, padding, ceil_mode)
    return steps.MaxPool(window.kernel, window.stride, window.padding)


def _infer_max_pool(x: TensorSpec, **options: Any) -> TensorSpec:
    if not x.qparams.is_along(None, 0, 1):
        x.qparams.refuse_axis("grid")
    found: TensorSpec = shape_rule(max_pool2d)(x, **options)
    return found


@method(max_pool2d, deduce=_infer_max_pool, prepare=max_pool2d_step)
@bind_once
def max_pool2d(
    x: ShortTensor,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
) -> Run:
    _require_window_grid(x)
    options: dict[str, Any] = {"kernel_size": kernel_size, "stride": stride}
    options |= {"padding": padding, "ceil_mode": ceil_mode}
    prepare = partial(attempt, max_pool2d_step, spec_of(x), **options)
    step = checked("max_pool2d", (x,), prepare)
    # A maximum of codes is the maximum of their numbers, so integers can stand in.
    if step is None:
        return lambda x: quantized(max_pool2d(x.codes, **options).buffer, x.qparams)
    return bind_step(step, x, grid=x.qparams, is_image=True)


def _require_window_grid(x: QuantizedTensor) -> None:
    """Raise GridError if scales differ along height or width, which a window mixes."""
    if not x.qparams.is_along(None, 0, 1):
        require_per_tensor("max_pool2d", x)


def avg_pool2d_step(
    x: TensorSpec,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
    count_include_pad: bool,
    out: QParams | None = None,
) -> steps.AvgPool:
    """Return the step of a mean in each window, on codes [n, h, w, c].

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    source, target = (
        unsigned_grid(require_8bit(x.qparams)),
        unsigned_grid(require_output_grid(out)),
    )
    window = _window(x.shape, kernel_size, stride, padding, ceil_mode)
    # The padding that ceil_mode adds never counts, so windows there count fewer codes.
    if count_include_pad and window.padding != padding4(padding):
        raise NotCompiled(
            "a compiled mean does not take windows that ceil_mode extends"
        )
    if prod(window.kernel) > MOST_COUNTS:
        raise NotCompiled(f"a compiled mean has at most {MOST_COUNTS} codes")
    return make_step(
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
@bind_once
def avg_pool2d(
    x: ShortTensor,
    /,
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    ceil_mode: bool,
    count_include_pad: bool,
    out: QParams | None = None,
) -> Run:
    require_per_tensor("avg_pool2d", x)
    grid = require_out("avg_pool2d", out, x)
    window = checked(
        "avg_pool2d",
        (x,),
        lambda: _window(x.shape, kernel_size, stride, padding, ceil_mode),
    )
    checked("avg_pool2d", (x,), lambda: flag(count_include_pad, "count_include_pad"))
    _require_elements("avg_pool2d", x)
    border = padding4(padding) if count_include_pad else None
    if rounding_rule("avg_pool2d", grid):
        return lambda x: rounding_rule("avg_pool2d", grid)(x, window, border, grid)
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
    return bind_step(step, x, grid=grid, is_image=True)


def _require_elements(name: str, x: QuantizedTensor) -> None:
    if 0 in x.shape[2:]:
        raise ShapeError(
            "cannot quantize the mean of an empty tensor", "", describe(name, x)
        )


def _by_integers(
    x: QuantizedTensor,
    window: Window,
    border: tuple[int, int, int, int] | None,
    grid: QParams,
) -> QuantizedTensor:
    """Return the means of windows, with 64-bit sums; each quotient is rounded once."""
    # Channels are pooled alone, so each is an image of its own for the convolution.
    n, c, h, w = x.shape
    found = exact.steps_of(x).reshape(n * c, 1, h, w)
    inside = np.ones((1, 1, h, w), np.int64)
    sums = _window_sums(found, window, window.padding)
    if border is None:
        counts = _window_sums(inside, window, window.padding)
    else:
        around = zip(border, window.padding, strict=True)
        top, left, bottom, right = border
        inside = np.ones((1, 1, h + top + bottom, w + left + right), np.int64)
        counts = _window_sums(inside, window, tuple(p - b for b, p in around))
    ratio = x.qparams.fraction / grid.fraction
    rounded = np.empty(sums.shape, np.int64)
    # A mean divides by its own count, and few counts occur: those at the border.
    for count in np.unique(counts):
        at = np.broadcast_to(counts == count, sums.shape)
        rounded[at] = exact.round_sum((sums[at], ratio / int(count)))
    rounded = rounded.reshape(n, c, *sums.shape[2:])
    return quantized(exact.to_codes(rounded, grid), grid)


def _window_sums(
    images: IntArray, window: Window, padding: tuple[int, ...]
) -> IntArray:
    """Return the sum in each window: a convolution with ones."""
    ones = Int64Tensor.wrap(np.ones((1, 1, *window.kernel), np.int64))
    options: dict[str, Any] = {"stride": window.stride, "padding": padding}
    found: IntArray = conv2d(Int64Tensor.wrap(images), ones, **options).buffer
    return found


def global_avg_pool2d_step(
    x: TensorSpec, /, *, out: QParams | None = None
) -> steps.Mean:
    """Return the step of the mean of each channel, from [n, h, w, c] to [n, 1, 1, c].

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    source, target = (
        unsigned_grid(require_8bit(x.qparams)),
        unsigned_grid(require_output_grid(out)),
    )
    ratio, pixels = source.fraction / target.fraction, prod(x.shape[2:])
    if pixels > MOST_PIXELS:
        raise NotCompiled(f"a sum of {pixels} codes could leave 32 bits")
    make_step(lambda: rescale([ratio / max(pixels, 1)]))
    return steps.Mean(ratio, source.zero, target.zero)


@method(
    global_avg_pool2d,
    deduce=rounded_image,
    prepare=global_avg_pool2d_step,
)
@bind_once
def global_avg_pool2d(x: ShortTensor, /, *, out: QParams | None = None) -> Run:
    checked("global_avg_pool2d", (x,), lambda: check_image(x.shape))
    require_per_tensor("global_avg_pool2d", x)
    grid = require_out("global_avg_pool2d", out, x)
    _require_elements("global_avg_pool2d", x)
    if rounding_rule("global_avg_pool2d", grid):
        return lambda x: rounding_rule("global_avg_pool2d", grid)(x, grid)
    step = find_step(global_avg_pool2d_step, spec_of(x), out=grid)
    if step is None:
        return lambda x: mean(x, axis=(2, 3), keepdims=True, out=grid)
    return bind_step(step, x, grid=grid, is_image=True)
