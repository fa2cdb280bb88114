"""A model rounds by its own rule: chosen once, seen in the plan, kept in the file."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import ModelError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model, load


@pytest.fixture
def image(rng):
    return rng.normal(size=(2, 4, 9, 9)).astype(np.float32)


@pytest.fixture
def model(rng):
    w, b = rng.normal(size=(8, 4, 3, 3)), rng.normal(size=8)
    v = rng.normal(size=(8, 8, 1, 1))
    constants = {
        n: md.asarray(a.astype(np.float32))
        for n, a in zip("wbv", (w, b, v), strict=True)
    }
    nodes = (
        Node("conv", md.conv2d, ("x", "w", "b"), "a"),
        Node("again", md.conv2d, ("a", "v", None), "c"),
        Node("sum", md.add, ("a", "c"), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (2, 4, 9, 9))
    return Model(Graph({"x": spec}, nodes, constants, ("y",)))


@pytest.fixture
def calibration(model, image):
    return model.calibrate([image])


def by_hand(model, image):
    """What the methods give under the model's rule."""
    return np.asarray(model.graph.run({"x": image})["y"])


@pytest.mark.parametrize("rule", ["ort_cpu", "tflite_ref", "tflite_opt", "xnnpack_x86"])
def test_every_result_is_rounded_by_the_rule(rule, model, calibration, image):
    made = model.quantize(calibration, rounding=rule)
    exact = model.quantize(calibration)
    assert (made.rounding, exact.rounding) == (rule, "exact")
    found = np.asarray(made(image))
    assert np.array_equal(found, by_hand(made, image))
    assert np.array_equal(np.asarray(exact.rounded(rule)(image)), found)
    assert np.array_equal(
        np.asarray(made.rounded("exact")(image)), np.asarray(exact(image))
    )
    assert f"rounding={rule!r}" in repr(made)


def test_a_float_model_hands_on_its_rule(model, calibration, image):
    ruled = model.rounded("tflite_ref")
    found = ruled.quantize(calibration)
    assert found.rounding == "tflite_ref"
    wanted = model.quantize(calibration, rounding="tflite_ref")
    assert np.array_equal(found(image), wanted(image))
    assert ruled.quantize(calibration, rounding="exact").rounding == "exact"


def test_the_plan_names_the_rule(model, calibration):
    made = model.quantize(calibration, rounding="tflite_ref")
    reasons = {n.operation: n.why for n in made.plan().nodes}
    assert reasons["conv2d"] == (
        "compiled steps round exactly, not by 'tflite_ref'; use rounding='exact' to "
        "compile it"
    )
    assert not any(
        n.why
        for n in model.quantize(calibration).plan().nodes
        if n.operation == "conv2d"
    )


def test_no_context_reaches_into_a_model(model, calibration, image):
    exact = model.quantize(calibration)
    wanted = np.asarray(exact(image))
    with quant.rounding("tflite_ref"):
        again = model.quantize(calibration)
        assert np.array_equal(np.asarray(exact(image)), wanted)
        assert np.array_equal(np.asarray(again(image)), wanted)
        assert np.array_equal(by_hand(again, image), wanted)


def test_a_file_keeps_the_rule(model, calibration, image, tmp_path):
    made = model.quantize(calibration, rounding="tflite_opt")
    made.save(tmp_path / "m.onnx")
    again = load(tmp_path / "m.onnx")
    assert again.rounding == "tflite_opt"
    assert np.array_equal(np.asarray(again(image)), np.asarray(made(image)))
    model.quantize(calibration).save(tmp_path / "e.onnx")
    assert load(tmp_path / "e.onnx").rounding == "exact"


def test_a_file_with_an_unknown_rule_is_refused(model, calibration, tmp_path):
    import onnx

    model.quantize(calibration, rounding="onnx").save(tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    proto.metadata_props[0].value = "mine"
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="the file's rounding is 'mine'"):
        load(tmp_path / "m.onnx")


def test_what_a_rule_has_no_answer_for_is_named(image):
    spec = md.TensorSpec(md.Float32Tensor, image.shape)
    graph = Graph({"x": spec}, (Node("curve", md.erf, ("x",), "y"),), {}, ("y",))
    model = Model(graph)
    seen = model.calibrate([image])
    with pytest.raises(OptionError) as caught:
        model.quantize(seen, rounding="ort_cpu")
    assert str(caught.value) == (
        "rounding='ort_cpu' does not compute 'curve' (erf: the rule does not define "
        "it). Keep them float, keep_float=['curve'], or use rounding='exact'."
    )
    with pytest.raises(OptionError, match="rounding is 'nothing'"):
        model.quantize(seen, rounding="nothing")


