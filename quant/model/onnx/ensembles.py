"""Trees of a file as nodes that only ask whether a feature is at most a threshold.

A file has seven comparisons. Each becomes one or several nodes of `md.decision_trees`:
x < h is x <= the number before h, x > h is x <= h with its branches exchanged, x == h
is a pair of nodes, and membership in a set is a search in its sorted members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdtensor.quant.model.onnx.build import Array, Operator

#: The comparisons, by their numbers in TreeEnsemble.
MODES = (
    *("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"),
    *("BRANCH_NEQ", "BRANCH_MEMBER"),
)
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)


@dataclass(frozen=True)
class Trees:
    """Trees as in a file. A child or a root is a node, or -1 - j for leaf j.

    Args:
        modes: [m], the number of a comparison in `MODES`.
        features: [m].
        splits: [m], float32 or float64.
        then, other: [m], the child if the comparison is true, and if it is false.
        missing: [m], the child if the feature is NaN.
        roots: [t].
        members: the set of each node with mode MEMBER, in the order of the nodes.
    """

    modes: Array
    features: Array
    splits: Array
    then: Array
    other: Array
    missing: Array
    roots: Array
    members: Sequence[Array] = ()

    @property
    def leaf_count(self) -> int:
        """Return one more than the largest number of a leaf."""
        least = min(int(a.min(initial=-1)) for a in (self.then, self.other, self.roots))
        return -least


@dataclass(frozen=True)
class Nodes:
    """The operands of `md.decision_trees`.

    Args:
        thresholds: [m].
        features: int32 [m].
        children: int32 [m, 3].
        roots: int32 [t].
    """

    thresholds: Array
    features: Array
    children: Array
    roots: Array


def reached_nodes(op: Operator, trees: Trees, names: Any) -> Array:
    """Return which nodes a path reaches; raise if two paths reach one, as in a circle.

    Args:
        op: the operator, for the error.
        trees: the trees.
        names: returns the name of a node in the file, by its position.

    Raises:
        ModelError: a node has two parents; the error names it.
    """
    seen = np.zeros(len(trees.modes), bool)
    front = trees.roots[trees.roots >= 0]
    pairs = np.stack([trees.then, trees.other], axis=1)
    while front.size:
        order = np.sort(front)
        again = order[:-1][order[1:] == order[:-1]]
        again = np.concatenate([front[seen[front]], again])
        if again.size:
            raise op.error(f"has two paths to {names(int(again[0]))}", "Give it a tree")
        seen[front] = True
        front = pairs[front].reshape(-1)
        front = front[front >= 0]
    return seen


def tree_of_targets(
    trees: Trees, leaves: Array, targets: Array, count: int
) -> Array | None:
    """Return the tree of each target, or None if trees and targets are not pairs.

    Args:
        trees: the trees; the leaves of each are its own.
        leaves, targets: the votes; each leaf must have one.
        count: how many targets there are.
    """
    known = trees.leaf_count
    is_once = leaves.size == known and np.unique(leaves).size == known
    if not is_once or len(trees.roots) != count:
        return None
    owner = np.full(known, -1)
    front, tree = trees.roots, np.arange(count)
    while front.size:
        is_leaf = front < 0
        owner[-1 - front[is_leaf]] = tree[is_leaf]
        front, tree = front[~is_leaf], np.tile(tree[~is_leaf], 2)
        front = np.concatenate([trees.then[front], trees.other[front]])
    found = np.full(count, -1)
    found[targets] = owner[leaves]
    is_pair = (found[targets] == owner[leaves]).all() and (found >= 0).all()
    return found if is_pair and np.unique(found).size == count else None


def renumbered(trees: Trees, leaves: Array) -> Trees:
    """Return the trees with another number for each leaf, `leaves[number]`."""

    def changed(places: Array) -> Array:
        return np.where(places < 0, -1 - leaves[np.maximum(-1 - places, 0)], places)

    return replace(
        trees,
        then=changed(trees.then),
        other=changed(trees.other),
        missing=changed(trees.missing),
        roots=changed(trees.roots),
    )


# One comparison keeps the kernel small (decision 0060).
def convert(trees: Trees) -> Nodes:
    """Return the trees as nodes whose only comparison is x <= threshold.

    A comparison with NaN is false, and != is true, as in IEEE 754.
    """
    before = _before(trees.splits)
    modes, is_nan = trees.modes, np.isnan(trees.splits)
    thresholds = np.where(np.isin(modes, (LT, GTE)), before, trees.splits)
    turns = np.isin(modes, (GTE, GT, NEQ))
    low = np.where(turns, trees.other, trees.then)
    high = np.where(turns, trees.then, trees.other)
    # A row always goes on to `high` from a threshold that is NaN.
    high = np.where(is_nan & np.isin(modes, (GTE, GT)), trees.other, high)
    found = _Growing(thresholds, trees.features, low, high, trees.missing)
    equal = np.flatnonzero(np.isin(modes, (EQ, NEQ)) & ~is_nan)
    found.add_second_test(equal, before)
    for place, members in zip(
        np.flatnonzero(modes == MEMBER), trees.members, strict=True
    ):
        found.add_search(int(place), members, trees)
    return found.nodes(trees.roots)


def _before(x: Array) -> Array:
    """Return the largest number below each; NaN for -infinity, which has none."""
    found = np.nextafter(x, np.array(-np.inf, x.dtype))
    return np.where(np.isneginf(x), np.array(np.nan, x.dtype), found)


class _Growing:
    """Nodes to which more can be added.

    Args:
        thresholds, features: of each node.
        low, high, missing: its children.
    """

    def __init__(
        self,
        thresholds: Array,
        features: Array,
        low: Array,
        high: Array,
        missing: Array,
    ) -> None:
        self.thresholds, self.features = thresholds.copy(), features.copy()
        self.low, self.high, self.missing = low.copy(), high.copy(), missing.copy()
        self.more: list[tuple[Any, int, int, int, int]] = []

    def add_second_test(self, places: Array, before: Array) -> None:
        """Make x <= h of these nodes x == h: a second node asks for x <= before(h)."""
        first = len(self.low)
        inside = self.low[places].copy()
        self.low[places] = first + np.arange(len(places))
        self.thresholds = np.concatenate([self.thresholds, before[places]])
        self.features = np.concatenate([self.features, self.features[places]])
        self.low = np.concatenate([self.low, self.high[places]])
        self.high = np.concatenate([self.high, inside])
        self.missing = np.concatenate([self.missing, self.missing[places]])

    def add_search(self, place: int, members: Array, trees: Trees) -> None:
        """Make a node a search for x among sorted numbers."""
        then, other = int(trees.then[place]), int(trees.other[place])
        known = np.unique(members[~np.isnan(members)]).astype(self.thresholds.dtype)
        known = np.unique(known)
        # Alternately x is below a member, or equal to it; after the last it is above.
        limits = np.stack([_before(known), known], axis=1).reshape(-1)
        ends = [other, then] * len(known) + [other]
        if len(known) and np.isnan(limits[0]):
            limits, ends = limits[1:], ends[1:]
        feature, missing = int(self.features[place]), int(self.missing[place])

        def grow(start: int, stop: int) -> int:
            """Return the node that finds x between the limits `start` and `stop`."""
            if start == stop:
                return ends[start]
            middle = (start + stop) // 2
            low, high = grow(start, middle), grow(middle + 1, stop)
            self.more.append((limits[middle], feature, low, high, missing))
            return len(self.low) + len(self.more) - 1

        root = grow(0, len(limits))
        # A set is never deep, so recursion is safe; the node itself goes on to it.
        self.thresholds[place] = np.nan
        self.low[place] = self.high[place] = root

    def nodes(self, roots: Array) -> Nodes:
        """Return all nodes, with indices of 32 bits if they suffice."""
        columns: list[Any] = list(zip(*self.more, strict=True)) or [()] * 5
        given = (self.thresholds, self.features, self.low, self.high, self.missing)
        thresholds, features, *children = (
            np.concatenate([old, np.asarray(new, old.dtype)])
            for old, new in zip(given, columns, strict=True)
        )
        joined = np.stack(children, axis=1)
        largest = max(int(np.abs(a).max(initial=0)) for a in (joined, features, roots))
        index = np.int32 if largest < 2**31 else np.int64
        whole = (array.astype(index) for array in (features, joined, roots))
        return Nodes(thresholds, *whole)
