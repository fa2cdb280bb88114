"""Models that are loaded for a device."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DataError, DeviceError, ModelError
from mdtensor.kernels.emulated import compiler


def saved(
    nodes: Any, shape: tuple[int | str, ...], constants: dict[str, Any], path: Path
) -> Path:
    """A file with these nodes between x and y."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = onnx.ValueInfoProto(name="y")
    y.type.tensor_type.elem_type = TensorProto.FLOAT
    fixed = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], fixed)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


needs_compiler = pytest.mark.skipif(not compiler.compiler(), reason="needs g++")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of max(x · w + b, 0)."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    # Small integers, so that each sum is exact in every order.
    w = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    b = np.asarray([1, -2, 3, -4], np.float32)
    return saved(nodes, (2, 3), {"w": w, "b": b}, tmp_path / "model.onnx")


@pytest.fixture
def sized_path(tmp_path: Path) -> Path:
    """Return a file of relu(x) as rows of half the length, which needs a size."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["x"], ["shape"], start=1),
        helper.make_node("Div", ["shape", "two"], ["half"], "halve"),
        helper.make_node("Concat", ["rest", "half"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["r", "sizes"], ["y"]),
    ]
    constants = {"two": np.int64([2]), "rest": np.int64([-1])}
    return saved(nodes, (2, "n"), constants, tmp_path / "model.onnx")


class Few(type(md.cpu)):  # type: ignore[misc]
    """A device that has no tensor types."""

    name = "few"


@needs_compiler
def test_a_model_runs_on_the_device_it_is_loaded_for(path: Path) -> None:
    model = quant.load(path, device="emucuda")
    there = md.device("emucuda")
    assert {x.device for x in model.graph.constants.values()} == {there}
    x = md.asarray([[1.0, -2.0, 3.0], [0.0, 5.0, -1.0]])
    found: Any = model(x.to("emucuda"))
    host: Any = quant.load(path)(x)
    assert found.device is there
    assert found.tolist() == host.tolist()
    text = r"Float32Tensor\[2,3\], not on emucuda"
    with pytest.raises(DeviceError, match=text):
        model(x)


def test_the_cpu_is_the_default(path: Path) -> None:
    for model in (quant.load(path), quant.load(path, device="cpu")):
        assert type(model) is quant.Model
    small = quant.load(path, device=md.device("emucuda"))
    assert type(small.to("cpu")) is quant.Model


def test_an_unknown_device_raises_before_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no device 'tpu'"):
        quant.load(tmp_path / "missing.onnx", device="tpu")


def test_a_device_without_the_types_of_the_weights_raises(
    path: Path,
) -> None:
    with pytest.raises(DeviceError, match="few"):
        quant.load(onnx.load(path), device=Few())


@needs_compiler
def test_a_sized_model_moves_the_model_of_each_combination(sized_path: Path) -> None:
    model: Any = quant.load(sized_path, device="emucuda")
    host = quant.load(sized_path)
    there = md.device("emucuda")
    assert "PlacedSizedModel(emucuda, SizedModel(" in repr(model)
    assert model.inputs["x"].type.device is there and model.outputs == ("y",)
    for size in (4, 6, 4):
        x = md.asarray(np.arange(-3, 2 * size - 3, dtype="f4").reshape(2, size))
        found: Any = model(x.to("emucuda"))
        assert found.device is there and found.shape == (4, size // 2)
        assert found.tolist() == host(x).tolist()
    assert model.at((2, 4)) is model.at({"x": (2, 4)})
    assert model.at((2, 4)).inputs["x"].shape == (2, 4)
    assert type(model.to("cpu")) is quant.SizedModel


@needs_compiler
def test_wrong_inputs_of_a_sized_model(sized_path: Path) -> None:
    model: Any = quant.load(sized_path, device="emucuda")
    x = md.asarray(np.ones((2, 4), "f4"))
    with pytest.raises(DeviceError, match=r"Float32Tensor\[2,4\], not on emucuda"):
        model(x)
    with pytest.raises(DeviceError, match=r"ndarray.*not on emucuda"):
        model(np.ones((2, 4), "f4"))
    wrong = md.asarray(np.ones((3, 4), "f4")).to("emucuda")
    for arguments in ((), (wrong,), (x.to("emucuda"), x.to("emucuda"))):
        with pytest.raises(DataError):
            model(*arguments)
    with pytest.raises(ModelError, match="'halve' calculates with a dynamic size"):
        _ = model.graph


def test_a_device_without_the_types_of_the_inputs_raises(sized_path: Path) -> None:
    with pytest.raises(DeviceError, match="few"):
        quant.load(onnx.load(sized_path), device=Few())
