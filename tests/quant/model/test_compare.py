"""A comparison ranks a planted bad layer first, and its advice helps."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.cli.errors import option
from mdtensor.cli.networks.facts import worst_outputs
from mdtensor.errors import DataError, DispatchError, OptionError, writing
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model, load
from mdtensor.quant.model.compare.noise import Noise
from mdtensor.quant.model.compare.outputs import OutputCounts, OutputSums, share_text
from mdtensor.quant.observers import MinMaxObserver
from mdtensor.quant.sqnr import decibels
from tests.support.planted import (
    CHANNELS,
    LAYERS,
    SIZE,
    chain,
    images,
    narrowed,
    outlier_channel,
)

INNER = range(1, LAYERS - 1)


def sqnr(wanted: Any, found: Any) -> float:
    """The oracle: from all numbers at once, in plain NumPy."""
    y, z = (np.asarray(x, np.float64) for x in (wanted, found))
    return float(10 * np.log10(np.sum(y**2) / np.sum((z - y) ** 2)))


def total(model: Model, small: Model, samples: list[Any]) -> float:
    pairs = [(np.asarray(model(x)), np.asarray(small(x))) for x in samples]
    return sqnr([a for a, _ in pairs], [b for _, b in pairs])


@pytest.mark.parametrize("at", INNER)
def test_an_outlier_channel_ranks_first_and_its_fix_helps(at: int) -> None:
    model = chain(at, outlier_channel, at)
    seen, fresh = model.calibrate(images(8, 1)), images(4, 2)
    small = model.quantize(seen)
    found = quant.compare(model, small, fresh)
    worst, second = found.worst(2)
    assert worst.node == f"conv{at}"
    assert worst.local < 15 < second.local - 8
    assert worst.fix is not None
    assert worst.fix.cause == "scale"
    assert "channel 3" in worst.fix.text
    kept = model.quantize(seen, keep_float=worst.fix.keep_float)
    assert total(model, kept, fresh) > total(model, small, fresh) + 10
    # The other fix that the text names.
    assert "equalize" in worst.fix.text
    even = model.equalize()
    equal = even.quantize(even.calibrate(images(8, 1)))
    assert total(model, equal, fresh) > total(model, small, fresh) + 10


@pytest.mark.parametrize("at", INNER)
def test_a_narrow_range_ranks_first_and_its_fix_helps(at: int) -> None:
    model = chain(at)
    seen, fresh = model.calibrate(images(8, 1)), images(4, 2)
    small = model.quantize(narrowed(seen, f"r{at}"))
    found = quant.compare(model, small, fresh)
    worst = found.worst(1)[0]
    assert worst.node == f"conv{at}"
    assert worst.saturated > 0.1
    assert worst.fix is not None
    assert worst.fix.cause == "range"
    assert "calibrate" in worst.fix.text
    better = model.quantize(seen)
    assert total(model, better, fresh) > total(model, small, fresh) + 10


def test_a_division_by_small_numbers_ranks_first_and_its_fix_helps() -> None:
    graph = chain(0).graph
    divisor = np.ones((1, CHANNELS, 1, 1), np.float32)
    divisor[0, 5], back = 1e-3, np.ones((1, CHANNELS, 1, 1), np.float32)
    back[0, 5] = 1e-3
    # What the division makes large, a product in float makes small again.
    nodes = (
        *graph.nodes,
        Node("ratio", md.div, (graph.outputs[0], "divisor"), "ratio"),
        Node("back", md.mul, ("ratio", "back"), "y"),
    )
    more = {"divisor": md.asarray(divisor), "back": md.asarray(back)}
    made = replace(
        graph, nodes=nodes, constants={**graph.constants, **more}, outputs=("y",)
    )
    model = Model(made)
    seen, fresh = model.calibrate(images(8, 1)), images(4, 2)
    small = model.quantize(seen, keep_float=["back"])
    worst = quant.compare(model, small, fresh).worst(1)[0]
    assert (worst.node, worst.operation) == ("ratio", "mul")
    assert worst.fix is not None
    kept = model.quantize(seen, keep_float=[*worst.fix.keep_float])
    assert total(model, kept, fresh) > total(model, small, fresh) + 5


def test_a_large_row_of_weights_ranks_first_and_its_fix_helps() -> None:
    """A layer on vectors has one scale for all its weights."""
    rng = np.random.default_rng(3)
    weights = {f"w{i}": rng.normal(0, 0.5, (8, 8)) for i in range(3)}
    weights["w1"][2] *= 100
    weights["w2"][:, 2] /= 100
    nodes = []
    for i, value in enumerate(("x", "a0", "a1")):
        nodes.append(Node(f"linear{i}", md.linear, (value, f"w{i}", None), f"a{i}"))
    constants = {n: md.asarray(w.astype(np.float32)) for n, w in weights.items()}
    spec = md.TensorSpec(md.Float32Tensor, (1, 8))
    model = Model(Graph({"x": spec}, tuple(nodes), constants, ("a2",)))
    samples = list(rng.normal(size=(32, 1, 8)).astype(np.float32))
    seen = model.calibrate(samples)
    small = model.quantize(seen)
    found = quant.compare(model, small, samples)
    worst = found.worst(1)[0]
    assert worst.node == "linear1"
    assert worst.fix is not None
    kept = model.quantize(seen, keep_float=worst.fix.keep_float)
    assert total(model, kept, samples) > total(model, small, samples) + 5


def test_the_numbers_are_those_of_numpy() -> None:
    model = chain(4)
    samples = images(3, 5)
    small = model.quantize(model.calibrate(samples))
    found = quant.compare(model, small, iter(samples))
    assert found.samples == 3
    by_name = {node.node: node for node in found.nodes}
    # The accumulated error is that of the models.
    assert found.sqnr == pytest.approx(total(model, small, samples))
    output = next(iter(found.outputs.values()))
    a, b = (np.ravel([np.asarray(m(x)) for x in samples]) for m in (model, small))
    assert output.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    # The local error of the input is rounding to its grid.
    grid = small.graph.specs()["x.q"].qparams
    assert grid is not None
    scale = float(grid.scale)
    codes = np.clip(np.rint(np.float64(samples) / scale) + grid.zero, 0, 255)
    rounded = (codes - grid.zero) * scale
    assert by_name["x.q"].local == pytest.approx(sqnr(samples, rounded), abs=1e-3)
    # The local error of a layer: float inputs, its own weights, its own grid.
    node = next(n for n in small.graph.nodes if n.name == "conv1")
    weights = small.graph.constants[node.inputs[1]]
    real = weights.codes * weights.qparams.along(weights.qparams.scale, weights.shape)
    before = [model.plan().values(x)["r0"] for x in samples]
    sums = np.einsum("oi,snihw->snohw", real[:, :, 0, 0], np.float64(before))
    grid = node.options["out"]
    scale = float(grid.scale)
    alone = (np.clip(np.rint(sums / scale) + grid.zero, 0, 255) - grid.zero) * scale
    wanted = np.float64([np.asarray(model.plan().values(x)["r1"]) for x in samples])
    # Channels count by the weights of the layer that reads them.
    gains = np.sqrt(np.square(np.float64(model.graph.constants["w2"])).sum(axis=0))
    weighted = sqnr(wanted * gains, alone * gains)
    assert by_name["conv1"].local == pytest.approx(weighted, abs=0.01)
    assert abs(weighted - sqnr(wanted, alone)) > 0.1
    channels = [sqnr(wanted[:, :, i], alone[:, :, i]) for i in range(8)]
    assert by_name["conv1"].channel == int(np.argmin(channels))
    assert by_name["conv1"].channel_sqnr == pytest.approx(min(channels), abs=0.01)
    assert by_name["conv1"].covers == ("conv1", "relu1")


def test_a_saved_file_compares_as_its_model(tmp_path: Any) -> None:
    model = chain(1, outlier_channel)
    small = model.quantize(model.calibrate(images(4, 1)))
    small.save(tmp_path / "small.onnx")
    again = load(tmp_path / "small.onnx")
    one = quant.compare(model, small, images(2, 2))
    other = quant.compare(model, again, images(2, 2))
    assert one.outputs == other.outputs
    assert [n.node for n in one.worst(3)] == [n.node for n in other.worst(3)]
    assert one.worst(1)[0].local == pytest.approx(other.worst(1)[0].local)


def test_saturation_that_no_reader_sees_is_not_an_error(rng: Any) -> None:
    """hardswish is 0 below -3, and a softmax far below the maximum of its row."""
    weights = md.asarray(rng.normal(0, 4, (8, 8)).astype(np.float32))
    spec = md.TensorSpec(md.Float32Tensor, (1, 8))
    for operation in (md.hardswish, md.softmax):
        nodes = (
            Node("linear", md.linear, ("x", "w", None), "a"),
            Node("act", operation, ("a",), "y"),
        )
        model = Model(Graph({"x": spec}, nodes, {"w": weights}, ("y",)))
        samples = list(rng.normal(size=(32, 1, 8)).astype(np.float32))
        small = model.quantize(model.calibrate(samples))
        found = quant.compare(model, small, samples)
        node = next(n for n in found.nodes if n.node == "linear")
        floor = -3 if operation is md.hardswish else None
        lows = [np.asarray(model.plan().values(x)["a"]).min() for x in samples]
        assert floor is None or min(lows) < 3 * floor
        assert node.local > 30
        assert node.saturated < 0.01


def test_float_nodes_and_moves_are_exact() -> None:
    model = chain(2)
    small = model.quantize(model.calibrate(images(2, 1)), keep_float=["conv1", "relu1"])
    nodes = {n.node: n for n in quant.compare(model, small, images(2, 2)).nodes}
    assert nodes["conv1"].local == np.inf
    assert nodes["conv1"].accumulated < 60
    assert nodes["conv1"].fix is None


def test_weights_of_four_bits_get_advice_that_helps() -> None:
    model = chain(5)
    small = model.quantize_weights(weight_dtype="qint4")
    samples = images(2, 2)
    found = quant.compare(model, small, samples)
    fixes = [node.fix for node in found.nodes if node.fix]
    assert fixes
    assert all(fix.cause == "weights" and "qint8" in fix.text for fix in fixes)
    better = model.quantize_weights(weight_dtype="qint8")
    assert quant.compare(model, better, samples).sqnr > found.sqnr + 15


def test_the_text_and_the_data() -> None:
    model = chain(1, outlier_channel)
    small = model.quantize(model.calibrate(images(4, 1)))
    found = quant.compare(model, small, images(2, 2))
    text = str(found)
    lines = text.splitlines()
    assert lines[0].startswith("r4: ")
    first = next(i for i, line in enumerate(lines) if line.startswith("node "))
    assert lines[first + 1].startswith("conv2 ")
    assert "keep_float=['conv2'" in text
    data = found.as_dict()
    assert data["samples"] == 2
    assert [n["node"] for n in data["nodes"]] == [n.node for n in found.nodes]
    locals_ = [n.local for n in found.worst(4)]
    assert all(a <= b for a, b in pairwise(locals_))


def test_the_text_is_in_the_notation_of_the_caller() -> None:
    model = chain(1, outlier_channel)
    small = model.quantize(model.calibrate(images(4, 1)))
    with writing(option):
        text = str(quant.compare(model, small, images(2, 2)))
    assert "--keep-float conv2" in text and "keep_float" not in text


def test_wrong_arguments() -> None:
    model = chain(1)
    small = model.quantize(model.calibrate(images(1, 1)))
    with pytest.raises(DispatchError, match="samples is missing"):
        quant.compare(model, small)  # type: ignore[call-arg]
    with pytest.raises(DispatchError, match="calibration is missing") as missing:
        model.quantize()  # type: ignore[call-arg]
    assert "Write quantize(calibration, *, keep_float" in str(missing.value)
    with pytest.raises(DispatchError, match="expects 1 to 2 arguments, got 3"):
        model.calibrate([], MinMaxObserver, 1)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="Give the float model first"):
        quant.compare(small, model, images(1, 1))
    with pytest.raises(DataError, match="no samples"):
        quant.compare(model, small, [])
    with pytest.raises(OptionError, match="Give a quant"):
        quant.compare(model, "small.onnx", images(1, 1))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="sample 1"):
        quant.compare(model, small, [np.zeros((1, 3, SIZE, SIZE), np.float32)])
    other = Model(replace(model.graph, outputs=("r3",)))
    with pytest.raises(OptionError, match="outputs"):
        quant.compare(model, other, images(1, 1))


def test_no_sample_is_kept() -> None:
    """A generator may reuse its array: nothing refers to it after its turn."""
    model = chain(1)
    samples = images(3, 2)
    small = model.quantize(model.calibrate(samples))

    def reused() -> Any:
        buffer = np.empty_like(samples[0])
        for sample in samples:
            buffer[...] = sample
            yield buffer

    assert quant.compare(model, small, reused()) == quant.compare(model, small, samples)


def rows() -> Model:
    """A model of any number of rows, whose sums may be infinite."""
    weights = md.asarray([[3.0, 1.0], [0.0, -3.0]])
    graph = Graph(
        {"x": md.TensorSpec(md.Float32Tensor, (-1, 2))},
        (Node("y", md.matmul, ("x", "w"), "y"),),
        {"w": weights},
        ("y",),
    )
    return Model(graph)


def test_results_that_are_infinite_in_one_model_only_are_counted() -> None:
    model, good = rows(), np.float32([[1, -2], [0.5, 1]])
    small = model.quantize(model.calibrate(good))
    # 3 · 3e38 is beyond float32, and within no grid.
    bad = np.float32([[3e38, -2]])
    lost = int((~np.isfinite(np.asarray(model(bad)))).sum())
    assert lost == 1
    fine = quant.compare(model, small, [good])
    assert fine.outputs["y"].lost == 0
    for samples in ([bad], [good, bad]):
        found = quant.compare(model, small, samples)
        assert found.outputs["y"].lost == lost
        assert found.sqnr == -np.inf
        assert str(found).startswith("y: -inf dB")
        assert "1 elements are NaN or infinite in one model only" in str(found)
        plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert plain["outputs"]["y"]["sqnr"] == "-inf"


def with_classes(*, scores: bool) -> Model:
    """Rows, and the place of the largest sum of each; without `scores` that alone."""
    graph = rows().graph
    nodes = (*graph.nodes, Node("class", md.argmax, ("y",), "class", {"axis": 1}))
    outputs = ("y", "class") if scores else ("class",)
    return Model(replace(graph, nodes=nodes, outputs=outputs))


def classes(model: Model, samples: list[Any]) -> Any:
    """Return the last output for all samples."""
    found = [model(x) for x in samples]
    last = [y[-1] if isinstance(y, tuple) else y for y in found]
    return np.concatenate([np.asarray(y) for y in last])


def test_class_numbers_are_equal_or_not(rng: Any) -> None:
    """Decibels of class numbers would depend on how the classes are numbered."""
    samples = [rng.normal(size=(50, 2)).astype(np.float32) for _ in range(3)]
    for scores in (True, False):
        model = with_classes(scores=scores)
        small = model.quantize(model.calibrate(samples))
        found = quant.compare(model, small, samples)

        same = classes(model, samples) == classes(small, samples)
        one = found.outputs["class"]
        assert (one.sqnr, one.cosine, one.lost) == (None, None, 0)
        assert one.equal == same.mean()
        line = f"class: {same.mean():.2%} of the elements are equal"
        assert line in str(found).splitlines()
        plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert plain["outputs"]["class"]["equal"] == one.equal
        assert np.isnan(found.sqnr) != scores
        assert (f"{same.mean():.2%}", "equal integers in the worst output") in (
            worst_outputs(found)
        )
        assert len(worst_outputs(found)) == 1 + scores


def test_a_share_is_whole_only_if_all_are_equal() -> None:
    counts = OutputCounts()
    for wanted, seen in (([1, 2, 2**53], [1, 3, 2**53 + 1]), ([1, 2], [1])):
        counts.add(md.asarray(wanted), md.asarray(seen))
    assert (counts.count, counts.equal, counts.result().equal) == (5, 1, 0.2)
    assert share_text(1 - 1e-9) == "99.99%" and share_text(1.0) == "100.00%"
    with pytest.raises(DataError, match=r"output y has shape \(2,\) .* and \(1,\)"):
        OutputSums("y").add(md.asarray([1.0, 2.0]), md.asarray([1.0]))


def test_equal_infinities_are_no_error() -> None:
    noise = Noise(0)
    x = np.array([-np.inf, np.nan, np.inf, 1.0])
    noise.add(x, x)
    assert (noise.count, noise.lost, noise.sqnr) == (4, 0, np.inf)
    noise.add(x, -x)
    assert (noise.count, noise.lost) == (8, 2)


def test_samples_without_elements_are_refused() -> None:
    model, good = rows(), np.float32([[1, -2], [0.5, 1]])
    seen = model.calibrate(good)
    small, none = model.quantize(seen), good[:0]
    with pytest.raises(DataError, match="outputs of 1 samples have no elements"):
        quant.compare(model, small, [none])
    assert quant.compare(model, small, [none, good]).samples == 2
    with pytest.raises(DataError, match="outputs of 2 held-out samples have no"):
        model.quantize(seen, budget=1e-6, held_out=[none, none])
    held = [*[none] * 5, good]
    found = model.quantize(seen, budget=0.0, held_out=held)
    assert found.search is not None
    assert found.search.error == 0
    assert len(found.search.steps) > 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_held_out_samples_are_finite(value: float) -> None:
    model, good = rows(), np.float32([[1, -2], [0.5, 1]])
    bad = np.float32([[value, 0]])
    with pytest.raises(DataError, match="held-out sample 2: input 'x' holds a NaN or"):
        model.quantize(model.calibrate(good), budget=0.1, held_out=[good, bad])


def test_decibels_and_cosines() -> None:
    assert decibels(0.0, 0.0) == np.inf
    noise = Noise(0)
    assert noise.cosine == 1.0
    noise.add(np.zeros(2), np.ones(2))
    assert noise.cosine == 0.0
    assert noise.sqnr == -np.inf


def test_codes_that_a_float_layer_reads_through_a_conversion(rng: Any) -> None:
    """The layer computes in float, and its weights are rounded all the same."""
    w = md.asarray(rng.standard_normal((4, 3)).astype(np.float32))
    x = md.asarray(rng.standard_normal((5, 3)).astype(np.float32))
    inputs = {"x": md.TensorSpec(md.Float32Tensor, (5, 3))}
    layer = Node("layer", md.linear, ("x", "w", None), "y")
    model = Model(Graph(inputs, (layer,), {"w": w}, ("y",)))
    codes = quant.quantize(w, quant.QParams(0.02, dtype=quant.qint8))
    real = Node("real", quant.dequantize, ("codes",), "wide")
    nodes = real, replace(layer, inputs=("x", "wide", None))
    small = Model(Graph(inputs, nodes, {"codes": codes}, ("y",)))
    found = {node.node: node for node in quant.compare(model, small, [x]).nodes}
    want = sqnr(model(x), small(x))
    assert found["layer"].local == pytest.approx(want)
    assert found["layer"].accumulated == pytest.approx(want)
    assert found["real"].local == np.inf
