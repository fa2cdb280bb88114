"""A small model of ONNX Runtime, one thread, that reads and writes memory of ours."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def bound(
    nodes: Sequence[Any],
    inputs: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    out: np.ndarray,
) -> Callable[[], np.ndarray]:
    """A call of the model that gives `out`; nothing is copied or allocated in it.

    Args:
        nodes: whose last output is y.
        inputs: by name, C-contiguous; of types that NumPy knows itself.
        constants: weights and parameters; packed when the model is loaded.
        out: where y goes, C-contiguous.
    """
    graph = helper.make_graph(
        list(nodes),
        "one",
        [_value(name, x) for name, x in inputs.items()],
        [_value("y", out)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for name, x in inputs.items():  # which the value holds, and does not copy
        value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y", "cpu", 0, _kind(out), out.shape, out.ctypes.data)

    def run() -> np.ndarray:
        session.run_with_iobinding(binding)
        return out

    return run


def _kind(x: np.ndarray) -> int:
    if x.dtype == BFLOAT16:
        return int(TensorProto.BFLOAT16)
    return int(helper.np_dtype_to_tensor_dtype(x.dtype))


def _value(name: str, x: np.ndarray) -> Any:
    return helper.make_tensor_value_info(name, _kind(x), x.shape)
