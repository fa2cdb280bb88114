"""Products of integers, written as MatMulInteger."""

from __future__ import annotations

import mdtensor as md
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import Sink, emits


@emits(md.matmul_integer)
def matmul_integer(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write MatMulInteger; inputs that the node omits are omitted in the file."""
    names = iter(inputs)
    given = ["" if x is None else next(names) for x in node.inputs]
    while not given[-1]:
        given.pop()
    sink.result("MatMulInteger", given)
