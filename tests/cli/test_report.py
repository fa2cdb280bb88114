"""How results look: plain in a pipe at any width, to the width of a terminal."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdtensor.graph.plan import COLUMNS

Call = Callable[..., Any]
STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


def run_plan(call: Call, classifier: tuple[Path, Path]) -> str:
    ended = call("run", *classifier, "--plan")
    assert ended.code == 0
    out: str = ended.out
    return out


def test_a_pipe_is_plain_at_any_width(
    call: Call, classifier: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for columns in ("20", "80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        text = run_plan(call, classifier) + call("info").out + call("run", "-h").out
        assert "\x1b" not in text
        assert all(line == line.rstrip() for line in text.splitlines())
        seen.add(re.sub(r"time .* ms", "", text.partition("Usage")[0]))
    assert len(seen) == 1
    (row,) = (line for line in text.splitlines() if line.startswith("Conv@0 "))
    assert row.split()[1] == "conv2d" and "  QUInt8, QInt8, QInt32  " in row


@pytest.mark.parametrize("columns", [80, 160])
def test_a_plan_fits_a_terminal(
    call: Call,
    classifier: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    lines = [STYLE.sub("", s) for s in run_plan(call, classifier).splitlines()]
    assert max(map(len, lines)) <= columns
    start = next(i for i, line in enumerate(lines) if line.startswith("node "))
    heads = lines[start].split()
    wide = ["types", "result", "MACs"]
    assert heads == ["node", "operation", "kernel", "ISA"] + wide * (columns > 80)
    stop = next(i for i, line in enumerate(lines) if " nodes: " in line)
    assert lines[stop].startswith(f"{stop - start - 1} nodes: ")  # a line for each
    assert "float, since probabilities stay float: " in lines[stop + 1]
    left = " ".join(lines[stop + 2 :]).split(": ")[-1]
    assert left.split("; ")[0].split(", ") == [*COLUMNS[len(heads) :]]


def test_no_color(
    call: Call, monkeypatch: pytest.MonkeyPatch, classifier: tuple[Path, Path]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(run_plan(call, classifier) + call("info").out)


def test_names_are_not_taken_for_markup(call: Call) -> None:
    from mdtensor.cli import report

    output = {
        "shape": [1],
        "dtype": "float32",
        "range": [0.0, 0.0],
        "not_finite": 0,
        "first": [0.0],
        "argmax": None,
        "top": None,
    }
    node = {
        "node": "[/bold]:smile:",
        "operation": "[red]",
        "kernel": "k",
        "isa": "generic",
        "signature": "f(Int8Tensor)",
        "arithmetic": "float",
        "why": "[x]",
        "macs": 0,
        "bits": 0.0,
        "within": "",
        "shape": (1,),
    }
    facts = {"outputs": {"[/a][b]": output}, "seconds": 1.0, "plan": [node]}
    text = report.text_of(report.show_run, facts)
    for name in ("[/a][b]", "[/bold]:smile:", "[red]", "since [x]"):
        assert name in text
