"""QLinear operators, read as QDQ: dequantize, a float operator, quantize.

    QLinearConv(x, sx, zx, w, sw, zw, sy, zy)
        = QuantizeLinear(Conv(DequantizeLinear(x, sx, zx), ...), sy, zy)

So a file of either form becomes the same graph, and `fold_grids` turns both into
integer calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mdtensor as md
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.grids import combine
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.files import onnx_package
from mdtensor.quant.model.onnx.operators.table import READERS as FLOAT, Reader
from mdtensor.quant.model.onnx.qdq import grid_of, on_grid
from mdtensor.quant.model.onnx.schemas import check_names
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

MICROSOFT = "com.microsoft"
#: The number of int32 in the file format.
INT32 = 6


@dataclass(frozen=True)
class Form:
    """Positions of the inputs of an operator: codes, each with scale and zero point.

    Args:
        kind: the float operator.
        operands: positions of the codes of each operand.
        result: position of the scale of the result; its zero point is next.
        plain: positions of the inputs that are not codes, which come first in the
            float operator.
    """

    kind: str
    operands: tuple[int, ...]
    result: int
    plain: tuple[int, ...] = ()


PAIRS = ("Add", "Mul")
CURVES = ("AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Softmax")
FORMS = {
    **{f"{MICROSOFT}.QLinear{kind}": Form(kind, (0, 3), 6) for kind in PAIRS},
    **{f"{MICROSOFT}.QLinear{kind}": Form(kind, (0,), 3) for kind in CURVES},
    f"{MICROSOFT}.QLinearWhere": Form("Where", (1, 4), 7, (0,)),
}


# QLinear operators become QDQ, so that rounding rules, plans and saving have one path
# (decision 0039).
def read_form(g: Builder, op: Operator) -> None:
    """Read an operator of `FORMS` as its float operator, dequantized and quantized."""
    form = FORMS[op.kind]
    codes = [_codes(g, op, at) for at in form.operands]
    plain = [op.inputs[at] for at in form.plain]
    reals = [_dequantize(g, op, name) for name in codes]
    _call_and_quantize(g, op, form.kind, [*plain, *reals], form.result)


def matmul(g: Builder, op: Operator) -> None:
    """Read QLinearMatMul."""
    last = len(g.shape(op.inputs[3])) - 1
    a, b = _codes(g, op, 0), _codes(g, op, 3, last)
    _call_and_quantize(
        g, op, "MatMul", [_dequantize(g, op, a), _dequantize(g, op, b)], 6
    )


def conv(g: Builder, op: Operator) -> None:
    """Read QLinearConv; over one axis as a convolution of images with one row."""
    # Quantized convolutions slide over two axes, so one axis gets a second of size 1.
    x, w = _codes(g, op, 0), _codes(g, op, 3, 0)
    bias, is_row = _bias(g, op, 8, x, w), len(g.shape(w)) == 3
    if is_row:
        x, w = (g.step(op, f"{v}.row", md.expand_dims, v, axis=2) for v in (x, w))
    reals = [_dequantize(g, op, x), _dequantize(g, op, w), bias]
    if not is_row:
        _call_and_quantize(g, op, "Conv", reals, 6)
        return
    row = g.fresh(f"{op.outputs[0]}.row")
    of_rows = replace(op, outputs=(row,), attributes=_row_attributes(op.attributes))
    _call_and_quantize(g, of_rows, "Conv", reals, 6)
    g.call(replace(op, name=f"{op.name}.squeeze"), md.squeeze, row, axis=2)


def _row_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the attributes of a convolution over one axis to two axes."""
    found = dict(attributes)
    for name in {"kernel_shape", "strides", "dilations"} & found.keys():
        found[name] = (1, *found[name])
    if "pads" in found:
        before, after = found["pads"]
        found["pads"] = (0, before, 0, after)
    return found


def gemm(g: Builder, op: Operator) -> None:
    """Read QGemm: alpha · A' · B' + C, where C has codes on the grid of the product."""
    x, w = _codes(g, op, 0), _codes(g, op, 3, 0 if op.get("transB", 0) else 1)
    bias = _bias(g, op, 6, x, w, op.get("alpha", 1.0))
    _call_and_quantize(
        g, op, "Gemm", [_dequantize(g, op, x), _dequantize(g, op, w), bias], 7
    )


def concat(g: Builder, op: Operator) -> None:
    """Read QLinearConcat: requantize all parts to one grid, then concatenate."""
    out = _result_grid(g, op, 2, 0)
    parts = []
    # Only parts on another grid are requantized: the others keep their codes.
    for at in range(2, len(op.inputs), 3):
        name = _codes(g, op, at)
        if g.specs[name].qparams != out:
            name = g.step(op, f"part{at // 3}", requantize, name, out=out)
        parts.append(name)
    g.call(op, md.concat, *parts, axis=op.get("axis"))


