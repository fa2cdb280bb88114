"""The operations that each preset defines, with their kernels and checks.

Each row maps the names of operations to calls. The checks raise for calls that the
library does not compute, or passes to a kernel that is not reproduced here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor import DType, conv2d, linear, matmul
from mdtensor.kernels.presets import onnx, ort, tflite, xnnpack
from mdtensor.kernels.presets.fixed_point import quantize_multiplier
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.grids.combine import Operand
from mdtensor.quant.presets import calls
from mdtensor.quant.presets.calls import (
    ApproximateCurveCall,
    ConcatCall,
    CurveCall,
    EitherCall,
    ImageMeanCall,
    IntegerCurveCall,
    Kernel,
    PairCall,
    PixelMeanCall,
    PoolCall,
    Preset,
    ProductCall,
    QuantizeCall,
    RequantizeCall,
    SoftmaxCall,
    StepwiseCurveCall,
    WholePoolCall,
)
from mdtensor.quant.qparams import QParams

Row = dict[str, Preset]
CURVES = ("relu", "relu6", "clip", "exp", "elu", "selu")
#: Functions that ONNX Runtime approximates; so is `gelu` by tanh.
APPROXIMATED = ("sigmoid", "tanh", "silu", "mish")
#: Functions that are sums, products and quotients, which have ties on decimal grids.
STEPWISE = ("hardsigmoid", "hardswish", "leaky_relu", "softsign")


def _check_8bit(rule: str, operation: str, *given: Any) -> None:
    """Raise unless all tensors or grids have 8-bit codes, of one type or several."""
    calls.require_8bit(rule, operation, *(getattr(x, "qparams", x) for x in given))


def _check_integers(rule: str, operation: str, *grids: QParams) -> None:
    """Raise unless all grids have integer codes, of any width."""
    calls.require_integers(rule, operation, *grids)


def _check_one_type(rule: str, operation: str, *given: Any) -> None:
    """Raise unless all tensors or grids have the same 8-bit type."""
    calls.require_one_type(rule, operation, *(getattr(x, "qparams", x) for x in given))


def _check_one_shape(
    rule: str, operation: str, x1: Operand, x2: Operand, out: QParams
) -> None:
    """Raise unless both tensors have one 8-bit type and one shape."""
    calls.require_one_type(rule, operation, x1.qparams, x2.qparams, out)
    calls.require_one_shape(rule, operation, x1, x2)


def _check_weights(
    rule: str, operation: str, x: Operand, w: Operand, out: QParams
) -> None:
    """Raise unless activations have one type, and weights are symmetric or quint8."""
    # LiteRT does not have uint8 activations with int8 weights. They stand for the qint8
    # codes that are 128 less, whose sums are the same (decision 0019).
    calls.require_one_type(rule, operation, x.qparams, out)
    calls.require_symmetric_weights(rule, operation, x, w)


def _check_weights_ort(
    rule: str, operation: str, x: Operand, w: Operand, out: QParams
) -> None:
    """Raise unless activations have one type, and weights that type or qint8."""
    calls.require_one_type(rule, operation, x.qparams, out)
    calls.require_8bit(rule, operation, w.qparams)
    if w.dtype not in (qint8, x.dtype):
        fix = "Use qint8 for the weights, or quint8 for the activations"
        calls.refuse(rule, operation, f"it does not have {x.dtype} by {w.dtype}", fix)


def _check_matmul(
    rule: str, operation: str, x1: Operand, x2: Operand, out: QParams
) -> None:
    """Raise unless each tensor has one scale and the left one the type of `out`."""
    # LiteRT accepts scales along an axis and then computes wrong codes (decision 0019).
    calls.require_one_type(rule, operation, x1.qparams, out)
    calls.require_8bit(rule, operation, x2.qparams)
    calls.require_one_scale(rule, operation, x1.qparams, x2.qparams, out)


def _check_matmul_xnnpack(
    rule: str, operation: str, x1: Operand, x2: Operand, out: QParams
) -> None:
    _check_matmul(rule, operation, x1, x2, out)
    calls.require_near_products(rule, operation, x1, x2, out)


def _check_same_grid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.require_one_type(rule, operation, source, out)
    calls.require_same_grid(rule, operation, source, out)


def _check_mean(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.require_one_type(rule, operation, source, out)
    ratio = np.float32(source.scale) / np.float32(out.scale)
    calls.require_ratio(rule, operation, ratio, 2.0**-20, 2.0**20)


def _check_fixed_grid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.require_one_type(rule, operation, source, out)
    calls.require_bounded_grid(rule, operation, out)


def _check_hardswish(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """Raise if LiteRT's kernel would have to shift its product to the left."""
    calls.require_one_type(rule, operation, source, out)
    ratio = np.float32(source.scale / 128) / np.float32(out.scale)
    if quantize_multiplier(ratio)[1] > 0:
        calls.require_ratio(rule, operation, ratio, 0, 1)


