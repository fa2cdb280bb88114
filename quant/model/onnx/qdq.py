"""Grids in a graph: read from QuantizeLinear and DequantizeLinear, then folded.

A file describes quantized work as `dequantize, operate in float, quantize`. If the
operation has a method for quantized types, these three become one quantized call, which
rounds once to the grid of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import DType, TensorSpec
from mdtensor.errors import MdtensorError
from mdtensor.graph import Graph, Node, infer_spec
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.exact import steps_of
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.onnx.axes import normalize_axis, require_between
from mdtensor.quant.model.onnx.build import Builder, Operator, element_type
from mdtensor.quant.model.onnx.elements import CODES, ELEMENTS, QUANTIZED
from mdtensor.quant.model.onnx.integer_codes import codes_of, is_moved_constant
from mdtensor.quant.model.onnx.plain_codes import (
    INTEGERS,
    check_finite,
    is_plain,
    quantize_to_integers,
    steps_and_scale,
)
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, quantized

Specs = Mapping[str, TensorSpec]
#: Operations with weights and a bias, which may have a scale per output channel.
WEIGHTED = (md.conv2d, md.linear)
PRODUCTS = (*WEIGHTED, md.matmul)
#: Operations whose second and third inputs are both weights.
RECURRENT = (md.lstm, md.gru, md.rnn)
#: Operations on codes whose weights and biases stay floats.
NORMS = (md.layer_norm, md.rms_norm)
EIGHT_BITS = (qint8, quint8)
#: The number of uint8 in the file format, the default type of QuantizeLinear.
UINT8 = 2
#: Types of scales and of dequantized numbers, by their number in the file format.
FLOATS = {1: md.float32, 10: md.float16, 16: md.bfloat16}
NARROW = (md.float16, md.bfloat16)


def quantize_linear(g: Builder, op: Operator) -> None:
    """Read QuantizeLinear."""
    zero_point = op.input(2)
    code = g.code(zero_point) if zero_point else op.get("output_dtype", 0) or UINT8
    # The quotient is exact whatever the precision, see `quant.rounding`.
    op.require("precision", 0, *FLOATS)
    op.require("saturate", 1)
    if is_plain(g, op, code):
        quantize_to_integers(g, op, code)
        return
    grid = grid_of(g, op, code, op.outputs[0])
    g.call(op, quantize, op.inputs[0], qparams=grid)


def dequantize_linear(g: Builder, op: Operator) -> None:
    """Read DequantizeLinear."""
    op.require("output_dtype", 0, *FLOATS)
    # The result has the type of the scale if the attribute does not name another.
    dtype = FLOATS[op.get("output_dtype", 0) or g.code(op.inputs[1])]
    operation: Any = dequantize
    inputs: tuple[str, ...]
    if _is_computed(g, op):
        operation, inputs = md.mul, steps_and_scale(g, op)
    else:
        inputs = (on_grid(g, op),)
    if dtype is md.float32:
        g.call(op, operation, *inputs)
    else:
        real = g.step(op, "real", operation, *inputs)
        g.call(op, md.astype, real, dtype, casting="wrap")


def _is_computed(g: Builder, op: Operator) -> bool:
    """Return whether the first input is integers that are codes of no known grid.

    Constants are codes, and so are their rows, for which the table stays small.
    """
    name = str(op.inputs[0])
    if is_plain(g, op, g.code(name)):
        return True
    if name in g.constants or g.specs[name].dtype not in INTEGERS:
        return False
    # DynamicQuantizeLinear computes the scale.
    if g.array(op.inputs[1]) is None:
        return True
    if g.code(name) not in QUANTIZED or g.require_array(op, 1, "the scale").size > 1:
        return True
    try:
        grid = grid_of(g, op, g.code(name), name)
    except MdtensorError:
        # No grid of 16 bits has a zero point, but the product has one.
        return True
    return not is_moved_constant(g, name, grid)


def on_grid(g: Builder, op: Operator) -> str:
    """Return the name of an operator's first input as codes on the operator's grid.

    A constant becomes a quantized tensor, and computed integers become codes. Any other
    value must already be on this grid.
    """
    name = str(op.inputs[0])
    if name in g.constants:
        codes = _constant_on_grid(g, op, name)
        return g.constant(g.fresh(f"{name}.{op.outputs[0]}"), codes)
    own = g.specs[name].qparams
    if own is None:
        return codes_of(g, op, grid_of(g, op, g.code(name), name))
    restated = grid_of(g, op, CODES[own.dtype], name)
    if own != restated:
        raise op.error(
            f"reads {name!r} with the grid {restated}, but its codes have the grid "
            f"{own}",
            "Use one grid on both sides",
        )
    return name


def mirror(dtype: DType, codes: Any) -> Any:
    """Return the codes whose distances from their mirrored zero point are negative.

    Every code has one: the mirror of the smallest is the largest. So the weights keep
    their bits.
    """
    return int(dtype.minimum) + int(dtype.maximum) - codes.astype(np.int64)


def _constant_on_grid(g: Builder, op: Operator, name: str) -> Any:
    """Return a constant of integers as codes on the operator's grid."""
    code, codes = g.code(name), _codes_of(g, name)
    scale, zeros = _scales_and_zeros(g, op, code)
    # ONNX Runtime's tool writes negative scales for blocks of 4-bit weights, and 0 for
    # blocks of zeros, whose codes stand for 0 on any grid.
    is_flipped, is_float = scale < 0, code in ELEMENTS and ELEMENTS[code].is_float
    if is_float or (scale > 0).all():
        return quantized(codes, _grid(g, op, code, name, scale, zeros))
    zeros = np.broadcast_to(zeros, scale.shape) if zeros.size == 1 else zeros
    zeros = np.where(is_flipped, mirror(QUANTIZED[code], zeros), zeros)
    sizes = np.where(scale == 0, 1.0, np.abs(scale))
    grid = _grid(g, op, code, name, sizes, zeros)
    flips, empty, starts = (
        grid.along(of_each.reshape(grid.scale.shape), codes.shape)
        for of_each in (is_flipped, scale == 0, zeros)
    )
    codes = np.where(flips, mirror(grid.dtype, codes), codes)
    codes = np.where(empty, starts, codes)
    return quantized(codes.astype(grid.dtype.storage), grid)


