"""Functions that a file defines: their calls are read as the nodes inside."""

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from mdtensor.errors import ModelError
from mdtensor.quant import load, onnx_backend

W = np.float32([[1, -2], [3, 4]])
X = np.float32([[1, 2], [-3, 1]])
SET = helper.make_opsetid("", 17)
OWN = helper.make_opsetid("my", 1)


def layer() -> Any:
    """relu(a · b), with an attribute that its call gives."""
    scaled = helper.make_node("Selu", ["t"], ["c"])
    for name in ("alpha", "gamma"):
        entry = scaled.attribute.add(name=name, type=AttributeProto.FLOAT)
        entry.ref_attr_name = f"my_{name}"
    nodes = [helper.make_node("MatMul", ["a", "b"], ["t"]), scaled]
    names = ["my_alpha", "my_gamma"]
    return helper.make_function("my", "Layer", ["a", "b"], ["c"], nodes, [SET], names)


def twice() -> Any:
    """Two calls of the other function, whose inner names are the same."""
    given = {"domain": "my", "my_alpha": 0.0, "my_gamma": 1.0}
    nodes = [
        helper.make_node("Layer", ["a", "b"], ["t"], **given),
        helper.make_node("Layer", ["t", "b"], ["c"], **given),
    ]
    return helper.make_function("my", "Twice", ["a", "b"], ["c"], nodes, [SET, OWN])


def model(*functions: Any, kind: str = "Twice") -> Any:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "w"], ["y"], domain="my")],
        "g",
        [value("x", TensorProto.FLOAT, X.shape)],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(W, "w")],
    )
    made = helper.make_model(graph, opset_imports=[SET, OWN], ir_version=10)
    made.functions.extend(functions)
    return made


def test_calls_are_the_nodes_inside() -> None:
    wanted = np.maximum(np.maximum(X @ W, 0) @ W, 0)
    given = model(twice(), layer())
    before = given.SerializeToString()
    assert np.asarray(load(given)(X)).tolist() == wanted.tolist()
    (found,) = onnx_backend.run_model(given, [X])
    assert found.tolist() == wanted.tolist()
    assert given.SerializeToString() == before


def test_a_function_of_another_operator_set() -> None:
    inner = layer()
    inner.opset_import[0].version = 16
    given = model(inner, twice())
    before = given.SerializeToString()
    wanted = np.maximum(np.maximum(X @ W, 0) @ W, 0)
    assert np.asarray(load(given)(X)).tolist() == wanted.tolist()
    assert given.SerializeToString() == before
    # Selu got more types in operator set 22.
    given.opset_import[0].version = 22
    words = r"'Layer' uses Selu of operator set 16, which differs .* the model, 22"
    with pytest.raises(ModelError, match=words):
        load(given)


def test_metadata_is_kept() -> None:
    given = model(twice(), layer())
    helper.set_model_props(given, {"mdtensor.rounding": "tflite_ref"})
    assert load(given).rounding == "tflite_ref"


def test_a_function_that_is_missing() -> None:
    with pytest.raises(ModelError, match=r"operator 'my\.Layer' of node"):
        load(model(twice()))


def test_a_function_that_calls_itself() -> None:
    node = helper.make_node("Twice", ["a", "b"], ["c"], domain="my")
    circle = helper.make_function("my", "Twice", ["a", "b"], ["c"], [node], [SET, OWN])
    with pytest.raises(ModelError):
        load(model(circle))
