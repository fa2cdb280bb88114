"""Products of integers, written as MatMulInteger."""

from __future__ import annotations

import numpy as np

import mdtensor as md
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import Sink, convolution, emits


@emits(md.matmul_integer)
def matmul_integer(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write MatMulInteger; inputs that the node omits are omitted in the file."""
    names = iter(inputs)
    given = ["" if x is None else next(names) for x in node.inputs]
    while not given[-1]:
        given.pop()
    sink.result("MatMulInteger", given)


@emits(md.conv2d_integer)
def conv2d_integer(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write ConvInteger; inputs that the node omits are omitted in the file."""
    names = iter(inputs)
    given = ["" if x is None else next(names) for x in node.inputs]
    while not given[-1]:
        given.pop()
    sink.result("ConvInteger", given, **convolution(sink, node))


# Dynamic quantization: the chains that `quantize_dynamic` of ONNX Runtime writes.


@emits(md.dynamic_quantize)
def dynamic_quantize(sink: Sink, node: Node, inputs: list[str]) -> None:
    parts = sink.parts("DynamicQuantizeLinear", inputs, 3)
    place = ("codes", "scale", "zero_point").index(node.options["part"])
    sink.result("Identity", [parts[place]])


@emits(md.dynamic_matmul, md.dynamic_conv2d)
def dynamic_product(sink: Sink, node: Node, inputs: list[str]) -> None:
    names = iter(inputs)
    given = [None if x is None else next(names) for x in node.inputs]
    x, weights, scale, zero, bias = given
    codes, own, start = sink.parts("DynamicQuantizeLinear", [str(x)], 3)
    operands = [codes, str(weights), start, *([zero] if zero else [])]
    is_image = node.operation is md.dynamic_conv2d
    more = convolution(sink, node) if is_image else {}
    kind = "ConvInteger" if is_image else "MatMulInteger"
    sums = sink.emit("Cast", [sink.emit(kind, operands, **more)], to=1)
    if is_image:
        scale = _as_channels(sink, node, 2, str(scale))
    factor = sink.emit("Mul", [own, str(scale)])
    if bias is None:
        sink.result("Mul", [sums, factor])
        return
    if is_image:
        bias = _as_channels(sink, node, 4, bias)
    sink.result("Add", [sink.emit("Mul", [sums, factor]), bias])


def _as_channels(sink: Sink, node: Node, at: int, name: str) -> str:
    """Return a value of one number for each channel as [out, 1, 1]."""
    if sink.specs[node.inputs[at]].shape in ((), (1,)) and at == 2:
        return name
    shape = sink.constant(np.array([-1, 1, 1], np.int64))
    return sink.emit("Reshape", [name, shape])