def _codes_of(g: Builder, name: str) -> Any:
    """Return the codes of a constant; the codes of 8-bit floats are their bytes."""
    array, element = np.asarray(g.constants[name]), g.elements.get(name)
    if element is None or not element.is_float:
        return array
    return array.astype(element.dtype).view(np.uint8)


def grid_of(g: Builder, op: Operator, code: int, value: str) -> QParams:
    """Return the grid of the codes `value`; their element type has number `code`.

    Input 1 of the operator is the scale, input 2 the zero point.
    """
    return _grid(g, op, code, value, *_scales_and_zeros(g, op, code))


def _scales_and_zeros(g: Builder, op: Operator, code: int) -> tuple[Any, Any]:
    """Return the scales in float64, and the zero points of codes of type `code`."""
    if code not in QUANTIZED:
        listed = ", ".join(map(str, QUANTIZED.values()))
        raise op.error(
            f"has codes of {ELEMENTS.get(code) or element_type(code, str(op))}",
            f"Supported are codes of {listed}",
        )
    given = g.require_array(op, 1, "the scale")
    if g.code(op.inputs[1]) not in FLOATS:
        raise op.error(
            f"has scales of {given.dtype}",
            f"Supported are {', '.join(map(str, FLOATS.values()))}",
        )
    check_finite(op, given)
    # QParams stores scales as float64, which is exact for narrower floats.
    scale = given.astype(np.float64)
    zeros = g.require_array(op, 2, "the zero point") if op.input(2) else np.array(0)
    if op.input(2):
        check_zero_points(op, scale, zeros)
    if op.input(2) and g.code(op.input(2)) != code:
        raise op.error(
            f"has codes of {QUANTIZED[code]} and a zero point of "
            f"{g.specs[str(op.input(2))].dtype}",
            "Use one type for both",
        )
    return scale, zeros


