"""Streams: the bytes of calls that pass each state on."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DataError, MdtensorError, OptionError
from mdtensor.graph import Graph, Node
from mdtensor.graph.carried import CarriedPart, CarriedTensors, carry
from mdtensor.quant.model.passes.states import keep_codes

RNG = np.random.default_rng(7)
GRID = quant.QParams(0.03)
OTHER = quant.QParams(0.04)


def spec(*shape: int, kind: Any = md.Float32Tensor) -> md.TensorSpec:
    return md.TensorSpec(kind, shape)


def window(grid: Any = GRID, again: Any = GRID, images: bool = False) -> quant.Model:
    """A window of the last three inputs, as codes, and its layer."""
    axes = (1, 4, 3, 5) if images else (1, 3, 8)
    key = (
        (slice(None), slice(None), slice(1, None))
        if images
        else (slice(None), slice(1, None))
    )
    axis = 2 if images else 1
    one = (1, 4, 1, 5) if images else (1, 1, 8)
    nodes = [
        Node("x.q", quant.quantize, ("x",), "xq", {"qparams": grid}),
        Node("h.q", quant.quantize, ("h",), "hq", {"qparams": grid}),
        Node("join", md.concat, ("hq", "xq"), "joined", {"axis": axis}),
        Node("cut", md.getitem, ("joined",), "kept", {"key": key}),
        Node("y.q", md.relu, ("kept",), "yq"),
        Node("y", quant.dequantize, ("yq",), "y"),
    ]
    kept = "kept"
    if again != grid:
        nodes.append(
            Node("again", quant.requantize, ("kept",), "other", {"out": again})
        )
        kept = "other"
    nodes.append(Node("next", quant.dequantize, (kept,), "h_next"))
    graph = Graph(
        {"h": spec(*axes), "x": spec(*one)}, tuple(nodes), {}, ("h_next", "y")
    )
    return quant.Model(graph)


def counter(*, parts: bool = False) -> quant.Model:
    """A sum of all inputs; with `parts` a node of it runs as a call."""
    nodes = [Node("add", md.add, ("sum", "x"), "next")]
    result = "next"
    if parts:
        nodes.append(Node("order", md.sort, ("next",), "sorted"))
        result = "sorted"
    one = spec(1, 3)
    return quant.Model(Graph({"sum": one, "x": one}, tuple(nodes), {}, (result,)))


def by_hand(model: quant.Model, pairs: dict[str, str], inputs: list[Any]) -> list[Any]:
    """The results without states, of calls that pass each state on."""
    states = {n: np.zeros(model.inputs[n].shape, "f4") for n in pairs}
    found = []
    for x in inputs:
        results = model(x=x, **states)
        named = dict(
            zip(
                model.outputs,
                results if isinstance(results, tuple) else (results,),
                strict=True,
            )
        )
        states = {n: named[result] for n, result in pairs.items()}
        found.append((named, states))
    return found


def one_node(*nodes: Node, outputs: tuple[str, ...]) -> quant.Model:
    """A model of one state h and one input x, of 4 numbers each."""
    graph = Graph({"h": spec(4), "x": spec(4)}, nodes, {}, outputs)
    return quant.Model(graph)


def draws(model: quant.Model, count: int) -> list[Any]:
    return [RNG.normal(size=model.inputs["x"].shape).astype("f4") for _ in range(count)]


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("again", [GRID, OTHER])
def test_a_stream_gives_the_bytes_of_calls_by_hand(again: Any, images: bool) -> None:
    model, pairs = window(again=again, images=images), {"h": "h_next"}
    stream, inputs = quant.Stream(model, pairs), draws(model, 9)
    assert stream.outputs == ("y",)
    assert list(stream.inputs) == ["x"]
    for x, (wanted, states) in zip(inputs, by_hand(model, pairs, inputs), strict=True):
        found = stream(x)
        assert found.tolist() == wanted["y"].tolist()
        assert stream.states["h"].tolist() == states["h"].tolist()


@pytest.mark.parametrize("images", [False, True])
def test_states_on_one_grid_stay_codes(images: bool) -> None:
    pairs, model = {"h": "h_next"}, window(images=images)
    graph = keep_codes(model.graph, pairs)
    assert graph.inputs["h"].qparams == GRID
    assert [node.name for node in graph.nodes] == ["x.q", "join", "cut", "y.q", "y"]
    # Another grid would round: the state stays real, and so does one that is a result.
    for other in (window(again=OTHER), counter()):
        names = {"h": "h_next"} if "h" in other.inputs else {"sum": "next"}
        assert keep_codes(other.graph, names).inputs == other.inputs


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5), st.booleans())
def test_a_stream_counts(values: list[int], parts: bool) -> None:
    stream = quant.Stream(
        counter(parts=parts), {"sum": "next" if not parts else "sorted"}
    )
    for end in range(1, len(values) + 1):
        found = stream(np.full((1, 3), values[end - 1], "f4"))
        # Nothing is left of the inputs but the states: all outputs are states.
        assert found == ()
        name = "sum"
        assert stream.states[name].tolist() == [[sum(values[:end])] * 3]
    stream.reset()
    assert stream.states["sum"].tolist() == [[0, 0, 0]]


def test_one_part_carries_arrays_and_several_carry_tensors() -> None:
    for parts, kind in ((False, CarriedPart), (True, CarriedTensors)):
        model = counter(parts=parts)
        inputs = {"x": model.inputs["x"], "sum": model.inputs["sum"]}
        graph = Graph(inputs, model.graph.nodes, {}, model.outputs)
        plan = quant.Model(graph).plan()
        assert type(carry(plan.bound, {"sum": model.inputs["sum"]})) is kind


def test_first_values_and_a_stream_that_goes_on() -> None:
    model, pairs = window(), {"h": "h_next"}
    first = RNG.normal(size=(1, 3, 8)).astype("f4")
    stream = quant.Stream(model, pairs, initial={"h": first})
    x, y = draws(model, 2)
    h, wanted = model(first, x)
    assert stream(x).tolist() == wanted.tolist()
    twin = quant.Stream(model, pairs, initial=stream.states)
    assert twin(y).tolist() == stream(y).tolist() == model(h, y)[1].tolist()
    stream.reset()
    assert stream(x).tolist() == wanted.tolist()


def test_two_streams_of_one_model_are_apart() -> None:
    model = counter()
    one, other = (quant.Stream(model, {"sum": "next"}) for _ in range(2))
    one(np.ones((1, 3), "f4"))
    assert other.states["sum"].tolist() == [[0, 0, 0]]
    kept = one.states["sum"]
    one(np.ones((1, 3), "f4"))
    assert kept.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("parts", [False, True])
def test_inputs_of_every_kind(parts: bool) -> None:
    result = "sorted" if parts else "next"
    stream = quant.Stream(counter(parts=parts), {"sum": result})
    x = np.ones((1, 3), "f4")
    for way in (
        lambda: stream(x),
        lambda: stream(md.asarray(x)),
        lambda: stream(x=x),
        lambda: stream({"x": x}),
        lambda: stream(x[:, ::-1]),
        lambda: stream(np.ones((1, 6), "f4")[:, ::2]),
    ):
        way()
    assert stream.states["sum"].tolist() == [[6, 6, 6]]


def test_an_error_leaves_the_states() -> None:
    model = window()
    stream = quant.Stream(model, {"h": "h_next"})
    x = draws(model, 1)[0]
    stream(x)
    before = stream.states["h"].tolist()
    bad = x.copy()
    bad[0, 0, 3] = np.nan
    for wrong in (bad, x[:, :, :5], x.astype("f8"), "x"):
        with pytest.raises(MdtensorError):
            stream(wrong)
        assert stream.states["h"].tolist() == before
    for arguments in ((), (x, x)):
        with pytest.raises(DataError):
            stream(*arguments)


def test_sizes_may_change_from_call_to_call() -> None:
    nodes = (
        Node("total", md.sum, ("x",), "total", {"axis": (0,), "keepdims": True}),
        Node("add", md.add, ("sum", "total"), "next"),
        Node("y", md.add, ("x", "next"), "y"),
    )
    inputs = {"sum": spec(1, 2), "x": spec(-1, 2)}
    stream = quant.Stream(
        quant.Model(Graph(inputs, nodes, {}, ("next", "y"))), {"sum": "next"}
    )
    for size, total in ((3, 3), (1, 4), (3, 7), (2, 9)):
        found = stream(np.ones((size, 2), "f4"))
        assert found.tolist() == [[1.0 + total] * 2] * size


def test_a_state_of_any_size_needs_a_first_value() -> None:
    inputs = {"sum": spec(-1, 2), "x": spec(-1, 2)}
    model = quant.Model(
        Graph(inputs, (Node("add", md.add, ("sum", "x"), "next"),), {}, ("next",))
    )
    with pytest.raises(
        DataError, match=r"'sum' has the dynamic shape \(-1, 2\).*initial="
    ):
        quant.Stream(model, {"sum": "next"})
    stream = quant.Stream(
        model, {"sum": "next"}, initial={"sum": np.ones((4, 2), "f4")}
    )
    stream(np.ones((4, 2), "f4"))
    assert stream.states["sum"].tolist() == [[2, 2]] * 4


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (None, "does not name states"),
        ({}, "does not name states"),
        (3, "must be a dict"),
        ({"h": ["h_next"]}, "does not have a result"),
        ({1: "h_next"}, "does not have an input 1"),
        ({"other": "h_next"}, "does not have an input 'other'.*'h', 'x'"),
        ({"h": "other"}, "does not have a result 'other'.*'h_next', 'y'"),
        ({"x": "y"}, r"Float32Tensor\[1,1,8\].*Float32Tensor\[1,3,8\]"),
        ({"h": "y", "x": "y"}, "two states take one result"),
    ],
)
def test_states_that_do_not_fit(states: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        quant.Stream(window(), states)


def test_first_values_that_do_not_fit() -> None:
    for initial in ({"h": np.zeros((1, 3, 7), "f4")}, {"g": np.zeros((1, 3, 8), "f4")}):
        with pytest.raises(DataError):
            quant.Stream(window(), {"h": "h_next"}, initial=initial)
    with pytest.raises(DataError, match="initial must be a dict"):
        quant.Stream(window(), {"h": "h_next"}, initial=[1])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="must be a Model"):
        quant.Stream(3)  # type: ignore[arg-type]


def test_nodes_that_read_the_next_value_read_floats() -> None:
    model = one_node(
        Node("h.q", quant.quantize, ("h",), "hq", {"qparams": GRID}),
        Node("x.q", quant.quantize, ("x",), "xq", {"qparams": GRID}),
        Node("sum", md.add, ("hq", "xq"), "codes", {"out": GRID}),
        Node("next", quant.dequantize, ("codes",), "h_next"),
        Node("answer", md.exp, ("h_next",), "y"),
        outputs=("y", "h_next"),
    )
    pairs = {"h": "h_next"}
    stream, inputs = quant.Stream(model, pairs), draws(model, 4)
    for x, (wanted, states) in zip(inputs, by_hand(model, pairs, inputs), strict=True):
        found = stream(x)
        assert type(found) is md.Float32Tensor
        assert found.tolist() == wanted["y"].tolist()
        assert stream.states["h"].tolist() == states["h"].tolist()
    assert keep_codes(model.graph, pairs).inputs["h"].qparams == GRID


def test_states_of_wide_codes_stay_floats() -> None:
    """Not every code of 32 bits has a float32 number of its own."""
    wide = quant.QParams(1e-6, dtype=quant.qint32)
    model = one_node(
        Node("h.q", quant.quantize, ("h",), "hq", {"qparams": wide}),
        Node("next", quant.dequantize, ("hq",), "h_next"),
        Node("y", md.add, ("h_next", "x"), "y"),
        outputs=("y", "h_next"),
    )
    assert keep_codes(model.graph, {"h": "h_next"}).inputs == model.inputs


def test_a_state_that_stays() -> None:
    model = one_node(
        Node("h.q", quant.quantize, ("h",), "hq", {"qparams": GRID}),
        Node("next", quant.dequantize, ("hq",), "h_next"),
        Node("y", md.add, ("x", "x"), "y"),
        outputs=("y", "h_next"),
    )
    stream = quant.Stream(
        model, {"h": "h_next"}, initial={"h": np.float32([1, 2, 3, 9])}
    )
    for _ in range(3):
        assert stream(np.ones(4, "f4")).tolist() == [2] * 4
        wanted = quant.dequantize(quant.quantize(np.float32([1, 2, 3, 9]), GRID))
        assert stream.states["h"].tolist() == wanted.tolist()


@pytest.mark.parametrize("parts", [False, True])
def test_nobody_else_changes_the_states(parts: bool) -> None:
    first, x = np.zeros((1, 3), "f4"), np.ones((1, 3), "f4")
    result = "sorted" if parts else "next"
    stream = quant.Stream(counter(parts=parts), {"sum": result}, initial={"sum": first})
    first += 5
    assert stream.states["sum"].tolist() == [[0, 0, 0]]
    for _ in range(2):
        md.setitem(stream.states["sum"], ..., 7.0)
        stream(x)
    assert stream.states["sum"].tolist() == [[2, 2, 2]]
    stream.reset()
    assert stream.states["sum"].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("parts", [False, True])
def test_a_copy_goes_on_alone(parts: bool) -> None:
    stream = quant.Stream(counter(parts=parts), {"sum": "sorted" if parts else "next"})
    x = np.ones((1, 3), "f4")
    stream(x)
    twin = copy.deepcopy(stream)
    twin(x)
    assert stream.states["sum"].tolist() == [[1, 1, 1]]
    assert twin.states["sum"].tolist() == [[2, 2, 2]]
    twin.reset()
    assert twin.states["sum"].tolist() == [[0, 0, 0]]


def test_losses_of_a_stream_are_counted() -> None:
    model, pairs = window(), {"h": "h_next"}
    plain, logged = quant.Stream(model, pairs), quant.Stream(model, pairs)
    for x in (draws(model, 1)[0] * 50, *draws(model, 2)):
        wanted = plain(x)
        with md.checked() as log:
            found = logged(x)
        assert found.tolist() == wanted.tolist()
        assert logged.states["h"].tolist() == plain.states["h"].tolist()
        assert bool(log) == bool((np.abs(x) > 4).any())
    # Calls without a log go on with the same states.
    assert logged(x).tolist() == plain(x).tolist()
