"""Ensembles of trees of ai.onnx.ml: by definition, and against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from support.forests import MODES, named, rows, voted
from support.onnx_ml import agree, compare, model, ours, peer

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.kernels.reference import estimators as reference
from mdtensor.quant import Budget, load
from mdtensor.quant.model.onnx import ensembles
from mdtensor.quant.model.onnx.ensembles import Trees, convert

SEEDS = st.integers(0, 9999)
SPECIAL = [-np.inf, np.inf, np.nan, -0.0, 0.0, 1e-45, -1e-45, 1.0, 2.0]
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
BOTH = ("l", "p")


def truth(mode: int, x: float, split: float, members: Any) -> bool:
    """The comparison of a node, by the standard."""
    return {
        ensembles.LEQ: x <= split,
        ensembles.LT: x < split,
        ensembles.GTE: x >= split,
        ensembles.GT: x > split,
        ensembles.EQ: x == split,
        ensembles.NEQ: x != split,
        ensembles.MEMBER: x in members,
    }[mode]


@given(SEEDS, st.sampled_from([np.float32, np.float64]))
def test_comparisons_become_thresholds(seed: int, dtype: Any) -> None:
    """One node of each mode, with leaves 0, 1 and 2 for true, false and NaN."""
    rng = np.random.default_rng(seed)
    modes, splits = np.arange(7), rng.choice(SPECIAL, 7).astype(dtype)
    members = rng.choice(SPECIAL, rng.integers(0, 6)).astype(dtype)
    leaf = np.full(7, -1)
    # Every leaf has two numbers, so that nodes that share children are found.
    nodes = convert(
        Trees(modes, modes * 0, splits, leaf, leaf - 1, leaf - 2, modes, [members])
    )
    values = np.array([*SPECIAL, *np.nextafter(splits, dtype(-np.inf))], dtype)
    values = np.append(values, np.nextafter(splits, dtype(np.inf)))
    given_ = nodes.thresholds, nodes.features, nodes.children, nodes.roots
    assert nodes.thresholds.dtype == dtype
    found = reference.walk_trees(values[:, None], *given_)
    known = [one for one in members.tolist() if one == one]
    for x, row in zip(values.tolist(), found.tolist(), strict=True):
        tests = zip(modes.tolist(), splits.tolist(), strict=True)
        wanted = [0 if truth(m, x, h, known) else 1 for m, h in tests]
        assert row == ([2] * 7 if x != x else wanted), x


def forest(seed: int, side: str, targets: Any, modes: Any, per_leaf: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    trees = int(rng.integers(1, 6))
    attributes = named(rng, trees, 4, 3, modes)
    return rng, voted(rng, attributes, side, targets, per_leaf)


TYPES = [np.float32, np.float64, np.int32, np.int64]
FIVE = st.sampled_from([MODES[:1], MODES[:5], MODES[3:5]])


@given(
    SEEDS,
    FIVE,
    st.integers(1, 3),
    st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]),
    st.sampled_from(TYPES[:2]),
    st.booleans(),
)
def test_regressor(
    seed: int, modes: Any, targets: int, kind: str, dtype: Any, has_base: bool
) -> None:
    # ONNX Runtime does not add the base value of a target without votes; the text does.
    per_leaf = targets if has_base else 1
    rng, attributes = forest(seed, "target", range(targets), modes, per_leaf)
    attributes |= {"n_targets": targets, "aggregate_function": kind}
    if has_base:
        attributes["base_values"] = rng.normal(size=targets).astype(np.float32).tolist()
    x = {"x": rows(rng, 7, 3, dtype)}
    agree("TreeEnsembleRegressor", x, **attributes)


@given(SEEDS, st.sampled_from(POSTS))
def test_transforms_of_several_targets(seed: int, post: str) -> None:
    rng, attributes = forest(seed, "target", range(3), MODES[:1], 3)
    x = {"x": rows(rng, 7, 3, np.float32)}
    agree("TreeEnsembleRegressor", x, n_targets=3, post_transform=post, **attributes)


@given(SEEDS, st.integers(1, 4), st.booleans(), st.booleans())
def test_a_target_for_each_tree(
    seed: int, trees: int, are_leaves: bool, shares: bool
) -> None:
    rng = np.random.default_rng(seed)
    attributes = named(rng, trees, 4, 3, MODES[:1])
    attributes = voted(rng, attributes, "target", [0], 1)
    targets = rng.permutation(trees)
    if shares:
        targets = rng.integers(0, trees, trees)
    ids = targets[attributes["target_treeids"]]
    if are_leaves:
        attributes["target_weights"] = rng.integers(0, 99, ids.size).astype(float)
    x = {"x": rows(rng, 7, 3, np.float32)}
    attributes |= {"n_targets": trees, "target_ids": ids.tolist()}
    agree("TreeEnsembleRegressor", x, **attributes)


def test_not_equal_and_missing() -> None:
    """NaN follows the flag by the text; in ONNX Runtime NaN != h is always true."""
    for flag in (0, 1):
        x, stump = (
            {"x": np.float32([[np.nan]])},
            tree(nodes_modes=["BRANCH_NEQ", "LEAF", "LEAF"]),
        )
        stump["nodes_missing_value_tracks_true"] = [flag, 0, 0]
        (found,) = ours(model("TreeEnsembleRegressor", x, **stump), x)
        assert found.tolist() == [[1.0 if flag else 2.0]]


def test_one_target_is_transformed() -> None:
    """ONNX Runtime ignores LOGISTIC for one target; the text has no exception."""
    x = {"x": np.float32([[0.0], [1.0]])}
    stump = tree(post_transform="LOGISTIC", target_weights=[0.0, 100.0])
    assert ours(model("TreeEnsembleRegressor", x, **stump), x)[0].tolist() == [
        [0.5],
        [1.0],
    ]


def test_targets_without_votes_are_zero() -> None:
    x = {"x": np.float32([[0.0], [1.0]])}
    for kind in ("MIN", "MAX", "SUM", "AVERAGE"):
        agree(
            "TreeEnsembleRegressor",
            x,
            **tree(n_targets=3, target_ids=[0, 2], aggregate_function=kind),
        )


@given(
    SEEDS,
    st.integers(3, 4),
    st.sampled_from(POSTS),
    st.sampled_from(TYPES),
    st.booleans(),
)
def test_classifier(
    seed: int, count: int, post: str, dtype: Any, has_base: bool
) -> None:
    rng, attributes = forest(seed, "class", range(count), MODES[:2], count)
    attributes |= {"classlabels_int64s": [8, 3, 5, 1][:count], "post_transform": post}
    if has_base:
        attributes["base_values"] = rng.normal(size=count).astype(np.float32).tolist()
    agree("TreeEnsembleClassifier", {"x": rows(rng, 7, 3, dtype)}, BOTH, **attributes)


@given(
    SEEDS, st.sampled_from(POSTS), st.sampled_from([0, 1]), st.booleans(), st.booleans()
)
def test_votes_for_one_of_two_classes(
    seed: int, post: str, voted_class: int, is_positive: bool, has_base: bool
) -> None:
    rng, attributes = forest(seed, "class", [voted_class], MODES[:2])
    if is_positive:
        attributes["class_weights"] = np.abs(attributes["class_weights"]).tolist()
    if has_base and not voted_class:
        attributes["base_values"] = [0.25]
    attributes |= {"classlabels_int64s": [8, 3], "post_transform": post}
    x = {"x": rows(rng, 9, 3, np.float32)}
    agree("TreeEnsembleClassifier", x, BOTH, **attributes)


def test_the_top_class_of_two() -> None:
    """By the text; ONNX Runtime chooses the second class if its score is above 0."""
    x = {"x": np.float32([[0.0], [1.0]])}
    stump = tree("class", n_targets=None, target_ids=[0, 0, 1, 1])
    stump |= {"class_ids": [0, 1, 0, 1], "class_weights": [0.75, 0.25, 0.125, 0.875]}
    stump |= {"class_nodeids": [1, 1, 2, 2], "class_treeids": [0] * 4}
    stump |= {"classlabels_int64s": [8, 3], "base_values": [0.5, 0.0]}
    proto = model("TreeEnsembleClassifier", x, BOTH, **stump)
    labels, scores = ours(proto, x)
    assert labels.tolist() == [8, 3]
    assert scores.tolist() == [[1.25, 0.25], [0.625, 0.875]]


def tree(side: str = "target", **changes: Any) -> dict[str, Any]:
    """A tree of one node: 1 if x <= 0, else 2."""
    found: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        f"{side}_treeids": [0, 0],
        f"{side}_nodeids": [1, 2],
        f"{side}_ids": [0, 0],
        f"{side}_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    found |= {
        name: value
        for name, value in changes.items()
        if not name.startswith("target") or side == "target"
    }
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": [5, 0, 0]}, "node 5 of tree 0 in nodes_truenodeids"),
        ({"nodes_falsenodeids": [-1, 0, 0]}, "node -1 of tree 0 in nodes_falsenodeids"),
        ({"nodes_falsenodeids": [0, 0, 0]}, "no path from a root to node 0 of tree 0"),
        ({"nodes_falsenodeids": [1, 0, 0]}, "has 2 nodes without a parent in tree 0"),
        ({"nodes_nodeids": [0, 1, 1]}, "node 1 of tree 0 twice"),
        ({"nodes_treeids": [0, 0, 1]}, "node 2 of tree 0 in nodes_falsenodeids"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "X"]}, "has 'X' in nodes_modes"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF"]}, "has 3 numbers as nodes_nodeids"),
        ({"nodes_modes": None}, "does not have nodes"),
        ({"nodes_values": [0.0]}, "has 1 numbers as nodes_values, expected 3"),
        ({"nodes_featureids": [1, 0, 0]}, "has 1 in nodes_featureids. Use 0 to 0"),
        ({"nodes_featureids": [-1, 0, 0]}, "has -1 in nodes_featureids"),
        ({"nodes_missing_value_tracks_true": [1]}, "has 1 numbers as nodes_missing"),
        ({"target_ids": [0, 1]}, "has 1 in target_ids. Use 0 to 0"),
        ({"target_ids": [0, -1]}, "has -1 in target_ids"),
        ({"target_ids": [0]}, "has 2 numbers as target_treeids, expected 1"),
        ({"target_weights": [0.0]}, "has 1 numbers as target_weights"),
        ({"target_nodeids": [1, 7]}, "node 7 of tree 0 in target_nodeids"),
        ({"target_nodeids": [1, 0]}, "a weight of node 0 of tree 0, which is not"),
        ({"target_treeids": [0, 3]}, "has tree 3 in target_treeids"),
        ({"n_targets": 0}, "has n_targets=0"),
        ({"base_values": [0.0, 0.0]}, "has 2 numbers as base_values"),
        ({"aggregate_function": "X"}, "has aggregate_function='X'"),
    ],
)
def test_damaged_trees(changes: dict[str, Any], words: str) -> None:
    x = {"x": np.float32([[0.0]])}
    with pytest.raises(ModelError, match=words):
        load(model("TreeEnsembleRegressor", x, **tree(**changes)))


def test_a_circle() -> None:
    """Nodes 3 and 4 lead to each other, and nothing to them."""
    circle = tree(
        nodes_treeids=[0] * 5,
        nodes_nodeids=[0, 1, 2, 3, 4],
        nodes_featureids=[0] * 5,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "BRANCH_LEQ"],
        nodes_values=[0.0] * 5,
        nodes_truenodeids=[3, 0, 0, 4, 3],
        nodes_falsenodeids=[2, 0, 0, 1, 1],
    )
    x = {"x": np.float32([[0.0]])}
    with pytest.raises(ModelError, match="two paths to node 3 of tree 0"):
        load(model("TreeEnsembleRegressor", x, **circle))


def test_many_targets_are_within_the_budget() -> None:
    x = {"x": np.float32([[0.0]])}
    proto = model("TreeEnsembleRegressor", x, **tree(n_targets=10**9))
    with pytest.raises(ModelError, match="1,000,000,000"):
        load(proto, budget=Budget(elements=10**6))


# TreeEnsemble of operator set 5.


def numbered(rng: Any, trees: int, dtype: Any, modes: list[int], targets: int) -> Any:
    """The attributes of TreeEnsemble; its nodes are in a random order."""
    old = named(rng, trees, 4, 3, MODES)
    count = sum(mode != "LEAF" for mode in old["nodes_modes"])
    keys = list(zip(old["nodes_treeids"], old["nodes_nodeids"], strict=True))
    is_leaf = [mode == "LEAF" for mode in old["nodes_modes"]]
    order = iter(rng.permutation(count).tolist())
    inner = {
        key: next(order) for key, leaf in zip(keys, is_leaf, strict=True) if not leaf
    }
    leaves = {key: at for at, key in enumerate(old["leaves"])}
    roots = [inner[t, 0] for t in range(trees) if (t, 0) in inner]
    found: dict[str, Any] = {"tree_roots": roots}
    for at, key in enumerate(keys):
        if is_leaf[at]:
            continue
        row = {"featureids": old["nodes_featureids"][at]}
        row["missing_value_tracks_true"] = int(rng.integers(2))
        for side in ("true", "false"):
            child = key[0], old[f"nodes_{side}nodeids"][at]
            row[f"{side}leafs"] = int(child in leaves)
            row[f"{side}nodeids"] = leaves.get(child, inner.get(child))
        for name, value in row.items():
            found.setdefault(f"nodes_{name}", [0] * count)[inner[key]] = value
    kinds = rng.choice(modes, count).astype(np.uint8)
    sets = [rng.choice(np.arange(-3, 4) / 2, 2) for _ in range((kinds == 6).sum())]
    found |= {
        "nodes_modes": array(kinds),
        "nodes_splits": array(rng.choice(np.arange(-3, 4) / 2, count).astype(dtype)),
        "leaf_targetids": rng.integers(0, targets, len(leaves)).tolist(),
        "leaf_weights": array(rng.normal(size=len(leaves)).astype(dtype)),
        "n_targets": targets,
    }
    if sets:
        values = np.concatenate([np.append(one, np.nan) for one in sets])
        found["membership_values"] = array(values.astype(dtype))
    return found if roots else None


def array(values: np.ndarray) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    return helper.make_tensor("t", kind, values.shape, values.tolist())


@given(
    SEEDS,
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([[0], [0, 1, 2, 3, 4]]),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from([0, 1, 2, 3]),
)
def test_ensemble(
    seed: int, dtype: Any, modes: Any, targets: int, kind: int, post: int
) -> None:
    rng = np.random.default_rng(seed)
    attributes = numbered(rng, 3, dtype, modes, targets)
    if attributes is None:
        return
    x = {"x": rows(rng, 7, 3, dtype)}
    # ONNX Runtime does not transform a single target.
    attributes |= {
        "aggregate_function": kind,
        "post_transform": post if targets > 1 else 0,
    }
    (found,) = ours(model("TreeEnsemble", x, version=5, **attributes), x)
    # ONNX Runtime exchanges the numbers of SOFTMAX and LOGISTIC.
    attributes["post_transform"] = [0, 2, 1, 3][attributes["post_transform"]]
    compare([found], peer(model("TreeEnsemble", x, version=5, **attributes), x))


@given(SEEDS, st.integers(1, 3), st.integers(0, 3))
def test_ensemble_with_all_modes(seed: int, targets: int, kind: int) -> None:
    """Against the reference, which has sets, but takes them in the order of a walk."""
    rng = np.random.default_rng(seed)
    attributes = numbered(rng, 2, np.float64, [*range(7)], targets)
    if attributes is None:
        return
    modes = np.array(attributes["nodes_modes"].int32_data)
    if (modes == 6).sum() > 1 or len(attributes["tree_roots"]) < 2:
        return
    # NaN and the flag 0 go to the false branch by the text, also of BRANCH_NEQ.
    x = {"x": rows(rng, 7, 3, np.float64, 0.0 if 5 in modes else 0.2)}
    attributes |= {"aggregate_function": kind}
    proto = model("TreeEnsemble", x, version=5, **attributes)
    (found,), (wanted,) = ours(proto, x), ReferenceEvaluator(proto).run(None, x)
    # The reference has the largest number for a target without votes.
    wanted = np.where(np.abs(wanted) > 1e300, 0.0, wanted)
    compare([found], [wanted])


def test_ensemble_of_float16() -> None:
    rng = np.random.default_rng(3)
    attributes = numbered(rng, 3, np.float16, [0, 1], 2)
    x = {"x": rows(rng, 5, 3, np.float16)}
    (found,) = ours(model("TreeEnsemble", x, version=5, **attributes), x)
    wide = {
        k: v for k, v in attributes.items() if k not in ("nodes_splits", "leaf_weights")
    }
    for name in ("nodes_splits", "leaf_weights"):
        bits = np.array(attributes[name].int32_data, np.uint16).view(np.float16)
        wide[name] = array(bits.astype(np.float32))
    single = {"x": x["x"].astype(np.float32)}
    (wanted,) = ours(model("TreeEnsemble", single, version=5, **wide), single)
    assert found.dtype == np.float16
    assert np.array_equal(found, wanted.astype(np.float16))


def stump(**changes: Any) -> dict[str, Any]:
    """A tree of one node: 1 if x <= 0, else 2."""
    found: dict[str, Any] = {
        "tree_roots": [0],
        "nodes_featureids": [0],
        "nodes_modes": array(np.array([0], np.uint8)),
        "nodes_splits": array(np.float32([0])),
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [1],
        "nodes_trueleafs": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        "leaf_weights": array(np.float32([1, 2])),
        "n_targets": 1,
    }
    return {k: v for k, v in (found | changes).items() if v is not None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": [2]}, "has 2 in nodes_truenodeids. Use 0 to 1"),
        ({"nodes_trueleafs": [0]}, "two paths to node 0"),
        ({"nodes_trueleafs": [0, 1]}, "has 2 numbers as nodes_trueleafs"),
        ({"tree_roots": [1]}, "has 1 in tree_roots"),
        ({"tree_roots": [0, 0]}, "two paths to node 0"),
        ({"leaf_targetids": [0, 1]}, "has 1 in leaf_targetids"),
        ({"leaf_weights": array(np.float32([1]))}, "has 1 numbers as leaf_weights"),
        ({"nodes_modes": array(np.array([7], np.uint8))}, "has 7 in nodes_modes"),
        ({"nodes_modes": array(np.array([6], np.uint8))}, "0 numbers as sets of memb"),
        ({"nodes_splits": array(np.float32([]))}, "has 0 numbers as nodes_splits"),
        ({"n_targets": None}, "has n_targets=None"),
        ({"aggregate_function": 4}, "has 4 in aggregate_function"),
        ({"post_transform": -1}, "has -1 in post_transform"),
        ({"nodes_featureids": [3]}, "has 3 in nodes_featureids"),
    ],
)
def test_damaged_ensembles(changes: dict[str, Any], words: str) -> None:
    x = {"x": np.float32([[0.0]])}
    with pytest.raises(ModelError, match=words):
        load(model("TreeEnsemble", x, version=5, **stump(**changes)))


def test_a_tree_that_is_a_leaf() -> None:
    x = {"x": np.float32([[0.0], [1.0]])}
    agree("TreeEnsemble", x, version=5, **stump(nodes_truenodeids=[1]))


def test_features_of_a_dynamic_size() -> None:
    """A row that is too short raises when the model runs."""
    x = {"x": np.float32([[0.0, 1.0]])}
    proto = model(
        "TreeEnsemble", x, version=5, sizes=[None, None], **stump(nodes_featureids=[1])
    )
    network = load(proto)
    assert network(x["x"]).tolist() == [[2.0]]
    with pytest.raises(md.BoundsError, match="columns of x"):
        network(np.float32([[0.0]]))


def test_sets_are_in_the_order_of_the_nodes() -> None:
    """By the text; two trees, whose roots are in the other order."""
    attributes = stump(
        tree_roots=[1, 0],
        nodes_featureids=[0, 0],
        nodes_modes=array(np.array([6, 6], np.uint8)),
        nodes_splits=array(np.float32([0, 0])),
        nodes_truenodeids=[0, 1],
        nodes_falsenodeids=[2, 2],
        nodes_trueleafs=[1, 1],
        nodes_falseleafs=[1, 1],
        leaf_targetids=[0, 0, 0],
        leaf_weights=array(np.float32([1, 10, 100])),
        membership_values=array(np.float32([3, 4, np.nan, 5, np.nan])),
    )
    x = {"x": np.float32([[3], [4], [5], [6]])}
    (found,) = ours(model("TreeEnsemble", x, version=5, **attributes), x)
    assert found.tolist() == [[101], [101], [110], [200]]


def test_text_labels_of_trees() -> None:
    x = {"x": np.float32([[0.0], [1.0]])}
    votes = tree("class", n_targets=None)
    proto = model(
        "TreeEnsembleClassifier", x, BOTH, classlabels_strings=["a", "b"], **votes
    )
    with pytest.raises(ModelError, match="'l', which is text"):
        load(proto)
    compare(ours(proto, x, outputs=["p"]), peer(proto, x)[1:])
