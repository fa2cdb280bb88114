"""What the layers of a graph read, seen on samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import DataError
from mdtensor.quant.model.graph import Graph, Node, Observe
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.calibrate import checked_sample
from mdtensor.quant.model.run.inputs import each
from mdtensor.quant.weights.moments import GroupedMoments, InputMoments
from mdtensor.quant.weights.patches import patches


def watch(graph: Graph, samples: Iterable[Any], observe: Observe) -> None:
    """Run the graph on samples, which are not kept.

    Args:
        graph: float.
        samples: as `calibrate` takes them.
        observe: is called with each value, see `Graph.run`.

    Raises:
        DataError: samples that the graph does not take, or none.
    """
    count = 0
    for count, sample in enumerate(each(samples), start=1):
        graph.run(checked_sample(graph, sample, f"sample {count}"), observe)
    if not count:
        raise DataError("there are no samples", "Give at least one")


def input_moments(
    graph: Graph, samples: Iterable[Any], names: Collection[str] | None = None
) -> dict[str, list[InputMoments]]:
    """What layers with constant weights read, summed up; samples are not kept.

    Args:
        graph: float.
        samples: as `calibrate` takes them.
        names: of the layers; None for all.

    Returns:
        For each node by name: moments for each of its groups.

    Raises:
        DataError: samples that the graph does not take, or none.
    """
    readers: dict[str, list[Node]] = {}
    found: dict[str, GroupedMoments] = {}
    for node in graph.nodes:
        if _is_layer(graph, node) and (names is None or node.name in names):
            readers.setdefault(node.inputs[0], []).append(node)

    def observe(name: str, tensor: Any) -> None:
        for node in readers.get(name, []):
            shape = graph.constants[node.inputs[1]].shape
            rows = _rows(node, np.asarray(tensor), shape)
            if node.name not in found:
                found[node.name] = GroupedMoments(len(rows), rows.shape[-1])
            found[node.name].observe(rows)

    watch(graph, samples, observe)
    return {name: moments.split() for name, moments in found.items()}


def _is_layer(graph: Graph, node: Node) -> bool:
    return node.operation in WEIGHTED and node.inputs[1] in graph.constants


def _rows(node: Node, x: Any, shape: tuple[int, ...]) -> Any:
    """What one output is a product of: [groups, positions, inputs of a group]."""
    if node.operation is md.linear:
        return x.reshape(1, -1, x.shape[-1])
    names = ("stride", "padding", "dilation", "groups")
    options = {name: node.options[name] for name in names if name in node.options}
    return patches(x, shape[2:], **options)
