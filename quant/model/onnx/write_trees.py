"""Decision trees, written as TreeEnsembleRegressor.

The weight of a leaf is its number, and each tree has a target of its own, so the result
is the number of the leaf in each tree.
"""

from __future__ import annotations

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
#: What is written of each node. The leaf is -1 for a comparison.
COLUMNS = (
    *("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids"),
    *("missing_value_tracks_true", "leaf"),
)


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
    trees.add(roots.astype(np.int64))
    x = inputs[0]
    is_double = md.float64 in kinds
    if is_double and sink.specs[node.inputs[0]].dtype is md.float32:
        x = sink.emit("Cast", [x], to=element_code(md.float64))
    attributes = trees.attributes(is_double) | {"n_targets": len(roots)}
    kind = "TreeEnsembleRegressor"
    found = sink.emit(kind, [x], node.name, domain=DOMAIN, **attributes)
    sink.result("Cast", [found], "", to=element_code(md.int64))


class _Trees:
    """Nodes of a file, as columns; a node is named in its own tree.

    Args:
        thresholds, features, children: as for `md.decision_trees`.
        problem: the beginning of an error.
    """

    def __init__(
        self, thresholds: Any, features: Any, children: Any, problem: str
    ) -> None:
        self._nodes = thresholds, features, children
        self._most, self._problem = (MOST_COPIES + 1) * len(thresholds), problem
        self._count = 0
        self._rows: list[dict[str, Any]] = []

    # One level of all trees at a time: ensembles have millions of nodes.
    def add(self, roots: Any) -> None:
        """Append the trees, each node before its children."""
        tree, own, source = np.arange(len(roots)), np.zeros_like(roots), roots
        free = np.ones(len(roots), np.int64)
        while source.size:
            is_leaf = source < 0
            self._add_leaves(tree[is_leaf], own[is_leaf], -1 - source[is_leaf])
            tree, own, source = (a[~is_leaf] for a in (tree, own, source))
            tree, own, source = self._add_inner(tree, own, source, free)
            order = np.argsort(tree, kind="stable")
            tree, own, source = tree[order], own[order], source[order]

    def _add_inner(
        self, tree: Any, own: Any, source: Any, free: Any
    ) -> tuple[Any, ...]:
        """Append the comparisons of a level, in the order of trees.

        Args:
            tree, own: the names of these nodes.
            source: their positions in the operands.
            free: the next free name in each tree; advanced.

        Returns:
            Names and positions of the children.
        """
        thresholds, features, children = (array[source] for array in self._nodes)
        low, high, missing = children.astype(np.int64).T
        # All numbers are at most infinity, so only NaN goes to the other side.
        has_third = (missing != low) & (missing != high)
        name = _reserve(tree, np.where(has_third, 4, 2), free)
        ends = name + np.where(has_third, 2, 0)
        third = name[has_third]
        first = (tree[has_third], own[has_third], features[has_third])
        self._add_nodes(*first, np.inf, third, third + 1, np.False_)
        inner = np.where(has_third, name, own)
        is_low = missing == low
        self._add_nodes(tree, inner, features, thresholds, ends, ends + 1, is_low)
        return (
            np.concatenate([tree, tree, tree[has_third]]),
            np.concatenate([ends, ends + 1, third + 1]),
            np.concatenate([low, high, missing[has_third]]),
        )

    def _add_nodes(
        self,
        tree: Any,
        own: Any,
        features: Any,
        thresholds: Any,
        low: Any,
        high: Any,
        is_low: Any,
    ) -> None:
        """Append comparisons; `is_low`: whether NaN goes where small numbers go."""
        self._count += len(tree)
        if self._count > self._most:
            problem = f"{self._problem}: its nodes have too many parents"
            raise ModelError(problem, "Give each node one parent")
        self._place(tree, own, features, thresholds, low, high, is_low, -1)

    def _add_leaves(self, tree: Any, own: Any, leaves: Any) -> None:
        if leaves.max(initial=0) > LARGEST:
            problem = f"{self._problem}: it has {leaves.max():,} leaves"
            raise ModelError(problem, f"Use up to {LARGEST:,}")
        self._place(tree, own, 0, 0.0, 0, 0, 0, leaves)

    def _place(self, tree: Any, own: Any, *columns: Any) -> None:
        """Append rows of `COLUMNS`."""
        self._rows.append(
            {
                name: np.broadcast_to(column, tree.shape)
                for name, column in zip(COLUMNS, (tree, own, *columns), strict=True)
            }
        )

    def attributes(self, is_double: bool) -> dict[str, Any]:
        """Return the attributes of the operator."""
        from onnx import numpy_helper

        columns = {n: np.concatenate([row[n] for row in self._rows]) for n in COLUMNS}
        # The nodes of a tree are next to each other, its root first.
        order = np.argsort(columns["treeids"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        leaf = columns.pop("leaf")
        is_leaf = leaf >= 0
        found: dict[str, Any] = {f"nodes_{n}": c.tolist() for n, c in columns.items()}
        found["nodes_modes"] = np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist()
        found["target_treeids"] = columns["treeids"][is_leaf].tolist()
        found["target_nodeids"] = columns["nodeids"][is_leaf].tolist()
        found["target_ids"] = found["target_treeids"]
        found["target_weights"] = leaf[is_leaf].astype(np.float64).tolist()
        if is_double:
            for name in ("nodes_values", "target_weights"):
                array = np.asarray(found.pop(name), np.float64)
                found[f"{name}_as_tensor"] = numpy_helper.from_array(array, name)
        return found


def _reserve(tree: Any, needed: Any, free: Any) -> Any:
    """Return the first of `needed` names for each node; advance `free`.

    Args:
        tree: the tree of each node, ascending.
        needed: how many names each node needs.
        free: the next free name in each tree.
    """
    before = np.cumsum(needed) - needed
    first = np.searchsorted(tree, tree)
    names = free[tree] + before - before[first]
    np.add.at(free, tree, needed)
    return names
