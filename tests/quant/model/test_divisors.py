"""Divisors and operands of logarithms stay float: their codes could be that of 0."""

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from mdtensor.quant import load

EPS = np.float32(1e-12)


def network(*middle: Any) -> Any:
    """Two layers of 8 units with nodes from `y` to `d` between them."""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(8, 8)).astype(np.float32) for name in "vw"}
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["y"]),
        *(helper.make_node(*one[:3], **one[3]) for one in middle),
        helper.make_node("MatMul", ["d", "w"], ["z"]),
    ]
    constants = {**weights, "eps": EPS, "tiny": np.float32(1e-4)}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "divisors",
        [value("x", 1, [4, 8])],
        [value("z", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    versions = [helper.make_opsetid("", 17)]
    return load(helper.make_model(graph, opset_imports=versions))


def samples() -> list[Any]:
    rng = np.random.default_rng(1)
    return list(rng.normal(size=(8, 4, 8)).astype(np.float32))


# As torch.nn.functional.normalize is exported, of vectors or of their lengths.
NORMALIZE = [
    ("ReduceL2", ["y"], ["n"], {"axes": [-1], "keepdims": 1}),
    ("Clip", ["n", "eps"], ["c"], {}),
    ("Shape", ["y"], ["s"], {}),
    ("Expand", ["c", "s"], ["e"], {}),
    ("Div", ["y", "e"], ["d"], {}),
]


@pytest.mark.parametrize("scale", [0, 1e-4, 0.02])
def test_a_row_that_is_nearly_0_is_normalized(scale: float) -> None:
    model, seen = network(*NORMALIZE), samples()
    quantized = model.quantize(model.calibrate(seen))
    x = seen[0].copy()
    x[0] *= np.float32(scale)
    found, wanted = np.asarray(quantized(x)), np.asarray(model(x))
    # Codes do not tell the direction of a short row: its length is what can be asked.
    assert np.abs(found[0]).max() <= 1.5 * np.abs(wanted[1:]).max()
    assert np.abs(found[1:] - wanted[1:]).max() < 0.05 * np.abs(wanted[1:]).max()
    notes = quantized.graph.notes
    assert all("small numbers must not be 0" in notes[name] for name in ("c", "e"))


def test_the_logarithm_of_a_small_number_is_finite() -> None:
    model = network(
        ("Sigmoid", ["y"], ["p"], {}),
        ("Add", ["p", "tiny"], ["g"], {}),
        ("Log", ["g"], ["d"], {}),
    )
    seen = samples()
    quantized = model.quantize(model.calibrate(seen))
    found, wanted = np.asarray(quantized(seen[0])), np.asarray(model(seen[0]))
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_what_is_a_numerator_too_has_codes() -> None:
    model = network(
        ("Sigmoid", ["y"], ["p"], {}),
        ("Add", ["p", "tiny"], ["g"], {}),
        ("Div", ["y", "g"], ["d"], {}),
    )
    notes = model.quantize(model.calibrate(samples())).graph.notes
    assert "p" in notes and "g" in notes and "y" not in notes
