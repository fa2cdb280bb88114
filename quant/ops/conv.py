"""Convolution of codes: exact accumulators, or rounded once to `out`."""

from typing import Any, Union

import numpy as np

from mdtensor import (
    FloatingTensor,
    GridError,
    Int64Tensor,
    NumericTensor,
    TensorSpec,
    conv2d,
    method,
)
from mdtensor.errors import describe
from mdtensor.generics.shapes import conv_shape, conv_window
from mdtensor.kernels.cpu import steps
from mdtensor.ops.operands import checked
from mdtensor.quant import rounding
from mdtensor.quant.codes import (
    channels_first,
    channels_last,
    from_unsigned,
    unsigned,
    unsigned_grid,
)
from mdtensor.quant.deduction import rounded_conv
from mdtensor.quant.generics import dequantize
from mdtensor.quant.ops.refusals import (
    check_accumulator,
    refuse_mixed,
    require_per_tensor,
)
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    AffineTensor,
    NarrowTensor,
    QInt8Tensor,
    QInt32Tensor,
    QuantizedTensor,
    quantized,
    spec_of,
)

Bias = Union[QInt32Tensor, None]
AnyBias = Union[NumericTensor, QuantizedTensor, None]
#: A bias read from a file has its scale rounded to float32.
BIAS_TOLERANCE = 2.0**-23


def conv2d_step(
    x: TensorSpec,
    w: QInt8Tensor,
    b: Bias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: QParams | None = None,
) -> steps.Conv2d:
    """Weights packed for this CPU; codes in and out are channels last."""
    window = conv_window(w.shape, stride, padding, dilation)
    check_products("conv2d", x.qparams, w, b)
    return steps.Conv2d(
        w.buffer,
        None if b is None else b.buffer,
        stride=window.stride,
        padding=window.padding,
        dilation=window.dilation,
        groups=groups,
        **rounding_of(x.qparams, w, out),
    )


def rounding_of(x: QParams, w: Any, out: QParams | None) -> dict[str, Any]:
    """What a step of products needs to know of the grids."""
    source = unsigned_grid(x)
    found: dict[str, Any] = {"x_zero_point": source.zero}
    if out is not None:
        target = unsigned_grid(out)
        unit = source.fraction / target.fraction
        scales = w.qparams.fractions
        scales = scales if len(scales) > 1 else scales * w.shape[0]
        found |= {"ratios": [unit * s for s in scales], "zero_point": target.zero}
    return found


def check_products(name: str, x: QParams, w: Any, b: Bias) -> None:
    """Refuse sums that could leave 32 bits, and a bias on another grid.

    Raises:
        GridError: either.
    """
    weights = np.abs(w.buffer.astype(np.int64)).reshape(w.shape[0], -1).sum(axis=1)
    offset = 0 if b is None else np.abs(b.buffer.astype(np.int64)).max(initial=0)
    check_accumulator(name, (2 * 255 * weights + offset).tolist(), w)
    if b is not None:
        _check_bias_grid(name, product_scale(x, w), b)


def product_scale(x: QParams, w: Any) -> Any:
    """The scale of products: exact in float64."""
    return float(x.scale) * w.qparams.scale


def _check_bias_grid(name: str, wanted: Any, b: QInt32Tensor) -> None:
    given = b.qparams.scale
    if np.abs(given - wanted).max() > BIAS_TOLERANCE * np.max(wanted):
        raise GridError(
            f"the bias has ({b.qparams.describe()}), the products have scales "
            f"{np.min(wanted):.6g}..{np.max(wanted):.6g}",
            "Quantize the bias with scale = scale of x times scale of w",
            describe(name, b),
        )


@method(conv2d, deduce=rounded_conv, prepare=conv2d_step)
def conv2d(
    x: NarrowTensor,
    w: QInt8Tensor,
    b: Bias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: Any = None,
) -> Any:
    options = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    _check("conv2d", x, w, b, **options)
    if w.qparams.zero_point.any():
        return _by_integers(x, w, b, options, out)
    step = conv2d_step(spec_of(x), w, b, **options, out=out)
    image = channels_first(step(channels_last(unsigned(x))))
    if out is not None:
        return from_unsigned(image, out)
    return QInt32Tensor.wrap(image, accumulator_grid(x.qparams, w, axis=1))


@method(conv2d, deduce=rounded_conv)
def conv2d(
    x: NarrowTensor,
    w: NarrowTensor,
    b: Bias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: Any = None,
) -> Any:
    options = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    _check("conv2d", x, w, b, **options)
    return _by_integers(x, w, b, options, out)


@method(conv2d)
def conv2d(
    x: FloatingTensor,
    w: AffineTensor,
    b: Union[FloatingTensor, None],
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """Weight-only: the weights become numbers, the images stay numbers."""
    return conv2d(
        x,
        dequantize(w),
        b,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


@method(conv2d)
def conv2d(
    x: Union[QuantizedTensor, NumericTensor],
    w: Union[QuantizedTensor, NumericTensor],
    b: AnyBias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: Any = None,
) -> Any:
    refuse_mixed("conv2d", x, w, b)


def _check(
    name: str,
    x: Any,
    w: Any,
    b: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> None:
    def rule() -> None:
        window = conv_window(w.shape, stride, padding, dilation)
        conv_shape(x.shape, w.shape, None if b is None else b.shape, window, groups)

    checked(name, (x, w, b), rule)
    require_per_tensor(name, x)
    if w.qparams.axis not in (None, 0):
        raise GridError(
            f"weights have scales along axis {w.qparams.axis}",
            "Give them one scale for each output channel: axis=0",
            describe(name, x, w, b),
        )


def accumulator_grid(x: QParams, w: Any, axis: int) -> QParams:
    """The grid of products: scale of x times scale of w, along `axis` of the result."""
    scale = product_scale(x, w)
    where = None if w.qparams.axis is None else axis
    return QParams(scale, dtype=QInt32Tensor.dtype, axis=where)


def _by_integers(x: Any, w: Any, b: Any, options: dict[str, Any], out: Any) -> Any:
    """Any zero points, on 64-bit integers: exact, and as slow as that is."""
    steps_of_x, steps_of_w = (Int64Tensor.wrap(rounding.steps_of(t)) for t in (x, w))
    if b is not None:
        _check_bias_grid("conv2d", product_scale(x.qparams, w), b)
    bias = None if b is None else Int64Tensor.wrap(b.buffer.astype(np.int64))
    sums = conv2d(steps_of_x, steps_of_w, bias, **options).buffer
    return finish("conv2d", sums, accumulator_grid(x.qparams, w, axis=1), out, x, w)


def finish(
    name: str, sums: Any, grid: QParams, out: QParams | None, *arguments: Any
) -> Any:
    """64-bit sums as an accumulator that fits 32 bits, or rounded to `out`."""
    if out is not None:
        return quantized(rounding.rescale(sums, grid, out), out)
    check_accumulator(name, [int(np.abs(sums).max(initial=0))], *arguments)
    return QInt32Tensor.wrap(sums.astype(np.int32), grid)