def _check_sum_xnnpack(
    rule: str, operation: str, x1: Operand, x2: Operand, out: QParams
) -> None:
    calls.require_one_type(rule, operation, x1.qparams, x2.qparams, out)
    for x in (x1, x2):
        ratio = np.float32(x.qparams.scale) / np.float32(out.scale)
        calls.require_ratio(rule, operation, ratio, 2.0**-10, 2.0**8)


def _check_mul_xnnpack(
    rule: str, operation: str, x1: Operand, x2: Operand, out: QParams
) -> None:
    calls.require_one_type(rule, operation, x1.qparams, x2.qparams, out)
    ratio = np.float32(x1.qparams.scale) * np.float32(x2.qparams.scale)
    calls.require_ratio(
        rule, operation, ratio / np.float32(out.scale), 2.0**-16, 2.0**8
    )


def _check_one_scale(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """Raise unless both grids have 8-bit codes and one scale."""
    calls.require_8bit(rule, operation, source, out)
    calls.require_one_scale(rule, operation, source, out)


def _check_concat(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """Raise if qint8 arrays are on several grids, which only quint8 may be."""
    calls.require_one_type(rule, operation, source, out)
    _check_one_scale(rule, operation, source, out)
    calls.require_concat_grid(rule, operation, source, out)


def _check_requantize_xnnpack(
    rule: str, operation: str, source: QParams, out: QParams
) -> None:
    calls.require_one_type(rule, operation, source, out)
    _check_one_scale(rule, operation, source, out)
    ratio = np.float32(source.scale) / np.float32(out.scale)
    calls.require_ratio(rule, operation, ratio, 2.0**-8, 2.0**7)


def _check_weights_xnnpack(
    rule: str, operation: str, x: Operand, w: Operand, out: QParams
) -> None:
    _check_weights(rule, operation, x, w, out)
    calls.require_near_products(rule, operation, x, w, out)


def _is_depthwise(x: Operand, *rest: Any, groups: int = 1, **_: Any) -> bool:
    return groups > 1 and groups == x.shape[1]


def _changes_type(x: Operand, out: QParams) -> bool:
    """Return whether 8-bit codes become codes of the other 8-bit type."""
    return x.dtype is not qint32 and x.dtype is not out.dtype


def _has_right_zero(x1: Operand, x2: Operand, out: QParams) -> bool:
    """Return whether the right zero point is 0, or 128 of quint8, which equals it."""
    middle = 128 if x2.dtype is quint8 else 0
    return bool((x2.qparams.zero_point == middle).all())


def _has_unsigned_weights(x: Operand, w: Operand, *_: Any, **__: Any) -> bool:
    """Return whether the weights have quint8 codes."""
    return w.dtype is quint8


def _is_integer_on_arm(x: Operand, w: Operand, *rest: Any, **options: Any) -> bool:
    """Return whether XNNPACK on Arm rescales the sums in integers.

    XNNPACK does so for quint8 weights, and for depthwise layers with one scale.
    """
    is_one = w.qparams.axis is None
    return _has_unsigned_weights(x, w) or (is_one and _is_depthwise(x, **options))


def _is_by_tanh(*given: Any, approximate: str = "none") -> bool:
    """Return whether `gelu` is computed by tanh."""
    return approximate == "tanh"


def _products(
    rule: str, kernel: Kernel, check: Callable[..., None], *operations: Any
) -> Row:
    """Return the calls of `operations`, which all round by one kernel."""
    named = {operation.__name__: operation for operation in operations}
    return {n: ProductCall(rule, n, kernel, check, f) for n, f in named.items()}


def _onnx(rule: str = "onnx") -> Row:
    # ONNX defines quantized operators through float ones, so 8-bit types may mix.
    pairs = ("add", "sub", "mul", "div", "minimum", "maximum")
    row: Row = {n: PairCall(rule, n, getattr(onnx, n), _check_8bit) for n in pairs}
    row |= {n: CurveCall(rule, n, onnx.curve, _check_8bit) for n in CURVES}
    row |= {
        n: StepwiseCurveCall(rule, n, getattr(onnx, n), _check_8bit) for n in STEPWISE
    }
    row |= {
        n: ApproximateCurveCall(rule, n, getattr(onnx, n), _check_8bit)
        for n in APPROXIMATED
    }
    row |= _products(rule, onnx.products, _check_8bit, matmul, linear, conv2d)
    moved = (rule, "requantize", onnx.requantize, _check_8bit, onnx.products)
    pooled = (rule, "global_avg_pool2d", onnx.image_mean, _check_8bit)
    by_erf = CurveCall(rule, "gelu", onnx.curve, _check_8bit)
    by_tanh = ApproximateCurveCall(rule, "gelu", onnx.gelu_tanh, _check_8bit)
    return row | {
        "gelu": EitherCall(by_erf, by_tanh, _is_by_tanh),
        "quantize": QuantizeCall(rule, "quantize", onnx.quantize, _check_integers),
        "requantize": RequantizeCall(*moved),
        "softmax": SoftmaxCall(rule, "softmax", onnx.softmax, _check_8bit),
        "concat": ConcatCall(rule, "concat", onnx.requantize, _check_8bit),
        "avg_pool2d": PoolCall(rule, "avg_pool2d", onnx.avg_pool, _check_8bit),
        "global_avg_pool2d": PixelMeanCall(*pooled),
    }


def _ort(rule: str = "ort_cpu") -> Row:
    moved = (rule, "requantize", ort.requantize, _check_8bit, ort.products)
    pooled = (rule, "global_avg_pool2d", ort.global_avg_pool, _check_one_type, False)
    # Without a quantized operator, the optimizer leaves the float operator between
    # DequantizeLinear and QuantizeLinear, which computes as `onnx` (decision 0019).
    row = _onnx(rule)
    row |= _products(rule, ort.products, _check_weights_ort, matmul, linear, conv2d)
    return row | {
        "quantize": QuantizeCall(rule, "quantize", ort.quantize, _check_8bit),
        "requantize": RequantizeCall(*moved),
        "add": PairCall(rule, "add", ort.add, _check_one_shape),
        "mul": PairCall(rule, "mul", ort.mul, _check_one_type),
        "softmax": SoftmaxCall(rule, "softmax", ort.softmax, _check_one_type),
        "concat": ConcatCall(rule, "concat", ort.requantize, _check_one_type),
        # ONNX does not count what ceil_mode adds beyond the padding; QLinear does.
        "avg_pool2d": WholePoolCall(rule, "avg_pool2d", ort.avg_pool, _check_one_type),
        "global_avg_pool2d": ImageMeanCall(*pooled),
        "sigmoid": ApproximateCurveCall(rule, "sigmoid", onnx.sigmoid, _check_one_type),
        "leaky_relu": StepwiseCurveCall(
            rule, "leaky_relu", onnx.leaky_relu, _check_one_type
        ),
    }


def _means(rule: str, mean: Kernel) -> EitherCall:
    """Return the call for means of whole images.

    On the grid of the image it is AVERAGE_POOL_2D, on another grid MEAN.
    """
    name = "global_avg_pool2d"
    return EitherCall(
        ImageMeanCall(rule, name, tflite.global_avg_pool, _check_same_grid, True),
        ImageMeanCall(rule, name, mean, _check_mean, True),
        lambda x, out: x.qparams != out,
    )


def _litert(rule: str, softmax: Kernel, mean: Kernel) -> Row:
    """Return the calls that LiteRT computes alike with and without optimization."""
    return {
        "sigmoid": CurveCall(rule, "sigmoid", tflite.curve, _check_fixed_grid),
        "tanh": CurveCall(rule, "tanh", tflite.curve, _check_fixed_grid),
        "hardswish": IntegerCurveCall(
            rule, "hardswish", tflite.hardswish, _check_hardswish
        ),
        "softmax": SoftmaxCall(rule, "softmax", softmax, _check_fixed_grid),
        "avg_pool2d": PoolCall(rule, "avg_pool2d", tflite.avg_pool, _check_same_grid),
        "global_avg_pool2d": _means(rule, mean),
        "concat": ConcatCall(rule, "concat", tflite.concat, _check_concat),
        "matmul": ProductCall(
            rule, "matmul", tflite.products_ref, _check_matmul, matmul
        ),
        "sub": PairCall(rule, "sub", tflite.sub, _check_one_type),
        "mul": PairCall(rule, "mul", tflite.mul, _check_one_type),
    }


def _litert_ref(rule: str = "tflite_ref") -> Row:
    moved = (
        rule,
        "requantize",
        tflite.requantize_ref,
        _check_one_scale,
        tflite.products_ref,
    )
    return _litert(rule, tflite.softmax_ref, tflite.mean_ref) | {
        "quantize": QuantizeCall(
            rule, "quantize", tflite.quantize_ref, _check_one_type
        ),
        "requantize": RequantizeCall(*moved),
        "add": PairCall(rule, "add", tflite.add_ref, _check_one_type),
        "linear": ProductCall(
            rule, "linear", tflite.linear_ref, _check_weights, linear
        ),
        "conv2d": ProductCall(
            rule, "conv2d", tflite.products_ref, _check_weights, conv2d
        ),
    }


def _requantize_opt(rule: str) -> RequantizeCall:
    moved = ("requantize", tflite.requantize_opt, _check_one_scale, tflite.products_opt)
    return RequantizeCall(rule, *moved)


def _litert_opt(rule: str = "tflite_opt") -> Row:
    row = _litert(rule, tflite.softmax_opt, tflite.mean_opt)
    row |= _products(rule, tflite.products_opt, _check_weights, linear, conv2d)
    # LiteRT's optimized depthwise kernel rounds uint8 as its reference (decision 0019).
    each = EitherCall(
        ProductCall(rule, "conv2d", tflite.depthwise_opt, _check_weights, conv2d),
        ProductCall(rule, "conv2d", tflite.products_ref, _check_weights, conv2d),
        _has_unsigned_weights,
    )
    return row | {
        "conv2d": EitherCall(row["conv2d"], each, _is_depthwise),
        "quantize": QuantizeCall(
            rule, "quantize", tflite.quantize_opt, _check_one_type
        ),
        "requantize": _requantize_opt(rule),
        "add": EitherCall(
            PairCall(rule, "add", tflite.add_opt, _check_one_shape),
            PairCall(rule, "add", tflite.add_opt_u8, _check_one_shape),
            lambda x1, x2, out: out.dtype is quint8,
        ),
    }


def _xnnpack(rule: str) -> Row:
    # The checks limit ratios of scales: XNNPACK does not take others.
    moved = (
        rule,
        "requantize",
        xnnpack.requantize,
        _check_requantize_xnnpack,
        xnnpack.products,
    )
    row: Row = {
        "quantize": QuantizeCall(rule, "quantize", xnnpack.quantize, _check_one_type),
        "requantize": RequantizeCall(*moved),
        "add": PairCall(rule, "add", xnnpack.add, _check_sum_xnnpack),
        "sub": PairCall(rule, "sub", xnnpack.sub, _check_sum_xnnpack),
        "mul": PairCall(rule, "mul", xnnpack.mul, _check_mul_xnnpack),
    }
    row |= _products(rule, xnnpack.products, _check_weights_xnnpack, linear, conv2d)
    for name in ("sigmoid", "tanh"):
        row[name] = CurveCall(rule, name, xnnpack.curve, _check_fixed_grid)
    return row


def _xnnpack_x86(rule: str = "xnnpack_x86") -> Row:
    """Return the calls of XNNPACK as a delegate of LiteRT.

    LiteRT runs the other operations by its optimized kernels.
    """
    others = ("hardswish", "softmax", "avg_pool2d", "global_avg_pool2d", "concat")
    rest = _litert(rule, tflite.softmax_opt, xnnpack.mean)
    row = {name: rest[name] for name in others} | _xnnpack(rule)
    product = _products(rule, xnnpack.products, _check_matmul_xnnpack, matmul)["matmul"]
    # XNNPACK takes a matmul only if the right zero point is 0, and never changes the
    # type in requantize: LiteRT computes both (decision 0019).
    return row | {
        "matmul": EitherCall(rest["matmul"], product, _has_right_zero),
        "requantize": EitherCall(
            row["requantize"], _requantize_opt(rule), _changes_type
        ),
    }


def _xnnpack_arm(rule: str = "xnnpack_arm") -> Row:
    # Nothing here runs Arm code: these rows follow XNNPACK's sources (decision 0019).
    row = _xnnpack(rule)
    row["mul"] = PairCall(rule, "mul", xnnpack.mul_arm, _check_mul_xnnpack)
    shifting = _products(
        rule, xnnpack.products_arm, _check_weights_xnnpack, linear, conv2d
    )
    for name, products in shifting.items():
        row[name] = EitherCall(row[name], products, _is_integer_on_arm)
    return row


def fixed_grid(rule: str, operation: str, dtype: DType) -> QParams | None:
    """Return the grid that the rule fixes for the result of `operation`, or None.

    Args:
        dtype: the type of the codes.
    """
    call = TABLE.get(rule, {}).get(operation)
    if getattr(call, "check", None) is not _check_fixed_grid:
        return None
    return calls.output_grid(operation, dtype)


TABLE: dict[str, Row] = {
    "onnx": _onnx(),
    "ort_cpu": _ort(),
    "tflite_ref": _litert_ref(),
    "tflite_opt": _litert_opt(),
    "xnnpack_x86": _xnnpack_x86(),
    "xnnpack_arm": _xnnpack_arm(),
}
