"""Profiles: one entry for each node, sums that fit, and a trace that tools read."""

import json
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from mdtensor.errors import ModelError, OptionError
from mdtensor.graph.profile import Profile, ProfiledNode
from mdtensor.quant.model import Model
from tests.support.planted import CHANNELS, SIZE, chain, images


@pytest.fixture(scope="module")
def small() -> Model:
    model = chain(1)
    return model.quantize(model.calibrate(images(2, 1)), keep_float=["conv2", "relu2"])


@pytest.fixture(scope="module")
def found(small: Model) -> Profile:
    return small.profile(images(1, 3)[0], repeat=3)


def test_one_entry_for_each_node(small: Model, found: Profile) -> None:
    plan = small.plan()
    assert [n.node for n in found.nodes] == [n.node for n in plan.nodes]
    assert sum(n.share for n in found.nodes) == pytest.approx(1)
    by_name = {n.node: n for n in found.nodes}
    assert by_name["conv2"].why == "kept float"
    assert by_name["conv1"].why == ""
    assert by_name["conv1"].macs == CHANNELS**2 * SIZE**2
    pixels = CHANNELS * SIZE**2
    # int8 in and out, and the weights.
    assert by_name["conv1"].bytes >= 2 * pixels + CHANNELS**2
    assert by_name["conv1"].bytes < by_name["conv2"].bytes
    expected = prod((1, CHANNELS, SIZE, SIZE)) * (4 + 1)
    assert by_name["x.q"].bytes == expected
    assert 0 < found.float_share < 1


def test_the_text_begins_with_the_slowest(found: Profile) -> None:
    lines = str(found).splitlines()
    assert lines[0].startswith("call ")
    assert lines[2].startswith(found.slowest(1)[0].node)
    assert "  conv2 is float: kept float" in lines


def test_the_trace_is_one_that_chrome_reads(found: Profile, tmp_path: Any) -> None:
    path = tmp_path / "trace.json"
    found.save(path)
    trace = json.loads(path.read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    end = 0.0
    for event in trace["traceEvents"]:
        assert event["ph"] == "X"  # a complete event: a start and a duration
        for key, kind in {"name": str, "cat": str, "pid": int, "tid": int}.items():
            assert isinstance(event[key], kind)
        assert event["ts"] == pytest.approx(end)
        assert event["dur"] > 0
        end = event["ts"] + event["dur"]
    timed = [n for n in found.nodes if n.seconds]
    assert [e["name"] for e in trace["traceEvents"]] == [n.node for n in timed]
    assert end == pytest.approx(1e6 * sum(n.seconds for n in timed))
    json.dumps(found.as_dict(), allow_nan=False)


def test_speeds() -> None:
    node = ProfiledNode("n", "conv2d", 2.0, 1.0, "k", "avx2", "integer", "", 10, 6, "")
    assert (node.macs_per_second, node.bytes_per_second) == (5.0, 3.0)
    idle = replace(node, seconds=0.0)
    assert (idle.macs_per_second, idle.bytes_per_second) == (0.0, 0.0)


def test_errors(small: Model, found: Profile, tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="repeat is 0"):
        small.profile(images(1, 3)[0], repeat=0)
    with pytest.raises(ModelError, match="cannot be written"):
        found.save(tmp_path / "none" / "trace.json")


def test_sizes_of_the_call_count() -> None:
    graph = chain(1).graph
    spec = graph.inputs["x"].with_shape((-1, CHANNELS, SIZE, SIZE))
    model = Model(replace(graph, inputs={"x": spec}))
    x = np.concatenate(images(3, 1))
    found = model.profile(x, repeat=1)
    assert found.nodes[0].macs == 3 * CHANNELS**2 * SIZE**2


# One line instead of one for each node, which would all be the same.
def test_a_float_model_says_once_that_it_is_not_quantized(small: Model) -> None:
    model = chain(1)
    words = "all nodes are float: the model is not quantized"
    for text in (str(model.profile(images(1, 3)[0], repeat=1)), str(model.plan())):
        assert text.count(words) == 1 and "its values are floats" not in text
    assert words not in str(small.plan())
