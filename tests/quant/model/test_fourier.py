"""DFT and STFT against transforms of float64, and against ONNX Runtime."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings, strategies as st
from onnx import helper, numpy_helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import onnx_backend
from mdtensor.quant.model.load import load
from mdtensor.quant.model.onnx.write import write_graph

RNG = np.random.default_rng(3)


def complex_of(x: Any) -> Any:
    """Complex numbers of pairs, or of real parts."""
    x = np.asarray(x, np.float64)
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def model_of(node: Any, inputs: dict[str, Any], opset: int) -> Any:
    """A model in memory; arrays other than x are constants."""
    value = helper.make_tensor_value_info
    kind = helper.np_dtype_to_tensor_dtype(inputs["x"].dtype)
    constants = [
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in inputs.items()
        if name != "x"
    ]
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", kind, inputs["x"].shape)],
        [value("y", kind, None)],
        constants,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1, 3, 8]),
    st.sampled_from([17, 20]),
    st.sampled_from(["f4", "f8"]),
    st.data(),
)
def test_dft(
    shape: list[int],
    parts: int,
    onesided: bool,
    inverse: bool,
    length: int | None,
    opset: int,
    kind: str,
    data: Any,
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    axis -= data.draw(st.sampled_from([0, len(shape) + 1]))
    onesided &= (parts == 1) != inverse
    if onesided and inverse and length is None and shape[axis % (len(shape) + 1)] < 2:
        length = 1
    x = RNG.normal(size=(*shape, parts)).astype(kind)
    given: dict[str, Any] = {"x": x}
    if length is not None:
        given["n"] = np.int64(length)
    names = ["x", "n" if length is not None else ""]
    options: dict[str, int] = {"onesided": onesided, "inverse": inverse}
    if opset == 20:
        given["axis"] = np.int64(axis)
        names.append("axis")
    else:
        options["axis"] = axis
    node = helper.make_node("DFT", names, ["y"], **options)
    found = np.asarray(load(model_of(node, given, opset))(x))
    along = axis if axis >= 0 else axis + 1
    forward, back = (
        (np.fft.rfft, np.fft.irfft) if onesided else (np.fft.fft, np.fft.ifft)
    )
    wanted = (back if inverse else forward)(complex_of(x), n=length, axis=along)
    assert found.dtype == x.dtype
    # Numbers of float32 are transformed in float64, and the result is rounded once.
    limit = 2e-15 if kind == "f8" else np.finfo("f4").eps / 2 * (1 + 1e-7)
    is_real = onesided and inverse
    parts_wanted = np.stack([wanted.real, wanted.imag][: 2 - is_real], -1)
    assert found.shape == parts_wanted.shape
    allowed = limit * np.abs(parts_wanted) + 2e-15 * (np.abs(x).sum() + 1)
    assert (np.abs(found - parts_wanted) <= allowed).all()


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize(
    ("parts", "onesided", "inverse"),
    [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1), (2, 1, 1)],
)
def test_a_saved_dft(
    parts: int, onesided: int, inverse: int, length: int | None, tmp_path: Any
) -> None:
    x = RNG.normal(size=(2, 7, 3, parts)).astype("f4")
    given: dict[str, Any] = {"x": x, "axis": np.int64(1)}
    names = ["x", "", "axis"]
    if length is not None:
        given["n"], names[1] = np.int64(length), "n"
    options = {"onesided": onesided, "inverse": inverse}
    model = load(model_of(helper.make_node("DFT", names, ["y"], **options), given, 20))
    model.save(tmp_path / "saved.onnx")
    saved = onnx.load(tmp_path / "saved.onnx")
    assert [node.op_type for node in saved.graph.node].count("DFT") == 1
    again = load(tmp_path / "saved.onnx")
    assert np.asarray(again(x)).tobytes() == np.asarray(model(x)).tobytes()


def test_a_saved_dft_in_onnxruntime(tmp_path: Any, onnxruntime_of: Any) -> None:
    x = RNG.normal(size=(2, 16, 1)).astype("f4")
    node = helper.make_node("DFT", ["x"], ["y"], onesided=1)
    model = load(model_of(node, {"x": x}, 17))
    model.save(tmp_path / "saved.onnx")
    (wanted,) = onnxruntime_of(str(tmp_path / "saved.onnx"), {"x": x})
    np.testing.assert_allclose(np.asarray(model(x)), wanted, atol=1e-5)


def test_a_dft_of_any_length(make_model: Any, onnxruntime_of: Any) -> None:
    node = helper.make_node("DFT", ["x"], ["y"], onesided=1)
    path = make_model([node], {"x": ("batch", "n", 1)}, {}, opset=17)
    model = load(path)
    for shape in ((1, 8, 1), (3, 11, 1)):
        x = RNG.normal(size=shape).astype("f4")
        (wanted,) = onnxruntime_of(path, {"x": x})
        np.testing.assert_allclose(np.asarray(model(x)), wanted, atol=2e-5)


def test_a_network_around_a_dft_is_quantized(make_model: Any) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Unsqueeze", ["h", "last"], ["one"]),
        helper.make_node("DFT", ["one"], ["s"], onesided=1),
        helper.make_node("ReduceSumSquare", ["s", "last"], ["p"], keepdims=0),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    constants = {"w": RNG.normal(size=(16, 32)), "v": RNG.uniform(size=(17, 4))}
    constants = {name: array.astype("f4") for name, array in constants.items()}
    constants["last"] = np.int64([-1])
    model = load(make_model(nodes, {"x": (8, 16)}, constants, opset=18))
    samples = [RNG.normal(size=(8, 16)).astype("f4") for _ in range(8)]
    small = model.quantize(model.calibrate(samples))
    plan = {node.operation: node.arithmetic for node in small.plan().nodes}
    assert plan["linear"] == "integer" and plan["rfft"] == "float"
    wanted, found = (np.asarray(m(samples[0])) for m in (model, small))
    assert np.linalg.norm(wanted - found) < 0.03 * np.linalg.norm(wanted)


SIGNAL = md.TensorSpec(md.Float32Tensor, (8,))
RFFT = Node("f", md.fft.rfft, ("x",), "f")
VIEW = Node("v", md.view_as_real, ("f",), "y")
REFUSED = [
    ([RFFT, Node("a", md.abs, ("f",), "y")], "abs of node 'a' .* take 'f'"),
    ([replace(RFFT, output="y")], "rfft of node 'f' .* take 'y', which is complex64"),
    ([replace(RFFT, options={"norm": "ortho"}), VIEW], "has norm='ortho'"),
]


@pytest.mark.parametrize("half", [md.real, md.imag])
def test_a_part_of_a_squeezed_spectrum(
    half: Any, tmp_path: Any, onnxruntime_of: Any
) -> None:
    nodes = (
        Node("f", md.fft.rfft, ("x",), "f"),
        Node("s", md.squeeze, ("f",), "s", {"axis": (-2,)}),
        Node("r", half, ("s",), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (3, 1, 8))
    graph = Graph({"x": spec}, nodes, {}, ("y",))
    path = tmp_path / "m.onnx"
    write_graph(graph, path)
    x = RNG.normal(size=spec.shape).astype("f4")
    found = np.asarray(graph.run({"x": md.asarray(x)})["y"])
    assert np.asarray(load(path)(x)).tobytes() == found.tobytes()
    (theirs,) = onnxruntime_of(str(path), {"x": x})
    np.testing.assert_allclose(theirs, found, atol=1e-5)


def test_the_real_part_of_real_numbers(tmp_path: Any) -> None:
    graph = Graph({"x": SIGNAL}, (Node("r", md.real, ("x",), "y"),), {}, ("y",))
    write_graph(graph, tmp_path / "m.onnx")
    x = np.arange(8, dtype=np.float32)
    assert np.asarray(load(tmp_path / "m.onnx")(x)).tolist() == x.tolist()


@pytest.mark.parametrize(("nodes", "text"), REFUSED, ids=["abs", "result", "norm"])
def test_what_files_cannot_hold(nodes: list[Node], text: str, tmp_path: Any) -> None:
    graph = Graph({"x": SIGNAL}, tuple(nodes), {}, ("y",))
    with pytest.raises(ModelError, match=text):
        write_graph(graph, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_complex_constant_is_no_pair(tmp_path: Any) -> None:
    nodes = (Node("v", md.view_as_real, ("c",), "y"),)
    graph = Graph({}, nodes, {"c": md.asarray([1j])}, ("y",))
    with pytest.raises(ModelError, match=r"view_as_real of node 'v' .* take 'c'"):
        write_graph(graph, tmp_path / "m.onnx")


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(0, 12),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from(["window", "length", "both"]),
)
def test_stft(
    length: int, step: int, more: int, parts: int, onesided: bool, gives: str
) -> None:
    onesided &= parts == 1
    x = RNG.normal(size=(2, length + more, parts)).astype("f4")
    window = RNG.uniform(0.1, 1, length).astype("f4")
    given = {"x": x, "step": np.int64(step), "w": window, "n": np.int64(length)}
    further = {"window": ["w"], "length": ["", "n"], "both": ["w", "n"]}[gives]
    names = ["x", "step", *further]
    node = helper.make_node("STFT", names, ["y"], onesided=onesided)
    found = np.asarray(load(model_of(node, given, 17))(x))
    frames = np.stack(
        [complex_of(x)[:, at : at + length] for at in range(0, more + 1, step)], axis=1
    )
    if gives != "length":
        frames = frames * window.astype("f8")
    wanted = (np.fft.rfft if onesided else np.fft.fft)(frames, axis=-1)
    np.testing.assert_allclose(found[..., 0], wanted.real, atol=3e-6)
    np.testing.assert_allclose(found[..., 1], wanted.imag, atol=3e-6)


def speech(make_model: Any) -> Any:
    """The power of frames of a signal of any length, as front ends compute it."""
    nodes = [
        helper.make_node("STFT", ["x", "step", "w"], ["s"]),
        helper.make_node("ReduceSumSquare", ["s", "last"], ["p"], keepdims=0),
        helper.make_node("MatMul", ["p", "mel"], ["y"]),
    ]
    mel = RNG.uniform(0, 1, (33, 8)).astype("f4")
    constants = {"step": np.int64(16), "w": np.hanning(64).astype("f4"), "mel": mel}
    constants["last"] = np.int64([-1])
    return make_model(nodes, {"x": (1, "n")}, constants, opset=18)


def test_a_front_end_of_any_length(make_model: Any, onnxruntime_of: Any) -> None:
    path = speech(make_model)
    model = load(path)
    for length in (64, 400):
        x = RNG.normal(size=(1, length)).astype("f4")
        (wanted,) = onnxruntime_of(path, {"x": x})
        np.testing.assert_allclose(np.asarray(model(x)), wanted, rtol=2e-4)


def test_filters_are_quantized_and_saved(make_model: Any, tmp_path: Any) -> None:
    x = RNG.normal(size=(1, 400)).astype("f4")
    model = load(speech(make_model), (1, 400))
    (layer,) = (n for n in model.plan().nodes if n.operation.startswith("conv"))
    assert not layer.kernel.startswith("mdtensor/")
    small = model.quantize(model.calibrate([x]))
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    assert np.asarray(again(x)).tolist() == np.asarray(small(x)).tolist()


X = RNG.normal(size=(2, 8, 1)).astype("f4")
PAIRS = RNG.normal(size=(2, 8, 2)).astype("f4")


@pytest.mark.parametrize(
    ("kind", "names", "given", "options", "text"),
    [
        ("DFT", "x", {"x": X}, {"axis": 2}, "axis 2, which holds real and imaginary"),
        ("DFT", "x", {"x": X}, {"axis": 3}, "axis=3"),
        ("DFT", "x", {"x": X[..., [0, 0, 0]]}, {}, r"numbers of shape \(2, 8, 3\)"),
        ("DFT", "x n", {"x": X, "n": np.int64(0)}, {}, "dft_length"),
        ("DFT", "x", {"x": PAIRS}, {"onesided": 1}, "onesided=1, inverse=0 for 2"),
        ("DFT", "x", {"x": X}, {"onesided": 1, "inverse": 1}, "inverse=1 for 1 parts"),
        ("STFT", "x s", {"x": X, "s": np.int64(2)}, {}, "neither a window nor"),
        (
            "STFT",
            "x s  n",
            {"x": X, "s": np.int64(0), "n": np.int64(4)},
            {},
            "frame_step",
        ),
        (
            "STFT",
            "x s  n",
            {"x": X, "s": np.int64(1), "n": np.int64(9)},
            {},
            "frame_length",
        ),
        (
            "STFT",
            "x s w n",
            {"x": X, "s": np.int64(1), "w": np.ones(3, "f4"), "n": np.int64(4)},
            {},
            "window of 3 elements, and frame_length=4",
        ),
        (
            "STFT",
            "x s w",
            {"x": PAIRS, "s": np.int64(1), "w": np.ones(3, "f4")},
            {"onesided": 1},
            "onesided=1 for complex numbers",
        ),
    ],
)
def test_what_cannot_be_read(
    kind: str, names: str, given: Any, options: Any, text: str
) -> None:
    node = helper.make_node(kind, names.split(" "), ["y"], "here", **options)
    model = model_of(node, given, 17)
    with pytest.raises(ModelError, match=f"{kind} 'here'.*{text}"):
        load(model)
    with pytest.raises(ModelError):
        onnx_backend.run_model(model, [given["x"]])


def test_a_length_that_would_not_fit(make_model: Any) -> None:
    node = helper.make_node("DFT", ["x", "n"], ["y"], "here")
    path = make_model([node], {"x": (1, 9, 1)}, {"n": np.int64(2**31)}, opset=17)
    with pytest.raises(ModelError, match="'here'"):
        load(path)
