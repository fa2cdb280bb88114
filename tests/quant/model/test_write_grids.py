"""Codes, scales and what ONNX has no place for, written and read again bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import QParams, dequantize, quantize
from mdtensor.quant.model.load import load
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.onnx.write import write_graph
from mdtensor.quant.tensor import quantized

Run = Callable[[Any, dict[str, Any]], list[np.ndarray]]
ROWS, COLUMNS = 6, 40
#: Shape of the scales, and where they lie; the last block of 16 columns has 8.
PLACES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "tensor": ((), {}),
    "rows": ((ROWS,), {"axis": 0}),
    "columns": ((COLUMNS,), {"axis": 1}),
    "blocks": ((ROWS, 3), {"axis": 1, "block_size": 16}),
    "blocks of rows": ((2, COLUMNS), {"axis": 0, "block_size": 3}),
}
INTEGERS = ("qint4", "quint4", "qint8", "quint8", "qint16")
FLOATS = ("qfloat8_e4m3", "qfloat8_e5m2")


def weights(name: str, place: str, **more: Any) -> Any:
    """Random codes of a type on random scales."""
    rng, dtype = np.random.default_rng(3), getattr(quant, name)
    shape, where = PLACES[place]
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    if name in FLOATS:
        numbers = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
        return quantize(md.asarray(numbers), QParams(scale, dtype=dtype, **where))
    low, high = int(dtype.minimum) + len(more), int(dtype.maximum) + 1
    zero = 0 if name == "qint16" else rng.integers(low, high, shape)
    grid = QParams(scale, zero, dtype=dtype, **where, **more)
    codes = rng.integers(low, high, (ROWS, COLUMNS)).astype(dtype.storage)
    return quantized(codes, grid)


def saved(node: Node, w: Any, folder: Path, **inputs: Any) -> tuple[Graph, Path]:
    """A graph of one node, written."""
    specs = {
        name: md.TensorSpec(type(md.asarray(x)), x.shape) for name, x in inputs.items()
    }
    made = Graph(specs, (node,), {"w": w}, ("y",))
    write_graph(made, folder / "m.onnx")
    return made, folder / "m.onnx"


def codes_in(graph: Graph) -> Any:
    (found,) = (c for c in graph.constants.values() if hasattr(c, "qparams"))
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", INTEGERS + FLOATS)
def test_codes_and_grids_come_back(
    name: str, place: str, onnxruntime_of: Run, tmp_path: Path
) -> None:
    w = weights(name, place)
    _, path = saved(Node("d", dequantize, ("w",), "y"), w, tmp_path)
    again = codes_in(read_graph(path))
    assert type(again) is type(w) and again.qparams == w.qparams
    assert again.codes.tolist() == w.codes.tolist()
    theirs = onnxruntime_of(path, {})[0]
    assert theirs.tolist() == dequantize(w).tolist()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ("qint4", "quint4", "qint8", *FLOATS))
@pytest.mark.parametrize("shape", [(3, COLUMNS), (2, 3, COLUMNS)], ids=str)
def test_products_with_codes_come_back(
    name: str, place: str, shape: Any, onnxruntime_of: Run, tmp_path: Path
) -> None:
    """ONNX Runtime adds up in another order, so its sums are only near."""
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    node = Node("l", md.linear, ("x", "w", None), "y")
    made, path = saved(node, weights(name, place), tmp_path, x=x)
    found, again = made.run({"x": x})["y"], load(path)
    assert [n.operation for n in again.graph.nodes] == [md.linear]
    assert again(x).tolist() == found.tolist()
    theirs = onnxruntime_of(path, {"x": x})[0]
    np.testing.assert_allclose(np.asarray(found), theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ("qint4", "qint8"))
@pytest.mark.parametrize("shape", [(3, COLUMNS), (2, 3, COLUMNS)], ids=str)
def test_a_bias_stays_with_its_product(name: str, shape: Any, tmp_path: Path) -> None:
    """Sums start at the bias: added behind them, it would be rounded otherwise."""
    rng = np.random.default_rng(6)
    x, b = (rng.standard_normal(s).astype(np.float32) for s in (shape, ROWS))
    node = Node("l", md.linear, ("x", "w", "b"), "y")
    specs = {"x": md.TensorSpec(md.Float32Tensor, shape)}
    constants = {"w": weights(name, "rows"), "b": md.asarray(b)}
    made = Graph(specs, (node,), constants, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    again = load(tmp_path / "m.onnx")
    assert [n.operation for n in again.graph.nodes] == [md.linear]
    assert again(x).tolist() == made.run({"x": x})["y"].tolist()


@pytest.mark.parametrize("name", ("qint8", "quint4", "qint16"))
def test_the_scale_of_an_only_channel_lies_along_its_axis(
    name: str, tmp_path: Path
) -> None:
    dtype = getattr(quant, name)
    grid = QParams(np.array([0.5]), np.array([0]), dtype=dtype, axis=0)
    node = Node("q", quantize, ("x",), "y", {"qparams": grid})
    specs = {"x": md.TensorSpec(md.Float32Tensor, (1, 3))}
    write_graph(Graph(specs, (node,), {}, ("y",)), tmp_path / "m.onnx")
    assert load(tmp_path / "m.onnx").graph.specs()["y"].qparams == grid


@pytest.mark.parametrize("kind", ("Gemm", "Conv"))
def test_codes_before_a_normalization_stay(
    kind: str, onnxruntime_of: Run, tmp_path: Path
) -> None:
    rng, is_image = np.random.default_rng(7), kind == "Conv"
    image, outcome = ((2, 2), (1, 1)) if is_image else ((), ())
    codes = rng.integers(-127, 128, (ROWS, 5, *image)).astype(np.int8)
    named = {"c": codes, "s": rng.uniform(0.01, 0.1, ROWS).astype(np.float32)}
    for name in ("gain", "shift", "mean", "variance"):
        named[name] = rng.uniform(0.5, 1, ROWS).astype(np.float32)
    options = {} if is_image else {"transB": 1}
    node, (shape, to) = onnx.helper.make_node, ((3, 5), (3, ROWS))
    graph = onnx.helper.make_graph(
        [
            node("DequantizeLinear", ["c", "s"], ["w"], axis=0),
            node(kind, ["x", "w"], ["m"], **options),
            node("BatchNormalization", ["m", *list(named)[2:]], ["y"]),
        ],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, (*shape, *image))],
        [onnx.helper.make_tensor_value_info("y", 1, (*to, *outcome))],
        [onnx.numpy_helper.from_array(a, name) for name, a in named.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    x = rng.standard_normal((*shape, *image)).astype(np.float32)
    theirs = onnxruntime_of(tmp_path / "m.onnx", {"x": x})[0]
    found = np.asarray(load(tmp_path / "m.onnx")(x))
    np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=1e-4)


def test_codes_of_four_bits_share_a_byte(tmp_path: Path) -> None:
    _, path = saved(
        Node("d", dequantize, ("w",), "y"), weights("qint4", "blocks"), tmp_path
    )
    model = onnx.load(path)
    (packed,) = (
        t for t in model.graph.initializer if len(t.dims) == 2 and t.dims[1] > 3
    )
    assert packed.data_type == onnx.TensorProto.INT4
    assert len(packed.raw_data) == ROWS * COLUMNS // 2
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 21)]


@pytest.mark.parametrize("name", ("qint4", "quint4", "qint8", "qfloat8_e5m2"))
def test_codes_beside_the_file(name: str, tmp_path: Path) -> None:
    w = weights(name, "rows")
    _, path = saved(Node("d", dequantize, ("w",), "y"), w, tmp_path)
    model = onnx.load(path)
    onnx.save(
        model, path, save_as_external_data=True, location="w.bin", size_threshold=100
    )
    assert (tmp_path / "w.bin").exists()
    assert codes_in(read_graph(path)).codes.tolist() == w.codes.tolist()


def test_older_files_stay_as_they_were(tmp_path: Path) -> None:
    """What operator set 14 can say is said in it."""
    _, path = saved(
        Node("d", dequantize, ("w",), "y"), weights("qint8", "rows"), tmp_path
    )
    assert onnx.load(path).opset_import[0].version == 14


def test_codes_of_8_bits_stay_before_set_21(tmp_path: Path) -> None:
    """From 21 on, ONNX Runtime on AVX2 refuses some files that it rewrites itself."""
    grid = QParams(0.02, 3)
    nodes = (
        Node("q", quantize, ("x",), "q", {"qparams": grid}),
        Node("d", dequantize, ("q",), "d"),
        Node("r", md.reshape, ("d",), "r", {"shape": (3, 4, 1)}),
        Node("g", md.gelu, ("r",), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (3, 4))
    path = tmp_path / "m.onnx"
    write_graph(Graph({"x": spec}, nodes, {}, ("y",)), path)
    assert onnx.load(path).opset_import[0].version == 20
    x = np.random.default_rng(5).standard_normal((3, 4), np.float32)
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    wanted = read_graph(path).run({"x": x})["y"]
    np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", ["tensor", "columns", "blocks"])
@pytest.mark.parametrize("name", INTEGERS)
def test_numbers_become_the_same_codes(
    name: str, place: str, onnxruntime_of: Run, tmp_path: Path
) -> None:
    """Dequantized again: ONNX Runtime hands out no codes of 4 bits."""
    x = np.random.default_rng(1).uniform(-3, 3, (ROWS, COLUMNS)).astype(np.float32)
    grid = weights(name, place).qparams.rounded("onnx")
    nodes = (
        Node("q", quantize, ("x",), "q", {"qparams": grid}),
        Node("d", dequantize, ("q",), "y"),
    )
    made = Graph({"x": md.TensorSpec(md.Float32Tensor, x.shape)}, nodes, {}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    found = made.run({"x": x})["y"].tolist()
    assert read_graph(tmp_path / "m.onnx").run({"x": x})["y"].tolist() == found
    assert onnxruntime_of(tmp_path / "m.onnx", {"x": x})[0].tolist() == found


@pytest.mark.parametrize("name", INTEGERS)
def test_a_narrow_range_comes_back(name: str, tmp_path: Path) -> None:
    w = weights(name, "rows", narrow_range=True)
    _, path = saved(Node("d", dequantize, ("w",), "y"), w, tmp_path)
    again = codes_in(read_graph(path))
    assert again.qparams == w.qparams and again.qparams.narrow_range
    (entry,) = onnx.load(path).metadata_props
    assert (entry.key, entry.value) == ("mdtensor.narrow_range", '["1"]')


def test_a_narrow_range_of_results_comes_back(tmp_path: Path) -> None:
    x = np.float32([[-9, -1, 1]])
    grid = QParams(0.5, dtype=quant.qint4, narrow_range=True)
    made = Graph(
        {"x": md.TensorSpec(md.Float32Tensor, x.shape)},
        (
            Node("q", quantize, ("x",), "q", {"qparams": grid}),
            Node("d", dequantize, ("q",), "y"),
        ),
        {},
        ("y",),
    )
    write_graph(made, tmp_path / "m.onnx")
    again = load(tmp_path / "m.onnx")
    assert again(x).tolist() == made.run({"x": x})["y"].tolist() == [[-3.5, -1, 1]]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[", '"w"'])
def test_metadata_that_is_no_list_of_names(text: str, tmp_path: Path) -> None:
    _, path = saved(
        Node("d", dequantize, ("w",), "y"), weights("qint8", "rows"), tmp_path
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"mdtensor.narrow_range": text})
    onnx.save(model, path)
    with pytest.raises(
        ModelError, match=r"mdtensor\.narrow_range is not a list of names"
    ):
        read_graph(path)


@pytest.mark.parametrize("operation", [md.mean, md.max])
def test_a_reduction_beside_blocks(
    operation: Any, onnxruntime_of: Run, tmp_path: Path
) -> None:
    """From operator set 18 on its axes are an input."""
    w = weights("qint4", "blocks")
    nodes = (
        Node("d", dequantize, ("w",), "d"),
        Node("r", operation, ("d",), "y", {"axis": 1}),
    )
    made = Graph({}, nodes, {"w": w}, ("y",))
    write_graph(made, tmp_path / "m.onnx")
    theirs = onnxruntime_of(tmp_path / "m.onnx", {})[0]
    np.testing.assert_allclose(np.asarray(made.run({})["y"]), theirs, rtol=1e-6)
