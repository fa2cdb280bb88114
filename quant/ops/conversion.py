"""On the grid, off it, and between grids."""

from typing import Any

import numpy as np

from mdtensor import (
    CastError,
    FloatingTensor,
    OptionError,
    TensorSpec,
    dtypes,
    method,
)
from mdtensor.errors import describe
from mdtensor.kernels.cpu import steps
from mdtensor.quant import rounding, tables
from mdtensor.quant.codes import unsigned_grid
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, QInt32Tensor, QuantizedTensor, quantized
from mdtensor.tensor import Float32Tensor


def quantize_step(x: TensorSpec, /, *, qparams: QParams) -> steps.Quantize:
    """Float32 to codes; images [n, c, h, w] become channels last."""
    if x.dtype is not dtypes.float32:
        raise OptionError(f"a compiled step takes float32, not {x.dtype}")
    grid = unsigned_grid(qparams)
    return steps.Quantize(float(grid.scale), grid.zero, channels_first=x.ndim == 4)


@method(quantize, prepare=quantize_step)
def quantize(x: FloatingTensor, /, *, qparams: QParams) -> Any:
    values = x.buffer.astype(np.float64)
    if np.isnan(values).any():
        raise CastError(
            "NaN has no code",
            "Replace NaNs first",
            describe("quantize", x),
        )
    # The quotient of two float32 numbers is a tie in float64 exactly when it is one.
    limit = float(2**31)
    steps_from_zero = np.rint(
        np.clip(values / qparams.along(qparams.scale, x.ndim), -limit, limit)
    )
    return quantized(
        rounding.to_codes(steps_from_zero.astype(np.int64), qparams), qparams
    )


def dequantize_step(x: TensorSpec, /) -> steps.Dequantize:
    """Codes to float32, in the same order."""
    if x.ndim == 4:
        raise OptionError("codes of images are channels last, float images are not")
    grid = unsigned_grid(x.qparams)
    return steps.Dequantize(float(grid.scale), grid.zero)


@method(dequantize, prepare=dequantize_step)
def dequantize(x: QuantizedTensor, /) -> Float32Tensor:
    scale = x.qparams.along(x.qparams.scale, x.ndim)
    return Float32Tensor.wrap((rounding.steps_of(x) * scale).astype(np.float32))


def requantize_step(x: TensorSpec, /, *, out: QParams) -> steps.Lookup:
    """8-bit codes to another grid: a table."""
    source, target = unsigned_grid(x.qparams), unsigned_grid(out)
    return steps.Lookup(tables.cached(tables.identity, source, target))


@method(requantize, prepare=requantize_step)
def requantize(x: NarrowTensor, /, *, out: QParams) -> Any:
    return _rescaled(x, out)


@method(requantize)
def requantize(x: QInt32Tensor, /, *, out: QParams) -> Any:
    return _rescaled(x, out)


def _rescaled(x: Any, out: QParams) -> Any:
    out.refuse_axis("target grid")
    return quantized(rounding.rescale(rounding.steps_of(x), x.qparams, out), out)