def _codes(g: Builder, op: Operator, at: int, axis: int | None = None) -> str:
    """Return input `at` on the grid in the next two inputs.

    The grid is per tensor, or has scales along `axis`.
    """
    x, scale, zero = (op.input(i) for i in (at, at + 1, at + 2))
    if x is None or scale is None or (zero is None and _is_standard(op)):
        raise op.error(
            f"does not have a scale or zero point for input {at}", "Export it again"
        )
    if axis is None:
        _check_single(g, op, at + 1, str(x))
    attributes = {} if axis is None else {"axis": axis}
    return on_grid(g, replace(op, inputs=(x, scale, zero), attributes=attributes))


def _is_standard(op: Operator) -> bool:
    """Return whether ONNX itself defines the operator, so zero points are required."""
    return not op.kind.startswith(MICROSOFT)


def _check_single(g: Builder, op: Operator, scale: int, name: str) -> None:
    """Raise for several scales or zero points of a tensor that must have one."""
    for at, what in ((scale, "the scale"), (scale + 1, "the zero point")):
        if op.input(at) and (found := g.require_array(op, at, what)).size != 1:
            raise op.error(
                f"has {what} of {name!r} with shape {found.shape}",
                "Use one number; only weights may have one for each output",
            )


def _dequantize(g: Builder, op: Operator, codes: str) -> str:
    """Add the node that dequantizes codes."""
    return g.step(op, f"{codes}.real", dequantize, codes)


def _bias(
    g: Builder, op: Operator, at: int, x: str, w: str, factor: float = 1.0
) -> str | None:
    """Return the int32 bias, dequantized on the grid of the products, or None."""
    name = op.input(at)
    if name is None:
        return None
    codes = g.require_array(op, at, "the bias")
    if g.code(name) != INT32:
        raise op.error(f"has a bias of {g.specs[name].dtype}", "Supported is int32")
    grids = [g.specs[value].qparams for value in (x, w)]
    # ONNX defines the grid of the bias: scale of x times scale of w, zero point 0.
    sums = combine.of_products(*grids, codes.ndim - 1)
    on_sums = quantized(codes, sums.replace(scale=sums.scale * factor))
    return _dequantize(g, op, g.constant(g.fresh(f"{name}.{op.outputs[0]}"), on_sums))


def _result_grid(g: Builder, op: Operator, like: int, scale: int) -> QParams:
    """Return the grid of the result.

    Without a zero point, its codes have the type of input `like`.
    """
    inputs = (op.inputs[like], op.input(scale), op.input(scale + 1))
    if inputs[1] is None or (inputs[2] is None and _is_standard(op)):
        raise op.error(
            "does not have a scale or zero point for the result", "Export it again"
        )
    _check_single(g, op, scale, op.outputs[0])
    code = g.code(inputs[2] or inputs[0])
    return grid_of(g, replace(op, inputs=inputs, attributes={}), code, op.outputs[0])


def _call_and_quantize(
    g: Builder, op: Operator, kind: str, inputs: list[Any], scale: int
) -> None:
    """Read the float operator, and quantize its output to the grid at input `scale`."""
    op.require("channels_last", 0)
    # ONNX Runtime's own attributes, which the float operator of ONNX does not have.
    own = {"channels_last", "opset"}
    attributes = {k: v for k, v in op.attributes.items() if k not in own}
    real = g.fresh(f"{op.outputs[0]}.real")
    # QGemm without a scale for its result returns floats.
    is_float = kind == "Gemm" and not op.input(scale)
    inner = replace(
        op,
        kind=kind,
        inputs=tuple(inputs),
        outputs=op.outputs[:1] if is_float else (real,),
        attributes=attributes,
        opset=op.get("opset", op.opset),
        proto=onnx_package().NodeProto(op_type=kind),
    )
    check_names(inner, list(attributes))
    FLOAT[kind](g, inner)
    if not is_float:
        last = replace(op, name=f"{op.name}.quantize")
        g.call(last, quantize, real, qparams=_result_grid(g, op, 0, scale))


def reject_dynamic(g: Builder, op: Operator) -> None:
    """Raise for an operator that ONNX Runtime fuses for dynamic quantization."""
    raise op.error(
        "is written by ONNX Runtime when it optimizes a dynamically quantized model",
        "Load the file of quantize_dynamic, before ONNX Runtime optimizes it",
    )


DYNAMIC = (f"{MICROSOFT}.DynamicQuantizeMatMul", f"{MICROSOFT}.MatMulIntegerToFloat")
READERS: dict[str, Reader] = {
    "QLinearConv": conv,
    "QLinearMatMul": matmul,
    f"{MICROSOFT}.QGemm": gemm,
    f"{MICROSOFT}.QLinearConcat": concat,
    **dict.fromkeys(FORMS, read_form),
    **dict.fromkeys(DYNAMIC, reject_dynamic),
}
