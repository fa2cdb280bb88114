"""Which operation each rule defines, and by which kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor import DType, conv2d, linear, matmul
from mdtensor.kernels.presets import onnx, ort, tflite, xnnpack
from mdtensor.kernels.presets.fixed_point import quantize_multiplier
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.presets import calls
from mdtensor.quant.presets.calls import (
    ByType,
    Curved,
    CurvedByCode,
    Joined,
    Kernel,
    Paired,
    Pooled,
    PooledWhole,
    Products,
    Quantized,
    Requantized,
    Shared,
)
from mdtensor.quant.qparams import QParams

Row = dict[str, Any]
CURVES = (
    *("relu", "relu6", "clip", "hardsigmoid", "hardswish", "sigmoid", "tanh", "exp"),
    *("silu", "mish", "gelu", "elu", "selu", "softsign", "leaky_relu"),
)


def _anything(rule: str, operation: str, *given: Any) -> None:
    """8-bit types in any mix, of tensors or grids."""
    calls.eight_bits(rule, operation, *(getattr(x, "qparams", x) for x in given))


def _any_integers(rule: str, operation: str, *grids: QParams) -> None:
    """Integer codes of any width."""
    calls.integers(rule, operation, *grids)


def _grids(rule: str, operation: str, *given: Any) -> None:
    """One 8-bit type, of tensors or grids."""
    calls.one_type(rule, operation, *(getattr(x, "qparams", x) for x in given))


def _in_order(rule: str, operation: str, x1: Any, x2: Any, out: QParams) -> None:
    """One type and one shape."""
    calls.one_type(rule, operation, x1.qparams, x2.qparams, out)
    calls.one_shape(rule, operation, x1, x2)


def _weighted(rule: str, operation: str, x: Any, w: Any, out: QParams) -> None:
    """One type of activations; symmetric weights, or all of quint8.

    Unsigned activations with signed weights are nobody's but ONNX Runtime's: elsewhere
    they stand for the qint8 codes that are 128 less, whose sums are the same.
    """
    calls.one_type(rule, operation, x.qparams, out)
    calls.symmetric(rule, operation, x, w)


def _weighted_on_ort(rule: str, operation: str, x: Any, w: Any, out: QParams) -> None:
    """One type of activations; weights of qint8, or of that type, of any zero point."""
    calls.one_type(rule, operation, x.qparams, out)
    calls.eight_bits(rule, operation, w.qparams)
    if w.dtype not in (qint8, x.dtype):
        fix = "Use qint8 for the weights, or quint8 for the activations"
        calls.refuse(rule, operation, f"it has no {x.dtype} by {w.dtype}", fix)


def _multiplied(rule: str, operation: str, x1: Any, x2: Any, out: QParams) -> None:
    """One scale each, and one type; codes of quint8 stand for those 128 less."""
    calls.one_type(rule, operation, x1.qparams, out)
    calls.eight_bits(rule, operation, x2.qparams)
    calls.one_scale(rule, operation, x1.qparams, x2.qparams, out)


def _near_multiplied(rule: str, operation: str, x1: Any, x2: Any, out: QParams) -> None:
    _multiplied(rule, operation, x1, x2, out)
    calls.near_products(rule, operation, x1, x2, out)


def _raw(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.one_type(rule, operation, source, out)
    calls.one_grid(rule, operation, source, out)


def _mean(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.one_type(rule, operation, source, out)
    ratio = np.float32(source.scale) / np.float32(out.scale)
    calls.within(rule, operation, ratio, 2.0**-20, 2.0**20)


def _bounded(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.one_type(rule, operation, source, out)
    calls.bounded(rule, operation, out)


def _gated(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """The product of hardswish is shifted to the right only."""
    calls.one_type(rule, operation, source, out)
    ratio = np.float32(source.scale / 128) / np.float32(out.scale)
    if quantize_multiplier(ratio)[1] > 0:
        calls.within(rule, operation, ratio, 0, 1)


def _near_sum(rule: str, operation: str, x1: Any, x2: Any, out: QParams) -> None:
    calls.one_type(rule, operation, x1.qparams, x2.qparams, out)
    for x in (x1, x2):
        ratio = np.float32(x.qparams.scale) / np.float32(out.scale)
        calls.within(rule, operation, ratio, 2.0**-10, 2.0**8)


def _near_product(rule: str, operation: str, x1: Any, x2: Any, out: QParams) -> None:
    calls.one_type(rule, operation, x1.qparams, x2.qparams, out)
    ratio = np.float32(x1.qparams.scale) * np.float32(x2.qparams.scale)
    calls.within(rule, operation, ratio / np.float32(out.scale), 2.0**-16, 2.0**8)


def _move(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """One scale each."""
    calls.eight_bits(rule, operation, source, out)
    calls.one_scale(rule, operation, source, out)


def _laid(rule: str, operation: str, source: QParams, out: QParams) -> None:
    """Of quint8 any grids, of qint8 one."""
    calls.one_type(rule, operation, source, out)
    _move(rule, operation, source, out)
    calls.laid(rule, operation, source, out)


def _near_move(rule: str, operation: str, source: QParams, out: QParams) -> None:
    calls.one_type(rule, operation, source, out)
    _move(rule, operation, source, out)
    ratio = np.float32(source.scale) / np.float32(out.scale)
    calls.within(rule, operation, ratio, 2.0**-8, 2.0**7)


def _near_weighted(rule: str, operation: str, x: Any, w: Any, out: QParams) -> None:
    _weighted(rule, operation, x, w, out)
    calls.near_products(rule, operation, x, w, out)


def _is_depthwise(x: Any, *rest: Any, groups: int = 1, **_: Any) -> bool:
    return groups > 1 and groups == x.shape[1]


def _changes_type(x: Any, out: QParams) -> bool:
    """Whether codes become those of the other 8-bit type: LiteRT keeps that."""
    return x.dtype is not qint32 and x.dtype is not out.dtype


def _is_symmetric(x1: Any, x2: Any, out: QParams) -> bool:
    """Whether the zero point of the right is 0, or the 128 that stands for it."""
    middle = 128 if x2.dtype is quint8 else 0
    return bool((x2.qparams.zero_point == middle).all())


def _is_unsigned(x: Any, w: Any, *_: Any, **__: Any) -> bool:
    """Whether the weights are of quint8."""
    return w.dtype is quint8


def _shifts_on_arm(x: Any, w: Any, *rest: Any, **options: Any) -> bool:
    """Whether XNNPACK multiplies in integers on Arm: quint8, or each one channel."""
    is_one = w.qparams.axis is None
    return _is_unsigned(x, w) or (is_one and _is_depthwise(x, **options))


def _products(
    rule: str, kernel: Kernel, check: Callable[..., None], *operations: Any
) -> Row:
    """What sums products, by one kernel."""
    named = {operation.__name__: operation for operation in operations}
    return {n: Products(rule, n, kernel, check, f) for n, f in named.items()}


def _onnx(rule: str = "onnx") -> Row:
    pairs = ("add", "sub", "mul", "div", "minimum", "maximum")
    row: Row = {n: Paired(rule, n, getattr(onnx, n), _anything) for n in pairs}
    row |= {n: Curved(rule, n, onnx.curve, _anything) for n in CURVES}
    row |= _products(rule, onnx.products, _anything, matmul, linear, conv2d)
    moved = (rule, "requantize", onnx.requantize, _anything, onnx.products)
    pooled = (rule, "global_avg_pool2d", onnx.global_avg_pool, _anything, False)
    return row | {
        "quantize": Quantized(rule, "quantize", onnx.quantize, _any_integers),
        "requantize": Requantized(*moved),
        "softmax": Shared(rule, "softmax", onnx.softmax, _anything),
        "concat": Joined(rule, "concat", onnx.requantize, _anything),
        "avg_pool2d": Pooled(rule, "avg_pool2d", onnx.avg_pool, _anything),
        "global_avg_pool2d": PooledWhole(*pooled),
    }


def _ort(rule: str = "ort_cpu") -> Row:
    moved = (rule, "requantize", ort.requantize, _anything, ort.products)
    pooled = (rule, "global_avg_pool2d", ort.global_avg_pool, _grids, False)
    row = _onnx(rule)  # what it has no operator of codes for stays as ONNX writes it
    row |= _products(rule, ort.products, _weighted_on_ort, matmul, linear, conv2d)
    return row | {
        "quantize": Quantized(rule, "quantize", ort.quantize, _anything),
        "requantize": Requantized(*moved),
        "add": Paired(rule, "add", ort.add, _in_order),
        "mul": Paired(rule, "mul", ort.mul, _grids),
        "softmax": Shared(rule, "softmax", ort.softmax, _grids),
        "concat": Joined(rule, "concat", ort.requantize, _grids),
        "avg_pool2d": Pooled(rule, "avg_pool2d", ort.avg_pool, _grids),
        "global_avg_pool2d": PooledWhole(*pooled),
        "sigmoid": Curved(rule, "sigmoid", ort.curve, _grids),
        "leaky_relu": Curved(rule, "leaky_relu", ort.curve, _grids),
    }


def _means(rule: str, mean: Kernel) -> ByType:
    """Of whole images: AVERAGE_POOL_2D on the grid of the image, MEAN on another."""
    name = "global_avg_pool2d"
    return ByType(
        PooledWhole(rule, name, tflite.global_avg_pool, _raw, True),
        PooledWhole(rule, name, mean, _mean, True),
        lambda x, out: x.qparams != out,
    )


def _litert(rule: str, softmax: Kernel, mean: Kernel) -> Row:
    """What the reference and the optimized kernels share, and no delegate changes."""
    return {
        "sigmoid": Curved(rule, "sigmoid", tflite.curve, _bounded),
        "tanh": Curved(rule, "tanh", tflite.curve, _bounded),
        "hardswish": CurvedByCode(rule, "hardswish", tflite.hardswish, _gated),
        "softmax": Shared(rule, "softmax", softmax, _bounded),
        "avg_pool2d": Pooled(rule, "avg_pool2d", tflite.avg_pool, _raw),
        "global_avg_pool2d": _means(rule, mean),
        "concat": Joined(rule, "concat", tflite.concat, _laid),
        "matmul": Products(rule, "matmul", tflite.products_ref, _multiplied, matmul),
        "sub": Paired(rule, "sub", tflite.sub, _grids),
        "mul": Paired(rule, "mul", tflite.mul, _grids),
    }


def _litert_ref(rule: str = "tflite_ref") -> Row:
    moved = (rule, "requantize", tflite.requantize_ref, _move, tflite.products_ref)
    return _litert(rule, tflite.softmax_ref, tflite.mean_ref) | {
        "quantize": Quantized(rule, "quantize", tflite.quantize_ref, _grids),
        "requantize": Requantized(*moved),
        "add": Paired(rule, "add", tflite.add_ref, _grids),
        "linear": Products(rule, "linear", tflite.linear_ref, _weighted, linear),
        "conv2d": Products(rule, "conv2d", tflite.products_ref, _weighted, conv2d),
    }


def _moved_opt(rule: str) -> Requantized:
    moved = ("requantize", tflite.requantize_opt, _move, tflite.products_opt)
    return Requantized(rule, *moved)


def _litert_opt(rule: str = "tflite_opt") -> Row:
    row = _litert(rule, tflite.softmax_opt, tflite.mean_opt)
    row |= _products(rule, tflite.products_opt, _weighted, linear, conv2d)
    each = ByType(
        Products(rule, "conv2d", tflite.depthwise_opt, _weighted, conv2d),
        Products(rule, "conv2d", tflite.products_ref, _weighted, conv2d),
        _is_unsigned,
    )
    return row | {
        "conv2d": ByType(row["conv2d"], each, _is_depthwise),
        "quantize": Quantized(rule, "quantize", tflite.quantize_opt, _grids),
        "requantize": _moved_opt(rule),
        "add": ByType(
            Paired(rule, "add", tflite.add_opt, _in_order),
            Paired(rule, "add", tflite.add_opt_u8, _in_order),
            lambda x1, x2, out: out.dtype is quint8,
        ),
    }


def _xnnpack(rule: str) -> Row:
    moved = (rule, "requantize", xnnpack.requantize, _near_move, xnnpack.products)
    row: Row = {
        "quantize": Quantized(rule, "quantize", xnnpack.quantize, _grids),
        "requantize": Requantized(*moved),
        "add": Paired(rule, "add", xnnpack.add, _near_sum),
        "sub": Paired(rule, "sub", xnnpack.sub, _near_sum),
        "mul": Paired(rule, "mul", xnnpack.mul, _near_product),
    }
    row |= _products(rule, xnnpack.products, _near_weighted, linear, conv2d)
    for name in ("sigmoid", "tanh"):
        row[name] = Curved(rule, name, xnnpack.curve, _bounded)
    return row


def _xnnpack_x86(rule: str = "xnnpack_x86") -> Row:
    """Through LiteRT, which runs the rest by its optimized kernels."""
    kept = ("hardswish", "softmax", "avg_pool2d", "global_avg_pool2d", "concat")
    rest = _litert(rule, tflite.softmax_opt, xnnpack.mean)
    row = {name: rest[name] for name in kept} | _xnnpack(rule)
    taken = _products(rule, xnnpack.products, _near_multiplied, matmul)["matmul"]
    return row | {
        "matmul": ByType(rest["matmul"], taken, _is_symmetric),
        "requantize": ByType(row["requantize"], _moved_opt(rule), _changes_type),
    }


def _xnnpack_arm(rule: str = "xnnpack_arm") -> Row:
    row = _xnnpack(rule)
    row["mul"] = Paired(rule, "mul", xnnpack.mul_arm, _near_product)
    shifting = _products(rule, xnnpack.products_arm, _near_weighted, linear, conv2d)
    for name, products in shifting.items():
        row[name] = ByType(row[name], products, _shifts_on_arm)
    return row


def fixed_grid(rule: str, operation: str, dtype: DType) -> QParams | None:
    """The only grid of `dtype` that the rule writes the operation to, if it is one."""
    call = TABLE.get(rule, {}).get(operation)
    if getattr(call, "check", None) is not _bounded:
        return None
    return calls.bounded_grid(operation, dtype)


TABLE: dict[str, Row] = {
    "onnx": _onnx(),
    "ort_cpu": _ort(),
    "tflite_ref": _litert_ref(),
    "tflite_opt": _litert_opt(),
    "xnnpack_x86": _xnnpack_x86(),
    "xnnpack_arm": _xnnpack_arm(),
}
