"""Stored plans of networks with calls: tokens, masks, indices, numbers of any type."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support import stored_plans
from support.plain_calls import WORDS, drawn, fed, require_same, tagger, words

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import BoundsError, DataError, MdtensorError, ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import load_plan
from mdtensor.quant.model import Model


def listed(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@given(st.data())
def test_a_stored_plan_gives_the_bytes_of_calls(data: Any) -> None:
    graph = drawn(data)
    feeds = fed(data, graph)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.mdt"
        try:
            Model(graph).compile(path)
        except ModelError as error:
            # Some calls have no steps, such as sums of many floats.
            assert "not compiled steps" in str(error)
            return
        stored = load_plan(path)
        try:
            wanted = graph.run(feeds)
        except MdtensorError:
            with pytest.raises(DataError, match="an index is outside of its axis"):
                stored(*feeds.values())
            return
        found = listed(stored(*feeds.values()))
        for name, one in zip(graph.outputs, found, strict=True):
            require_same(wanted[name], one)


@pytest.mark.parametrize("is_quantized", [False, True])
def test_tokens_come_in_and_choices_go_out(is_quantized: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    model = tagger(rng)
    if is_quantized:
        samples = [words(rng) for _ in range(4)]
        model = model.quantize(model.calibrate(samples))
    model.compile(tmp_path / "net.mdt")
    stored = load_plan(tmp_path / "net.mdt")
    for _ in range(3):
        ids = words(rng)
        for found, wanted in zip(stored(ids), model(ids), strict=True):
            assert type(found) is type(wanted)
            require_same(wanted, found)


@pytest.mark.parametrize("word", [WORDS, -WORDS - 1, 1 << 50])
def test_a_word_outside_the_table(word: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    model = tagger(rng)
    model.compile(tmp_path / "net.mdt")
    ids = words(rng)
    ids[1, 3] = word
    with pytest.raises(BoundsError):
        model(ids)
    stored = load_plan(tmp_path / "net.mdt")
    with pytest.raises(DataError, match="an index is outside of its axis, between 'id"):
        stored(ids)
    # The memory of the call that failed is not that of the next one.
    ids[1, 3] = -WORDS
    require_same(model(ids)[0], stored(ids)[0])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("is_plain", False, "numbers that no kernel of codes reads"),
        ("is_image", True, "is stored in two ways"),
        ("is_signed", True, "is stored in two ways"),
        ("is_number", True, "is stored in two ways"),
        ("type", "int16", "nothing writes the value 'ids'"),
    ],
)
def test_words_in_another_way(key: str, value: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "net.mdt"
    tagger(np.random.default_rng(5)).compile(path)
    content = path.read_bytes()
    header, _ = stored_plans.header_of(content)
    header["plans"][0]["parts"][0]["inputs"][0][key] = value
    path.write_bytes(stored_plans.with_header(content, header))
    with pytest.raises(ModelError, match=said):
        load_plan(path)


def test_a_table_of_any_size_is_stored(tmp_path: Path) -> None:
    """A table is a constant, so only what is taken counts."""
    table = md.asarray(np.arange(1 << 21, dtype=np.float32).reshape(-1, 8))
    node = Node("y", md.take, ("table", "ids"), "y", {"axis": 0})
    ids = md.TensorSpec(md.Int32Tensor, (3,))
    model = Model(Graph({"ids": ids}, (node,), {"table": table}, ("y",)))
    model.compile(tmp_path / "net.mdt")
    x = np.int32([7, -1, 200_000])
    require_same(model(x), load_plan(tmp_path / "net.mdt")(x))


def test_values_that_only_change_their_shape(tmp_path: Path) -> None:
    """A part with no step but views copies its value."""
    x = md.TensorSpec(md.Float64Tensor, (2, 3))
    node = Node("y", md.reshape, ("x",), "y", {"shape": (3, 2)})
    model = Model(Graph({"x": x}, (node,), {}, ("y",)))
    model.compile(tmp_path / "net.mdt")
    given = np.arange(6.0).reshape(2, 3)
    require_same(model(given), load_plan(tmp_path / "net.mdt")(given))


FRAMES = [((0, 0), (0, 0), (1, 2), (3, 0)), ((0, 0), (2, 0), (0, 0), (0, 1))]


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4), (3, 4)])
@pytest.mark.parametrize("kind", ["float32", "qint8", "quint8"])
@pytest.mark.parametrize("widths", FRAMES)
def test_frames_and_copies_are_steps(
    shape: Any, kind: str, widths: Any, tmp_path: Path
) -> None:
    """A pad by a number and a tile, of images, signals and matrices."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    nodes, first = [], "x"
    if kind != "float32":
        grid = quant.QParams(0.0625, 3, dtype=kind)
        nodes, first = [Node("q", quant.quantize, ("x",), "q", {"qparams": grid})], "q"
    options = {"pad_width": widths[-len(shape) :], "value": 0.5}
    counts = (1, 2, 3, 1)[-len(shape) :]
    nodes += [
        Node("pad", md.pad, (first,), "pad", options),
        Node("tile", md.tile, ("pad", counts), "tile"),
    ]
    model = Model(
        Graph(
            {"x": md.TensorSpec(md.Float32Tensor, shape)},
            tuple(nodes),
            {},
            ("tile", "pad"),
        )
    )
    assert all(node.isa != "numpy" for node in model.plan().nodes)
    model.compile(tmp_path / "net.mdt")
    wanted = model.graph.run({"x": md.asarray(x)})
    for made in (model(x), load_plan(tmp_path / "net.mdt")(x)):
        for name, found in zip(("tile", "pad"), made, strict=True):
            assert type(found) is type(wanted[name])
            assert np.array_equal(found.buffer, wanted[name].buffer)
