"""Patches: applied by git and by patch, and then the finding is gone."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mdtensor.cli import execute
from mdtensor.diagnose import analyze
from mdtensor.diagnose.patches import Edit, apply, diff, edits

HEAD = '''"""A stall."""

import plum

dispatch = plum.Dispatcher()
'''
CASES = {
    "tie": """

@dispatch
def put(a: bool, b: int, *, cold=False, **rest): ...


@dispatch(precedence=0)
def put(a: int, b: bool, *, cold=False, **rest): ...
""",
    "names that come later": """from __future__ import annotations

import plum

dispatch = plum.Dispatcher()


@dispatch
def put(a: Apple, b: Fruit): ...


@dispatch
def put(a: Fruit, b: Apple): ...


class Fruit: ...


class Apple(Fruit): ...
""",
    "in a class": """

class Shop:
    @dispatch
    def put(self, a: bool, b: int): ...

    @dispatch
    def put(self, a: int, b: bool): ...

    name = "shop"
""",
    "in a registry": """

RULES = {}


def rule(name):
    def add(f):
        RULES.setdefault(name, plum.Function(f)).register(f)
        return f

    return add


@rule("put")
def _(a: bool, b: int): ...


@rule("put")
def _(a: int, b: bool): ...
""",
    "with an import": """
from decimal import Decimal as D
import numbers


@dispatch
def put(a: D, b: object): ...


@dispatch
def put(a: object, b: numbers.Real): ...


@dispatch
def put(a: numbers.Complex, b: D): ...
""",
    "replaced": """

@dispatch
def put(a: bool):
    return 1


@dispatch
def put(a: bool):
    return 2
""",
}
APPLIERS = {
    "git": ["git", "apply", "fix.diff"],
    "patch": ["patch", "-p1", "-i", "fix.diff"],
}


def text_of(case: str) -> str:
    text = CASES[case]
    return text if text.startswith("from __") else HEAD + text


@pytest.fixture
def write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[bytes], Path]]:
    """Return a function that writes the module `stall` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # A bytecode file of the same second would hide a changed source.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def file(content: bytes) -> Path:
        sys.modules.pop("stall", None)
        importlib.invalidate_caches()
        path = tmp_path / "stall.py"
        path.write_bytes(content)
        return path

    yield file
    sys.modules.pop("stall", None)


def hazards(*options: str) -> list[str]:
    """Check `stall` as it is now, and return the rules of its findings."""
    sys.modules.pop("stall", None)
    rules = ["--select", "MDT001,MDT003,MDT009"]
    output = ["--format", "json", "-o", "found.json"]
    assert execute(["dispatch", "check", "stall", *rules, *output, *options]) in (0, 1)
    return [f["rule"] for f in json.loads(Path("found.json").read_text())["findings"]]


