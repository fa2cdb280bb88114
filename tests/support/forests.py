"""Random trees as attributes of the operators of ai.onnx.ml."""

from typing import Any

import numpy as np

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"]
MODES += ["BRANCH_NEQ", "BRANCH_MEMBER"]
#: Thresholds and features have few values, so that they are equal at times.
GRID = np.arange(-3, 4) / 2


def shapes(rng: Any, depth: int) -> list[tuple[int, int, bool]]:
    """The nodes of a tree: the two children, or a leaf; the first one is the root."""
    nodes: list[Any] = []

    def grow(left: int) -> int:
        at = len(nodes)
        nodes.append((0, 0, True))
        if left and rng.random() < 0.8:
            nodes[at] = (grow(left - 1), grow(left - 1), False)
        return at

    grow(depth)
    return nodes


def named(
    rng: Any, trees: int, depth: int, features: int, modes: list[str], **options: Any
) -> dict[str, Any]:
    """The attributes `nodes_*` of the older operators, with the keys of the leaves.

    Nodes are in any order in their tree, but that the root is the first one.
    """
    found: dict[str, list[Any]] = {}
    leaves: list[tuple[int, int]] = []
    for tree in range(trees):
        nodes = shapes(rng, depth)
        order = [0, *(1 + rng.permutation(len(nodes) - 1)).tolist()]
        for at in order:
            true, false, is_leaf = nodes[at]
            row = {
                "treeids": tree,
                "nodeids": at,
                "featureids": int(rng.integers(features)),
                "values": float(rng.choice(GRID)),
                "modes": "LEAF" if is_leaf else str(rng.choice(modes)),
                "truenodeids": true,
                "falsenodeids": false,
                "missing_value_tracks_true": int(rng.integers(2)),
            }
            for name, value in row.items():
                found.setdefault(f"nodes_{name}", []).append(value)
            if is_leaf:
                leaves.append((tree, at))
    return {**found, "leaves": leaves, **options}


def voted(
    rng: Any, attributes: dict[str, Any], side: str, targets: list[int], per_leaf: int
) -> dict[str, Any]:
    """The attributes with votes: `per_leaf` targets of each leaf, all different."""
    leaves = attributes["leaves"]
    ids = [
        int(one) for _ in leaves for one in rng.choice(targets, per_leaf, replace=False)
    ]
    weights = rng.normal(size=len(ids)).astype(np.float32).tolist()
    votes = {
        f"{side}_ids": ids,
        f"{side}_weights": weights,
        f"{side}_treeids": [tree for tree, _ in leaves for _ in range(per_leaf)],
        f"{side}_nodeids": [node for _, node in leaves for _ in range(per_leaf)],
    }
    return {k: v for k, v in attributes.items() if k != "leaves"} | votes


def rows(rng: Any, count: int, features: int, dtype: Any, missing: float = 0.2) -> Any:
    """Features on the grid, some of them NaN."""
    if np.dtype(dtype).kind != "f":
        return rng.integers(-2, 3, (count, features)).astype(dtype)
    x = rng.choice(GRID, (count, features)).astype(dtype)
    x[rng.random(x.shape) < missing] = np.nan
    return x
