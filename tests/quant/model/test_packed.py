"""MatMulNBits, the product with packed weights of ONNX Runtime, against its formula."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.onnx_model import MICROSOFT

from mdtensor.errors import ModelError
from mdtensor.graph.plan import describe_weights
from mdtensor.quant import load, onnx_backend

RNG = np.random.default_rng(36)
ROWS, COLUMNS, SIZE = 6, 40, 16
COUNT = -(-COLUMNS // SIZE)
X = RNG.standard_normal((3, COLUMNS)).astype(np.float32)


def pack(codes: Any, bits: int) -> Any:
    """Pack codes [rows, ...] into bytes, the lowest bits first; pad rows with 0."""
    per = 8 // bits
    flat = codes.reshape(len(codes), -1).astype(np.int64)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % per)))
    parts = flat.reshape(len(codes), -1, per) << np.arange(0, 8, bits)
    return parts.sum(-1).astype(np.uint8)


class Case:
    """One product: its model, and the numbers that its weights stand for."""

    def __init__(self, bits: int = 4, kind: Any = np.float32, **extra: Any) -> None:
        codes = RNG.integers(0, 2**bits, (ROWS, COUNT * SIZE))
        scales = (RNG.random((ROWS, COUNT)) * 0.1 + 0.01).astype(kind)
        scales *= extra.pop("signs", np.ones((), kind))
        zeros = extra.pop("zeros", None)
        groups = extra.pop("groups", np.arange(COLUMNS) // SIZE)
        packed = pack(codes, bits).reshape(ROWS, COUNT, SIZE * bits // 8)
        self.constants = {"B": packed, "s": scales.ravel()}
        inputs = ["x", "B", "s", "", "", ""]
        if zeros is not None:
            is_packed = zeros.dtype == np.uint8
            self.constants["z"] = pack(zeros, bits) if is_packed else zeros.ravel()
            inputs[3] = "z"
        if (groups != np.arange(COLUMNS) // SIZE).any():
            self.constants["g"], inputs[4] = groups.astype(np.int32), "g"
        self.bias = extra.pop("bias", None)
        if self.bias is not None:
            self.constants["b"], inputs[5] = self.bias, "b"
        while not inputs[-1]:
            inputs.pop()
        sizes = {"K": COLUMNS, "N": ROWS, "bits": bits, "block_size": SIZE}
        self.node = helper.make_node(
            "MatMulNBits", inputs, ["y"], "n", domain=MICROSOFT, **sizes | extra
        )
        middle = np.full((ROWS, COUNT), 1 << (bits - 1)) if zeros is None else zeros
        steps = codes[:, :COLUMNS] - middle.astype(float)[:, groups]
        self.weights = steps * scales.astype(float)[:, groups]
        self.kind = helper.np_dtype_to_tensor_dtype(np.dtype(kind))

    def model(self) -> Any:
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [self.node],
            "g",
            [value("x", self.kind, X.shape)],
            [value("y", self.kind, None)],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def wanted(self) -> Any:
        product = X.astype(float) @ self.weights.T
        return product if self.bias is None else product + self.bias


SIGNS = np.where(RNG.random((ROWS, COUNT)) < 0.5, -1, 1).astype(np.float32)
NONE = np.ones((ROWS, COUNT), np.float32)
NONE[1, 1] = NONE[2] = 0
CASES = {
    "the middle code is 0": (Case(), "quint4"),
    "2 bits": (Case(2), "quint4"),
    "8 bits": (Case(8), "quint8"),
    "zero points": (
        Case(zeros=RNG.integers(0, 16, (ROWS, COUNT)).astype(np.uint8)),
        "quint4",
    ),
    "zero points of 8 bits": (
        Case(8, zeros=RNG.integers(0, 256, (ROWS, COUNT)).astype(np.uint8)),
        "quint8",
    ),
    "whole floats": (Case(zeros=np.full((ROWS, COUNT), 7, np.float32)), "quint4"),
    "floats": (Case(zeros=RNG.random((ROWS, COUNT)).astype(np.float32)), "float32"),
    "negative scales": (Case(signs=SIGNS), "quint4"),
    "scales of 0": (Case(signs=NONE), "quint4"),
    "groups": (Case(groups=RNG.integers(0, COUNT, COLUMNS)), "float32"),
    "a bias": (Case(bias=RNG.random(ROWS).astype(np.float32)), "quint4"),
    "a hint": (Case(accuracy_level=4), "quint4"),
}


@pytest.mark.parametrize(("case", "kind"), CASES.values(), ids=CASES)
def test_is_the_formula(case: Case, kind: str, tmp_path: Path) -> None:
    model = load(case.model())
    (layer,) = model.graph.nodes
    weights = model.graph.constants[layer.inputs[1]]
    assert describe_weights(weights)[0].split(",")[0] == kind
    np.testing.assert_allclose(model(X), case.wanted(), rtol=1e-4, atol=1e-4)
    model.save(tmp_path / "again.onnx")
    again = load(tmp_path / "again.onnx")
    assert np.asarray(again(X)).tobytes() == np.asarray(model(X)).tobytes()
    (found,) = onnx_backend.run_model(case.model(), [X])
    np.testing.assert_allclose(found, case.wanted(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_onnxruntime_agrees(bits: int, onnxruntime_of: Any, tmp_path: Path) -> None:
    zeros = RNG.integers(0, 2**bits, (ROWS, COUNT)).astype(np.uint8)
    case = Case(bits, zeros=zeros)
    (tmp_path / "m.onnx").write_bytes(case.model().SerializeToString())
    wanted = onnxruntime_of(tmp_path / "m.onnx", {"x": X})[0]
    np.testing.assert_allclose(case.wanted(), wanted, rtol=1e-3, atol=1e-3)


def test_float16_computes_in_float32_and_rounds_once() -> None:
    case, x = Case(kind=np.float16), X.astype(np.float16)
    found = np.asarray(load(case.model())(x))
    wanted = x.astype(float) @ case.weights.T
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"block_size": 12}, "has N=6, K=40 and block_size=12. Use positive sizes"),
        ({"block_size": 0}, "block_size=0"),
        ({"N": 0}, "has N=0"),
        ({"N": 7}, "has 144 elements of weights, and its sizes need 168"),
        ({"K": 200}, "elements of weights, and its sizes need"),
        ({"bits": 3}, "has bits=3. Supported is 4 or 2 or 8"),
    ],
)
def test_sizes_that_do_not_fit(sizes: Any, words: str) -> None:
    with pytest.raises(ModelError) as raised:
        load(Case(**sizes).model()) if "bits" not in sizes else load(_of_bits(3))
    assert words in str(raised.value)


def _of_bits(bits: int) -> Any:
    model = Case().model()
    (entry,) = (a for a in model.graph.node[0].attribute if a.name == "bits")
    entry.i = bits
    return model


def test_groups_and_weights_that_cannot_be_read() -> None:
    groups = np.arange(COLUMNS) // SIZE
    model = Case(groups=groups[::-1].copy()).model()
    (proto,) = (p for p in model.graph.initializer if p.name == "g")
    for number in (-1, COUNT):
        wrong = groups.astype(np.int32)
        wrong[3] = number
        proto.CopyFrom(numpy_helper.from_array(wrong, "g"))
        with pytest.raises(ModelError, match="reads a block that does not exist"):
            load(model)
    moving = Case().model()
    del moving.graph.initializer[1]
    scale = helper.make_tensor_value_info("s", TensorProto.FLOAT, (ROWS * COUNT,))
    moving.graph.input.append(scale)
    with pytest.raises(ModelError, match="'n' needs the scales as a constant"):
        load(moving)
