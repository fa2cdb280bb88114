"""From TFLite files to graphs: names, forms, shapes, and `load`."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from support.tflite_networks import const, ints, moving, tiny_network

from bench.rivals.tflite_file import Step, Value, model, options_of
from mdtensor.errors import ModelError
from mdtensor.quant.model.load import load
from mdtensor.quant.model.tflite.operators import READERS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "tflite.md"
PICTURE = np.random.default_rng(1).normal(size=(1, 8, 8, 3)).astype(np.float32)


def operations(network: Any) -> list[str]:
    return [node.operation.__name__ for node in network.graph.nodes]


def test_a_network_agrees_with_litert(
    tiny: bytes, load_bytes: Any, litert: Any
) -> None:
    (theirs,) = litert(tiny)(PICTURE)
    ours = load_bytes(tiny)(PICTURE)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-6)


def test_names_are_those_of_the_file(tiny: bytes, load_bytes: Any) -> None:
    network = load_bytes(tiny)
    assert list(network.inputs) == ["picture"]
    assert network.outputs == ("shares",)
    names = {node.name for node in network.graph.nodes}
    assert {"CONV_2D.0", "MAX_POOL_2D.1", "SOFTMAX.4"} <= names


def test_equal_names_are_told_apart(load_bytes: Any) -> None:
    values = [Value((2,), dtype="float32", name="x") for _ in range(3)]
    steps = [Step("ABS", [0], 1, version=1), Step("NEG", [1], 2, version=1)]
    network = load_bytes(model(values, steps, [0], [2]))
    assert list(network.inputs) == ["x"]
    assert network.outputs == ("x.1",)
    assert network(np.float32([1, -2])).tolist() == [-1, -2]


def test_images_stay_images(load_bytes: Any) -> None:
    """One transpose in front of two convolutions, one behind."""
    rng = np.random.default_rng(0)
    values = [moving(1, 6, 6, 3), const(rng.normal(size=(4, 3, 3, 3)))]
    values += [const(rng.normal(size=4)), moving(1, 6, 6, 4), moving(1, 6, 6, 4)]
    values += [const(rng.normal(size=(4, 1, 1, 4))), moving(1, 6, 6, 4)]
    conv = options_of("Conv2D", StrideH=1, StrideW=1)
    steps = [
        Step("CONV_2D", [0, 1, 2], 3, conv),
        Step("TANH", [3], 4, version=1),
        Step("CONV_2D", [4, 5, 2], 6, conv),
    ]
    network = load_bytes(model(values, steps, [0], [6]))
    assert operations(network) == [
        *("permute_dims", "conv2d", "tanh", "conv2d", "permute_dims")
    ]


def test_sizes_that_the_caller_chooses(load_bytes: Any, litert: Any) -> None:
    values = [
        Value((1, 4), dtype="float32", name="x", signature=(-1, 4)),
        const(np.eye(4)),
        moving(1, 4),
    ]
    content = model(values, [Step("FULLY_CONNECTED", [0, 1, -1], 2)], [0], [2])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert load_bytes(content).inputs["x"].shape == (1, 4)
    assert load_bytes(content, {"x": (3, 4)})(x).tolist() == x.tolist()
    with pytest.raises(ModelError, match="Only sizes of -1 can be chosen"):
        load_bytes(content, (1, 5))


def test_inputs_that_become_constants(load_bytes: Any) -> None:
    values = [
        Value((2,), dtype="float32", name="x"),
        Value((1,), dtype="int32", name="n"),
        Value((), dtype="float32"),
    ]
    content = model(values, [Step("TILE", [0, 1], 2, version=1)], [0, 1], [2])
    with pytest.raises(ModelError, match="operator TILE of node 0 needs"):
        load_bytes(content)
    network = load_bytes(content, constants={"n": 3})
    assert list(network.inputs) == ["x"]
    assert network(np.float32([1, 2])).tolist() == [1, 2, 1, 2, 1, 2]


def test_a_float_file_becomes_a_quantized_one(
    tiny: bytes, load_bytes: Any, tmp_path: Path
) -> None:
    network = load_bytes(tiny)
    small = network.quantize(network.calibrate([PICTURE]))
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    expected = np.asarray(network(PICTURE))
    found = np.asarray(again(PICTURE))
    assert np.abs(found - expected).max() < 0.05
    assert again.is_quantized


@pytest.mark.parametrize("name", ["net.tflite", "net.bin", "NET.TFLITE"])
def test_files_are_known_by_content(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(tiny_network())
    assert load(tmp_path / name).outputs == ("shares",)
    assert load(str(tmp_path / name)).outputs == ("shares",)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no file .*gone\.tflite"):
        load(tmp_path / "gone.tflite")


def test_a_name_without_the_content(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(b"\x08\x03\x12" * 9)
    with pytest.raises(ModelError, match="is not a TFLite model: 27 bytes"):
        load(tmp_path / "net.tflite")


def test_the_package_is_an_extra(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(tiny_network())
    code = (
        "import sys; sys.modules['tflite'] = None\n"
        "from mdtensor.quant import load\n"
        f"try: load({str(path)!r})\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "ModelError reading TFLite files needs the package tflite. Install it with "
        "`pip install mdtensor[tflite]`."
    )


def test_the_page_lists_the_operators() -> None:
    between = re.search(r"operators -->\n(.*?)<!-- end", PAGE.read_text(), re.DOTALL)
    assert between
    assert re.findall(r"\w+", between.group(1)) == sorted(READERS)


def test_a_concat_of_several_sizes(load_bytes: Any) -> None:
    values = [moving(1, 2), moving(1, 3), ints(1), moving(1, 5)]
    options = options_of("Concatenation", Axis=1)
    network = load_bytes(
        model(values, [Step("CONCATENATION", [0, 1], 3, options)], [0, 1], [3])
    )
    found = network(np.float32([[1, 2]]), np.float32([[3, 4, 5]]))
    assert found.tolist() == [[1, 2, 3, 4, 5]]


def test_results_that_the_caller_chooses(load_bytes: Any) -> None:
    values = [Value((2,), dtype="float32", name=name) for name in "xyz"]
    steps = [Step("ABS", [0], 1, version=1), Step("NEG", [1], 2, version=1)]
    content = model(values, steps, [0], [2])
    network = load_bytes(content, outputs=["y"])
    assert network.outputs == ("y",)
    assert operations(network) == ["abs"]
    assert network(np.float32([1, -2])).tolist() == [1, 2]
    both = load_bytes(content, outputs=["z", "y"])(np.float32([1, -2]))
    assert [y.tolist() for y in both] == [[-1, -2], [1, 2]]
    with pytest.raises(ModelError, match="names 'w', which the file does not have"):
        load_bytes(content, outputs=["w"])


def test_operator_codes_in_the_newer_field_only(load_bytes: Any) -> None:
    """As ai-edge-quantizer writes the operators that it adds."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    made = schema.ModelT.InitFromPackedBuf(tiny_network(), 0)
    for code in made.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
        code.deprecatedBuiltinCode = 0
    builder = flatbuffers.Builder()
    builder.Finish(made.Pack(builder), b"TFL3")
    picture = np.random.default_rng(4).random((1, 8, 8, 3), np.float32)
    wanted = load_bytes(tiny_network())(picture)
    found = load_bytes(bytes(builder.Output()))(picture)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()
