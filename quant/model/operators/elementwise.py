"""Operators that work element by element."""

from __future__ import annotations

from typing import Any

import mdtensor as md
from mdtensor.quant.model.build import Builder, Operator
from mdtensor.quant.model.operators.arguments import number
from mdtensor.quant.model.operators.table import reads

#: Operators that are an operation of ours as they stand.
SAME: dict[str, Any] = {
    "Add": md.add,
    "Div": md.div,
    "Exp": md.exp,
    "GlobalAveragePool": md.global_avg_pool2d,
    "HardSwish": md.hardswish,
    "MatMul": md.matmul,
    "Mul": md.mul,
    "Neg": md.neg,
    "Relu": md.relu,
    "Sigmoid": md.sigmoid,
    "Sub": md.sub,
    "Tanh": md.tanh,
}


@reads(*SAME)
def same(g: Builder, op: Operator) -> None:
    g.call(op, SAME[op.kind], *op.inputs)


@reads("Clip")
def clip(g: Builder, op: Operator) -> None:
    if op.opset < 11:
        low, high = op.get("min"), op.get("max")
    else:
        low, high = number(g, op, 1, "min"), number(g, op, 2, "max")
    if None not in (low, high):
        low = min(low, high)  # where they cross, everything becomes max
    g.call(op, md.clip, op.inputs[0], min=low, max=high)


@reads("HardSigmoid")
def hard_sigmoid(g: Builder, op: Operator) -> None:
    alpha, beta = op.get("alpha", 0.2), op.get("beta", 0.5)
    g.call(op, md.hardsigmoid, op.inputs[0], alpha=alpha, beta=beta)
