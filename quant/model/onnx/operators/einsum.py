"""Einsum, as products of matrices: operands are combined from left to right."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import OptionError
from mdtensor.extend import contract_terms, parse_equation
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape


@reads("Einsum")
def einsum(g: Builder, op: Operator) -> None:
    ranks = [len(g.shape(name)) for name in op.inputs]
    try:
        terms, output = parse_equation(str(op.get("equation", "")), ranks)
    except OptionError as error:
        raise op.error(f"is wrong: {error.problem}", "Export it again") from None
    total, axes = contract_terms(_Nodes(g, op), op.inputs, terms, output)
    g.call(op, md.permute_dims, total, axes=axes)


class _Nodes:
    """Operations become nodes of the graph."""

    def __init__(self, g: Builder, op: Operator) -> None:
        self._g, self._op = g, op

    def shape(self, x: str) -> tuple[int, ...]:
        return self._g.shape(x)

    def call(self, stem: str, operation: Any, *inputs: Any, **options: Any) -> str:
        if list(options.get("shape", ())).count(-1) > 1:
            raise self._op.size_error("joins axes, and several sizes are dynamic")
        return self._g.step(self._op, stem, operation, *inputs, **options)

    def masked(self, stem: str, x: str, mask: Any) -> str:
        g, op = self._g, self._op
        require_fixed_shape(g, op, x)
        held = g.new_constant(op, f"{stem}.mask", mask)
        zero = np.zeros((), g.specs[x].dtype.storage)
        nothing = g.new_constant(op, f"{stem}.zero", zero)
        return g.step(op, stem, md.where, held, x, nothing)

    def total(self, stem: str, x: str, axis: Any) -> str:
        dtype = self._g.specs[x].dtype
        return self._g.step(self._op, stem, md.sum, x, axis=axis, dtype=dtype)
