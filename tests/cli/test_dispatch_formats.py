"""How `mdtensor dispatch` tells programs what it found."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mdtensor import diagnose
from mdtensor.cli.dispatch import text
from mdtensor.cli.dispatch.formats import SHOWN
from mdtensor.cli.dispatch.query import Request, check

Call = Callable[..., Any]

#: OASIS' schema as Microsoft publishes it (npm: @microsoft/jest-sarif 1.0.0-beta.0),
#: 2.1.0-rtm.5, without its descriptions.
SCHEMA = Path(__file__).with_name("sarif-2.1.0.json")
HEAD = """
import plum

dispatch = plum.Dispatcher()
"""
TIE = """

@dispatch
def put{0}(a: bool, b: int): ...


@dispatch
def put{0}(a: int, b: bool): ...
"""
ANNOTATED = """

@dispatch
def get(a: int) -> int: ...
"""
COUNT = SHOWN + 2


@pytest.fixture
def stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with more ties than GitHub shows, and a baseline that has one."""
    folder = tmp_path / "some, folder"
    folder.mkdir()
    path = folder / "stall.py"
    ties = "".join(TIE.format(at) for at in range(COUNT))
    path.write_text(HEAD + ties + ANNOTATED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(folder)
    yield path
    sys.modules.pop("stall", None)


def told(call: Call, form: str, *options: str, code: int = 1) -> str:
    ended = call("dispatch", "check", "stall", "--format", form, *options)
    assert (ended.code, ended.err) == (code, "")
    return str(ended.out)


def accept_one(call: Call) -> tuple[str, str]:
    write = ("dispatch", "baseline", "write", "known.json", "stall")
    assert call(*write, "--function", "put3").code == 0
    return "--baseline", "known.json"


def test_json(call: Call, stall: Path) -> None:
    held = json.loads(told(call, "json", *accept_one(call)))
    report = check(Request(["stall"])).report
    assert held["schema"] == 1 and held["stale"] == []
    assert held["summary"] == {"MDT001": COUNT, "MDT010": 1} == report.summary
    assert (held["functions"], held["methods"]) == (COUNT + 1, 2 * COUNT + 1)
    first, found = held["findings"][0], report.findings[0]
    assert first["methods"][0]["file"] == "stall.py"
    assert first["fingerprint"] == found.fingerprint and first["fix"] == found.fix
    assert [f["function"] for f in held["findings"] if f["baselined"]] == ["stall.put3"]


def test_a_line_each(call: Call, stall: Path) -> None:
    lines = told(call, "jsonl").splitlines()
    whole = json.loads(told(call, "json"))["findings"]
    assert [json.loads(line) for line in lines] == whole


def test_nothing_is_no_line(call: Call, stall: Path) -> None:
    assert told(call, "jsonl", "--select", "MDT005", code=0) == ""


def test_sarif_keeps_to_its_schema(call: Call, stall: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft4Validator(json.loads(SCHEMA.read_text()))
    for options in ((), accept_one(call)):
        held = json.loads(told(call, "sarif", *options))
        assert list(validator.iter_errors(held)) == []
    empty = told(call, "sarif", "--select", "MDT005", code=0)
    assert list(validator.iter_errors(json.loads(empty))) == []
    held["runs"][0]["results"][0]["level"] = "info"
    assert list(validator.iter_errors(held)), "a validator that takes everything"


def test_sarif_points_at_the_lines(call: Call, stall: Path) -> None:
    (run,) = json.loads(told(call, "sarif", *accept_one(call)))["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == [rule.id for rule in diagnose.rules()]
    result = run["results"][0]
    assert ids[result["ruleIndex"]] == result["ruleId"] == "MDT001"
    lines = stall.read_text().splitlines()
    places = [*result["locations"], *result["relatedLocations"]]
    for place in places:
        physical = place["physicalLocation"]
        # A path is a URI, from the folder we stand in.
        assert physical["artifactLocation"]["uri"] == "some%2C%20folder/stall.py"
        assert lines[physical["region"]["startLine"] - 1] == "@dispatch"
    assert len(places) == 2
    states = [r["baselineState"] for r in run["results"]]
    assert states.count("unchanged") == 1 and states.count("new") == COUNT
    for found in run["results"]:
        assert bool(found["suppressions"]) == (found["baselineState"] == "unchanged")
    assert {r["level"] for r in run["results"]} == {"error", "note"}


def test_github_shows_the_first_and_counts_the_rest(call: Call, stall: Path) -> None:
    lines = told(call, "github", *accept_one(call)).splitlines()
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == SHOWN and "put3" not in "".join(errors)
    head, _, message = errors[0].removeprefix("::error ").partition("::")
    properties = dict(pair.split("=") for pair in head.split(","))
    assert properties["file"] == "some%2C folder/stall.py"
    assert properties["title"] == "MDT001 in put0"
    assert "%0A   = fix: @dispatch%0A" in message
    assert [line.partition(" ")[0] for line in lines[SHOWN:]] == ["::notice"] * 2
    counted = f"{COUNT - 1} errors, 1 info, 1 baselined"
    assert lines[-1].startswith("::notice title=mdtensor dispatch::")
    assert lines[-1].endswith(counted)


def test_markdown(call: Call, stall: Path) -> None:
    page = told(call, "md", *accept_one(call), "--output", "page.md")
    assert page == ""
    page = Path("page.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| MDT")]
    assert len(rows) == COUNT + 1
    assert sum("| error (baselined) |" in row for row in rows) == 1
    # A bar in a cell would begin another; those in types are escaped.
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
    assert page.count("```python\n@dispatch\ndef put") == COUNT - 1
    assert "\n\nomit the annotation\n" in page


def test_a_terminal_gets_colour_and_the_same_words(call: Call, stall: Path) -> None:
    checked = check(Request(["stall"], "put0"))
    wide = Console(width=200, force_terminal=True, color_system="standard")
    with wide.capture() as captured:
        text.show_checked(wide, checked)
    coloured = captured.get()
    assert "\x1b[1;31merror[MDT001]" in coloured
    plain = told(call, "text", "--function", "put0")
    assert "\x1b" not in plain
    assert text.plain(checked) + "\n" == plain
    stripped = coloured
    for part in coloured.split("\x1b[")[1:]:
        stripped = stripped.replace("\x1b[" + part.partition("m")[0] + "m", "")
    assert stripped == plain
