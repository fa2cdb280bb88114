"""`mdtensor compare --html`: a page about a network, which needs nothing else."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.planted import chain, images, outlier_channel

from mdtensor import quant
from mdtensor.cli.networks.drawing import DOWN, HIGH, WIDE, curve, draw
from mdtensor.cli.networks.facts import POOR, rows_of
from mdtensor.cli.networks.page import page

Call = Callable[..., Any]
VOID = {"meta", "col"}


class Reader(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture
def networks() -> dict[str, quant.Model]:
    model = chain(1, outlier_channel)
    return {"float": model, "int8": model.quantize(model.calibrate(images(4, 1)))}


def made(networks: dict[str, quant.Model], title: str = "net") -> str:
    given = images(3, 2)
    profiles = {n: m.profile(given[0], repeat=1) for n, m in networks.items()}
    return page(title, networks, profiles, quant.compare(*networks.values(), given))


def test_a_command_writes_it(
    call: Call, networks: dict[str, quant.Model], tmp_path: Path
) -> None:
    names = {"float": tmp_path / "net.onnx", "int8": tmp_path / "small.onnx"}
    for name, model in networks.items():
        model.save(names[name])
    np.save(tmp_path / "fresh.npy", np.concatenate(images(3, 2)))
    command = ["compare", *names.values(), "--data", tmp_path / "fresh.npy", "--html"]
    ended = call(*command, tmp_path / "net.html")
    assert (ended.code, ended.err) == (0, "")
    assert "<title>small.onnx</title>" in (tmp_path / "net.html").read_text()
    ended = call(*command, names["int8"])
    assert ended.code == 2 and "is the quantized model" in ended.err


def test_it_is_whole_and_alone(networks: dict[str, quant.Model]) -> None:
    reader = Reader()
    reader.feed(made(networks))
    assert reader.open == []
    places = {attrs["id"] for _, attrs in reader.tags if "id" in attrs}
    links = {attrs["href"] for tag, attrs in reader.tags if tag == "a"}
    assert links and all(link and link[1:] in places for link in links)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in reader.tags}
    assert "url(" not in made(networks) and "http" not in made(networks)


def test_each_node_has_a_row_and_a_box(networks: dict[str, quant.Model]) -> None:
    text = made(networks)
    count = len(networks["int8"].plan().nodes)
    assert len(re.findall(r'<tr id="n\d+"', text)) == count
    assert len(re.findall(r"<rect ", text)) == count
    # The planted layer is marked in the graph, in the curve, and in the table.
    found = quant.compare(*networks.values(), images(3, 2))
    poor = [one.node for one in found.nodes if one.local < POOR]
    assert "conv2" in poor
    assert len(re.findall(r'<tr id="n\d+" class="poor"', text)) == len(poor)
    assert "channel 3 is" in text


def test_names_are_escaped(networks: dict[str, quant.Model]) -> None:
    model = networks["float"]
    nodes = tuple(replace(node, name=f"<i>&{node.name}") for node in model.graph.nodes)
    strange = quant.Model(replace(model.graph, nodes=nodes))
    small = strange.quantize(strange.calibrate(images(4, 1)))
    text = made({"float": strange, "int8": small}, "a<b>&c")
    assert "<i>&" not in text and "a&lt;b&gt;&amp;c" in text
    assert "&lt;i&gt;&amp;conv2" in text


def test_boxes_do_not_overlap_and_lines_lead_down(
    networks: dict[str, quant.Model],
) -> None:
    small = networks["int8"]
    given = images(1, 2)
    found = quant.compare(*networks.values(), given)
    rows = rows_of(small, small.profile(given[0], repeat=1), found)
    drawn = draw(rows)
    corners = [(box.x, box.y) for box in drawn.boxes]
    assert len(set(corners)) == len(rows)
    for box in drawn.boxes:
        assert 0 <= box.x <= drawn.width - WIDE and box.y + HIGH <= drawn.height
        for i in box.row.reads:
            assert drawn.boxes[i].y + DOWN <= box.y
    assert len(drawn.lines) == sum(len(row.reads) for row in rows)


def test_a_curve_has_gaps_where_there_is_no_error() -> None:
    path = curve([10.0, None, 20.0, 200.0], 80.0)
    assert re.sub(r"[\d.,]+", "", path) == "M M L"
    # Beyond the plot a value is at its edge.
    assert path.endswith(",10.0")
