"""`load(device="auto")`: the device of a model is chosen by what its nodes ask."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import rendered_device

import mdtensor as md
from mdtensor import quant
from mdtensor.device import cpu
from mdtensor.errors import AllocationError, OptionError
from mdtensor.graph import placement
from mdtensor.graph.placement import Speed
from mdtensor.quant.model import automatic
from mdtensor.quant.model.placed import PlacedModel

emucuda: Any = md.device("emucuda")
W = np.arange(12, dtype=np.float32).reshape(4, 3)
FAST = Speed(1e15, 1e15, 1e-12, 1e15)
SLOW = Speed(1e10, 1e10, 1e-6, np.inf)


def saved(folder: Path, rows: int | str = 2, last: str = "Relu") -> Path:
    """A file of one product and one more node."""
    kind, path = TensorProto.FLOAT, folder / "net.onnx"
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node(last, ["m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, [rows, 4])],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(W, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def speeds(monkeypatch: pytest.MonkeyPatch, here: Speed, there: Speed) -> None:
    found = {cpu: here, emucuda: there}
    monkeypatch.setattr(placement, "speed_of", found.__getitem__)
    monkeypatch.setattr(automatic, "devices", lambda: (cpu, emucuda))


def test_the_host_if_it_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds(monkeypatch, FAST, SLOW)
    model = quant.load(saved(tmp_path), device="auto")
    assert not isinstance(model, PlacedModel) and model.device is cpu


@pytest.mark.skipif(
    bool(rendered_device.missing(emucuda)), reason=rendered_device.missing(emucuda)
)
def test_another_device_if_it_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds(monkeypatch, SLOW, FAST)
    model = quant.load(saved(tmp_path), device="auto")
    assert model.device is emucuda
    x = md.asarray(np.arange(8, dtype=np.float32).reshape(2, 4)).to(model.device)
    assert model(x).tolist() == (np.arange(8).reshape(2, 4) @ W).tolist()


def test_what_a_model_asks(tmp_path: Path) -> None:
    model = quant.load(saved(tmp_path))
    work = automatic.work_of(model.graph)
    assert work.steps == [(2 * 3 * 4, 32 + 48 + 24), (0, 24 + 24)]
    assert work.moved == 32 + 24
    assert work.memory == 48 + 32 + 24 + 24


def test_without_memory_and_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds(monkeypatch, FAST, SLOW)
    with pytest.raises(OptionError, match="needs the sizes of all inputs"):
        quant.load(saved(tmp_path, "n"), device="auto")
    assert quant.load(saved(tmp_path, "n"), (2, 4), device="auto").device is cpu
    for kind in (type(cpu), type(emucuda)):
        monkeypatch.setattr(kind, "free_bytes", 100)
    with pytest.raises(
        AllocationError, match="cpu: 128 bytes are needed, 100 are free"
    ):
        quant.load(saved(tmp_path), device="auto")
