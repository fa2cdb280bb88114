"""Grids in a graph: read from Quantize/DequantizeLinear, folded into operations.

A file says `dequantize, operate in float, quantize`. Where the operation has a method
for quantized types, that is one quantized call that rounds once to the grid behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.dtypes import qint8, qint32, quint8
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import quantized

#: Codes in a file and the type they are of.
CODES = {md.int8: qint8, md.uint8: quint8, md.int32: qint32}


def quantize_linear(g: Builder, op: Operator) -> None:
    zero_point = op.input(2)
    codes = g.specs[zero_point].dtype if zero_point else md.uint8
    g.call(op, quantize, op.inputs[0], qparams=_grid(g, op, codes))


def dequantize_linear(g: Builder, op: Operator) -> None:
    name = str(op.inputs[0])
    if name in g.constants:
        codes = g.constants[name]
        grid = _grid(g, op, codes.dtype)
        on_grid = quantized(np.asarray(codes), grid)
        name = g.constant(g.fresh(f"{name}.{op.outputs[0]}"), on_grid)
    elif (own := g.specs[name].qparams) is None:
        raise op.refusal(
            f"reads {name!r}, which no QuantizeLinear wrote",
            "Give the model float inputs",
        )
    elif own != (restated := _grid(g, op, _codes(own))):
        raise op.refusal(
            f"reads {name!r} of {own} as if it were of {restated}",
            "Use one grid on both sides",
        )
    g.call(op, dequantize, name)


def _codes(grid: QParams) -> Any:
    return next(codes for codes, dtype in CODES.items() if dtype is grid.dtype)


def _grid(g: Builder, op: Operator, codes: Any) -> QParams:
    op.require("block_size", 0)
    if codes not in CODES:
        listed = ", ".join(map(str, CODES))
        raise op.refusal(f"has codes of {codes}", f"Supported are {listed}")
    scale = g.known(op, 1, "the scale").astype(np.float64)
    zeros = g.known(op, 2, "the zero point") if op.input(2) else np.array(0)
    if scale.size == 1:
        return QParams(scale.item(), zeros.reshape(-1)[0], dtype=CODES[codes])
    rank = len(g.shape(op.inputs[0]))
    axis = op.get("axis", 1) % rank
    return QParams(scale, zeros, dtype=CODES[codes], axis=axis)


READERS: dict[str, Callable[[Builder, Operator], None]] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}
