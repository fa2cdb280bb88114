"""Networks of a few nodes, written as those of the benches are."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench import mobilenet
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

SIZES = (3, 17, 20)


def network(net: mobilenet.Network, x: str, folder: Path) -> Model:
    """The network that ends in x, for any number of images."""
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        net.nodes,
        "tiny",
        [helper.make_tensor_value_info("x", kind, ["n", *SIZES])],
        [helper.make_tensor_value_info(x, kind, None)],
        net.constants,
    )
    opset = [helper.make_opsetid("", 17)]
    path = folder / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return load(path, (-1, *SIZES))


def quantized(model: Model) -> Model:
    return model.quantize(model.calibrate([images(1, seed) for seed in (0, 1)]))


def images(count: int, seed: int) -> Any:
    values = np.random.default_rng(seed).normal(size=(count, *SIZES))
    return values.astype(np.float32)
