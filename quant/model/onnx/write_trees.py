"""Decision trees, written as TreeEnsembleRegressor.

The weight of a leaf is its number, and each tree has a target of its own, so the result
is the number of the leaf in each tree.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.write_operators import Sink, element_code, emits

#: The domain of estimators, and the first of its operator sets with float64 thresholds.
DOMAIN, VERSION = "ai.onnx.ml", 3
#: The largest leaf, and the most nodes for one of `md.decision_trees`: float32 weights
#: are exact up to it, and nodes with two parents are written for each of them.
LARGEST, MOST_COPIES = 2**24, 4


@emits(md.decision_trees)
def decision_trees(sink: Sink, node: Node, inputs: list[str]) -> None:
    constants = [sink.values.get(name) for name in node.inputs[1:]]
    problem = f"decision_trees of node {node.name!r} cannot be written"
    if any(one is None for one in constants):
        raise ModelError(f"{problem}: it has computed trees", "Give constant ones")
    thresholds, features, children, roots = (
        np.asarray(one.buffer) for one in constants if one is not None
    )
    kinds = {sink.specs[node.inputs[0]].dtype, sink.specs[node.inputs[1]].dtype}
    if kinds - {md.float32, md.float64}:
        raise ModelError(f"{problem}: it compares narrow floats", "Use float32")
    trees = _Trees(thresholds, features, children, problem)
    for tree, root in enumerate(roots.tolist()):
        trees.add(tree, root)
    x = inputs[0]
    is_double = md.float64 in kinds
    if is_double and sink.specs[node.inputs[0]].dtype is md.float32:
        x = sink.emit("Cast", [x], to=element_code(md.float64))
    attributes = trees.attributes(is_double) | {"n_targets": len(roots)}
    kind = "TreeEnsembleRegressor"
    found = sink.emit(kind, [x], node.name, domain=DOMAIN, **attributes)
    sink.result("Cast", [found], "", to=element_code(md.int64))


class _Trees:
    """Nodes of a file, as attributes of lists; a node is named in its own tree.

    Args:
        thresholds, features, children: as for `md.decision_trees`.
        problem: the beginning of an error.
    """

    def __init__(
        self, thresholds: Any, features: Any, children: Any, problem: str
    ) -> None:
        self._nodes = thresholds, features, children
        self._most, self._problem = MOST_COPIES * len(thresholds), problem
        self._lists: dict[str, list[Any]] = defaultdict(list)

    def add(self, tree: int, root: int) -> None:
        """Append a tree, each node before its children."""
        self._count = 0
        left = [(self._reserve(), root)]
        while left:
            own, source = left.pop()
            if source < 0:
                self._leaf(tree, own, -1 - source)
                continue
            threshold, feature, (low, high, missing) = (
                array[source].tolist() for array in self._nodes
            )
            if missing not in (low, high):
                # All numbers are at most infinity, so only NaN goes to the other side.
                inner, other = self._reserve(), self._reserve()
                self._node(tree, own, feature, np.inf, inner, other, False)
                left.append((other, missing))
                own = inner
            ends = self._reserve(), self._reserve()
            is_low = missing == low
            self._node(tree, own, feature, threshold, *ends, is_low)
            left += zip(ends, (low, high), strict=True)

    def _reserve(self) -> int:
        self._count += 1
        return self._count - 1

    def _node(
        self,
        tree: int,
        own: int,
        feature: int,
        threshold: float,
        low: int,
        high: int,
        is_low: bool,
    ) -> None:
        """Append a comparison; `is_low`: whether NaN goes where small numbers go."""
        lists = self._lists
        if len(lists["nodes_modes"]) > self._most + len(self._nodes[0]):
            problem = f"{self._problem}: its nodes have too many parents"
            raise ModelError(problem, "Give each node one parent")
        self._place(tree, own, "BRANCH_LEQ", feature, threshold, low, high)
        lists["nodes_missing_value_tracks_true"].append(int(is_low))

    def _leaf(self, tree: int, own: int, leaf: int) -> None:
        if leaf > LARGEST:
            problem = f"{self._problem}: it has {leaf:,} leaves"
            raise ModelError(problem, f"Use up to {LARGEST:,}")
        lists = self._lists
        self._place(tree, own, "LEAF", 0, 0.0, 0, 0)
        lists["nodes_missing_value_tracks_true"].append(0)
        lists["target_treeids"].append(tree)
        lists["target_nodeids"].append(own)
        lists["target_ids"].append(tree)
        lists["target_weights"].append(float(leaf))

    def _place(self, tree: int, own: int, mode: str, *rest: Any) -> None:
        names = ("featureids", "values", "truenodeids", "falsenodeids")
        values = dict(zip(names, rest, strict=True))
        values |= {"treeids": tree, "nodeids": own, "modes": mode}
        for name, value in values.items():
            self._lists[f"nodes_{name}"].append(value)

    def attributes(self, is_double: bool) -> dict[str, Any]:
        """Return the attributes of the operator."""
        from onnx import numpy_helper

        found: dict[str, Any] = dict(self._lists)
        if is_double:
            for name in ("nodes_values", "target_weights"):
                array = np.asarray(found.pop(name), np.float64)
                found[f"{name}_as_tensor"] = numpy_helper.from_array(array, name)
        return found
