"""`mdtensor compare` prints the worst nodes of a quantized file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.planted import chain, images, outlier_channel

from mdtensor import quant
from mdtensor.cli.errors import option
from mdtensor.errors import writing

Call = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = chain(1, outlier_channel)
    model.save(tmp_path / "net.onnx")
    model.quantize(model.calibrate(images(4, 1))).save(tmp_path / "small.onnx")
    np.save(tmp_path / "fresh.npy", np.concatenate(images(3, 2)))
    return tmp_path


def test_the_planted_layer_is_printed_first(call: Call, folder: Path) -> None:
    files = folder / "net.onnx", folder / "small.onnx"
    ended = call("compare", *files, "--data", folder / "fresh.npy")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("r4: ")
    assert lines[1].split()[:2] == ["node", "operation"]
    assert lines[2].split()[:2] == ["conv2", "conv2d"]
    assert "  conv2: channel 3 is" in ended.out


def test_json_has_what_python_returns(call: Call, folder: Path) -> None:
    files = folder / "net.onnx", folder / "small.onnx"
    ended = call("compare", *files, "--data", folder / "fresh.npy", "--json")
    facts = json.loads(ended.out)
    model, small = map(quant.load, files)
    # Advice names the options of a command, or the arguments of a function.
    with writing(option):
        found = quant.compare(model, small, images(3, 2))
    assert facts["nodes"] == json.loads(json.dumps(found.as_dict()["nodes"]))
    assert facts["worst"][0] == "conv2"


def test_a_file_with_other_outputs(call: Call, folder: Path) -> None:
    shorter = quant.load(folder / "net.onnx", outputs=["r3"])
    shorter.save(folder / "shorter.onnx")
    files = folder / "net.onnx", folder / "shorter.onnx"
    ended = call("compare", *files, "--data", folder / "fresh.npy")
    assert ended.code == 2
    assert "the outputs ['r4'] and ['r3']" in ended.err


def test_profile(call: Call, folder: Path) -> None:
    trace = folder / "trace.json"
    ended = call("profile", folder / "small.onnx", "-o", trace)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("call ")
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert "conv2" in names
    asked = "profile", folder / "small.onnx", folder / "fresh.npy", "--json"
    assert call(*asked).code == 2  # three images, and the model takes one
    facts = json.loads(call(*asked[:2], "--json").out)
    assert {node["node"] for node in facts["nodes"]} >= names


def test_quantize_within_a_budget(call: Call, folder: Path) -> None:
    np.save(folder / "seen.npy", np.concatenate(images(4, 1)))
    asked = "quantize", folder / "net.onnx", "--data", folder / "seen.npy"
    asked += "-o", folder / "found.onnx", "--budget", "0.05"
    ended = call(*asked)
    assert ended.code == 2
    assert "--held-out" in ended.err
    ended = call(*asked, "--held-out", folder / "fresh.npy", "--json")
    assert (ended.code, ended.err) == (0, "")
    search = json.loads(ended.out)["search"]
    assert search["error"] <= 0.05
    assert "conv2" in search["keep_float"]
    text = call(*asked, "--held-out", folder / "fresh.npy").out
    assert "of 0.05 allowed in" in text
    plain = call(*asked[:-2], "--json")
    assert json.loads(plain.out)["search"] is None
