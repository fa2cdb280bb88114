"""The operations that quantized tensors add: on the grid, off it, and between grids."""

from typing import Any

from mdtensor import OptionError, TensorSpec, dtypes, generic, leaf
from mdtensor.quant.deduction import check_fit
from mdtensor.quant.presets import admit
from mdtensor.quant.qparams import QParams


def _on_grid(x: TensorSpec, *, qparams: Any, **_: Any) -> TensorSpec:
    check_fit(qparams, x.shape)
    return TensorSpec(leaf(qparams.dtype), x.shape, qparams)


def _quantized(x: TensorSpec, *, qparams: Any, rounding: Any = None) -> TensorSpec:
    found = _on_grid(x, qparams=qparams)
    out = qparams if rounding is None else qparams.rounded(rounding)
    admit("quantize", x, out=out)
    return found


def _on_out(x: TensorSpec, *, out: Any, **_: Any) -> TensorSpec:
    if not isinstance(out, QParams):
        raise OptionError(f"out is a {type(out).__name__}", "Pass out=QParams(...)")
    found = _on_grid(x, qparams=out)
    admit("requantize", x, out=out)
    return found


def _real(x: TensorSpec, **_: Any) -> TensorSpec:
    return TensorSpec(leaf(dtypes.float32), x.shape)


@generic(deduce=_quantized)
def quantize(x: Any, /, qparams: Any, *, rounding: Any = None) -> Any:
    """The codes of real numbers on a grid.

    code = clamp(round_half_even(x / scale) + zero_point)

    Args:
        x: floating, any shape.
        qparams: the grid.
        rounding: the rule, see `quant.rounding`; by default that of `qparams`.

    Returns:
        The tensor of the grid's type. Numbers past the ends of the grid, infinities
        included, saturate. The quotient is exact: it is rounded once.

    Raises:
        CastError: `x` holds a NaN.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.quant import QParams, quantize
        >>> quantize(md.asarray([0.25, 0.75, 9.0]), QParams(0.5)).codes.tolist()
        [0, 2, 18]

    Source: ONNX `QuantizeLinear`, with exact division.
    """


@generic(deduce=_real)
def dequantize(x: Any, /) -> Any:
    """The real numbers that codes stand for: scale · (codes - zero_point).

    Args:
        x: quantized, any shape.

    Returns:
        Float32Tensor; the product rounds once.

    Example:
        >>> from mdtensor.quant import QInt8Tensor, dequantize
        >>> dequantize(QInt8Tensor([1, 2], scale=0.5)).tolist()
        [0.5, 1.0]

    Source: ONNX `DequantizeLinear`.
    """


@generic(deduce=_on_out)
def requantize(x: Any, /, *, out: Any, rounding: Any = None) -> Any:
    """The same real numbers on another grid; rounds once, half to even; saturates.

    Args:
        x: quantized, any shape.
        out: the new grid, of any granularity.
        rounding: the rule, see `quant.rounding`; by default that of `out`.

    Example:
        >>> from mdtensor.quant import QInt32Tensor, QParams, requantize
        >>> acc = QInt32Tensor([3, 5], scale=0.25)
        >>> requantize(acc, out=QParams(0.5)).codes.tolist()
        [2, 2]

    Source: gemmlowp, "doc/quantization.md"; the rounding is exact, not fixed point.
    """
