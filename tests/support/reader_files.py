"""The files that examples of the documentation call yours."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support import tflite_networks


def write_your_files(folder: Path) -> None:
    """Write the files that pages call yours: `model.onnx`, `samples.npy`, TFLite."""
    rng = np.random.default_rng(0)
    (folder / "model.tflite").write_bytes(tflite_networks.tiny_network())
    (folder / "int8.tflite").write_bytes(tflite_networks.coded_network(rng))
    (folder / "stream.tflite").write_bytes(tflite_networks.stream())
    constants = {"w": rng.normal(size=(8, 3, 3, 3)), "f": rng.normal(size=(4, 8))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "f"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "yours",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [
            numpy_helper.from_array(x.astype("f4"), name)
            for name, x in constants.items()
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset), folder / "model.onnx")
    np.save(folder / "samples.npy", rng.normal(size=(16, 3, 8, 8)).astype("f4"))