@pytest.mark.long
@pytest.mark.parametrize("tool", APPLIERS)
@pytest.mark.parametrize("case", CASES)
def test_a_finding_is_gone(
    case: str,
    tool: str,
    write: Callable[[bytes], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    path = write(text_of(case).encode())
    before = hazards("--write", "fix.diff")
    assert before, case
    many = "finding" if len(before) == 1 else "findings"
    counted = f"mends {len(before)} of {len(before)} new {many}"
    assert capsys.readouterr().err == f"fix.diff: {counted}\n"
    assert path.read_text() == text_of(case), "the check changes no source"
    done = subprocess.run(APPLIERS[tool], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert hazards() == []


def test_a_new_method_raises(write: Callable[[bytes], Path]) -> None:
    """The call fails as before, but with a text that says what to do."""
    path = write(text_of("tie").encode())
    (finding,) = analyze(importlib.import_module("stall")).of("MDT001")
    path.write_text(apply(path.read_text(), edits(finding)))
    sys.modules.pop("stall")
    with pytest.raises(NotImplementedError, match="write the method"):
        importlib.import_module("stall").put(True, False, cold=1, other=2)


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        str.rstrip,
        lambda text: f"\ufeff{text}",
        lambda text: text.replace("A stall", "\x0cÜ 🙂"),
    ],
    ids=["crlf", "no last newline", "byte order mark", "form feed"],
)
@pytest.mark.parametrize("case", ["tie", "replaced"])
def test_bytes_of_the_file_stay(
    case: str, change: Callable[[str], str], write: Callable[[bytes], Path]
) -> None:
    content = change(text_of(case)).encode()
    path = write(content)
    assert hazards("--write", "fix.diff")
    # git repairs line ends on request only; `patch` always does.
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    assert hazards() == []
    ends = path.read_bytes().count(b"\n")
    assert path.read_bytes().count(b"\r\n") == (ends if b"\r\n" in content else 0)


def test_sarif_has_the_same_edits(
    write: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = Path(__file__).parents[1] / "cli" / "sarif-2.1.0.json"
    validator = jsonschema.Draft4Validator(json.loads(schema.read_text()))
    for case in CASES:
        path = write(text_of(case).encode())
        capsys.readouterr()
        execute(["dispatch", "check", "stall", "--format", "sarif"])
        log = json.loads(capsys.readouterr().out)
        assert list(validator.iter_errors(log)) == []
        fixes = [f for r in log["runs"][0]["results"] for f in r.get("fixes", ())]
        assert fixes, case
        path.write_text(apply(path.read_text(), read_edits(fixes)))
        assert hazards() == [], case


def read_edits(fixes: list[Any]) -> Iterator[Edit]:
    """Read the replacements as an editor does that knows SARIF only."""
    for change in (change for fix in fixes for change in fix["artifactChanges"]):
        assert change["artifactLocation"] == {"uri": "stall.py", "uriBaseId": "SRCROOT"}
        for new in change["replacements"]:
            region = new["deletedRegion"]
            start = region["startLine"], region["startColumn"]
            end = region["endLine"], region["endColumn"]
            text = new.get("insertedContent", {"text": ""})["text"]
            yield Edit(Path("stall.py"), start, end, text)


def test_an_accepted_finding_is_not_patched(write: Callable[[bytes], Path]) -> None:
    write(text_of("tie").encode())
    assert execute(["dispatch", "baseline", "write", "known.json", "stall"]) == 0
    assert hazards("--baseline", "known.json", "--write", "fix.diff") == ["MDT001"]
    assert Path("fix.diff").read_bytes() == b""


@pytest.mark.parametrize("name", ["stall.py", "known.json", "found.json"])
def test_no_input_or_report_is_overwritten(
    name: str, write: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(text_of("tie").encode())
    execute(["dispatch", "baseline", "write", "known.json", "stall"])
    options = ["--baseline", "known.json", "-o", "found.json", "--write", name]
    Path("found.json").write_text("")
    before = path.read_bytes(), Path("known.json").read_bytes()
    assert execute(["dispatch", "check", "stall", *options]) == 2
    assert "would be lost" in capsys.readouterr().err
    assert (path.read_bytes(), Path("known.json").read_bytes()) == before


UNSAFE = {
    "defaults": "@dispatch\ndef put(a: int, b: int = 1): ...\n"
    "@dispatch\ndef put(a: int, b: int): ...\n",
    "a loop": "for at in range(2):\n    @dispatch\n    def put(a: int): ...\n",
    "two decorators": "@dispatch\n@dispatch\ndef put(a: int): ...\n"
    "@dispatch\ndef put(a: int): ...\n",
    "a function": "def add():\n    @dispatch\n    def put(a: bool, b: int): ...\n"
    "    @dispatch\n    def put(a: int, b: bool): ...\nadd()\n",
}


@pytest.mark.parametrize("case", UNSAFE)
def test_an_unsafe_edit_is_not_made(case: str, write: Callable[[bytes], Path]) -> None:
    write(f"{HEAD}\n{UNSAFE[case]}".encode())
    assert hazards("--write", "fix.diff")
    assert Path("fix.diff").read_bytes() == b""


def test_a_file_without_lines_is_not_patched(write: Callable[[bytes], Path]) -> None:
    path = write(text_of("tie").encode())
    (finding,) = analyze(importlib.import_module("stall")).of("MDT001")
    assert edits(finding)
    path.write_text("def (")
    assert edits(finding) == ()
    path.unlink()
    assert edits(finding) == ()


def test_a_diff_marks_a_missing_line_end() -> None:
    edit = Edit(Path("x"), (1, 2), (1, 2), "\nb")
    assert diff("x", "a", [edit]).splitlines()[3:] == [
        "-a",
        "\\ No newline at end of file",
        "+a",
        "+b",
        "\\ No newline at end of file",
    ]
