"""Decision trees in files: the same leaves here and in ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import Budget, load
from mdtensor.quant.model.model import Model

NUMBERS = [-np.inf, np.inf, np.nan, -0.0, 0.0, 1.5, -2.0, 3.25]
OPERANDS = ("thresholds", "features", "children", "roots")


def forest(rng: Any, dtype: Any, count: int = 9, trees: int = 3) -> dict[str, Any]:
    """Return trees of `count` nodes in all; each node has one parent."""
    children = -1 - rng.integers(0, 2 * count, (count, 3))
    for node in range(trees, count):
        # The parent comes before the child, and NaN goes with it or to a leaf.
        parent, side = rng.integers(0, node), rng.integers(0, 2)
        children[parent, side] = node
    for node in range(count):
        way = rng.integers(0, 3)
        if way < 2:
            children[node, 2] = children[node, way]
    return {
        "thresholds": rng.choice(NUMBERS, count).astype(dtype),
        "features": rng.integers(0, 4, count).astype(np.int32),
        "children": children.astype(np.int32),
        "roots": np.array([*range(trees), -3], np.int32),
    }


def model(arrays: dict[str, Any], kind: Any = md.Float32Tensor) -> Model:
    constants = {name: md.asarray(array) for name, array in arrays.items()}
    nodes = (Node("leaves", md.decision_trees, ("x", *OPERANDS), "y"),)
    return Model(Graph({"x": md.TensorSpec(kind, (-1, 4))}, nodes, constants, ("y",)))


def peer(path: Path, x: Any) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@given(st.integers(0, 9999), st.sampled_from([np.float32, np.float64]))
def test_the_leaves_of_the_call(
    tmp_path_factory: pytest.TempPathFactory, seed: int, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    network = model(forest(rng, dtype))
    x = rng.choice(NUMBERS, (20, 4)).astype(np.float32)
    path = tmp_path_factory.mktemp("trees") / "trees.onnx"
    network.save(path)
    wanted = np.asarray(network(x))
    assert np.array_equal(np.asarray(load(path)(x)), wanted)
    assert np.array_equal(peer(path, x), wanted)
    # The trees are attributes, not constants as well.
    assert not onnx.load(path).graph.initializer


def test_trees_that_a_file_cannot_hold(tmp_path: Path) -> None:
    arrays = forest(np.random.default_rng(0), np.float32)
    narrow = {**arrays, "thresholds": np.float16(arrays["thresholds"])}
    with pytest.raises(ModelError, match="narrow floats"):
        model(narrow, md.Float16Tensor).save(tmp_path / "a.onnx")
    many = {**arrays, "children": arrays["children"].copy()}
    many["children"][0] = -(2**25)
    with pytest.raises(ModelError, match="33,554,431 leaves"):
        model(many).save(tmp_path / "b.onnx")
    # 20 nodes that each have two ways to the next one are a million paths.
    chain = np.arange(1, 21)[:, None].repeat(3, axis=1)
    chain[-1] = -1
    paths = {
        "thresholds": np.zeros(20, np.float32),
        "features": np.zeros(20, np.int32),
        "children": chain.astype(np.int32),
        "roots": np.zeros(1, np.int32),
    }
    with pytest.raises(ModelError, match="too many parents"):
        model(paths).save(tmp_path / "c.onnx")
    assert not list(tmp_path.iterdir())


def test_a_saved_ensemble_of_many_trees_loads_again(tmp_path: Path) -> None:
    # Its file has a target for each of 3000 trees, and 6000 leaves: a table of each
    # leaf for each target has 18 million numbers.
    count = 3000
    trees = {
        "thresholds": np.linspace(-1, 1, count).astype(np.float32),
        "features": np.arange(count, dtype=np.int32) % 4,
        "children": np.stack(
            [-1 - 2 * np.arange(count), -2 - 2 * np.arange(count)] * 2, axis=1
        )[:, :3].astype(np.int32),
        "roots": np.arange(count, dtype=np.int32),
    }
    network = model(trees)
    network.save(tmp_path / "trees.onnx")
    again = load(tmp_path / "trees.onnx", budget=Budget(elements=100_000))
    x = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    assert np.array_equal(np.asarray(again(x)), np.asarray(network(x)))
    assert {node.operation for node in again.graph.nodes} == {
        md.decision_trees,
        md.astype,
    }
