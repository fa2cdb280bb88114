"""ONNX Runtime on models of one node, the fair rival of one kernel."""

from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FAIRNESS = """ONNX Runtime may choose its layout: each model takes NHWC codes and the
runtime's own operator for them. On a CPU without the 8-bit dot product its kernel for
signed weights adds pairs of products with saturation at int16 and is not exact; with
unsigned weights (zero point 128) it widens first, is exact, and is the rival that does
the same work."""
SCALES = {"xs": 0.02003, "ws": 0.01017, "ys": 0.2987}
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def convolution(
    shape: tuple[int, int, int],
    weight: np.ndarray,
    *,
    stride: tuple[int, int] = (1, 1),
    pad: int = 0,
    groups: int = 1,
    is_exact: bool = False,
) -> Callable[[], object]:
    """A call of QLinearConv on one thread, its buffers bound.

    Args:
        shape: h, w, c of the codes.
        weight: int8 [oc, c / groups, kh, kw].
        is_exact: the same weights as uint8 with zero point 128.
    """
    zero = np.uint8(128) if is_exact else np.int8(0)
    if is_exact:
        weight = (weight.astype(np.int16) + 128).astype(np.uint8)
    constants = {name: np.float32(scale) for name, scale in SCALES.items()}
    constants |= {"xz": np.uint8(3), "yz": np.uint8(120), "wz": zero, "w": weight}
    constants["b"] = np.zeros(len(weight), np.int32)
    node = helper.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        domain="com.microsoft",
        channels_last=1,
        strides=stride,
        pads=[pad] * 4,
        group=groups,
    )
    kind = TensorProto.UINT8
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", kind, [1, *shape])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    codes = np.random.default_rng(2).integers(0, 256, (1, *shape)).astype(np.uint8)
    return bound(model.SerializeToString(), codes)


def bound(model: bytes, codes: np.ndarray) -> Callable[[], object]:
    """A call of `model` on `codes` that copies nothing in or out."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(codes))
    binding.bind_output("y")
    return lambda: session.run_with_iobinding(binding)
