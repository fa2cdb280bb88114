"""The declarations of `quantize`, `dequantize` and `requantize`."""

from typing import Any

from mdtensor import OptionError, TensorSpec, dtypes, generic, leaf
from mdtensor.quant.deduction import check_fit
from mdtensor.quant.presets import admit
from mdtensor.quant.qparams import QParams


def _infer_on_grid(x: TensorSpec, grid: object) -> TensorSpec:
    found = check_fit(grid, x.shape)
    return TensorSpec(leaf(found.dtype), x.shape, found)


def _infer_quantize(
    x: TensorSpec, *, qparams: object, rounding: str | None = None
) -> TensorSpec:
    found = _infer_on_grid(x, qparams)
    grid: QParams = found.qparams
    admit("quantize", x, out=grid if rounding is None else grid.rounded(rounding))
    return found


def _infer_requantize(x: TensorSpec, *, out: object, **_: Any) -> TensorSpec:
    # Checked here, because the error of `check_fit` names the argument `qparams`.
    if not isinstance(out, QParams):
        raise OptionError(f"out is a {type(out).__name__}", "Pass out=QParams(...)")
    found = _infer_on_grid(x, out)
    admit("requantize", x, out=out)
    return found


def _infer_dequantize(x: TensorSpec, **_: Any) -> TensorSpec:
    return TensorSpec(leaf(dtypes.float32), x.shape)


@generic(deduce=_infer_quantize)
def quantize(x: Any, /, qparams: Any, *, rounding: str | None = None) -> Any:
    """Quantize real numbers to codes on a grid.

    code = clamp(round_half_even(x / scale) + zero_point)

    Args:
        x: floating, any shape.
        qparams: the grid.
        rounding: the rounding rule, see `quant.rounding`; by default the rule of
            `qparams`.

    Returns:
        A tensor of the grid's type. Numbers beyond the ends of the grid, and
        infinities, saturate. The quotient is exact and rounded once.

    Raises:
        CastError: `x` contains a NaN.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.quant import QParams, quantize
        >>> quantize(md.asarray([0.25, 0.75, 9.0]), QParams(0.5)).codes.tolist()
        [0, 2, 18]

    Source: ONNX `QuantizeLinear`, with exact division.
    """


@generic(deduce=_infer_dequantize)
def dequantize(x: Any, /) -> Any:
    """Return the real numbers that codes represent: scale · (codes - zero_point).

    Args:
        x: quantized, any shape.

    Returns:
        Float32Tensor; the product is rounded once.

    Example:
        >>> from mdtensor.quant import QInt8Tensor, dequantize
        >>> dequantize(QInt8Tensor([1, 2], scale=0.5)).tolist()
        [0.5, 1.0]

    Source: ONNX `DequantizeLinear`.
    """


@generic(deduce=_infer_requantize)
def requantize(x: Any, /, *, out: Any, rounding: Any = None) -> Any:
    """Round codes to another grid: once, half to even; saturates.

    Args:
        x: quantized, any shape.
        out: the new grid, of any granularity.
        rounding: the rounding rule, see `quant.rounding`; by default the rule of `out`.

    Example:
        >>> from mdtensor.quant import QInt32Tensor, QParams, requantize
        >>> acc = QInt32Tensor([3, 5], scale=0.25)
        >>> requantize(acc, out=QParams(0.5)).codes.tolist()
        [2, 2]

    Source: gemmlowp, "doc/quantization.md", which rounds in fixed point, not exactly.
    """
