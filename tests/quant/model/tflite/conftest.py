"""TFLite files of a few operators, and LiteRT beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite_networks import tiny_network

from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model

Array = np.ndarray[Any, Any]


class LiteRT:
    """A model in LiteRT: its inputs and results in the order of the file.

    Args:
        content: the bytes of the file.
        resolver: "BUILTIN_REF" for the reference kernels,
            "BUILTIN_WITHOUT_DEFAULT_DELEGATES" for the optimized ones.
    """

    def __init__(self, content: bytes, resolver: str = "BUILTIN_REF") -> None:
        litert = pytest.importorskip("ai_edge_litert.interpreter")
        self.run = litert.Interpreter(
            model_content=content,
            num_threads=1,
            experimental_op_resolver_type=getattr(litert.OpResolverType, resolver),
        )
        self.run.allocate_tensors()

    def __call__(self, *arrays: Array) -> list[Array]:
        places = self.run.get_input_details()
        assert len(places) == len(arrays)
        for place, array in zip(places, arrays, strict=True):
            self.run.set_tensor(place["index"], array)
        self.run.invoke()
        ends = self.run.get_output_details()
        return [np.array(self.run.get_tensor(end["index"])) for end in ends]


@pytest.fixture
def litert() -> type[LiteRT]:
    return LiteRT


@pytest.fixture
def load_bytes(tmp_path: Path) -> Callable[..., Model]:
    """`load_bytes(content, ...)` is `load` of a file with this content."""

    def made(content: bytes, *args: Any, **options: Any) -> Model:
        path = tmp_path / "model.tflite"
        path.write_bytes(content)
        return load(path, *args, **options)

    return made


@pytest.fixture
def agree(load_bytes: Callable[..., Model]) -> Callable[..., Model]:
    """`agree(content, *arrays)` compares a float model with LiteRT."""

    def compare(content: bytes, *arrays: Array, atol: float = 2e-5) -> Model:
        # The reference lacks some operators on floats.
        theirs = LiteRT(content, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")(*arrays)
        network = load_bytes(content)
        feeds = dict(zip(network.inputs, arrays, strict=True))
        found = network.graph.run(feeds)
        ours = [np.asarray(found[name]) for name in network.outputs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=atol)
        return network

    return compare


@pytest.fixture
def tiny() -> bytes:
    """A float network of a convolution, a pool and a linear layer."""
    return tiny_network()
