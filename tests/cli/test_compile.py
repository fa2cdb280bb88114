"""`mdtensor compile`: a plan that runs as the model does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from support import stored_plans
from typer.testing import CliRunner

from mdtensor.cli.commands import app
from mdtensor.errors import MdtensorError
from mdtensor.kernels.cpu import kernel_set
from mdtensor.quant import load, load_plan


def call(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["compile", *map(str, arguments)])


def test_compile(tmp_path: Path) -> None:
    model, x = stored_plans.small_network(tmp_path)
    model.save(tmp_path / "net.onnx")
    files = tmp_path / "net.onnx", "-o", tmp_path / "net.mdt"
    done = call(*files, "--shape", "1,3,17,20", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    assert facts["isas"] == [kernel_set.HOST.name]
    assert facts["file_bytes"] == (tmp_path / "net.mdt").stat().st_size
    assert facts["inputs"] == {"x": "Float32Tensor[1,3,17,20]"}
    found = load_plan(tmp_path / "net.mdt")(x)
    want = load(tmp_path / "net.onnx")(x)
    assert np.array_equal(np.asarray(found), np.asarray(want))
    shown = call(*files, "--shape", "1,3,17,20", "--isa", "generic").output
    assert "generic" in shown and "net.mdt" in shown.replace("\n", "")


def test_errors(tmp_path: Path) -> None:
    model, _ = stored_plans.small_network(tmp_path)
    model.save(tmp_path / "net.onnx")
    for given in (("-o", tmp_path / "net.mdt"), ("-o", tmp_path / "net.onnx")):
        done = call(tmp_path / "net.onnx", *given)
        assert isinstance(done.exception, MdtensorError)
    assert not (tmp_path / "net.mdt").exists()
