"""The networks: what each is in mdtensor, and as files of its peers."""

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import mdtensor as md
from bench import mobilenet
from mdtensor.cli import demo, demo_data
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

#: Images at hand, as many as are given at once.
MANY = 8
#: The largest difference of floats between a plan and single calls, relative to the
#: largest float.
NEAR = 1e-5


@dataclass(frozen=True)
class Network:
    """A network before and after it was quantized, for any number of images.

    Args:
        floating, small: before and after.
        images: float32 [n, 3, height, width], MANY of them where the network takes
            several at once.
        float_file: the ONNX file that `floating` was read from.
        int8_file: the quantized one that ONNX Runtime is given.
        is_ours: whether `int8_file` has the codes and scales of `small`.
    """

    floating: Model
    small: Model
    images: np.ndarray
    float_file: bytes
    int8_file: bytes
    is_ours: bool

    def check(self) -> None:
        """Compare the plan with dispatch, node by node: codes exactly, floats nearly.

        Compiled steps of floats add in another order than NumPy.
        """
        feeds = {"x": md.asarray(self.images[:1])}
        seen: dict[str, Any] = {}
        self.small.graph.run(feeds, lambda name, tensor: seen.update({name: tensor}))
        for name, tensor in (
            self.small.plan(self.images[:1].shape).values(feeds).items()
        ):
            found, wanted = tensor.buffer, seen[name].buffer
            if found.dtype.kind == "f":
                assert np.abs(found - wanted).max() <= NEAR * np.abs(wanted).max(), name
            else:
                assert np.array_equal(found, wanted), name


@cache
def classifier(crops: int | None = None) -> Network:
    """That of the demo, calibrated on so many crops of a page, or on all."""
    calibration, held_back = demo_data.crops()
    samples = [crop.pixels for crop in calibration[:crops]]
    path = demo_data.classifier_path()
    network = load(path, (-1, *demo_data.INPUT_SHAPE[1:]))
    small = network.quantize(network.calibrate(samples))
    rival = demo.quantize_by_tool(path, samples, "x")
    images = np.concatenate([crop.pixels for crop in held_back[:MANY]])
    return Network(network, small, images, path.read_bytes(), rival, False)


@cache
def mobile(size: int) -> Network:
    network, small = mobilenet.floating(size), mobilenet.quantized(size)
    images = np.concatenate(list(islice(mobilenet.images(size, 9), MANY)))
    return Network(network, small, images, mobilenet.file(size), saved(small), True)


def saved(model: Model) -> bytes:
    """The model as the ONNX file that we write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.save(path)
        return path.read_bytes()


def for_shape(model: Model, shape: tuple[int, ...]) -> Model:
    """The model for inputs of this shape alone."""
    specs = {n: s.with_shape(shape) for n, s in model.graph.inputs.items()}
    return Model(replace(model.graph, inputs=specs))


def file_for_shape(file: bytes, shape: tuple[int, ...]) -> bytes:
    """The ONNX file for inputs of this shape alone; a runtime may plan for it."""
    model = onnx.load_from_string(file)
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    for size, known in zip(sizes, shape, strict=True):
        size.dim_value = known
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    data: bytes = model.SerializeToString()
    return data
