"""ONNX Runtime on products of floats, the weights constants of the model."""

from collections.abc import Callable

import numpy as np
from onnx import helper

from bench.rivals import one_model


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


def of_dynamic_codes(
    x: np.ndarray, codes: np.ndarray, scale: np.ndarray
) -> Callable[[], np.ndarray]:
    """A call of the chain that `quantize_dynamic` writes; codes int8 [k, n]."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=1),
        helper.make_node("Mul", ["s", "scale"], ["factor"]),
        helper.make_node("Mul", ["real", "factor"], ["y"]),
    ]
    out = np.empty((len(x), codes.shape[1]), np.float32)
    return one_model.bound(nodes, {"x": x}, {"w": codes, "scale": scale}, out)


def of_steps(
    kind: str, x: np.ndarray, w: np.ndarray, r: np.ndarray
) -> Callable[[], np.ndarray]:
    """A call of LSTM or GRU on [t, n, i], which gives all states [t, 1, n, k]."""
    k = r.shape[1]
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=k, **more)
    out = np.empty((len(x), 1, x.shape[1], k), np.float32)
    return one_model.bound([node], {"x": x}, {"w": w[None], "r": r[None]}, out)


def of_dynamic_steps(
    x: np.ndarray, w: np.ndarray, r: np.ndarray, scales: tuple[np.ndarray, np.ndarray]
) -> Callable[[], np.ndarray]:
    """A call of DynamicQuantizeLSTM, with the codes and row scales of both weights."""
    k = r.shape[1]
    names = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        *("DynamicQuantizeLSTM", names, ["y"]), domain="com.microsoft", hidden_size=k
    )
    known = {"w": w.T[None].copy(), "r": r.T[None].copy()}
    known |= {"ws": scales[0][None], "rs": scales[1][None]}
    known |= dict.fromkeys(("wz", "rz"), np.zeros((1, len(w)), np.int8))
    out = np.empty((len(x), 1, x.shape[1], k), np.float32)
    return one_model.bound([node], {"x": x}, known, out)


def _call(
    node: object, x: np.ndarray, columns: int, constants: dict[str, np.ndarray]
) -> Callable[[], np.ndarray]:
    out = np.empty((len(x), columns), np.float32)
    return one_model.bound([node], {"x": x}, constants, out)
