"""The command from a user's chair: small models and arrays in files, and a caller."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mdtensor import cli
from mdtensor.cli import demo_data

SHAPE = (1, 3, 8, 8)


class Ended(NamedTuple):
    """How a command ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`call("run", path, ...)` runs a command in this process."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        code = cli.execute([str(a) for a in arguments])
        return Ended(code, *capsys.readouterr())

    return run


def write_model(
    path: Path, nodes: list[Any], inputs: dict[str, Any], constants: Any = None
) -> None:
    """A model with the output `y`."""
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _network() -> tuple[list[Any], dict[str, Any]]:
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "m"], ["l"], "dense", transB=1),
        helper.make_node("Softmax", ["l"], ["y"], "soft"),
    ]
    constants = {
        "w": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "b": np.zeros(8, np.float32),
        "m": rng.normal(size=(5, 8)).astype(np.float32),
    }
    return nodes, constants


def _external(path: Path) -> None:
    model = onnx.load(path.parent / "net.onnx")
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../weights.bin")
    path.write_bytes(model.SerializeToString())


def write_models(folder: Path) -> None:
    nodes, constants = _network()
    write_model(folder / "net.onnx", nodes, {"x": SHAPE}, constants)
    write_model(folder / "batch.onnx", nodes, {"x": ("N", 3, 8, 8)}, constants)
    write_model(folder / "dynamic.onnx", nodes, {"x": ("N", 3, "H", "W")}, constants)
    relu = helper.make_node("Relu", ["x"], ["r"], "first")
    norm = helper.make_node("Softmaxx", ["r"], ["y"], "odd one")
    write_model(folder / "unknown.onnx", [relu, norm], {"x": SHAPE})
    half = helper.make_node("AveragePool", ["x"], ["y"], "half", kernel_shape=[2, 2])
    half.attribute.append(helper.make_attribute("auto_pad", "SAME_UPPER"))
    write_model(folder / "sizes.onnx", [half], {"x": (1, 3, "H", "W")})
    add = helper.make_node("Add", ["a", "b"], ["y"], "sum")
    write_model(folder / "two.onnx", [add], {"a": ("N", 2), "b": ("N", 2)})
    copy = helper.make_node("Identity", ["k"], ["y"], "copy")
    write_model(folder / "fixed.onnx", [copy], {}, {"k": np.ones(3, np.float32)})
    whole = (folder / "net.onnx").read_bytes()
    (folder / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (folder / "garbage.onnx").write_bytes(bytes(range(256)) * 4)
    (folder / "empty.onnx").write_bytes(b"")
    _external(folder / "outside.onnx")


def write_arrays(folder: Path) -> None:
    samples = np.random.default_rng(1).normal(size=(4, *SHAPE[1:])).astype(np.float32)
    spoiled, infinite = samples.copy(), samples.copy()
    spoiled[1, 0, 0, 0], infinite[3, 0, 0, 0] = np.nan, np.inf
    arrays = {
        "x": samples[:1],
        "samples": samples,
        "nan": spoiled,
        "infinite": infinite,
        "large": np.full(SHAPE, 3e38, np.float32),
        "narrow": samples[..., :5],
        "double": samples[:1].astype(np.float64),
        "complex": samples[:1].astype(np.complex64),
        "none": samples[:0],
        "pair": np.ones((3, 2), np.float32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "pickled.npy", np.array([{}], object), allow_pickle=True)
    whole = (folder / "samples.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[:700])
    (folder / "text.npy").write_text("1 2 3\n")
    (folder / "empty.npy").write_bytes(b"")
    np.savez(folder / "samples.npz", first=samples[:2], second=samples[2:])
    np.savez(folder / "pickled.npz", a=np.array([{}], object))
    np.savez(folder / "nothing.npz")
    (folder / "cut.npz").write_bytes((folder / "samples.npz").read_bytes()[:500])
    (folder / "folder").mkdir()
    (folder / "parts").mkdir()
    np.save(folder / "parts" / "1.npy", samples[:2])
    np.save(folder / "parts" / "2.npy", samples[2:])


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models and arrays, good and bad."""
    folder = tmp_path_factory.mktemp("cli")
    write_models(folder)
    write_arrays(folder)
    return folder


@pytest.fixture
def files(written: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder, and this process stands in it."""
    monkeypatch.chdir(written)
    return written


@pytest.fixture(scope="session")
def classifier(written: Path) -> tuple[Path, Path]:
    """The demo's network, quantized on three crops, and a crop to run it on."""
    calibration, held_back = demo_data.crops()
    np.save(written / "crop.npy", held_back[0].pixels)
    pixels = [crop.pixels for crop in calibration[::40]]
    np.save(written / "crops.npy", np.concatenate(pixels))
    target = written / "classifier.onnx"
    shape = ",".join(map(str, demo_data.INPUT_SHAPE))
    model, data = demo_data.classifier_path(), written / "crops.npy"
    arguments = ["quantize", model, "--data", data, "-o", target, "--shape", shape]
    assert cli.execute([str(a) for a in arguments]) == 0
    return target, written / "crop.npy"
