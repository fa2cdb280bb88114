"""`mdtensor warmup`: what one process compiles, the next one finds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mdtensor as md
from mdtensor.cli import models

Call = Callable[..., Any]


def process(cache: Path, *arguments: object) -> dict[str, Any]:
    """The command in a process of its own, with its own place for compiled code."""
    command = [sys.executable, "-m", "mdtensor", "warmup", "--json"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        # Other folders are read, too: a level of optimization that nobody else uses has
        # a stamp of its own, so this process starts without kernels.
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.long
@pytest.mark.compiled
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, again = (process(tmp_path, "--operation=hardswish") for _ in range(2))
    (cold,), (warm,) = first["warmed"], again["warmed"]
    assert cold["name"] == warm["name"] == "hardswish"
    assert cold["compiled"] > cold["loaded"] == 0
    assert warm["loaded"] > warm["compiled"] == 0
    assert warm["seconds"] > 0


def small_model(path: Path, rows: int | str) -> Path:
    """relu(x) for x of so many rows."""
    inputs = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4])
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [inputs], [output])
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.slow
@pytest.mark.compiled
def test_a_quantized_model_is_found_whole(tmp_path: Path) -> None:
    model = md.quant.load(small_model(tmp_path / "float.onnx", 2))
    seen = model.calibrate([np.ones((2, 4), np.float32)])
    model.quantize(seen).save(tmp_path / "int8.onnx")
    first, again = (process(tmp_path, tmp_path / "int8.onnx") for _ in range(2))
    assert first["warmed"][0]["compiled"] > 0
    assert again["warmed"][0]["compiled"] == 0
    assert again["warmed"][0]["loaded"] > 0


def test_a_line_for_each_and_one_for_all(call: Call, tmp_path: Path) -> None:
    model = small_model(tmp_path / "m.onnx", 2)
    ended = call("warmup", model, model)
    lines = ended.out.splitlines()
    assert (ended.code, ended.err, len(lines)) == (0, "", 3)
    assert lines[0].startswith(f"{model}  ") and " compiled, " in lines[0]
    assert lines[1].startswith(f"{model}  0 compiled, ")
    assert lines[2].startswith("all ")


def test_sizes_must_be_known(call: Call, tmp_path: Path) -> None:
    model = small_model(tmp_path / "m.onnx", "n")
    ended = call("warmup", model)
    assert ended.code == 2
    assert "some sizes of the input 'x' are unknown. Pass --shape x=1,4." in ended.err
    assert call("warmup", model, "--shape", "x=1,4").code == 0
    assert call("warmup", model, "--shape=3,4").code == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "nothing to warm up. Pass models, or --operation NAME."),
        (("--operation=ad",), "no operation is called 'ad'."),
    ],
)
def test_what_is_unknown_is_refused(
    call: Call, arguments: tuple[str, ...], error: str
) -> None:
    ended = call("warmup", *arguments)
    assert ended.code == 2
    assert error in ended.err


def test_every_type_is_called_once_with_a_grid_where_it_needs_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quantized products need none, quantized activations do."""
    seen: list[str] = []
    operation = md.hardswish.operation

    def watched(x: Any, **options: Any) -> Any:
        result = found(x, **options)
        seen.append(type(x).__name__)
        return result

    found = operation.function
    monkeypatch.setattr(operation, "function", watched)
    models.run_operation(operation)
    assert {"Float32Tensor", "Float16Tensor", "QInt8Tensor", "QUInt8Tensor"} <= set(
        seen
    )