def _grid(
    g: Builder, op: Operator, code: int, value: str, scale: Any, zeros: Any
) -> QParams:
    """Return the grid of these scales and zero points for the codes `value`."""
    options: dict[str, Any] = {"dtype": QUANTIZED[code]}
    options["narrow_range"] = value in g.narrow
    shape = g.shape(op.inputs[0])
    # A scale of shape (1,) is per tensor, unless the axis in the file has size 1.
    axis, block = op.get("axis", 1), op.get("block_size", 0)
    has_axis = op.get("axis") is not None and -len(shape) <= axis < len(shape)
    is_only_channel = has_axis and shape[axis] == 1
    if scale.size > 1 or block or (scale.ndim and is_only_channel):
        axis = normalize_axis(op, axis, len(shape))
        require_between(op, block, 0, np.inf, "block_size")
        options |= {"axis": axis, "block_size": block or None}
        return QParams(scale, zeros, **options)
    return QParams(scale.item(), zeros.reshape(-1)[0], **options)


def check_zero_points(op: Operator, scale: Any, zeros: Any) -> None:
    """Require as many zero points as scales.

    Raises:
        ModelError: there are more or fewer zero points.
    """
    if zeros.size != scale.size:
        raise op.error(
            f"has {scale.size} scales and {zeros.size} zero points",
            "Use one zero point for each scale",
        )


#: Operators that only select or move elements, so that the codes stay on their grid.
KEEPS = frozenset({"ArgMax", "ArgMin", "Concat", "DepthToSpace", "Dropout", "Expand"})
KEEPS |= {"Flatten", "Gather", "GatherElements", "GlobalMaxPool", "Identity", "MaxPool"}
KEEPS |= {"Pad", "ReduceMax", "ReduceMin", "Reshape", "Resize", "Slice", "Squeeze"}
KEEPS |= {"SpaceToDepth", "Split", "Tile", "Transpose", "Unsqueeze", "Upsample"}
KEEPS |= {"Compress", "GatherND", "Shape", "Size"}


def check_codes(g: Builder, op: Operator) -> None:
    """Raise if an operator calculates with codes as plain integers.

    Raises:
        ModelError: the operator does; its result would differ from the result for the
            dequantized values.
    """
    if op.kind in KEEPS | READERS.keys():
        return
    for name in filter(None, op.inputs):
        if name not in g.lists and g.specs[name].qparams is not None:
            raise op.error(
                f"calculates with {name!r}, codes of a QuantizeLinear, as integers",
                "Put a DequantizeLinear between them",
            )


READERS: dict[str, Callable[[Builder, Operator], None]] = {
    f"{domain}{kind}": reader
    # ONNX Runtime's domain had 16-bit codes before ONNX did, in operator set 21.
    for domain in ("", "com.microsoft.")
    for kind, reader in (
        ("QuantizeLinear", quantize_linear),
        ("DequantizeLinear", dequantize_linear),
    )
}


def fold_grids(graph: Graph) -> Graph:
    """Turn operations between dequantize and quantize into quantized operations.

    The grid of the quantize becomes `out=` of the operation. A relu between the
    operation and the quantize is dropped if the range of the grid clips in the same
    way. An operation without a quantized method stays in float, and so does a node with
    a note.
    """
    ends = [node for node in graph.nodes if node.operation is quantize]
    if not ends:
        return graph
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in ends:
        nodes |= _fold(graph, node, specs)
    return graph.rewritten(nodes) if nodes else graph


