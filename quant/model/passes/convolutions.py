"""Convolutions of other forms, rewritten as `conv2d`, which has compiled kernels.

padded          a pad with zeros becomes the padding of the convolution that follows
1-D             a signal is an image of height 1, also in a pool
transposed      each phase of the stride is a convolution; `pixel_shuffle` joins them
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.extend import padding4, pair, pool1d_window
from mdtensor.graph import Graph, Node, fresh_name
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.onnx.qdq import CUTS

#: Options of a convolution that reads each pixel by itself.
PLAIN: dict[str, Any] = {
    "stride": (1, 1),
    "padding": (0, 0, 0, 0),
    "dilation": (1, 1),
    "groups": 1,
}
#: Operations of one value that leave each element where it is.
ELEMENTWISE = (
    *CUTS,
    *(md.leaky_relu, md.hardswish, md.hardsigmoid, md.sigmoid, md.tanh, md.silu),
    *(md.elu, md.selu, md.softplus, md.exp, md.abs, md.neg, md.clip),
    md.batch_norm,
    quantize,
    dequantize,
)
#: The operation on images of each operation on signals.
WIDER: dict[Any, Any] = {
    md.conv1d: md.conv2d,
    md.max_pool1d: md.max_pool2d,
    md.avg_pool1d: md.avg_pool2d,
}
#: How nodes name the axis of the height of an image.
HEIGHT = (2, (2,), -2, (-2,))
#: The most added products of a transposed convolution, as a multiple of its own.
MOST_WORK = 2


def fold_pads(graph: Graph) -> Graph:
    """Make a pad with zeros the padding of the convolutions that read it."""
    specs = graph.specs()
    nodes: dict[str, Node | None] = {}
    for node in graph.nodes:
        before = graph.producers.get(node.values[0]) if node.values else None
        if node.operation not in (md.conv1d, md.conv2d) or before is None:
            continue
        if before.operation is not md.pad or before.options.get("value", 0) != 0:
            continue
        source = before.values[0]
        images, channels, *edges = before.options["pad_width"]
        # On another grid the border would be other codes.
        are_alike = specs[source].qparams == specs[before.output].qparams
        if any(images) or any(channels) or min(map(min, edges)) < 0 or not are_alike:
            continue
        # A pad lists (before, after) of each axis, a convolution all starts first.
        added = [size for ends in zip(*edges, strict=True) for size in ends]
        own = node.options.get("padding", 0)
        sizes = padding4(own) if len(edges) == 2 else pair(own, "padding", 0)
        joint = tuple(a + b for a, b in zip(sizes, added, strict=True))
        made = node.rewired(inputs=(source, *node.inputs[1:]))
        options = {**node.options, "padding": joint}
        nodes[node.output] = replace(made, options=options)
    return graph.rewritten(nodes) if nodes else graph


def widen_signals(graph: Graph) -> Graph:
    """Replace convolutions and pools of signals by those of images of height 1."""
    if not any(node.operation in WIDER for node in graph.nodes):
        return graph
    names = {node.name for node in graph.nodes}
    chains = [
        _images(graph, node, names) if node.operation in WIDER else (node,)
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(node for chain in chains for node in chain))


def _images(graph: Graph, node: Node, names: set[str]) -> Iterator[Node]:
    """Yield the views and the operation on images that compute `node`."""
    inputs = []
    is_layer = node.operation is md.conv1d
    parts = ("image", "filters") if is_layer else ("image",)
    for source, part in zip(node.inputs, parts, strict=False):
        value = graph.fresh(f"{node.output}.{part}")
        name = fresh_name(f"{node.name}.{part}", names)
        codes = _codes_of(graph, source)
        if codes is None:
            yield Node(name, md.expand_dims, (source,), value, {"axis": 2})
        else:
            # A grid stays next to the operation, which then runs on codes.
            view = graph.fresh(f"{value}.q")
            yield Node(view, md.expand_dims, (codes,), view, {"axis": 2})
            yield Node(name, dequantize, (view,), value)
        inputs.append(value)
    options = _layer_options(node) if is_layer else _pool_options(node)
    rows, rest = graph.fresh(f"{node.output}.rows"), node.inputs[len(parts) :]
    yield Node(node.name, WIDER[node.operation], (*inputs, *rest), rows, options)
    name = fresh_name(f"{node.name}.signal", names)
    yield Node(name, md.squeeze, (rows,), node.output, {"axis": 2})


def _codes_of(graph: Graph, value: str) -> str | None:
    """Return the codes that are computed on one scale and dequantized to `value`."""
    before = graph.producers.get(value)
    if before is None or before.operation is not dequantize:
        return None
    made = graph.producers.get(before.values[0])
    if made is None or made.operation is not quantize:
        return None
    return None if made.options["qparams"].axis is not None else made.output


def _layer_options(node: Node) -> dict[str, Any]:
    """Return the options of the `conv2d` that computes a `conv1d`."""
    before, after = pair(node.options.get("padding", 0), "padding", 0)
    return {
        "stride": (1, pair(node.options.get("stride", 1), "stride", 1)[1]),
        "padding": (0, before, 0, after),
        "dilation": (1, pair(node.options.get("dilation", 1), "dilation", 1)[1]),
        "groups": node.options.get("groups", 1),
    }


def _pool_options(node: Node) -> dict[str, Any]:
    """Return the options of the 2-D pool that computes a 1-D one."""
    own = dict(node.options)
    names = ("kernel_size", "stride", "padding")
    found = {name: own.pop(name, None) for name in names}
    if found["padding"] is None:
        found["padding"] = 0
    window = pool1d_window(**found)
    sizes = (window.kernel, window.stride, window.padding)
    return {**own, **dict(zip(names, sizes, strict=True))}


# Convolutions in a row stay images, so that activations become part of them (decision
# 0038).
def join_signals(graph: Graph) -> Graph:
    """Keep the images of height 1 between convolutions of signals.

    `widen_signals` reshapes each result back to a signal, and so do files that write
    convolutions of signals as those of images. This pass moves that reshape after
    elementwise operations, up to the reshape to an image of the next convolution, and
    removes both.
    """
    chains: list[tuple[Node, ...]] = []
    renames: dict[str, str] = {}
    constants = dict(graph.constants)
    for node in graph.nodes:
        ends = [_end(graph, value) for value in node.values[:1]]
        if ends and ends[0] and _starts_image(node):
            if node.output in graph.outputs:
                chains.append((node,))
            else:
                renames[node.output] = ends[0].values[0]
        elif ends and ends[0] and _stays_image(graph, node):
            chains.append(_swapped(graph, node, ends[0]))
        elif ends and ends[0] and _adds_to_image(graph, node):
            column = graph.fresh(f"{node.output}.column")
            constants[column] = _on_images(graph.constants[node.inputs[1]])
            moved = replace(node, inputs=(node.inputs[0], column))
            chains.append(_swapped(graph, moved, ends[0]))
        elif ends and ends[0] and _turns_signal(node):
            chains.append(_turned(graph, node, ends[0]))
        else:
            chains.append((node,))
    nodes = tuple(node for chain in chains for node in chain)
    if nodes == graph.nodes and not renames:
        return graph
    joined = replace(graph, nodes=_renamed(nodes, renames), constants=constants)
    return joined.pruned()


def _end(graph: Graph, value: str) -> Node | None:
    """Return the node that makes a signal of an image of height 1, if one does."""
    before = graph.producers.get(value)
    if before is None or before.operation is not md.squeeze:
        return None
    rows = graph.producers.get(before.values[0])
    if before.options.get("axis") not in HEIGHT or rows is None:
        return None
    is_image = rows.operation in (*WIDER.values(), *ELEMENTWISE)
    return before if is_image else None


def _starts_image(node: Node) -> bool:
    return node.operation is md.expand_dims and node.options.get("axis") in HEIGHT


def _stays_image(graph: Graph, node: Node) -> bool:
    """Return whether `node` has the same meaning for images of height 1."""
    others = set(node.values[1:])
    if node.operation is quantize and node.options["qparams"].axis is not None:
        return False
    return node.operation in ELEMENTWISE and others <= set(graph.constants)


# TensorFlow's converter adds the bias behind the reshape, where it is no bias of the
# convolution yet.
def _adds_to_image(graph: Graph, node: Node) -> bool:
    """Return whether `node` adds or multiplies by a constant that enlarges nothing."""
    if node.operation not in (md.add, md.mul) or node.inputs[1] not in graph.constants:
        return False
    specs = graph.specs()
    signal = specs[node.inputs[0]]
    return specs[node.output] == signal and signal.qparams is None


def _turns_signal(node: Node) -> bool:
    return node.operation is md.permute_dims and node.options["axes"] == (0, 2, 1)


# Steps of images have the channels last, so this is no copy.
def _turned(graph: Graph, node: Node, end: Node) -> tuple[Node, Node]:
    """Return the image with channels last, and then its reshape to signals."""
    last = graph.fresh(f"{node.output}.last")
    names = {each.name for each in graph.nodes}
    turn = replace(node, inputs=end.values[:1], output=last)
    name = fresh_name(f"{node.name}.signal", names)
    return (
        replace(turn, options={"axes": (0, 2, 3, 1)}),
        Node(name, md.squeeze, (last,), node.output, {"axis": 1}),
    )


def _on_images(constant: Any) -> Any:
    """Return a constant of signals so that it broadcasts with images of height 1."""
    if constant.ndim < 2:
        return constant
    return md.reshape(constant, (*constant.shape[:-1], 1, constant.shape[-1]))


def _swapped(graph: Graph, node: Node, end: Node) -> tuple[Node, Node]:
    """Return `node` applied to the image, and then the reshape of its result."""
    rows = graph.fresh(f"{node.output}.rows")
    first = replace(node, inputs=(end.values[0], *node.inputs[1:]), output=rows)
    names = {each.name for each in graph.nodes}
    name = fresh_name(f"{node.name}.signal", names)
    return first, Node(name, md.squeeze, (rows,), node.output, {"axis": 2})


def _renamed(nodes: tuple[Node, ...], renames: dict[str, str]) -> tuple[Node, ...]:
    """Return the nodes with other names for the values that they read."""
    return tuple(
        node.rewired(inputs=tuple(_new_name(x, renames) for x in node.inputs))
        if any(value in renames for value in node.values)
        else node
        for node in nodes
    )


def _new_name(value: Any, renames: dict[str, str]) -> Any:
    return renames.get(value, value) if isinstance(value, str) else value


# An output pixel of a transposed convolution reads every stride-th tap only. So each
# of the stride * stride phases is a convolution with fewer taps, and all of them are
# channels of one (decision 0038).
def replace_conv_transposes(graph: Graph) -> Graph:
    """Replace transposed convolutions by `conv2d`, `pixel_shuffle` and a slice.

    A relu that follows moves in front of the `pixel_shuffle`.
    """
    places = {node.output: [node] for node in graph.nodes}
    constants = dict(graph.constants)
    for node in graph.nodes:
        phases = _phases(graph, node)
        if phases:
            reader = graph.only_consumer(node.output)
            # A relu next to its layer is part of the layer (`CUTS`); behind the shuffle
            # it would be an operation of its own.
            behind = reader if reader and reader.operation in CUTS else None
            layer, made = _layer(graph, node, phases)
            constants |= made
            places[node.output] = []
            last = behind or node
            places[last.output] = _chain(graph, layer, behind, last.output, phases)
    nodes = tuple(node for chain in places.values() for node in chain)
    return replace(graph, nodes=nodes, constants=constants).pruned()


class Phases:
    """The convolution that computes all phases of a transposed convolution.

    Args:
        kernel: (height, width) of the transposed convolution.
        stride: the stride of both axes.
        padding: (top, left, bottom, right), which the transposed convolution cuts off.
        output_padding: (height, width), added at the bottom and on the right.
    """

    def __init__(
        self,
        kernel: tuple[int, int],
        stride: int,
        padding: tuple[int, int, int, int],
        output_padding: tuple[int, int],
    ) -> None:
        self.kernel, self.stride = kernel, stride
        self.taps = tuple(-(-size // stride) for size in kernel)
        cut, ends = padding[:2], padding[2:]
        # The last output that a pixel reaches, counted from its own first output.
        self.reach = tuple(
            k - end + more
            for k, end, more in zip(kernel, ends, output_padding, strict=True)
        )
        # Whole pixels that are cut off at the front are not computed.
        skipped = [min(p // stride, n - 1) for p, n in zip(cut, self.taps, strict=True)]
        front = [n - 1 - q for n, q in zip(self.taps, skipped, strict=True)]
        back = [-(-reach // stride) - 1 for reach in self.reach]
        self.padding = (*front, *back)
        self.first = [p - q * stride for p, q in zip(cut, skipped, strict=True)]
        self.last = [-(-reach // stride) * stride - reach for reach in self.reach]

    def pays(self) -> bool:
        """Return whether the added taps are few, and every output can be computed."""
        height, width = (n * self.stride for n in self.taps)
        work = height * width <= MOST_WORK * self.kernel[0] * self.kernel[1]
        return work and min(self.reach) > 0

    def key(self) -> tuple[slice, ...]:
        """Return the index that cuts the joined phases; empty if nothing is cut."""
        if not any(self.first) and not any(self.last):
            return ()
        whole = slice(None)
        ends = zip(self.first, self.last, strict=True)
        return (whole, whole, *(slice(a, -b if b else None) for a, b in ends))

    def weights(self, w: Any, groups: int) -> Any:
        """Return the weights of `conv2d` from weights [in, out / groups, kh, kw]."""
        s, (taps_h, taps_w), (kh, kw) = self.stride, self.taps, self.kernel
        inputs, outputs = w.shape[:2]
        wide = np.zeros((inputs, outputs, taps_h * s, taps_w * s), w.buffer.dtype)
        wide[..., :kh, :kw] = w.buffer
        parts = wide.reshape(groups, -1, outputs, taps_h, s, taps_w, s)
        # A convolution reads its taps in the other order.
        parts = parts[:, :, :, ::-1, :, ::-1].transpose(0, 2, 4, 6, 1, 3, 5)
        shape = (groups * outputs * s * s, inputs // groups, taps_h, taps_w)
        return w.wrap(np.ascontiguousarray(parts.reshape(shape)))

    def bias(self, b: Any) -> Any:
        """Return the bias of each phase of each channel."""
        return b.wrap(np.repeat(b.buffer, self.stride * self.stride))


def _phases(graph: Graph, node: Node) -> Phases | None:
    """Return the phases of a transposed convolution with constant weights, or None."""
    if node.operation is not md.conv_transpose2d:
        return None
    if not all(x is None or x in graph.constants for x in node.inputs[1:]):
        return None
    given = node.options
    stride = pair(given.get("stride", 1), "stride", 1)
    dilation = pair(given.get("dilation", 1), "dilation", 1)
    if stride[0] != stride[1] or dilation != (1, 1):
        return None
    kernel = graph.constants[node.inputs[1]].shape[2:]
    added = pair(given.get("output_padding", 0), "output_padding", 0)
    found = Phases(kernel, stride[0], padding4(given.get("padding", 0)), added)
    return found if found.pays() else None


def _layer(graph: Graph, node: Node, phases: Phases) -> tuple[Node, dict[str, Any]]:
    """Return the convolution of all phases, and its constants by name."""
    # The name of the output is part of the new names: two layers may share weights.
    x, w, b = node.inputs
    groups = node.options.get("groups", 1)
    weights = graph.fresh(f"{w}.{node.output}")
    made = {weights: phases.weights(graph.constants[w], groups)}
    bias = None
    if b is not None:
        bias = graph.fresh(f"{b}.{node.output}")
        made[bias] = phases.bias(graph.constants[b])
    channels = graph.fresh(f"{node.output}.channels")
    options = {**PLAIN, "padding": phases.padding, "groups": groups}
    return Node(node.name, md.conv2d, (x, weights, bias), channels, options), made


def _chain(
    graph: Graph, layer: Node, behind: Node | None, output: str, phases: Phases
) -> list[Node]:
    """Return the layer, the relu that follows it if any, the shuffle and the slice."""
    names = {node.name for node in graph.nodes}
    moves: list[tuple[str, Any, dict[str, Any]]] = []
    if phases.stride > 1:
        moves.append(("pixels", md.pixel_shuffle, {"upscale_factor": phases.stride}))
    if key := phases.key():
        moves.append(("cut", md.getitem, {"key": key}))
    chain = [layer]
    if behind is not None:
        value = graph.fresh(f"{output}.channels")
        chain.append(replace(behind, inputs=(layer.output,), output=value))
    for part, operation, options in moves:
        name = fresh_name(f"{layer.name}.{part}", names)
        value = graph.fresh(f"{output}.{part}")
        chain.append(Node(name, operation, (chain[-1].output,), value, options))
    chain[-1] = chain[-1].rewired(output=output)
    return chain