def test_what_a_rule_refuses_is_found_before_it_runs(image):
    """Each node with the reason that its call would give; kept float, the rest runs."""
    nodes = (
        Node("gate", md.softsign, ("x",), "a"),
        Node("swish", md.silu, ("x",), "b"),
        Node("sum", md.add, ("a", "b"), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, (-1, *image.shape[1:]))
    model = Model(Graph({"x": spec}, nodes, {}, ("y",)))
    seen = model.calibrate([image])
    with pytest.raises(OptionError) as caught:
        model.quantize(seen, rounding="tflite_ref")
    assert str(caught.value) == (
        "rounding='tflite_ref' does not compute 'gate' (softsign: the rule does not "
        "define it), 'swish' (silu: the rule does not define it). Keep them float, "
        "keep_float=['gate', 'swish'], or use rounding='exact'."
    )
    kept = model.quantize(seen, keep_float=["gate", "swish"], rounding="tflite_ref")
    assert np.allclose(np.asarray(kept(image)), np.asarray(model(image)), atol=0.1)


def test_many_refused_nodes_are_counted(image):
    names = ["x", *(f"v{at}" for at in range(8))]
    nodes = tuple(
        Node(f"n{at}", md.silu, (names[at],), names[at + 1]) for at in range(8)
    )
    spec = md.TensorSpec(md.Float32Tensor, image.shape)
    model = Model(Graph({"x": spec}, nodes, {}, ("v7",)))
    with pytest.raises(OptionError, match=r"'n4' \(silu: .*\) and 3 more\. Keep"):
        model.quantize(model.calibrate([image]), rounding="tflite_ref")


def test_what_an_error_says_to_keep_float_is_enough(image, rng):
    """A relu is a part of its layer, and alone beside a float one."""
    w = md.asarray(rng.normal(size=(8, 9)).astype(np.float32))
    nodes = (
        Node("layer", md.linear, ("x", "w", None), "a"),
        Node("positive", md.relu, ("a",), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, image.shape)
    model = Model(Graph({"x": spec}, nodes, {"w": w}, ("y",)))
    seen = model.calibrate([image])
    with pytest.raises(OptionError, match="does not compute 'layer'") as caught:
        model.quantize(seen, weight_dtype="qint4", rounding="tflite_ref")
    keep = ["layer", "positive"]
    assert f"keep_float={keep}" in str(caught.value)
    made = model.quantize(seen, rounding="tflite_ref", keep_float=keep)
    assert np.array_equal(made(image), model(image))


def test_a_model_that_is_quantized_is_not_told_to_keep_nodes_float(image):
    spec = md.TensorSpec(md.Float32Tensor, image.shape)
    graph = Graph({"x": spec}, (Node("curve", md.erf, ("x",), "y"),), {}, ("y",))
    model = Model(graph)
    small = model.quantize(model.calibrate([image]))
    with pytest.raises(OptionError) as caught:
        small.rounded("ort_cpu")
    assert str(caught.value) == (
        "rounding='ort_cpu' does not compute 'curve' (erf: the rule does not define "
        "it). Quantize the float model with rounding='ort_cpu', which lists what to "
        "keep float, or use rounding='exact'."
    )


@pytest.mark.parametrize("rule", ["tflite_ref", "tflite_opt", "xnnpack_x86"])
@pytest.mark.parametrize("curve", [md.sigmoid, md.tanh])
def test_a_rule_that_fixes_grids_has_them(curve, rule, image):
    """Of the function, and of what only moves its codes."""
    nodes = (
        Node("gate", curve, ("x",), "a"),
        Node("rows", md.reshape, ("a",), "b", {"shape": (image.shape[0], -1)}),
        Node("sum", md.add, ("b", "b"), "y"),
    )
    spec = md.TensorSpec(md.Float32Tensor, image.shape)
    model = Model(Graph({"x": spec}, nodes, {}, ("y",)))
    seen = model.calibrate([image])
    small = model.quantize(seen, rounding=rule)
    scale, zero = (2.0**-8, 0) if curve is md.sigmoid else (2.0**-7, 128)
    specs = small.graph.specs()
    grids = [
        specs[n.inputs[0]].qparams for n in small.graph.nodes if n.operation is md.add
    ]
    assert grids == [quant.QParams(scale, zero, dtype=quant.quint8)]
    assert np.allclose(np.asarray(small(image)), np.asarray(model(image)), atol=0.05)
    exact = model.quantize(seen)
    with pytest.raises(OptionError, match="it writes to QParams"):
        exact.rounded(rule)
