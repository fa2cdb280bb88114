"""Networks of float16: their time beside the same networks in float32."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from bench.harness import Reading
from bench.harness.machine import pinned
from bench.harness.reading import timed
from bench.harness.turns import Effort
from bench.inference.latency import taken
from bench.inference.networks import Network, file_for_shape
from bench.inference.runtimes import FLOAT, ORT_FLOAT
from mdtensor.cli import demo
from mdtensor.quant.model.load import load

OURS, ORT_HALF = "mdtensor float16", "onnxruntime float16"
#: How far results may be from ours, over the largest of them: float16 has 11 bits, and
#: only we round each node.
NEAR = 0.05


@dataclass(frozen=True)
class Half:
    """The time of one image by a float16 network, and by the float32 one."""

    name: str
    network: Callable[[], Network]
    table: str = "float16"

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()
        image = network.images[:1]
        half = image.astype(np.float16)
        file = file_for_shape(in_float16(network.float_file), image.shape)
        ours = load(onnx.load_from_string(file))
        sessions = [
            demo.start_session(one, 1)
            for one in (file, file_for_shape(network.float_file, image.shape))
        ]
        with pinned(1):
            ways: dict[str, Callable[[], Any]] = {
                OURS: lambda: ours(half),
                FLOAT: lambda: network.floating(image),
                ORT_HALF: lambda: sessions[0].run(None, {"x": half})[0],
                ORT_FLOAT: lambda: sessions[1].run(None, {"x": image})[0],
            }
            require_near({name: call() for name, call in ways.items()})
            samples, _ = taken(ways, effort.of(0.5))
        return timed(self.table, self.name, samples, OURS, {})


def require_near(results: dict[str, Any]) -> None:
    """Check that all compute the same network."""
    own = np.asarray(results[OURS], np.float64)
    for name, found in results.items():
        distance = np.abs(np.asarray(found, np.float64) - own).max()
        assert distance <= NEAR * np.abs(own).max(), (name, distance)


def in_float16(file: bytes) -> bytes:
    """The file with float16 for each float32: inputs, outputs, constants."""
    model = onnx.load_from_string(file)
    graph = model.graph
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT:
            kind.elem_type = TensorProto.FLOAT16
    attributes = [a for node in graph.node for a in node.attribute if a.HasField("t")]
    for tensor in (*graph.initializer, *(a.t for a in attributes)):
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    data: bytes = model.SerializeToString()
    return data