def _fold(graph: Graph, last: Node, specs: Specs) -> dict[str, Node | None]:
    """Return the replacements of nodes that fold one quantize."""
    value, grid = last.values[0], last.options["qparams"]
    node = graph.producers.get(value)
    if codes := _codes_behind(graph, value):
        return _fold_requantize(last, codes, specs)
    if node is None or graph.only_consumer(value) is not last:
        return {}
    if node.name in graph.notes:
        return {}
    found = _quantized_node(graph, node, grid, specs)
    if found:
        return {last.output: found.rewired(output=last.output)}
    # Round before the relu instead: the two commute, and the operation before it may
    # have a quantized method.
    before = graph.producers.get(node.values[0]) if node.values else None
    if node.operation not in CUTS or before is None or before.name in graph.notes:
        return {}
    found = _quantized_node(graph, before, grid, specs)
    if found is None or graph.only_consumer(before.output) is not node:
        return {}
    if cuts_off(node, grid):
        return {last.output: found.rewired(output=last.output)}
    options = {**node.options, "out": grid}
    cut = replace(node, output=last.output, options=options)
    return {before.output: found, last.output: cut}


def _fold_requantize(last: Node, codes: str, specs: Specs) -> dict[str, Node | None]:
    """Turn dequantize followed by quantize into one requantize.

    Only for per-tensor codes of at most 8 bits, where one lookup table has all results.
    """
    given, grid = specs[codes], last.options["qparams"]
    axes = [q.axis for q in (given.qparams, grid) if q is not None]
    if not issubclass(given.type, NarrowTensor) or axes != [None, None]:
        return {}
    moved = replace(last, operation=requantize, inputs=(codes,), options={"out": grid})
    return {last.output: moved}


#: Operations that commute with rounding to a grid, because they only clip.
CUTS = (md.relu, md.relu6)


def cuts_off(node: Node, grid: QParams) -> bool:
    """Return whether the range of the grid clips as `node` does, a relu or relu6."""
    if grid.axis is not None or grid.zero != grid.minimum:
        return False
    # relu6 is without effect only if the largest code stands for at most 6.
    six = round(6 / grid.fraction) + grid.zero
    return node.operation is md.relu or six >= grid.maximum


def _quantized_node(
    graph: Graph, node: Node, grid: QParams, specs: Specs
) -> Node | None:
    """Return `node` with codes as inputs; None if no method takes them."""
    inputs = tuple(
        x if _stays(graph, node, x, specs) else _codes_behind(graph, x)
        for x in node.inputs
    )
    if node.operation in (quantize, dequantize) or "" in inputs:
        return None
    given = [None if x is None else specs[x] for x in inputs]
    if grid.axis is not None or not _has_fitting_scales(node, given):
        return None
    # A method that does not round keeps the grid of its input, which must then be the
    # wanted one.
    try:
        if rounds(node, node.select(*given).method):
            node = replace(node, options={**node.options, "out": grid})
        same = node.infer(*given).qparams == grid
    except MdtensorError:
        return None
    return node.rewired(inputs) if same else None


def rounds(node: Node, method: Any) -> bool:
    """Return whether the result has its own grid; `concat` uses its inputs' grid."""
    return bool(method.rounds) and node.operation is not md.concat


def _stays(graph: Graph, node: Node, value: Any, specs: Specs) -> bool:
    """Return whether a node on codes reads `value` as it is: indices or weights."""
    if value == node.inputs[0] or value is None:
        return False
    is_weight = node.operation in NORMS and value in graph.constants
    is_unchanged = node.operation is md.take or is_weight
    return is_unchanged and specs[value].qparams is None


def _has_fitting_scales(node: Node, given: list[TensorSpec | None]) -> bool:
    """Return whether only weights and bias have several scales, along axis 0."""
    axes = [None if x is None or x.qparams is None else x.qparams.axis for x in given]
    if node.operation in WEIGHTED:
        return axes[0] is None and set(axes[1:]) <= {None, 0}
    return set(axes) == {None}


