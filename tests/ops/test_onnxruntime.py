"""A second opinion: single-node models run by ONNX Runtime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import mdtensor as md

Arrays = list[np.ndarray[Any, Any]]


def run(node: str, inputs: Arrays, attributes: dict[str, Any], opset: int) -> Any:
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, list(x.shape))
        for name, x in zip(names, inputs, strict=True)
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_node(node, names, ["y"], **attributes)
    graph = helper.make_graph([made], "one", infos, [y])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]


def image(*shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape, np.float32) * 3


CONV = [
    # input, weights, bias, ours, theirs
    ((2, 3, 9, 8), (4, 3, 3, 3), True, {}, {}),
    ((1, 4, 9, 8), (6, 4, 1, 1), False, {"stride": 2}, {"strides": [2, 2]}),
    (
        *((1, 4, 9, 8), (8, 2, 3, 2), True),
        {"groups": 2, "padding": (1, 0, 2, 1), "stride": (2, 1)},
        {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]},
    ),
    (
        *((2, 5, 9, 8), (5, 1, 3, 3), True),
        {"groups": 5, "padding": 2, "dilation": 2},
        {"group": 5, "pads": [2] * 4, "dilations": [2, 2]},
    ),
    (
        *((1, 3, 7, 7), (6, 1, 5, 5), False),
        {"groups": 3, "padding": (2, 2), "stride": 2},
        {"group": 3, "pads": [2] * 4, "strides": [2, 2]},
    ),
]
POOL = [
    ((1, 2, 7, 9), 2, {}, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    (
        *((2, 3, 7, 8), 3, {"stride": 2, "padding": 1, "ceil_mode": True}),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1},
    ),
    (
        *((1, 2, 8, 6), (3, 2), {"stride": (2, 1), "padding": (2, 0, 1, 1)}),
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [2, 0, 1, 1]},
    ),
    (
        *((1, 1, 6, 6), 3, {"stride": 3, "padding": (0, 0, 1, 1), "ceil_mode": True}),
        {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [0, 0, 1, 1]}
        | {"ceil_mode": 1},
    ),
]


def cases() -> list[Any]:
    found: list[tuple[str, Any, tuple[Any, ...], dict[str, Any], Any, Any]] = []
    for x, w, bias, ours, theirs in CONV:
        inputs = [image(*x), image(*w)] + ([image(w[0])] if bias else [])
        found.append(("Conv", md.conv2d, (), ours, inputs, theirs))
    for x, kernel, ours, theirs in POOL:
        inputs = [image(*x)]
        found.append(("MaxPool", md.max_pool2d, (kernel,), ours, inputs, theirs))
        for include in (False, True):
            both = {**ours, "count_include_pad": include}
            other = {**theirs, "count_include_pad": int(include)}
            found.append(("AveragePool", md.avg_pool2d, (kernel,), both, inputs, other))
    one, square = [image(3, 4, 5)], [image(2, 3, 4, 5)]
    hard = {"alpha": 0.3, "beta": 0.4}
    found += [
        ("GlobalAveragePool", md.global_avg_pool2d, (), {}, square, {}),
        ("HardSigmoid", md.hardsigmoid, (), hard, one, hard),
        ("HardSwish", md.hardswish, (), {}, one, {}),
        ("Sigmoid", md.sigmoid, (), {}, one, {}),
        ("Tanh", md.tanh, (), {}, one, {}),
        *(
            ("Softmax", md.softmax, (), {"axis": axis}, one, {"axis": axis})
            for axis in (0, 1, -1)
        ),
        (
            *("BatchNormalization", md.batch_norm, (), {"eps": 0.1}),
            [square[0], *(np.abs(image(n, 3)[0]) + 0.1 for n in (1, 2, 3, 4))],
            {"epsilon": 0.1},
        ),
    ]
    return [pytest.param(*case, id=f"{case[0]}{i}") for i, case in enumerate(found)]


@pytest.mark.parametrize(
    ("node", "operation", "arguments", "ours", "inputs", "theirs"), cases()
)
def test_agrees_with_onnxruntime(
    node: str,
    operation: Any,
    arguments: tuple[Any, ...],
    ours: dict[str, Any],
    inputs: Arrays,
    theirs: dict[str, Any],
) -> None:
    order = [0, 3, 4, 1, 2] if node == "BatchNormalization" else range(len(inputs))
    found = operation(*(md.asarray(inputs[i]) for i in order), *arguments, **ours)
    want = run(node, inputs, theirs, opset=19)
    assert found.shape == want.shape
    assert np.allclose(found.buffer, want, rtol=1e-5, atol=1e-5)
