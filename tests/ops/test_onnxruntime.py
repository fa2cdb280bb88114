"""A second opinion: single-node models run by ONNX Runtime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import mdtensor as md

Arrays = list[np.ndarray[Any, Any]]


def run(node: str, inputs: list[Any], attributes: dict[str, Any], opset: int) -> Any:
    """What the node makes of the inputs; None is an input left out."""
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    names = [f"x{i}" if f"x{i}" in given else "" for i in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, list(x.shape))
        for name, x in given.items()
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_node(node, names, ["y"], **attributes)
    graph = helper.make_graph([made], "one", infos, [y])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, given)[0]


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


LINE, WAVES, SIGNAL = image(3, 4, 5), image(2, 3, 4, 5), image(2, 4, 9)
LAYER = [WAVES, image(4, 5), image(5, 4).T.copy()]
CHANNELS = [WAVES, image(3), image(1, 3)[0]]
HEADS = [image(2, 3, n, 4) for n in (5, 7, 8)]
HEADS[2] = HEADS[2][:, :, :7]
TWICE = np.array([1, 1, 2, 2.5], np.float32)


def half_pixels(mode: str, **options: Any) -> dict[str, Any]:
    where = "align_corners" if options.get("align_corners") else "half_pixel"
    if mode == "nearest":
        where = "asymmetric"
    return {
        "mode": mode,
        "coordinate_transformation_mode": where,
        "nearest_mode": "floor",
        "cubic_coeff_a": -0.75,
    }


def resized(mode: str, **options: Any) -> Any:
    names = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
    found = {"scale_factor": (2, 2.5), "mode": names[mode], **options}
    inputs = [WAVES, None, TWICE]
    return ("Resize", md.interpolate, found, inputs, half_pixels(mode, **options))


LAYERS: list[tuple[str, Any, dict[str, Any], list[Any], dict[str, Any]]] = [
    ("Erf", md.erf, {}, [LINE], {}),
    ("Gelu", md.gelu, {}, [LINE], {}),
    (
        *("Gelu", md.gelu, {"approximate": "tanh"}),
        *([LINE], {"approximate": "tanh"}),
    ),
    ("Elu", md.elu, {"alpha": 0.7}, [LINE], {"alpha": 0.7}),
    ("Selu", md.selu, {}, [LINE], {}),
    ("Celu", md.celu, {"alpha": 0.7}, [LINE], {"alpha": 0.7}),
    ("LeakyRelu", md.leaky_relu, {"negative_slope": 0.2}, [LINE], {"alpha": 0.2}),
    ("Mish", md.mish, {}, [LINE], {}),
    ("Softplus", md.softplus, {}, [LINE], {}),
    ("Softsign", md.softsign, {}, [LINE], {}),
    ("LogSoftmax", md.log_softmax, {"axis": 1}, [LINE], {"axis": 1}),
    (
        *("LayerNormalization", md.layer_norm),
        *({"normalized_shape": (4, 5), "eps": 0.1}, LAYER),
        {"axis": 2, "epsilon": 0.1},
    ),
    (
        *("InstanceNormalization", md.instance_norm, {"eps": 0.1}),
        *(CHANNELS, {"epsilon": 0.1}),
    ),
    (
        *("GroupNormalization", md.group_norm, {"num_groups": 3, "eps": 0.1}),
        *(CHANNELS, {"num_groups": 3, "epsilon": 0.1}),
    ),
    ("LpNormalization", md.normalize, {"p": 1}, [WAVES], {"p": 1, "axis": 1}),
    (
        *("Conv", md.conv1d, {"stride": 2, "padding": (1, 0), "groups": 2}),
        [SIGNAL, image(6, 2, 3), image(6)],
        {"strides": [2], "pads": [1, 0], "group": 2},
    ),
    (
        *("ConvTranspose", md.conv_transpose2d),
        {"stride": (2, 3), "padding": (1, 0, 2, 1), "output_padding": (1, 2)},
        [WAVES, image(3, 2, 3, 4), image(2)],
        {"strides": [2, 3], "pads": [1, 0, 2, 1], "output_padding": [1, 2]},
    ),
    (
        *("ConvTranspose", md.conv_transpose2d, {"dilation": 2, "groups": 3}),
        *([WAVES, image(3, 2, 2, 2)], {"dilations": [2, 2], "group": 3}),
    ),
    (
        *("DepthToSpace", md.pixel_shuffle, {"upscale_factor": 2}),
        *([image(2, 8, 3, 4)], {"blocksize": 2, "mode": "CRD"}),
    ),
    ("Attention", md.scaled_dot_product_attention, {}, HEADS, {}),
    (
        *("Attention", md.scaled_dot_product_attention, {"is_causal": True}),
        *(HEADS, {"is_causal": 1}),
    ),
    resized("nearest"),
    resized("linear"),
    resized("linear", align_corners=True),
    resized("cubic"),
]


@pytest.mark.parametrize(
    ("node", "operation", "ours", "inputs", "theirs"),
    [pytest.param(*row, id=f"{row[0]}{i}") for i, row in enumerate(LAYERS)],
)
def test_layers_agree_with_onnxruntime(
    node: str,
    operation: Any,
    ours: dict[str, Any],
    inputs: list[Any],
    theirs: dict[str, Any],
) -> None:
    tensors = [md.from_numpy(x) for x in inputs if x is not None and x is not TWICE]
    found = operation(*tensors, **ours)
    want = run(node, inputs, theirs, opset=23)
    assert found.shape == want.shape
    assert np.allclose(found.buffer, want, rtol=1e-5, atol=1e-5)
