"""Sequences and optional values, which exist only while a file is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from mdtensor.errors import ModelError
from mdtensor.quant import load, onnx_backend

X = np.arange(24, dtype=np.float32).reshape(4, 6)
node = helper.make_node


def found(make_model: Any, run: Any, nodes: list[Any], known: Any = None) -> Any:
    path = make_model(nodes, {"x": X.shape}, known)
    y = load(path)(X)
    wanted = run(path, {"x": X})[0]
    assert (y.shape, y.tolist()) == (wanted.shape, wanted.tolist())
    return y.tolist()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_split_and_joined(
    axis: int, size: int, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [
        node("SplitToSequence", ["x", "size"], ["s"], axis=axis),
        node("SequenceAt", ["s", "first"], ["part"]),
        node("SequenceErase", ["s", "first"], ["rest"]),
        node("SequenceInsert", ["rest", "part"], ["turned"]),
        node("ConcatFromSequence", ["turned"], ["y"], axis=axis),
    ]
    known = {"size": np.array(size), "first": np.array(0)}
    y = found(make_model, onnxruntime_of, nodes, known)
    assert y == np.roll(X, -size, axis).tolist()


def test_listed_sizes_and_rows(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["s"]),
        node("SequenceAt", ["s", "last"], ["part"]),
        node("SplitToSequence", ["part"], ["rows"], keepdims=0),
        node("ConcatFromSequence", ["rows"], ["y"], axis=1, new_axis=1),
    ]
    known = {"sizes": np.array([1, 3]), "last": np.array(-1)}
    assert found(make_model, onnxruntime_of, nodes, known) == X[1:].T.tolist()


def test_a_loop_collects(make_model: Any, onnxruntime_of: Any) -> None:
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["going"]),
            node("Cast", ["turn"], ["number"], to=TensorProto.FLOAT),
            node("Mul", ["x", "number"], ["scaled"]),
            node("SequenceInsert", ["before", "scaled"], ["after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info("before", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info("after", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["turns", "", "none"], ["all"], body=body),
        node("SequenceLength", ["all"], ["length"]),
        node("ConcatFromSequence", ["all"], ["joined"], axis=0, new_axis=1),
        node("Cast", ["length"], ["count"], to=TensorProto.FLOAT),
        node("Div", ["joined", "count"], ["y"]),
    ]
    known = {"turns": np.array(3)}
    y = found(make_model, onnxruntime_of, nodes, known)
    assert y == np.stack([X * n / np.float32(3) for n in range(3)]).tolist()


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([node("SequenceEmpty", [], ["y"])], "the output 'y' is a sequence of 0"),
        (
            [
                node("SequenceConstruct", ["x"], ["s"]),
                node("Relu", ["s"], ["y"]),
            ],
            "reads 's', which is a sequence",
        ),
        (
            [
                node("SequenceConstruct", ["x"], ["s"]),
                node("SequenceAt", ["s", "two"], ["y"]),
            ],
            "position=2. Use one from -1 to 0",
        ),
        (
            [
                node("SequenceEmpty", [], ["s"]),
                node("ConcatFromSequence", ["s"], ["y"], axis=0),
            ],
            "joins an empty sequence",
        ),
        ([node("SplitToSequence", ["x", "two"], ["y"], axis=2)], "axis=2"),
        (
            [node("SequenceLength", ["x"], ["y"])],
            "reads 'x' of float.* Give it a sequence",
        ),
    ],
)
def test_what_is_no_list_of_tensors(
    nodes: list[Any], wanted: str, make_model: Any
) -> None:
    with pytest.raises(ModelError, match=wanted):
        load(make_model(nodes, {"x": X.shape}, {"two": np.array(2)}))


@pytest.mark.parametrize("names", [["a", "b"], ["b", "b"], ["x", "a"], ["a"]])
def test_each_element_is_a_result(names: list[str], tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Neg", ["x"], ["b"]),
        node("SequenceConstruct", names, ["s"]),
        node("Abs", ["x"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape),
        ],
    )
    opset = helper.make_opsetid("", 17)
    model = load(helper.make_model(graph, opset_imports=[opset]))
    known = {"a": np.maximum(X, 0), "b": -X, "x": X, "y": X}
    model.save(tmp_path / "saved.onnx")
    for one in (model, load(tmp_path / "saved.onnx")):
        for result, name in zip(one(X), [*names, "y"], strict=True):
            assert np.asarray(result).tolist() == known[name].tolist()


def test_the_backend_takes_and_returns_sequences() -> None:
    model = helper.make_model(
        helper.make_graph(
            [node("SequenceInsert", ["s", "x"], ["y"])],
            "g",
            [
                helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
                helper.make_tensor_value_info("x", TensorProto.FLOAT, [None]),
            ],
            [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)],
        )
    )
    given = [np.float32([1, 2]), np.float32([])]
    (y,) = onnx_backend.run_model(model, [given, np.float32([3])])
    assert [part.tolist() for part in y] == [[1, 2], [], [3]]
