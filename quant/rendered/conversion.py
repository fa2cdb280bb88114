"""Conversions between floats and codes, and between grids, on devices."""

from typing import Any, Union

from mdtensor import CastError, Device, Tensor, dtypes
from mdtensor.errors import describe
from mdtensor.extend import infer, launch, launch_counting, types_of
from mdtensor.kernels.loops.ir import apply, cast
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rendered import tables
from mdtensor.quant.rendered.rounding import Inputs, scales_of, zeros_of
from mdtensor.quant.rendered.types import (
    AFFINE,
    NARROW,
    add,
    is_exact,
    no_method,
    types_on,
)
from mdtensor.quant.tensor import QInt16Tensor, QInt32Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    floats: Any = Union[types_of(device, ("real floating",))]
    codes: Any = Union[types_on(device, AFFINE)]
    add(device, quantize, (floats,), _quantize)
    add(device, dequantize, (codes,), _dequantize)
    # Apart, as the host's methods are, or neither would be more specific.
    for kinds in (NARROW, (QInt16Tensor, QInt32Tensor)):
        add(device, requantize, (Union[types_on(device, kinds)],), _requantize)


def _quantize(x: Tensor, /, *, qparams: QParams, rounding: str | None) -> Any:
    """Round each number once. Waits for the device, to raise for a NaN."""
    spec = infer(quantize, x, qparams, rounding=rounding)
    grid = qparams if rounding is None else qparams.rounded(rounding)
    # Scales of accumulators have too many digits to decide ties in float64.
    if not is_exact(grid) or grid.dtype is qint32:
        raise no_method("quantize", x)
    inputs = Inputs(x.device, "quantize")
    number = inputs.element(x.buffer)
    unit = grid.along(grid.scale, x.shape)
    steps = inputs.rounded(cast(number, "float64"), 1.0, unit)
    loop = inputs.loop("quantize", inputs.codes(steps, grid, x.shape))
    is_unknown = apply("isnan", number)
    codes, count = launch_counting(x.device, inputs, loop, is_unknown, x.shape)
    if count:
        call = describe("quantize", x)
        raise CastError("cannot quantize NaN", "Replace NaNs first", call)
    return spec.type.wrap(codes, grid)


def _dequantize(x: Tensor, /) -> Any:
    """Round the product of step and scale once; it may not fit float64 exactly."""
    spec, inputs = infer(dequantize, x), Inputs(x.device)
    steps = inputs.steps(x.buffer, zeros_of(x))
    number = apply("mul_odd", steps, inputs.field(scales_of(x)))
    loop = inputs.loop("dequantize", cast(number, dtypes.float32.name))
    return spec.type.wrap(launch(x.device, loop, x.shape, inputs.buffers))


def _requantize(x: Any, /, *, out: QParams) -> Any:
    spec = infer(requantize, x, out=out)
    if not is_exact(out) and type(x) in types_on(x.device, NARROW):
        return tables.unary(requantize, x, out=out)
    if not is_exact(out) or out.dtype is qint32:
        raise no_method("requantize", x)
    inputs = Inputs(x.device)
    steps = inputs.steps(x.buffer, zeros_of(x))
    unit = out.along(out.scale, x.shape)
    rounded = inputs.rounded(steps, scales_of(x), unit)
    loop = inputs.loop("requantize", inputs.codes(rounded, out, x.shape))
    return spec.type.wrap(launch(x.device, loop, x.shape, inputs.buffers), out)
