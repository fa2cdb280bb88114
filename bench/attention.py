"""Attention and a grouped convolution in int8, as whole models of one layer.

ONNX Runtime runs the same float file, quantized by its own `quantize_static`.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

from bench.harness import Bench, Contender, Promise, Race, Reason, Row
from bench.harness.agreement import Disagreement
from mdtensor.kernels.cpu import isa
from mdtensor.quant import load

OURS, FLOAT, ORT = "mdtensor", "mdtensor, float", "ORT"
OPSETS = [helper.make_opsetid("", 17)]
#: The least ratio of signal to noise of int8, in dB: ONNX Runtime's own keeps 16 here.
LEAST_QUALITY = 14.0


@dataclass(frozen=True)
class Model:
    """A float ONNX file of one layer, with its input.

    Args:
        name: of the row.
        file: the bytes of the file.
        x: the input, which is also the sample for calibration.
    """

    name: str
    file: bytes
    x: np.ndarray


def attention(length: int, width: int, heads: int) -> Model:
    """Return self-attention over `length` tokens of `width` numbers."""
    rng, depth = np.random.default_rng(15), width // heads
    constants = {
        f"w{name}": rng.standard_normal((width, width), np.float32) / width**0.5
        for name in "qkvo"
    }
    constants["factor"] = np.float32(depth**-0.5)
    constants["split"] = np.array([1, length, heads, depth])
    constants["join"] = np.array([1, length, width])
    nodes = []
    for name in "qkv":
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            ("MatMul", ["x", f"w{name}"], f"{name}0", {}),
            ("Reshape", [f"{name}0", "split"], f"{name}1", {}),
            ("Transpose", [f"{name}1"], name, {"perm": order}),
        ]
    nodes += [
        ("MatMul", ["q", "k"], "scores", {}),
        ("Mul", ["scores", "factor"], "scaled", {}),
        ("Softmax", ["scaled"], "shares", {"axis": -1}),
        ("MatMul", ["shares", "v"], "mixed", {}),
        ("Transpose", ["mixed"], "turned", {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["turned", "join"], "joined", {}),
        ("MatMul", ["joined", "wo"], "y", {}),
    ]
    x = rng.standard_normal((1, length, width), np.float32)
    return Model(f"attention {length}x{width}", onnx_file(nodes, constants, x), x)


def grouped() -> Model:
    """Return a 5x5 convolution with two channels in each group, and a relu."""
    rng = np.random.default_rng(15)
    constants = {
        "w": rng.standard_normal((64, 2, 5, 5), np.float32) / 10,
        "b": rng.standard_normal(64, np.float32),
    }
    nodes = [
        ("Conv", ["x", "w", "b"], "a", {"group": 32, "pads": [2] * 4}),
        ("Relu", ["a"], "y", {}),
    ]
    x = rng.standard_normal((1, 64, 28, 28), np.float32)
    return Model("grouped 5x5", onnx_file(nodes, constants, x), x)


def onnx_file(
    nodes: Sequence[Any], constants: Mapping[str, np.ndarray], x: np.ndarray
) -> bytes:
    """Return the bytes of a float model from x to y."""
    graph = helper.make_graph(
        [helper.make_node(k, i, [o], name=o, **options) for k, i, o, options in nodes],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
    return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """The input of a model, once, for ONNX Runtime's calibration."""

    def __init__(self, x: np.ndarray) -> None:
        self._left = [{"x": x}]

    def get_next(self) -> Any:
        return self._left.pop() if self._left else None


def rival(model: Model) -> Callable[[], np.ndarray]:
    """Return a call of ONNX Runtime on one thread, quantized by its own tool."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        before.write_bytes(model.file)
        quantize_static(
            *(before, after, Samples(model.x)),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        session = onnxruntime.InferenceSession(
            after.read_bytes(), options, ["CPUExecutionProvider"]
        )
    return lambda: np.asarray(session.run(None, {"x": model.x})[0])


def contenders(model: Model) -> list[Contender]:
    """Return ours in int8, ONNX Runtime's int8 and ours in float."""
    network = load(onnx.load_from_string(model.file))
    small = network.quantize(network.calibrate([model.x]))
    return [
        Contender(OURS, lambda: small(model.x)),
        Contender(ORT, rival(model)),
        Contender(FLOAT, lambda: network(model.x)),
    ]


def is_near(results: Mapping[str, Any]) -> None:
    """Raise if int8 of either is far from float."""
    wanted = np.asarray(results[FLOAT])
    for name in (OURS, ORT):
        noise = ((np.asarray(results[name]) - wanted) ** 2).sum()
        quality = 10 * np.log10((wanted**2).sum() / max(noise, 1e-30))
        if quality < LEAST_QUALITY:
            raise Disagreement(f"{name} keeps {quality:.0f} dB of the signal")


MODELS: dict[str, Callable[[], Model]] = {
    "attention 64x64": lambda: attention(64, 64, 2),
    "attention 128x256": lambda: attention(128, 256, 4),
    "grouped 5x5": grouped,
}


def rows(quick: bool) -> Iterator[Row]:
    """Make a race of each model."""
    for name, make in MODELS.items():
        table = "Attention and groups on one thread"
        yield Race(name, lambda make=make: contenders(make()), is_near, table)


BENCH = Bench(
    f"Attention in int8, ISA {isa.ISA}",
    rows,
    rounds=25,
    promises=[
        Promise("attention 64x64", 1.0, lambda f: f.ratio("attention 64x64", ORT)),
        Promise("attention 128x256", 1.0, lambda f: f.ratio("attention 128x256", ORT)),
        Promise("grouped 5x5", 0.8, lambda f: f.ratio("grouped 5x5", FLOAT)),
    ],
    reasons=[Reason("a call costs more here, and the model is small", "*64x64", ORT)],
    notes="""Each contender is called with an array and returns a new one. ONNX
Runtime's model is quantized by its `quantize_static` (QDQ, unsigned activations, signed
weights with a scale for each channel); ours by `quantize` with the same sample.""",
)
