"""The runtimes: each gives a call of one network on some images."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bench import mobilenet
from bench.inference.networks import Network, file_for_shape, for_shape
from mdtensor.cli import demo

OURS, FLOAT = "mdtensor int8", "mdtensor float"
ORT_FLOAT, ORT_INT8 = "onnxruntime float", "onnxruntime int8"
#: Of one file: its weights as they are, and as unsigned codes.
ORT_EXACT = "onnxruntime int8, unsigned weights"
LITERT = "LiteRT int8"
TORCH_FLOAT, TORCH_INT8 = "PyTorch float", "PyTorch int8"
FLOATS = (FLOAT, ORT_FLOAT, TORCH_FLOAT)
#: How far results may be from ours, over the largest of them: floats add in another
#: order; integers round in another place, and a step grows on its way to the end.
NEAR = {ORT_FLOAT: 1e-3, TORCH_FLOAT: 1e-3, ORT_EXACT: 0.05, LITERT: 0.05}
Call = Callable[[], Any]
Runtime = Callable[[Network, Any, int], Call]


class LeftOut(LookupError):
    """A runtime does not run a network, for this reason."""


def ours(network: Network, images: Any, threads: int) -> Call:
    return lambda: network.small(images)


def floating(network: Network, images: Any, threads: int) -> Call:
    return lambda: network.floating(images)


def ort_float(network: Network, images: Any, threads: int) -> Call:
    return _ort(network.float_file, images, threads)


def ort_int8(network: Network, images: Any, threads: int) -> Call:
    return _ort(network.int8_file, images, threads)


def ort_exact(network: Network, images: Any, threads: int) -> Call:
    if not network.is_ours:
        raise LeftOut("its tool has quantized that network for it")
    return _ort(mobilenet.with_unsigned_weights(network.int8_file), images, threads)


def _ort(file: bytes, images: Any, threads: int) -> Call:
    session = demo.start_session(file_for_shape(file, images.shape), threads)
    return lambda: session.run(None, {"x": images})[0]


def litert(network: Network, images: Any, threads: int) -> Call:
    file = tflite_file(network, images.shape)
    from bench.rivals.litert import Session

    session = Session(file, threads)
    channels_last = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    return lambda: session(channels_last)


def tflite_file(network: Network, shape: tuple[int, ...]) -> bytes:
    """The quantized network for inputs of this shape.

    Raises:
        LeftOut: a package is not there, or the format has not what it takes.
    """
    try:
        import ai_edge_litert.interpreter  # noqa: F401

        from bench.rivals import litert
    except ModuleNotFoundError as error:
        raise LeftOut(f"{error.name} is not installed") from None
    try:
        return litert.written(for_shape(network.small, shape).graph)
    except litert.NotWritten as reason:
        raise LeftOut(str(reason)) from None


def torch_float(network: Network, images: Any, threads: int) -> Call:
    return _torch(network.floating, images, threads)


def torch_int8(network: Network, images: Any, threads: int) -> Call:
    return _torch(network.small, images, threads)


def _torch(model: Any, images: Any, threads: int) -> Call:
    try:
        from bench.rivals import pytorch
    except ModuleNotFoundError as error:
        raise LeftOut(f"{error.name} is not installed") from None
    try:
        session = pytorch.Session(model.graph, threads)
    except pytorch.NotRun as reason:
        raise LeftOut(str(reason)) from None
    return lambda: session(images)


RUNTIMES: Mapping[str, Runtime] = {
    OURS: ours,
    FLOAT: floating,
    ORT_FLOAT: ort_float,
    ORT_INT8: ort_int8,
    ORT_EXACT: ort_exact,
    LITERT: litert,
    TORCH_FLOAT: torch_float,
    TORCH_INT8: torch_int8,
}


def calls(network: Network, images: Any, threads: int) -> dict[str, Call]:
    """A call of each runtime that runs the network; says which do not, and why."""
    found = {}
    for name, runtime in RUNTIMES.items():
        try:
            found[name] = runtime(network, images, threads)
        except LeftOut as reason:
            print(f"{name} is left out: {reason}")
    return found


def distances(results: Mapping[str, Any]) -> dict[str, float]:
    """How far each result is from ours of its kind, over the largest of ours.

    Raises:
        AssertionError: one that does the same work is too far, see `NEAR`.
    """
    found = {}
    for name, result in results.items():
        own = np.asarray(results[FLOAT if name in FLOATS else OURS])
        found[name] = float(np.abs(np.asarray(result) - own).max() / np.abs(own).max())
        assert found[name] <= NEAR.get(name, np.inf), (name, found[name])
    return found
