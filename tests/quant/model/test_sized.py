"""Files whose graph depends on input shapes: read for the shapes of each call."""

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DataError, ModelError, OptionError
from mdtensor.quant.model.load import load
from mdtensor.quant.model.recent import MOST

RNG = np.random.default_rng(11)
W = RNG.normal(size=(4, 3, 3, 3)).astype("f4")


def pixels(*size: int) -> np.ndarray:
    return RNG.normal(size=(1, 3, *size)).astype("f4")


@pytest.fixture
def path(make_model: Any) -> Path:
    """A layer, and its result at twice the size of the input."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "layer", pads=[1, 1, 1, 1]),
        helper.make_node("Shape", ["x"], ["shape"], start=2),
        helper.make_node("Mul", ["shape", "two"], ["twice"], "double"),
        helper.make_node("Concat", ["head", "twice"], ["sizes"], axis=0),
        helper.make_node(
            "Resize", ["a", "", "", "sizes"], ["y"], "grow", mode="nearest"
        ),
    ]
    constants = {"w": W, "two": np.int64([2, 2]), "head": np.int64([1, 4])}
    shape = (1, 3, "h", "v")
    found: Path = make_model(nodes, {"x": shape}, constants, opset=17)
    return found


def test_a_call_reads_the_file_for_its_shapes(path: Path, onnxruntime_of: Any) -> None:
    model = load(path)
    assert isinstance(model, quant.SizedModel)
    assert str(model.inputs["x"]) == "Float32Tensor[1,3,-1,-1]"
    assert model.outputs == ("y",)
    for size in ((8, 6), (5, 9), (8, 6)):
        x = pixels(*size)
        (wanted,) = onnxruntime_of(path, {"x": x})
        for found in (model(x), model(md.asarray(x)), model(x=x), model({"x": x})):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)
        fixed = load(path, {"x": x.shape})
        assert not isinstance(fixed, quant.SizedModel)
        assert np.asarray(found).tolist() == np.asarray(fixed(x)).tolist()
        assert model.at(x.shape) is model.at({"x": x.shape})
    assert "2 combinations" in repr(model)


def test_a_graph_of_any_size_stays_one_graph(make_model: Any) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    assert type(load(make_model([node], {"x": (1, "n")}))) is quant.Model


def test_the_shapes_used_last_are_kept(path: Path) -> None:
    model = load(path)
    assert isinstance(model, quant.SizedModel)
    first = model.at((1, 3, 2, 2))
    for size in range(3, 3 + MOST - 1):
        model.at((1, 3, size, 2))
    assert model.at((1, 3, 2, 2)) is first
    again = model.at((1, 3, 3, 2))
    model.at((1, 3, 99, 2))
    assert model.at((1, 3, 3, 2)) is again


def test_one_calibration_serves_every_size(path: Path) -> None:
    model = load(path)
    samples = [pixels(8, 6), pixels(4, 4), pixels(8, 6)]
    seen = model.calibrate(samples, quant.MinMaxObserver)
    # The range is that of a model for each sample alone.
    each = [
        load(path, {"x": x.shape}).calibrate([x], quant.MinMaxObserver) for x in samples
    ]
    for value in ("x", "a", "y"):
        found = [one.observer(value) for one in each]
        assert seen.observer(value).low == min(one.low for one in found)
        assert seen.observer(value).high == max(one.high for one in found)
    small = model.quantize(seen)
    for x in (samples[0], pixels(3, 7)):
        fixed = load(path, {"x": x.shape}).quantize(seen)
        assert fixed.is_quantized
        assert np.asarray(small(x)).tolist() == np.asarray(fixed(x)).tolist()
        assert small.at(x.shape).is_quantized
    (node,) = (n for n in small.plan((1, 3, 5, 5)).nodes if n.node == "layer")
    assert "QUInt8Tensor" in node.signature


def test_weights_alone_and_rules(path: Path) -> None:
    model, x = load(path), pixels(4, 4)
    small = model.quantize_weights(bits=4)
    fixed = load(path, {"x": x.shape}).quantize_weights(bits=4)
    assert np.asarray(small(x)).tolist() == np.asarray(fixed(x)).tolist()
    codes = model.quantize(model.calibrate([x])).rounded("onnx")
    assert codes.at(x.shape).rounding == "onnx"


def test_profile_and_equal_channels(path: Path) -> None:
    model, x = load(path), pixels(4, 4)
    assert model.profile(x, repeat=1)
    assert np.asarray(model.equalize(sweeps=1)(x)).shape == (1, 4, 8, 8)


def test_what_needs_one_graph_says_which_shapes(path: Path, tmp_path: Path) -> None:
    model = load(path)
    text = r"'double' calculates with a dynamic size\. (Give |Call \w+\(path, )"
    example = text + r"input_shapes=\{'x': \(1, 3, 64, 64\)\}"
    stored = tmp_path / "again.onnx"
    for act in (
        lambda: model.save(stored),
        lambda: model.graph,
        lambda: model.plan(),
        lambda: model.compile(stored),
        lambda: model.smooth([pixels(4, 4)]),
        lambda: model.weight_bytes,
        lambda: quant.compare(model, model, [pixels(4, 4)]),
        lambda: model.is_quantized,
        lambda: quant.Stream(model, {"x": "y"}),
        lambda: pickle.dumps(model),
        lambda: copy.deepcopy(model),
    ):
        with pytest.raises(ModelError, match=example):
            act()
    assert not stored.exists()
    model.save(stored, (1, 3, 4, 4))
    assert np.asarray(load(stored)(pixels(4, 4))).shape == (1, 4, 8, 8)


def test_a_stored_plan_for_shapes(path: Path, tmp_path: Path) -> None:
    model, shape = load(path), (1, 3, 4, 4)
    found, wanted = tmp_path / "found.mdt", tmp_path / "wanted.mdt"
    model.compile(found, shape)
    load(path, shape).compile(wanted)
    assert found.read_bytes() == wanted.read_bytes()


def test_wrong_inputs(path: Path) -> None:
    model = load(path)
    for wrong in (
        np.ones((1, 4, 8, 8), "f4"),
        np.ones((1, 3, 8, 8)),
        np.ones(3, "f4"),
        "x",
    ):
        with pytest.raises(DataError):
            model(wrong)
    model(pixels(4, 4))
    odd = type("Odd", (), {"shape": [1, 3, 4, 4]})()
    for arguments in ((), (pixels(4, 4), pixels(4, 4)), (odd,)):
        with pytest.raises(DataError):
            model(*arguments)
    for shapes in ((1, 4, 8, 8), {"z": (1, 3, 8, 8)}, (1, 3, 8)):
        with pytest.raises(DataError):
            model.at(shapes)
    with pytest.raises(ModelError, match="'double' calculates with a dynamic size"):
        model.at((1, 3, -1, 8))


def test_options_with_samples_need_shapes(path: Path) -> None:
    model, x = load(path), pixels(4, 4)
    seen = model.calibrate([x])
    for options in (
        {"method": "gptq", "samples": [x]},
        {"budget": 0.1, "held_out": [x]},
    ):
        with pytest.raises(OptionError, match=r"Use model.at\(shapes\).quantize\("):
            model.quantize(seen, **options)
    for samples in ([x], x):
        with pytest.raises(OptionError, match="quantize_weights"):
            model.quantize_weights(method="awq", samples=samples)
    # The shapes that were used last show what is wrong at once.
    with pytest.raises(OptionError, match="method"):
        model.quantize(seen, method="none")


def test_a_file_that_changed(path: Path) -> None:
    model = load(path)
    model(pixels(4, 4))
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 10**9))
    assert np.asarray(model(pixels(4, 4))).shape == (1, 4, 8, 8)
    with pytest.raises(ModelError, match="changed after it was loaded"):
        model(pixels(5, 5))
    path.unlink()
    with pytest.raises(ModelError, match="changed after it was loaded"):
        model(pixels(6, 6))


def test_an_operator_without_a_reader_is_an_error_at_once(make_model: Any) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Mul", ["shape", "shape"], ["square"]),
        helper.make_node("Reshape", ["x", "square"], ["a"]),
        helper.make_node("StringNormalizer", ["a"], ["y"], "strings"),
    ]
    with pytest.raises(
        ModelError, match="operator 'StringNormalizer' of node 'strings'"
    ):
        load(make_model(nodes, {"x": (TensorProto.FLOAT, ("n",))}))
