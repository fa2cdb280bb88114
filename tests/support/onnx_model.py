"""ONNX models in ONNX Runtime on one thread, from nodes and arrays."""

from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"


def node(
    kind: str, inputs: str, output: str = "y", domain: str = "", **attributes: Any
):
    """One operator; its inputs are names with spaces between."""
    return helper.make_node(kind, inputs.split(), [output], domain=domain, **attributes)


def run(nodes: Any, feeds: Any, constants: Any, dtype: Any, optimize: bool = True):
    """The value `y` for these inputs and constants."""
    entered = [_value(name, a.dtype, a.shape) for name, a in feeds.items()]
    fixed = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    left = [_value("y", np.dtype(dtype), None)]
    graph = helper.make_graph(nodes, "g", entered, left, fixed)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    level = "ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL"
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = getattr(levels, level)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


def _value(name: str, dtype: Any, shape: Any):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)