def _codes_behind(graph: Graph, value: Any) -> str | None:
    """Return the codes that dequantize turns into `value`; "" if there are none."""
    if value is None:
        return None
    node = dequantize_behind(graph, value)
    return "" if node is None else str(node.inputs[0])


def dequantize_behind(graph: Graph, value: Any) -> Node | None:
    """Return the dequantize that writes `value`, or None.

    If a cast to a narrower float type writes `value`, return the dequantize before that
    cast: an operation on the codes rounds once, without the cast.
    """
    node = graph.producers.get(value) if isinstance(value, str) else None
    if node is not None and node.operation is md.astype and node.inputs[1] in NARROW:
        node = graph.producers.get(node.inputs[0])
    return node if node is not None and node.operation is dequantize else None


def fold_weights(graph: Graph) -> Graph:
    """Let products of floats with dequantized constants read the codes directly.

    A dequantized constant bias becomes a float constant, because the product of floats
    and codes is a float, to which a float bias is added.
    """
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        if node.operation in RECURRENT:
            nodes |= _with_recurrent_codes(graph, node, specs)
        if node.operation not in PRODUCTS or _codes_behind(graph, node.inputs[0]):
            continue
        codes = _codes_behind(graph, node.inputs[1])
        if codes in graph.constants:
            inputs = (node.inputs[0], codes, *node.inputs[2:])
            read = replace(node, inputs=inputs)
            if _infers_to(read, specs, specs[node.output]):
                nodes[node.output] = read
                for bias in filter(None, node.inputs[2:]):
                    stored = _codes_behind(graph, bias)
                    if stored is not None and stored in graph.constants:
                        constants[bias] = dequantize(graph.constants[stored])
    return graph.rewritten(nodes, constants) if nodes else graph


def _with_recurrent_codes(
    graph: Graph, node: Node, specs: Specs
) -> dict[str, Node | None]:
    """Return a recurrent layer that reads the codes of its weights, by its output.

    It is empty if the weights are not both dequantized constants.
    """
    codes = [_codes_behind(graph, value) for value in node.inputs[1:3]]
    if not set(codes) <= {*graph.constants}:
        return {}
    read = node.rewired((node.inputs[0], *codes, *node.inputs[3:]))
    return {node.output: read} if _infers_to(read, specs, specs[node.output]) else {}


def _infers_to(node: Node, specs: Specs, wanted: TensorSpec) -> bool:
    """Return whether a method exists for the node and its result is as `wanted`."""
    try:
        return infer_spec(node, specs) == wanted
    except MdtensorError:
        return False


def sign_weights(graph: Graph) -> Graph:
    """Change the weights of quantized layers to zero points of 0, as kernels need.

    The real values stay equal. The codes minus their zero point must fit 8 signed bits:
    this holds for unsigned codes with zero point 128, and for 7-bit codes.
    """
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    constants: dict[str, Any] = {}
    for node in graph.nodes:
        if node.operation not in WEIGHTED or specs[node.inputs[0]].qparams is None:
            continue
        x, weights, *bias = node.inputs
        signed = _shift_zero_points(graph.constants.get(weights))
        if signed is not None:
            name = graph.fresh(f"{node.output}.w")
            constants[name] = signed
            nodes[node.output] = replace(node, inputs=(x, name, *bias))
    return graph.rewritten(nodes, constants) if nodes else graph


def _shift_zero_points(weights: Any) -> Any:
    """Return weights of equal value, int8 codes with zero point 0, or None."""
    grid = None if weights is None else weights.qparams
    if grid is None or grid.dtype not in EIGHT_BITS or not grid.zero_point.any():
        return None
    steps = steps_of(weights)
    if steps.size == 0 or steps.min() < -128 or steps.max() > 127:
        return None
    signed = grid.replace(zero_point=0, dtype=qint8, narrow_range=False)
    return quantized(steps.astype(np.int8), signed)
