"""Whether a network treats the elements of its first axis one by one.

If it does, an array with k times as many is k calls of a stored plan. A recurrent
layer, a softmax along the first axis, or a product of two computed matrices does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.graph import Graph, Node

Specs = Mapping[str, TensorSpec]
#: Operations along the first axis, or that may be.
MIXING = {md.lstm, md.gru, md.rnn, md.moveaxis, md.broadcast_to, md.tile, md.stack}
MIXING |= {md.scatter, md.searchsorted}
#: One grid covers all samples.
MIXING |= {md.dynamic_matmul, md.dynamic_conv2d, md.dynamic_lstm}
#: Operations on the last two axes, and on the last three.
OF_MATRICES = {md.matmul, md.matrix_transpose, md.scaled_dot_product_attention}
OF_MATRICES |= {md.tril, md.triu}
OF_IMAGES = {md.pixel_shuffle, md.pixel_unshuffle}
#: Operations whose other operands are weights, which have axes of their own.
WEIGHTED = {md.linear, md.conv2d, md.layer_norm, md.rms_norm, md.take}
#: The axis of an operation, if no option names it.
AXES = {md.softmax: -1, md.concat: 0, md.flip: None, md.take: None}
AXES |= {md.argsort: -1, md.take_along_axis: -1}
AXES |= dict.fromkeys((md.argmax, md.argmin, md.cumulative_sum, md.roll))
AXES |= dict.fromkeys((md.any, md.all, md.sum))


# Whoever passes more than the sizes of a plan means several calls. With another
# network, the model itself would compute something else (decision 0064).
def has_batch(graph: Graph, specs: Specs) -> bool:
    """Return whether the first axis of all inputs counts independent samples."""
    given = [specs[name] for name in graph.inputs]
    if len({spec.shape[:1] for spec in given}) != 1:
        return False
    computed = {*graph.inputs, *(node.output for node in graph.nodes)}
    # Each call would have a copy of a constant.
    if not computed.issuperset(graph.outputs):
        return False
    found = [specs[name] for name in computed]
    if any(x.ndim == 0 or getattr(x.qparams, "axis", None) == 0 for x in found):
        return False
    return not any(_mixes(node, specs, computed) for node in graph.nodes)


def _mixes(node: Node, specs: Specs, computed: set[str]) -> bool:
    """Return whether a node may combine elements of the first axis."""
    if node.operation in MIXING or computed.isdisjoint(node.values):
        return True
    return (
        _mixes_operands(node, specs, computed)
        or _mixes_along(node, specs)
        or _mixes_last_axes(node, specs, computed)
    )


def _mixes_operands(node: Node, specs: Specs, computed: set[str]) -> bool:
    """Return whether an operand has another first axis than the others."""
    operands = [specs[name] for name in node.values if name in computed]
    first, others = operands[0], operands[1:]
    if any((x.ndim, x.shape[:1]) != (first.ndim, first.shape[:1]) for x in others):
        return True
    if node.operation in WEIGHTED:
        return node.values[0] not in computed or bool(others)
    fixed = [specs[name] for name in node.values if name not in computed]
    # The last axes of a matrix are no samples.
    if node.operation is md.matmul:
        fixed = [x for x in fixed if x.ndim > 2]
    return any(x.ndim > first.ndim or _covers(x, first) for x in fixed)


def _covers(fixed: TensorSpec, first: TensorSpec) -> bool:
    """Return whether a constant has an element for each of the first axis."""
    return fixed.ndim == first.ndim and fixed.shape[0] != 1


def _mixes_along(node: Node, specs: Specs) -> bool:
    """Return whether the options of a node name the first axis."""
    options, ndim = node.options, specs[node.values[0]].ndim
    if node.operation is md.permute_dims:
        return int(options["axes"][0]) % ndim != 0
    if node.operation is md.getitem:
        key = options["key"]
        start = key[0] if isinstance(key, tuple) and key else key
        return start is not Ellipsis and start != slice(None)
    if node.operation is md.reshape:
        # A size of -1 is as many as there are.
        moved = specs[node.output].shape[0] != specs[node.values[0]].shape[0]
        return moved and int(options["shape"][0]) != -1
    if "normalized_shape" in options:
        return len(_listed(options["normalized_shape"])) >= ndim
    if "axis" not in options and node.operation not in AXES:
        return False
    axis = options.get("axis", AXES.get(node.operation))
    ndim = max(ndim, specs[node.output].ndim)
    return axis is None or any(int(one) % ndim == 0 for one in _listed(axis))


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _mixes_last_axes(node: Node, specs: Specs, computed: set[str]) -> bool:
    """Return whether the first axis is one of those that a node computes with."""
    ranks = [specs[name].ndim for name in node.values if name in computed]
    if node.operation in OF_IMAGES:
        return ranks[0] <= 3
    if node.operation in (md.linear, *OF_MATRICES) and min(ranks) == 1:
        return True
    if node.operation is md.matmul and node.values[1] not in computed:
        return False
    return node.operation in OF_MATRICES and min(ranks) == 2
