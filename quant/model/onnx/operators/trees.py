"""Readers of TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier.

`md.decision_trees` finds the leaf of each tree, and a sum, mean, minimum or maximum of
the weights of these leaves follows, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.ensembles import (
    MODES,
    Nodes,
    Trees,
    convert,
    reached_nodes,
    renumbered,
    tree_of_targets,
)
from mdtensor.quant.model.onnx.operators.scores import (
    TRANSFORMS,
    cast,
    class_labels,
    numbers,
    rows,
    text,
    transform,
    with_opposite,
    write_labels,
    write_scores,
)
from mdtensor.quant.model.onnx.operators.table import reads

#: The operation that joins the trees, and the weight of a leaf without one, by the
#: name; in TreeEnsemble by position.
AGGREGATES: dict[str, tuple[Any, float]] = {
    "AVERAGE": (md.sum, 0.0),
    "SUM": (md.sum, 0.0),
    "MIN": (md.min, np.inf),
    "MAX": (md.max, -np.inf),
}


@dataclass(frozen=True)
class Votes:
    """The weights of leaves for targets; a leaf may have any number of them.

    Args:
        leaves, targets: the leaf and the target of each.
        weights: float64.
    """

    leaves: Array
    targets: Array
    weights: Array


def integers(op: Operator, name: str, count: int | None = None) -> Array:
    """Return an attribute of integers; raise unless it has `count` of them."""
    found = np.asarray(op.get(name) or (), np.int64).reshape(-1)
    if count is not None:
        require_count(op, found, count, name)
    return found


def require_range(op: Operator, name: str, given: Array, count: int) -> None:
    """Require indices from 0 to count - 1.

    Raises:
        ModelError: an index is outside.
    """
    wrong = given[(given < 0) | (given >= count)]
    if wrong.size:
        raise op.error(f"has {wrong[0]} in {name}", f"Use 0 to {count - 1}")


@reads("ai.onnx.ml.TreeEnsembleRegressor")
def regressor(g: Builder, op: Operator) -> None:
    """Read TreeEnsembleRegressor."""
    count = op.get("n_targets", 1)
    if count < 1:
        raise op.error(f"has n_targets={count}", "Use 1 or more")
    g.reserve(op, count)
    trees, votes = _named_trees(op, "target")
    require_range(op, "target_ids", votes.targets, count)
    kind = op.get("aggregate_function", "SUM")
    order = tree_of_targets(trees, votes.leaves, votes.targets, count)
    if order is None or kind != "SUM":
        found = _aggregate(g, op, trees, votes, count, kind)
    else:
        found = _weights_of_leaves(g, op, trees, votes, order)
    found = _with_base(g, op, found, count)
    # ONNX Runtime applies only PROBIT to a single target; the text has no exception.
    found = transform(g, op, found)
    g.alias(op, op.outputs[0], cast(g, op, found, md.float32))


@reads("ai.onnx.ml.TreeEnsembleClassifier")
def classifier(g: Builder, op: Operator) -> None:
    """Read TreeEnsembleClassifier.

    If all votes are for one of two classes, the text does not name the label. As in
    ONNX Runtime, votes for the first one are the score of the second class, and the
    second class is chosen from 0.5 on if no weight is negative, else from 0 on.
    Otherwise the top class has the largest score, by the text; ONNX Runtime chooses
    the second of two classes if its score is above 0.
    """
    count, labels = class_labels(op, "classlabels_int64s")
    trees, votes = _named_trees(op, "class")
    require_range(op, "class_ids", votes.targets, count)
    base, voted = numbers(op, "base_values").size, set(votes.targets.tolist())
    is_single = count == 2 and len(voted) == 1 and base < 2
    if not is_single:
        scores = _aggregate(g, op, trees, votes, count, "SUM")
        scores = _rounded(g, op, _with_base(g, op, scores, count))
        best = g.step(op, "best", md.argmax, scores, axis=1)
        write_labels(g, op, labels, best)
        write_scores(g, op, transform(g, op, scores))
        return
    only = Votes(votes.leaves, np.zeros_like(votes.targets), votes.weights)
    score = _aggregate(g, op, trees, only, 1, "SUM")
    is_signed, is_second = bool((votes.weights < 0).any()), voted == {1}
    if not is_second:
        score = _with_base(g, op, score, 1)
    elif base:
        numbers(op, "base_values", count)
    score, limit = _rounded(g, op, score), 0.0 if is_signed else 0.5
    flat = g.step(op, "flat", md.squeeze, score, axis=1)
    is_above = g.step(op, "is_above", md.greater, flat, limit)
    write_labels(g, op, labels, g.step(op, "best", md.astype, is_above, md.int64))
    if is_second:
        zeros = g.step(op, "zeros", md.zeros_like, score)
        both = g.step(op, "scores", md.concat, zeros, score, axis=1)
        write_scores(g, op, transform(g, op, both))
    else:
        write_scores(g, op, with_opposite(g, op, score, is_signed=is_signed))


# The label follows the scores of the result: shares of 20 trees have ties, and a sum
# of float32 weights in float64 is not exactly 0.5.
def _rounded(g: Builder, op: Operator, scores: str) -> str:
    """Return scores in float32."""
    return cast(g, op, scores, md.float32)


@reads("ai.onnx.ml.TreeEnsemble")
def ensemble(g: Builder, op: Operator) -> None:
    """Read TreeEnsemble, which has separate nodes and leaves."""
    count, kinds = op.get("n_targets"), list(AGGREGATES)
    if count is None or count < 1:
        raise op.error(f"has n_targets={count}", "Use 1 or more")
    g.reserve(op, count)
    kind, post = op.get("aggregate_function", 1), op.get("post_transform", 0)
    for name, value, known in (
        ("aggregate_function", kind, kinds),
        ("post_transform", post, list(TRANSFORMS)),
    ):
        require_range(op, name, np.array([value]), len(known))
    trees, votes = _numbered_trees(op)
    require_range(op, "leaf_targetids", votes.targets, count)
    found = _aggregate(g, op, trees, votes, count, kinds[kind])
    found = TRANSFORMS[list(TRANSFORMS)[post]](g, op, found)
    dtype = g.specs[str(op.inputs[0])].dtype
    g.alias(op, op.outputs[0], cast(g, op, found, dtype))


# Attributes of the two older operators: a node is named by its tree and its number.


def _named_trees(op: Operator, side: str) -> tuple[Trees, Votes]:
    """Return the trees and the votes of an operator of set 1 to 3.

    Args:
        side: "class" or "target", the prefix of the attributes of votes.
    """
    kinds = [text(entry) for entry in op.get("nodes_modes") or ()]
    count = len(kinds)
    if not count:
        raise op.error("does not have nodes", "Give it nodes_modes and nodes_nodeids")
    ids, features, then, other = (
        integers(op, f"nodes_{name}ids", count)
        for name in ("node", "feature", "truenode", "falsenode")
    )
    number, modes = _Numbers(op, ids, count), _modes(op, kinds)
    is_leaf = modes == len(MODES)
    codes = np.where(is_leaf, -np.cumsum(is_leaf), np.cumsum(~is_leaf) - 1)
    inner = np.flatnonzero(~is_leaf)
    owner = number.tree_of[inner]
    places = [
        number.find(owner, child[inner], f"nodes_{name}nodeids")
        for name, child in (("true", then), ("false", other))
    ]
    roots = _roots(op, number, places)
    true, false = (codes[place] for place in places)
    flags = op.get("nodes_missing_value_tracks_true")
    tracks = integers(op, "nodes_missing_value_tracks_true", count) if flags else None
    goes_true = np.zeros(count, bool) if tracks is None else tracks == 1
    trees = Trees(
        modes[inner],
        _checked_features(op, features[inner]),
        _splits(op, "nodes_values", count)[inner],
        true,
        false,
        # NaN follows the flag, by the text. In ONNX Runtime NaN != h is true always.
        np.where(goes_true[inner], true, false),
        codes[roots],
    )
    seen = reached_nodes(op, trees, lambda place: number.name(int(inner[place])))
    if not seen.all():
        lost = number.name(int(inner[np.flatnonzero(~seen)[0]]))
        raise op.error(f"has no path from a root to {lost}", "Give it a tree")
    return trees, _named_votes(op, side, number, codes)


class _Numbers:
    """The positions of nodes by tree and number.

    Args:
        op: the operator, for errors.
        ids: the number of each node in its tree.
        count: how many nodes there are.
    """

    def __init__(self, op: Operator, ids: Array, count: int) -> None:
        self.op, self.ids = op, ids
        trees = integers(op, "nodes_treeids", count)
        self.trees, self.tree_of = np.unique(trees, return_inverse=True)
        self.numbers, places = np.unique(ids, return_inverse=True)
        keys = self.tree_of * len(self.numbers) + places
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        twice = np.flatnonzero(self.keys[1:] == self.keys[:-1])
        if twice.size:
            name = self.name(int(self.order[twice[0]]))
            raise op.error(f"has {name} twice", "Number the nodes of each tree")

    def name(self, place: int) -> str:
        """Return the name of a node, for an error."""
        return f"node {self.ids[place]} of tree {self.trees[self.tree_of[place]]}"

    def find(self, trees: Array, ids: Array, what: str) -> Array:
        """Return the positions of nodes; raise if one does not exist.

        Args:
            trees: positions in `self.trees`.
            ids: the numbers in the trees.
            what: the attribute, for the error.
        """
        places = np.minimum(np.searchsorted(self.numbers, ids), len(self.numbers) - 1)
        keys = trees * len(self.numbers) + places
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        wrong = (self.numbers[places] != ids) | (self.keys[found] != keys)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise self.op.error(
                f"has node {ids[at]} of tree {self.trees[trees[at]]} in {what}, which "
                "does not exist",
                "Export it again",
            )
        return self.order[found]


def _modes(op: Operator, kinds: list[str]) -> Array:
    """Return the number of each comparison; a leaf is one more than the last."""
    known = {name: at for at, name in enumerate(MODES[:-1])}
    known["LEAF"] = len(MODES)
    for kind in set(kinds):
        if kind not in known:
            raise op.error(f"has {kind!r} in nodes_modes", f"Use {', '.join(known)}")
    return np.array([known[kind] for kind in kinds], np.int64)


def _splits(op: Operator, name: str, count: int) -> Array:
    """Return the thresholds, float64 if the file has them as such."""
    given = op.get(f"{name}_as_tensor")
    is_wide = given is not None and given.dtype == np.float64
    return numbers(op, name, count).astype(np.float64 if is_wide else np.float32)


def _checked_features(op: Operator, features: Array) -> Array:
    require_range(op, "nodes_featureids", features, 2**31)
    return features


def _roots(op: Operator, number: _Numbers, children: list[Array]) -> Array:
    """Return the node of each tree that is not a child of another one."""
    is_child = np.zeros(len(number.ids), bool)
    for places in children:
        is_child[places] = True
    roots = np.flatnonzero(~is_child)
    counts = np.bincount(number.tree_of[roots], minlength=len(number.trees))
    if (counts != 1).any():
        at = int(np.flatnonzero(counts != 1)[0])
        raise op.error(
            f"has {counts[at]} nodes without a parent in tree {number.trees[at]}",
            "Give each tree one root and no circles",
        )
    return roots


def _named_votes(op: Operator, side: str, number: _Numbers, codes: Array) -> Votes:
    """Return the votes, by leaf."""
    ids = integers(op, f"{side}_ids")
    trees, nodes = (
        integers(op, f"{side}_{name}ids", ids.size) for name in ("tree", "node")
    )
    weights = numbers(op, f"{side}_weights", ids.size)
    owner = np.minimum(np.searchsorted(number.trees, trees), len(number.trees) - 1)
    wrong = np.flatnonzero(number.trees[owner] != trees)
    if wrong.size:
        tree = trees[wrong[0]]
        raise op.error(f"has tree {tree} in {side}_treeids, which does not exist")
    places = number.find(owner, nodes, f"{side}_nodeids")
    inner = np.flatnonzero(codes[places] >= 0)
    if inner.size:
        name = number.name(int(places[inner[0]]))
        raise op.error(
            f"has a weight of {name}, which is not a leaf", "Export it again"
        )
    return Votes(-1 - codes[places], ids, weights)


# Attributes of TreeEnsemble: nodes and leaves are numbered across all trees.


def _numbered_trees(op: Operator) -> tuple[Trees, Votes]:
    """Return the trees and the votes of TreeEnsemble."""
    modes = np.asarray(op.get("nodes_modes")).reshape(-1).astype(np.int64)
    count = modes.size
    require_range(op, "nodes_modes", modes, len(MODES))
    targets = integers(op, "leaf_targetids")
    weights = np.asarray(op.get("leaf_weights"), np.float64).reshape(-1)
    require_count(op, weights, targets.size, "leaf_weights")
    true, false = (_branch(op, side, count, targets.size) for side in ("true", "false"))
    flags = op.get("nodes_missing_value_tracks_true")
    tracks = integers(op, "nodes_missing_value_tracks_true", count) if flags else None
    missing = false if tracks is None else np.where(tracks == 1, true, false)
    splits = np.asarray(op.get("nodes_splits")).reshape(-1)
    require_count(op, splits, count, "nodes_splits")
    roots = integers(op, "tree_roots")
    require_range(op, "tree_roots", roots, count)
    if not roots.size:
        raise op.error("does not have trees", "Give it tree_roots")
    trees = Trees(
        modes,
        _checked_features(op, integers(op, "nodes_featureids", count)),
        splits.astype(np.float64 if splits.dtype == np.float64 else np.float32),
        true,
        false,
        missing,
        roots,
        _members(op, int((modes == len(MODES) - 1).sum())),
    )
    reached_nodes(op, trees, lambda place: f"node {place}")
    return trees, Votes(np.arange(targets.size), targets, weights)


def _branch(op: Operator, side: str, nodes: int, leaves: int) -> Array:
    """Return the children of one branch: nodes, or -1 - j for leaf j."""
    places = integers(op, f"nodes_{side}nodeids", nodes)
    is_leaf = integers(op, f"nodes_{side}leafs", nodes) != 0
    require_range(op, f"nodes_{side}nodeids", places[~is_leaf], nodes)
    require_range(op, f"nodes_{side}nodeids", places[is_leaf], leaves)
    return np.where(is_leaf, -1 - places, places)


def _members(op: Operator, count: int) -> list[Array]:
    """Return the sets of the nodes that have one: numbers before each NaN."""
    given = op.get("membership_values")
    values = np.asarray(() if given is None else given, np.float64).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(values, ends + 1)
    if not parts[-1].size:
        parts = parts[:-1]
    require_count(op, parts, count, "sets of membership_values")
    return parts


# Aggregation.


def _aggregate(
    g: Builder, op: Operator, trees: Trees, votes: Votes, count: int, kind: str
) -> str:
    """Return the aggregated weights [n, count] in float64."""
    leaves = _leaves(g, op, trees)
    operation, least = AGGREGATES[kind]
    total = len(trees.roots)
    size = max(trees.leaf_count, int(votes.leaves.max(initial=0)) + 1)
    table = _table(g, op, votes, (size, count), kind)
    weights = g.new_constant(op, "weights", table if count > 1 else table[:, 0])
    if count > 1:
        # Trees first: adding long rows of all votes of a tree is fast.
        leaves = g.step(op, "by_tree", md.permute_dims, leaves, axes=(1, 0))
        found = g.step(op, "votes", md.take, weights, leaves, axis=0)
        found = g.step(op, "joined", operation, found, axis=0)
    else:
        found = g.step(op, "votes", md.take, weights, leaves, axis=0)
        found = g.step(op, "joined", operation, found, axis=1, keepdims=True)
    if kind == "AVERAGE":
        found = g.step(op, "mean", md.div, found, float(total))
    if np.isinf(least) and (table == least).any():
        # A target without votes is 0, as in ONNX Runtime.
        is_empty = g.step(op, "is_empty", md.equal, found, least)
        found = g.step(op, "filled", md.where, is_empty, 0.0, found)
    return found


# A table of each leaf for each target has trees times leaves numbers then: the file of
# 10,000 trees that the writer makes of `md.decision_trees` had 24 billion.
def _weights_of_leaves(
    g: Builder, op: Operator, trees: Trees, votes: Votes, order: Array
) -> str:
    """Return the weight of the leaf in the tree of each target, in float64.

    Args:
        g, op, trees, votes: as for `_aggregate`.
        order: the tree of each target.
    """
    g.reserve(op, trees.leaf_count)
    weights = np.zeros(trees.leaf_count)
    weights[votes.leaves] += votes.weights
    are_leaves = ((weights % 1 == 0) & (weights >= 0) & (weights < 2**24)).all()
    if are_leaves:
        trees = renumbered(trees, weights.astype(np.int64))
    leaves = _leaves(g, op, trees)
    if (order != np.arange(len(order))).any():
        places = g.new_constant(op, "order", order)
        leaves = g.step(op, "by_target", md.take, leaves, places, axis=1)
    if are_leaves:
        return cast(g, op, leaves, md.float64)
    table = g.new_constant(op, "weights", weights)
    return g.step(op, "votes", md.take, table, leaves, axis=0)


def _table(
    g: Builder, op: Operator, votes: Votes, shape: tuple[int, int], kind: str
) -> Array:
    """Return the weight of each leaf for each target, float64."""
    join = {"MIN": np.minimum, "MAX": np.maximum}.get(kind, np.add)
    g.reserve(op, *shape)
    found = np.full(shape, AGGREGATES[kind][1])
    join.at(found, (votes.leaves, votes.targets), votes.weights)
    return found


def _leaves(g: Builder, op: Operator, trees: Trees) -> str:
    """Return the leaf of each row in each tree."""
    name = str(op.inputs[0])
    dtype = g.specs[name].dtype
    # ONNX Runtime compares integers as float32.
    x = rows(g, op, dtype if dtype.is_floating else md.float32)
    width = g.shape(x)[1]
    if width > 0:
        require_range(op, "nodes_featureids", trees.features, width)
    is_wide = dtype is md.float64 or trees.splits.dtype == np.float64
    splits = trees.splits.astype(np.float64 if is_wide else np.float32)
    nodes: Nodes = convert(replace(trees, splits=splits))
    parts = ("thresholds", "features", "children", "roots")
    operands = (g.new_constant(op, part, getattr(nodes, part)) for part in parts)
    return g.step(op, "leaves", md.decision_trees, x, *operands)


def _with_base(g: Builder, op: Operator, scores: str, count: int) -> str:
    """Return scores plus the base values of the targets, if there are any."""
    if not numbers(op, "base_values").size:
        return scores
    base = g.new_constant(op, "base", numbers(op, "base_values", count))
    return g.step(op, "raised", md.add, scores, base)
