"""ONNX Runtime on products of floats, the weights constants of the model."""

from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def of_floats(x: np.ndarray, w: np.ndarray) -> Callable[[], np.ndarray]:
    """A call of MatMul; w [k, n]."""
    return _call(helper.make_node("MatMul", ["x", "w"], ["y"]), x, w.shape[1], {"w": w})


def of_nibbles(
    x: np.ndarray, pairs: np.ndarray, scales: np.ndarray, size: int
) -> Callable[[], np.ndarray]:
    """A call of MatMulNBits with activations of float32.

    Args:
        pairs: uint8 [n, k / 2], codes of 0 to 15 with zero point 8, the even one low.
        scales: float32 [n, k / size].
    """
    n, k = len(pairs), x.shape[1]
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        domain="com.microsoft",
        K=k,
        N=n,
        bits=4,
        block_size=size,
        accuracy_level=0,
    )
    blocks = pairs.reshape(n, k // size, size // 2)
    return _call(node, x, n, {"w": blocks, "s": scales.reshape(-1)})


def _call(
    node: object, x: np.ndarray, columns: int, constants: dict[str, np.ndarray]
) -> Callable[[], np.ndarray]:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(x))
    out = np.empty((len(x), columns), np.float32)
    binding.bind_output(
        "y", element_type=np.float32, shape=out.shape, buffer_ptr=out.ctypes.data
    )

    def run() -> np.ndarray:
        session.run_with_iobinding(binding)
        return out

    return run
