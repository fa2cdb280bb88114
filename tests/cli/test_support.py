"""`mdtensor support` in words, Markdown and JSON; and the page that it writes."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

import mdtensor as md
from mdtensor.cli import host as view

Call = Callable[..., Any]
DOCS = Path(__file__).parents[2] / "docs"


def test_a_family_in_words(call: Call) -> None:
    ended = call("support", "*equal*", "--device=cpu")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "cpu",
        "                 bool  int   uint  float  complex  quantized",
        "comparison",
        "  equal          ●     ●●●●  ●●●●  ●●●●   ●●       ●●●●●●●●",
        "  greater_equal  ●     ●●●●  ●●●●  ●●●●   ··       ●●●●●●●●",
        "  less_equal     ●     ●●●●  ●●●●  ●●●●   ··       ●●●●●●●●",
        "  not_equal      ●     ●●●●  ●●●●  ●●●●   ●●       ●●●●●●●●",
        "",
        "●     88  runs",
        "·      4  refused: no meaning for the type, or no exact one",
        "int: int8 int16 int32 int64",
        "uint: uint8 uint16 uint32 uint64",
        "float: float16 bfloat16 float32 float64",
        "complex: complex64 complex128",
        "quantized: qint4 quint4 qint8 quint8 qint16 qint32 qfloat8_e4m3 qfloat8_e5m2",
    ]


def test_one_operation_says_why(call: Call) -> None:
    lines = call("support", "exp", "--device=cpu").out.splitlines()
    ours = "qint32 qfloat8_e4m3 qfloat8_e5m2"
    problem = "exp(T): no method: x is T, not FloatingTensor | ComplexTensor."
    assert lines[-4:] == [
        f"bool int8 int16 uint8 uint16: {problem} Use astype(x, float32).",
        f"int32 uint32: {problem} Use astype(x, float64).",
        f"int64 uint64: {problem} Use astype(x, float32), lossy beyond 2**24.",
        f"{ours}: {problem} Use dequantize(x).",
    ]
    assert "◐      5  runs with out=, the grid of the result" in lines


def test_a_missing_device(call: Call) -> None:
    lines = call("support", "exp").out.splitlines()
    missing = f"cuda:0: {md.cuda.missing}"
    assert f"{missing}; 11 cells would run there" in lines
    alone = call("support", "exp", "--device", "cuda:0").out.splitlines()
    assert "  exp  ·     ····  ····  ○○○○   ○○       ○○○○○·" in alone
    floats = "float16 bfloat16 float32 float64 complex64 complex128"
    assert f"{floats} qint4 quint4 qint8 quint8 qint16: {missing}" in alone


def test_the_whole_table_fits_80_columns_of_a_terminal() -> None:
    facts = view.describe_support("*", None, [])
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as captured:
        view.show_support(console, facts)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines), "something was cut"
    rows = [line for line in lines if line.startswith("  ") and "bool" not in line]
    assert len(rows) == len(facts["operations"])


def test_json_has_every_cell(call: Call) -> None:
    import json

    facts = json.loads(call("support", "add", "--json").out)
    assert facts["devices"] == {"cpu": "", "cuda:0": md.cuda.missing}
    (row,) = facts["operations"]
    assert (row["name"], row["family"]) == ("add", "arithmetic")
    said = {(c.device.name, c.dtype.name): c.state for c in md.support("add")}
    assert said == {
        (device, name): state
        for device, states in row["states"].items()
        for name, state in states.items()
    }
    assert set(row["why"]["cpu"]) == {"bool", "qfloat8_e4m3", "qfloat8_e5m2"}


def test_markdown(call: Call) -> None:
    lines = call("support", "erf", "--markdown").out.splitlines()
    assert lines == [
        "# cpu",
        "",
        "## math",
        "",
        "| operation | bool | int | uint | float | complex | quantized |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| `erf` | · | ···· | ···· | ●●●● | ·· | ◐◐◐◐···· |",
    ]


def test_what_is_not_there(call: Call) -> None:
    ended = call("support", "sinn")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "mdtensor: OptionError: no operation matches 'sinn'. "
        "Closest are sin, sinh, sign.\n"
    )


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = DOCS / "generate" / "support.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert generator.page(text) == text, "run python docs/generate/support.py"


def test_a_stale_page_is_found(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    stale = text.replace("| `add` | · |", "| `add` | ● |", 1)
    assert generator.page(stale) == text != stale
