"""Streaming networks: variables are inputs and results of the model."""

from typing import Any

import numpy as np
import pytest
from support.tflite_networks import START, stream

from bench.rivals.tflite_file import Step
from mdtensor.errors import ModelError


@pytest.mark.parametrize("scale", [None, 0.25])
def test_states_are_passed_from_call_to_call(
    scale: float | None, load_bytes: Any, litert: Any
) -> None:
    content = stream(scale)
    network, theirs = load_bytes(content), litert(content)
    assert list(network.inputs) == ["x", "total"]
    assert list(network.states) == ["total"]
    assert np.asarray(network.states["total"]).tolist() == START.tolist()
    states = list(network.states.values())
    rng = np.random.default_rng(0)
    for _ in range(4):
        codes = rng.integers(-8, 8, (1, 3))
        x = codes.astype(np.float32) / 4
        y, *states = network(x, *states)
        (other,) = theirs(x if scale is None else codes.astype(np.int8))
        found = np.asarray(y if scale is None else y.codes)
        assert found.tolist() == other.tolist()
    assert len(states) == 1


def test_a_model_without_variables_has_no_states(tiny: bytes, load_bytes: Any) -> None:
    assert dict(load_bytes(tiny).states) == {}


@pytest.mark.parametrize("graph", [0, 2, -1])
def test_a_graph_that_does_not_exist(graph: int, load_bytes: Any) -> None:
    with pytest.raises(ModelError, match=f"node 0 calls graph {graph} of 2"):
        load_bytes(stream(graph=graph))


def test_a_start_that_is_computed(load_bytes: Any) -> None:
    extra = [Step("ABS", [1], 1, version=1)]
    with pytest.raises(ModelError, match="operator ABS of node 2 in graph"):
        load_bytes(stream(extra=extra))
