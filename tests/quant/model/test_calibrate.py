"""Calibration: the same for every split but for rounding, saved exactly, strict."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DataError, ModelError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.quant import (
    EntropyObserver,
    MinMaxObserver,
    MovingAverageObserver,
    MSEObserver,
    PercentileObserver,
)
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.quantize.calibrate import Calibration, calibrate

SPEC = md.TensorSpec(md.Float32Tensor, (-1, 3))
GRAPH = Graph(
    {"x": SPEC},
    (
        Node("d", md.add, ("x", "x"), "d"),
        Node("h", md.hardswish, ("d",), "h"),
        Node("i", md.argmax, ("h",), "i", {"axis": 1}),
    ),
    {},
    ("h", "i"),
)
KINDS = [MinMaxObserver, MSEObserver, EntropyObserver]
KINDS.append(partial(PercentileObserver, percentile=90))
ORDERED = partial(MovingAverageObserver, momentum=0.5)


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((count, 3), np.float32)


def test_observes_every_float_value() -> None:
    found = calibrate(GRAPH, [rows(4)], MinMaxObserver)
    assert set(found.observers) == {"x", "d", "h"}
    assert found.samples == 1
    assert repr(found) == "Calibration(values=3, samples=1, MinMaxObserver)"
    assert found.range("d") == (2 * rows(4).min(), 2 * rows(4).max())
    with pytest.raises(DataError, match="does not know the value 'z'"):
        found.range("z")


@pytest.mark.parametrize("kind", [*KINDS, ORDERED])
@given(cut=st.integers(1, 15))
def test_any_split_into_batches_is_one_calibration(kind: Any, cut: int) -> None:
    x = rows(16)
    whole = calibrate(GRAPH, [x], kind)
    split = calibrate(GRAPH, [x[:cut], x[cut:]], kind)
    assert split.observers == whole.observers


@given(cut=st.integers(1, 15))
def test_a_split_changes_sums_of_products_by_rounding_only(cut: int) -> None:
    w = md.asarray(np.random.default_rng(4).standard_normal((3, 5), np.float32))
    product = Node("p", md.matmul, ("x", "w"), "p")
    made = Graph({"x": SPEC}, (product,), {"w": w}, ("p",))
    x = rows(16)
    whole = calibrate(made, [x], MinMaxObserver)
    split = calibrate(made, [x[:cut], x[cut:]], MinMaxObserver)
    assert split.range("x") == whole.range("x")
    assert split.range("p") == pytest.approx(whole.range("p"), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@given(cut=st.integers(1, 15))
def test_merging_is_observing_both(kind: Any, cut: int) -> None:
    x = rows(16)
    whole = calibrate(GRAPH, [x], kind)
    first, second = (calibrate(GRAPH, [part], kind) for part in (x[:cut], x[cut:]))
    before = repr(first)
    for joint in (first.merged(second), second.merged(first)):
        assert joint.observers == whole.observers
        assert joint.samples == 2
    assert repr(first) == before


def test_merging_needs_the_same_values() -> None:
    first = calibrate(GRAPH, [rows(2)], MinMaxObserver)
    for kind in (MSEObserver, ORDERED):
        with pytest.raises(DataError, match="observe different values"):
            first.merged(calibrate(GRAPH, [rows(2)], kind))
    at90, at99 = (
        calibrate(GRAPH, [rows(2)], partial(PercentileObserver, percentile=p))
        for p in (90, 99)
    )
    with pytest.raises(DataError, match="observe different values"):
        at90.merged(at99)


def test_an_average_in_order_cannot_be_merged() -> None:
    first, second = (calibrate(GRAPH, [rows(2)], ORDERED) for _ in range(2))
    with pytest.raises(OptionError, match="depends on the order of samples"):
        first.merged(second)


@pytest.mark.parametrize("kind", [*KINDS, ORDERED])
def test_a_saved_calibration_is_the_same(kind: Any, tmp_path: Path) -> None:
    found = calibrate(GRAPH, [rows(9)], kind)
    found.save(tmp_path / "ranges.json")
    assert Calibration.load(tmp_path / "ranges.json") == found


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", '{"samples": 1, "observers": {"x": {"kind": "No"}}}'),
        '{"samples": 1, "observers": {"x": {"kind": "MinMaxObserver", "low": 0}}}',
        '{"samples": 1, "observers": {"x": {"kind": "MinMaxObserver", "a": 0}}}',
    ],
)
def test_what_is_no_calibration(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    path.write_text(text)
    with pytest.raises(ModelError, match="does not hold a calibration"):
        Calibration.load(path)


def test_a_field_that_no_observer_has_is_no_calibration(tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    calibrate(GRAPH, [rows(2)]).save(path)
    path.write_text(path.read_text().replace('"low"', '"odd": 1, "low"'))
    with pytest.raises(ModelError, match="does not hold a calibration"):
        Calibration.load(path)


def test_a_missing_calibration(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        Calibration.load(tmp_path / "none.json")


def test_samples_by_name_or_alone() -> None:
    by_name = calibrate(GRAPH, [{"x": rows(2)}], MinMaxObserver)
    assert by_name == calibrate(GRAPH, [rows(2)], MinMaxObserver)
    assert by_name == calibrate(GRAPH, iter([md.asarray(rows(2))]), MinMaxObserver)


def spoiled(value: float) -> np.ndarray:
    x = rows(2)
    x[1, 2] = value
    return x


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([], "there are no samples to calibrate on. Give at least one."),
        ([rows(2), spoiled(np.nan)], "sample 2: input 'x' holds a NaN or an infinity"),
        ([spoiled(np.inf)], "sample 1: input 'x' holds a NaN or an infinity"),
        (
            [rows(2), rows(2).T],
            "sample 2: input 'x' must be Float32Tensor[-1,3], but is",
        ),
        ([rows(2).astype(np.float64)], "Give an array of float32."),
        ([{"z": rows(2)}], "sample 1: the model takes 1 input, 'x', and got 'z'"),
        (["text"], "sample 1: input 'x'"),
        ([None], "sample 1: input 'x'"),
    ],
)
def test_samples_are_checked(samples: Any, words: str) -> None:
    with pytest.raises(DataError) as caught:
        calibrate(GRAPH, samples)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_value_that_overflows_on_the_way_is_named() -> None:
    large = np.full((1, 3), 3e38, np.float32)
    with (
        np.errstate(over="ignore"),
        pytest.raises(DataError, match="sample 2: 'd' becomes NaN or infinite"),
    ):
        calibrate(GRAPH, [rows(1), large])


def network_behind(nodes: list[Node], constants: dict[str, Any]) -> Model:
    """A linear layer on `h`, which the nodes compute from `x`."""
    w = np.random.default_rng(8).standard_normal((4, 3), np.float32)
    linear = Node("linear", md.linear, ("h", "w", None), "y")
    known = {name: md.asarray(value) for name, value in constants.items()}
    return Model(
        Graph({"x": SPEC}, (*nodes, linear), {**known, "w": md.asarray(w)}, ("y",))
    )


@pytest.mark.parametrize("missing", [np.nan, np.inf])
def test_numbers_that_are_filled_in(missing: float) -> None:
    """The nodes that see the missing number stay float; the layer does not."""
    nodes = [
        Node("test", md.isfinite, ("x",), "known"),
        Node("fill", md.where, ("known", "x", "mean"), "h"),
    ]
    model = network_behind(nodes, {"mean": np.float32(0.25)})
    samples = [rows(8), rows(8)]
    samples[1][2, 1] = missing
    small = model.quantize(model.calibrate(samples))
    plan = small.plan({"x": (8, 3)})
    assert "linear" not in {node.node for node in plan.float_nodes}
    want, got = (np.asarray(one(samples[1])) for one in (model, small))
    assert np.abs(want - got).max() < 0.03 * np.abs(want).max()


def test_an_overflow_whose_result_is_finite() -> None:
    """1 / (1 + exp(-x)), as converters write it, for numbers far below 0."""
    nodes = [
        Node("neg", md.neg, ("x",), "n"),
        Node("exp", md.exp, ("n",), "e"),
        Node("add", md.add, ("e", "one"), "s"),
        Node("inverse", md.div, ("one", "s"), "h"),
    ]
    model = network_behind(nodes, {"one": np.float32(1)})
    x = rows(8)
    x[0, 0] = -100
    with np.errstate(over="ignore"):
        small = model.quantize(model.calibrate([x]))
        want, got = (np.asarray(one(x)) for one in (model, small))
    assert np.abs(want - got).max() < 0.03 * np.abs(want).max()


def test_a_missing_number_that_reaches_a_layer_is_named() -> None:
    nodes = [Node("half", md.mul, ("x", "c"), "h")]
    model = network_behind(nodes, {"c": np.float32(0.5)})
    with pytest.raises(DataError, match="sample 1: input 'x' holds a NaN"):
        model.calibrate([spoiled(np.nan)])
    with pytest.raises(DataError, match="sample 1: input 'x' holds a NaN"):
        model.calibrate([np.full((2, 3), np.nan, np.float32)])
