"""The commands on TFLite files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tflite_networks import START, coded_network, stream, tiny_network

from mdtensor.quant import load

Call = Callable[..., Any]
PICTURE = np.random.default_rng(2).normal(size=(1, 8, 8, 3)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, content in {
        "float": tiny_network(),
        "int8": coded_network(rng),
        "stream": stream(),
    }.items():
        (tmp_path / f"{name}.tflite").write_bytes(content)
    np.save(tmp_path / "picture.npy", PICTURE)
    np.save(tmp_path / "large.npy", rng.normal(size=(1, 16, 16, 3)).astype("f4"))
    np.save(tmp_path / "sound.npy", np.float32([[1, 1, 1]]))
    return tmp_path


def test_run(call: Call, folder: Path) -> None:
    ended = call("run", folder / "float.tflite", folder / "picture.npy", "--json")
    assert (ended.code, ended.err) == (0, "")
    facts = json.loads(ended.out)
    assert list(facts["outputs"]) == ["shares"]


def test_a_plan_of_codes(call: Call, folder: Path) -> None:
    model, sample = folder / "int8.tflite", folder / "large.npy"
    ended = call("run", model, sample, "--plan", "--json")
    assert ended.code == 0
    names = {row["node"] for row in json.loads(ended.out)["plan"]}
    assert {"CONV_2D.0", "FULLY_CONNECTED.4"} <= names


def test_a_stream_begins_with_its_first_state(call: Call, folder: Path) -> None:
    out = folder / "out.npz"
    model, sample = folder / "stream.tflite", folder / "sound.npy"
    assert call("run", model, sample, "-o", out).code == 0
    found = np.load(out)
    assert found["y"].tolist() == (START + 1).tolist()
    state = folder / "state.npy"
    np.save(state, found["total.next"])
    assert call("run", model, sample, state, "-o", out).code == 0
    assert np.load(out)["y"].tolist() == (START + 2).tolist()


def test_quantize(call: Call, folder: Path) -> None:
    out = folder / "small.onnx"
    model, data = folder / "float.tflite", folder / "picture.npy"
    for _ in range(2):
        ended = call("quantize", model, "--data", data, "-o", out)
        assert (ended.code, ended.err) == (0, "")
    assert load(out).is_quantized


def test_an_output_over_the_model(call: Call, folder: Path) -> None:
    model, data = folder / "float.tflite", folder / "picture.npy"
    ended = call("quantize", model, "--data", data, "-o", model)
    assert ended.code == 2
    assert "is the model itself" in ended.err
