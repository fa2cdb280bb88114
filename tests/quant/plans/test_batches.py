"""More than the sizes of a plan are several calls, or an error, and nothing else."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from mdtensor.errors import DataError, ModelError, OptionError
from mdtensor.quant import load, load_plan
from mdtensor_run import PlanError
from mdtensor_run.layout import open_plan

ROW, CUBE = {"x": (2, 3)}, {"x": (2, 4, 4)}
INTS = np.int64


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape, np.float32)


def node(kind: str, *inputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, ["x", *inputs], ["y"], **attributes)


def file_of(nodes: list[Any], shapes: dict[str, Any], constants: dict[str, Any]) -> Any:
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kind, s) for n, s in shapes.items()],
        [ValueInfoProto(name="y")],
        [numpy_helper.from_array(array, n) for n, array in constants.items()],
    )
    graph.output[0].type.tensor_type.elem_type = kind
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


TURNED = helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0])
PRODUCT = {"w": weights(1, 12, 3), "r": weights(1, 12, 3)}
#: Whether a network is split, its nodes, its inputs and its constants.
CASES: dict[str, tuple[bool, list[Any], dict[str, Any], dict[str, Any]]] = {
    "linear": (True, [node("MatMul", "w")], ROW, {"w": weights(3, 5)}),
    "softmax": (True, [node("Softmax", axis=1)], ROW, {}),
    "softmax0": (False, [node("Softmax", axis=0)], ROW, {}),
    "join": (True, [node("Concat", "x", axis=1)], ROW, {}),
    "join0": (False, [node("Concat", "x", axis=0)], ROW, {}),
    "turn": (False, [node("Transpose", perm=[1, 0])], ROW, {}),
    "turn1": (True, [node("Transpose", perm=[0, 2, 1])], {"x": (2, 3, 4)}, {}),
    "gram": (False, [TURNED, node("MatMul", "t")], ROW, {}),
    "product": (True, [node("MatMul", "x")], CUBE, {}),
    "product0": (False, [node("MatMul", "z")], {"x": (3, 3), "z": (3, 3)}, {}),
    "add": (True, [node("Add", "c")], ROW, {"c": weights(3)}),
    "add0": (False, [node("Add", "c")], ROW, {"c": weights(2, 3)}),
    "ranks": (False, [node("Add", "z")], {"x": (2, 2, 3), "z": (2, 3)}, {}),
    "rows": (True, [node("Reshape", "s")], ROW, {"s": INTS([-1, 1, 3])}),
    "axis": (False, [node("Unsqueeze", "s")], ROW, {"s": INTS([0])}),
    "axis1": (True, [node("Unsqueeze", "s")], ROW, {"s": INTS([1])}),
    "take": (False, [node("Gather", "s", axis=0)], ROW, {"s": INTS([1, 0])}),
    "take1": (True, [node("Gather", "s", axis=1)], ROW, {"s": INTS([1, 0])}),
    "lstm": (False, [node("LSTM", "w", "r", hidden_size=3)], {"x": (2, 1, 3)}, PRODUCT),
}


@pytest.mark.parametrize("name", CASES)
def test_twice_the_sizes(name: str, tmp_path: Any) -> None:
    is_split, nodes, inputs, constants = CASES[name]
    shapes = {key: ("n", *shape[1:]) for key, shape in inputs.items()}
    model = load(file_of(nodes, shapes, constants))
    model.compile(tmp_path / "net.mdt", inputs)
    stored = load_plan(tmp_path / "net.mdt")
    once = [weights(*shape) for shape in inputs.values()]
    assert np.array_equal(np.asarray(stored(*once)), np.asarray(model(*once)))
    twice = [weights(2 * shape[0], *shape[1:]) for shape in inputs.values()]
    if not is_split:
        with pytest.raises(DataError, match=r"first axis, .* hold 2 times its size"):
            stored(*twice)
        return
    want = np.asarray(model(*twice))
    for threads in (1, 2):
        assert np.array_equal(np.asarray(stored(*twice, threads=threads)), want)
    for wrong in (0, -1, "2", None, 2.5):
        with pytest.raises(DataError, match="threads is"):
            stored(*twice, threads=wrong)


def test_wrong_paths_and_isas(tmp_path: Any) -> None:
    model = load(file_of([node("Relu")], ROW, {}))
    for wrong in (None, 3, b"x", "a\0b"):
        with pytest.raises(OptionError, match="path is"):
            model.compile(wrong)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="path is"):
            load_plan(wrong)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="path is"):
            model.profile(weights(2, 3), repeat=1).save(wrong)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="None cannot be read"):
        open_plan(None)  # type: ignore[arg-type]
    for isas in (5, None, "generic", [None], [[]]):
        with pytest.raises(OptionError, match="isas is"):
            model.compile(tmp_path / "net.mdt", isas=isas)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="it is a folder"):
        model.compile(tmp_path)
