"""MobileNetV2 1.0 with seeded weights, quantized once and given to every runtime.

The published architecture: Sandler et al., "MobileNetV2", table 2. The weights are
normal, of He's variance; the images are noise whose spectrum falls as that of photos.
"""

import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

#: expansion, channels, repeats, stride of the first
BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
BLOCKS += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
CLASSES = 1000


class Network:
    """An ONNX graph while it is written."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants = [
            numpy_helper.from_array(np.float32(v), f"{v}") for v in (0, 6)
        ]

    def append(self, operator: str, inputs: Iterable[str], **options: Any) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        node = helper.make_node(operator, list(inputs), [name], name=name, **options)
        self.nodes.append(node)
        return name

    def constant(self, values: np.ndarray) -> str:
        name = f"w{len(self.constants)}"
        values = values.astype(np.float32)
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        size: int = 1,
        *,
        stride: int = 1,
        groups: int = 1,
        is_clipped: bool = True,
    ) -> str:
        into, out = channels
        taps = into // groups * size * size
        deviation = ((2 if is_clipped else 1) / taps) ** 0.5
        shape = (out, into // groups, size, size)
        weight = self.constant(self.rng.normal(0, deviation, shape))
        bias = self.constant(self.rng.normal(0, 0.1, out))
        edge = {"strides": [stride] * 2, "pads": [size // 2] * 4}
        x = self.append("Conv", (x, weight, bias), group=groups, **edge)
        return self.append("Clip", (x, "0", "6")) if is_clipped else x

    def block(self, x: str, into: int, out: int, expansion: int, stride: int) -> str:
        """A bottleneck with a linear end, and the way around it where sizes agree."""
        wide, y = into * expansion, x
        if expansion > 1:
            y = self.conv(y, (into, wide))
        y = self.conv(y, (wide, wide), 3, stride=stride, groups=wide)
        y = self.conv(y, (wide, out), is_clipped=False)
        return self.append("Add", (x, y)) if stride == 1 and into == out else y

    def model(self, size: int) -> onnx.ModelProto:
        x, channels = self.conv("x", (3, 32), 3, stride=2), 32
        for expansion, out, repeats, stride in BLOCKS:
            for turn in range(repeats):
                x = self.block(x, channels, out, expansion, stride if turn == 0 else 1)
                channels = out
        x = self.append("GlobalAveragePool", [self.conv(x, (channels, 1280))])
        weight = self.rng.normal(0, 1280**-0.5, (CLASSES, 1280))
        ends = self.constant(weight), self.constant(np.zeros(CLASSES))
        x = self.append("Gemm", (self.append("Flatten", [x]), *ends), transB=1)
        kind = TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "MobileNetV2",
            [helper.make_tensor_value_info("x", kind, ["n", 3, size, size])],
            [helper.make_tensor_value_info(x, kind, ["n", CLASSES])],
            self.constants,
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)


def images(size: int, seed: int) -> Iterator[np.ndarray]:
    """float32 [1, 3, size, size] of deviation 1, without end."""
    rng = np.random.default_rng(seed)
    x, y = np.fft.rfftfreq(size)[None], np.fft.fftfreq(size)[:, None]
    amplitude = 1 / np.maximum(np.hypot(x, y), 1 / size)
    while True:
        phase = np.exp(2j * np.pi * rng.random((3, *amplitude.shape)))
        image = np.fft.irfft2(amplitude * phase, s=(size, size))
        image = (image - image.mean()) / image.std()
        yield image[None].astype(np.float32)


@cache
def file(size: int) -> bytes:
    """The float network as an ONNX file, for any number of images."""
    data: bytes = Network().model(size).SerializeToString()
    return data


@cache
def floating(size: int) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float.onnx"
        path.write_bytes(file(size))
        return load(path, (-1, 3, size, size))


@cache
def quantized(size: int) -> Model:
    """The same with 8-bit codes, weights per channel; two images were seen."""
    network, seen = floating(size), images(size, 5)
    return network.quantize(network.calibrate([next(seen), next(seen)]))


def with_unsigned_weights(model: bytes) -> bytes:
    """The same quantized model, its weights uint8 with zero point 128.

    On a CPU without the 8-bit dot product ONNX Runtime's kernel for signed weights
    saturates at int16; that for unsigned ones is exact.
    """
    found = onnx.load_from_string(model)
    constants = {value.name: value for value in found.graph.initializer}
    for node in found.graph.node:
        weight = constants.get(node.input[0])
        is_weight = node.op_type == "DequantizeLinear" and weight is not None
        if not is_weight or weight.data_type != TensorProto.INT8:
            continue
        codes = numpy_helper.to_array(weight).astype(np.int16) + 128
        weight.CopyFrom(numpy_helper.from_array(codes.astype(np.uint8), weight.name))
        scale = numpy_helper.to_array(constants[node.input[1]])
        zeros = np.full(scale.shape, 128, np.uint8)
        name = f"{weight.name}_zero_point"
        found.graph.initializer.append(numpy_helper.from_array(zeros, name))
        node.input[:] = [*node.input[:2], name]
    data: bytes = found.SerializeToString()
    return data
