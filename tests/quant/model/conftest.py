"""Small models in files, ONNX Runtime beside them, and the demo's real network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mdtensor.cli import demo_data
from mdtensor.graph import Graph
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.onnx.read import read_graph

MakeModel = Callable[..., Path]


def run_onnxruntime(path: Any, feeds: dict[str, Any]) -> list[np.ndarray]:
    """What ONNX Runtime computes with the model as it is written, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


@pytest.fixture
def make_model(tmp_path: Path) -> MakeModel:
    """`make_model(nodes, inputs, constants, outputs, opset)` writes a model file.

    inputs: shapes by name, float32, or (element type, shape); constants: arrays.
    """

    def make(
        nodes: list[Any],
        inputs: dict[str, Any],
        constants: dict[str, Any] | None = None,
        outputs: tuple[str, ...] = ("y",),
        opset: int = 17,
    ) -> Path:
        graph = helper.make_graph(
            nodes,
            "g",
            [_input(name, shape) for name, shape in inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
        )
        for value in graph.output:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        )
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


def _input(name: str, shape: Any) -> Any:
    """A float32 input of a shape, or one of (element type, shape)."""
    kind = TensorProto.FLOAT
    if len(shape) == 2 and isinstance(shape[1], tuple):
        kind, shape = shape
    return helper.make_tensor_value_info(name, kind, list(shape))


@pytest.fixture
def onnxruntime_of() -> Callable[[Any, dict[str, Any]], list[np.ndarray]]:
    return run_onnxruntime


@pytest.fixture(scope="session")
def crops() -> tuple[list[Any], list[Any]]:
    """(for calibration, held back), a few of each, in both directions."""
    calibration, held_back = demo_data.crops()
    return calibration[::12], held_back[::24]


@pytest.fixture(scope="session")
def classifier() -> Model:
    """The float model, simplified."""
    return load(demo_data.classifier_path(), demo_data.INPUT_SHAPE)


@pytest.fixture(scope="session")
def small_classifier(classifier: Model, crops: Any) -> Model:
    """The quantized model."""
    return classifier.quantize(classifier.calibrate(c.pixels for c in crops[0]))


@pytest.fixture(scope="session")
def literal_graph() -> Graph:
    """The float graph as it is in the file."""
    return read_graph(demo_data.classifier_path(), demo_data.INPUT_SHAPE)


@pytest.fixture(scope="session")
def float_graph(classifier: Model) -> Graph:
    return classifier.graph


@pytest.fixture(scope="session")
def small_graph(small_classifier: Model) -> Graph:
    return small_classifier.graph
