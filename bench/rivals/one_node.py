"""ONNX Runtime on models of one node, the fair baseline of one kernel."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from onnx import helper

from bench.rivals import one_model

FAIRNESS = """ONNX Runtime runs in the layout that it prefers: each model uses its own
operators for NHWC codes. On a CPU without the 8-bit dot product, its kernel for signed
weights saturates sums of two products at int16, so it is not exact. Its kernel for
unsigned weights (zero point 128), "ORT exact", does the same work as mdtensor's."""
#: Grids of what goes in, of the weights and of the result, and its codes.
SCALES = {"xs": 0.02003, "ws": 0.01017}
X_ZERO, Y_ZERO = 3, 120


def scales(taps: int) -> dict[str, np.float32]:
    """Those of products of so many taps, whose results use most codes."""
    steps = {**SCALES, "ys": 74 * 74 * taps**0.5 * SCALES["xs"] * SCALES["ws"] / 40}
    return {name: np.float32(step) for name, step in steps.items()}


def ratio(taps: int) -> Fraction:
    """What sums are multiplied by, exactly."""
    x, w, y = (Fraction(float(step)) for step in scales(taps).values())
    return x * w / y


def convolution(
    x: np.ndarray,
    weight: np.ndarray,
    *,
    stride: tuple[int, int] = (1, 1),
    pad: int = 0,
    groups: int = 1,
    is_exact: bool = False,
) -> Callable[[], np.ndarray]:
    """A call of QLinearConv on one thread, its buffers bound.

    Args:
        x: uint8 [1, h, w, c].
        weight: int8 [oc, c / groups, kh, kw].
        is_exact: the same weights as uint8 with zero point 128.
    """
    oc, *taps = weight.shape
    zero = np.uint8(128) if is_exact else np.int8(0)
    if is_exact:
        weight = (weight.astype(np.int16) + 128).astype(np.uint8)
    constants = {"xz": np.uint8(X_ZERO), "yz": np.uint8(Y_ZERO), "wz": zero}
    constants |= {"w": weight, "b": np.zeros(oc, np.int32), **scales(np.prod(taps))}
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
    size = zip(x.shape[1:3], weight.shape[2:], stride, strict=True)
    places = [(side + 2 * pad - kernel) // step + 1 for side, kernel, step in size]
    out = np.empty((1, *places, oc), np.uint8)
    return one_model.bound([node], {"x": x}, constants, out)
