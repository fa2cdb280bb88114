"""`mdtensor dispatch`: what it finds, how it is told, how it ends."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mdtensor as md
from mdtensor import diagnose

Call = Callable[..., Any]

TIES = """
import plum

dispatch = plum.Dispatcher()
print("imported")


@dispatch
def put(a: bool, b: int): ...


@dispatch
def put(a: int, b: bool): ...


@dispatch
def get(a: int) -> int: ...
"""
MEET = """

@dispatch
def put(a: bool, b: bool): ...
"""
TOLD = """\
error[MDT001]: ambiguous call: put(bool, bool): 2 methods fit equally well
  --> put(a: bool, b: int)  shop.py:8
  --> put(a: int, b: bool)  shop.py:12
   | a: bool is narrower than int
   | b: int is wider than bool
   = for 1 of 25 type tuples, first (bool, bool); reachable: host
   = fix: @dispatch
          def put(a: bool, b: bool): ...
   = id 2170b859063b

info[MDT010]: return annotation: each result of get(a: int) is converted
  --> get(a: int)  shop.py:16
   = fix: omit the annotation
   = id 3f3e0b5a3a5b

2 functions, 3 methods, 5 types: 1 error, 1 info
"""
TIE = """\
MDT001 2170b859063b ambiguous call: put(bool, bool): 2 methods fit equally well
"""
CONVERTED = """\
MDT010 312f85a244f1 return annotation: each result of get(a: int) is converted
"""
ACCEPTED = f"""\
baselined: {TIE}baselined: {CONVERTED}
2 functions, 3 methods, 5 types: 2 baselined
"""
HALF_STALE = f"""\
baselined: {CONVERTED}stale in the baseline: {TIE}
2 functions, 4 methods, 5 types: 1 baselined, 1 stale in the baseline
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with a tie, in the folder we stand in; forgotten afterwards."""
    path = tmp_path / "shop.py"
    path.write_text(TIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    forget()


def forget() -> None:
    for name in ("shop", "pirate"):
        sys.modules.pop(name, None)


def rewrite(path: Path, text: str) -> None:
    """Another text, which the next command imports anew."""
    path.write_text(text)
    forget()
    for cached in path.parent.glob("__pycache__/*"):
        cached.unlink()


def dispatch(call: Call, *arguments: object) -> Any:
    return call("dispatch", *arguments)


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command puts the folder it stands in on the path of its process."""
    monkeypatch.setattr(sys, "path", [*sys.path])


# --- checking -------------------------------------------------------------------------


def test_what_is_found_is_told(call: Call, shop: Path) -> None:
    ended = dispatch(call, "check", "shop")
    report = diagnose.analyze([sys.modules["shop"].put, sys.modules["shop"].get])
    assert (ended.code, ended.err) == (1, "imported\n")
    shown = TOLD.replace("3f3e0b5a3a5b", report.of("MDT010")[0].fingerprint)
    assert ended.out == shown


def test_we_are_clean(call: Call) -> None:
    ended = dispatch(call, "check")
    assert ended.code == 0
    assert ended.out.endswith(": nothing found\n") and ended.out.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "code", "rules"),
    [
        ([], 1, {"MDT001", "MDT010"}),
        (["--select", "mdt001"], 1, {"MDT001"}),
        (["--select", "MDT001,MDT010", "--ignore", "MDT001"], 0, {"MDT010"}),
        (["--ignore", "MDT001"], 0, {"MDT010"}),
        (["--ignore", "MDT001", "--fail-on", "info"], 1, {"MDT010"}),
        (["--fail-on", "never"], 0, {"MDT001", "MDT010"}),
        (["--function", "g*"], 0, {"MDT010"}),
        (["--function", "shop.put"], 1, {"MDT001"}),
    ],
)
def test_what_counts(
    call: Call, shop: Path, options: list[str], code: int, rules: set[str]
) -> None:
    ended = dispatch(call, "check", "shop", "--format", "json", *options)
    assert ended.code == code
    assert {f["rule"] for f in json.loads(ended.out)["findings"]} == rules


SHADOWED = """
import abc

class Animal(abc.ABC):
    @abc.abstractmethod
    def speak(self): ...

class Dog(Animal):
    def speak(self): ...

@dispatch
def feed(a: Animal): ...

@dispatch
def feed(a: Dog): ...
"""
PIRATE = """
from shop import dispatch

@dispatch
def put(a: str): ...
"""


def test_one_rule(call: Call, shop: Path) -> None:
    def found(command: str, module: str = "shop") -> tuple[int, list[str]]:
        ended = dispatch(call, command, module, "--format", "jsonl")
        return ended.code, [json.loads(line)["rule"] for line in ended.out.splitlines()]

    assert [found(c) for c in ("dead", "overwrites", "piracy")] == [(0, [])] * 3
    rewrite(shop, TIES + SHADOWED)
    assert found("dead") == (1, ["MDT004"])
    rewrite(shop, TIES + "\n@dispatch\ndef get(a: int): ...\n")
    assert found("overwrites") == (1, ["MDT003"])
    rewrite(shop, TIES)
    shop.with_name("pirate.py").write_text(PIRATE)
    assert found("piracy", "pirate") == (1, ["MDT005"])


# --- outputs --------------------------------------------------------------------------


def test_no_output_replaces_what_was_read(call: Call, shop: Path) -> None:
    folder, source = shop.parent, shop
    dispatch(call, "baseline", "write", "known.json", "shop")
    before = {path: path.read_bytes() for path in folder.glob("*.*")}
    check = ("check", "shop", "--baseline", "known.json", "-o")
    for ended, words in (
        (dispatch(call, *check, "known.json"), "known.json is the baseline itself"),
        (dispatch(call, *check, source), "is the source of a module"),
        (dispatch(call, "overwrites", "shop", "-o", source), "the source of a module"),
        (dispatch(call, "baseline", "write", source, "shop"), "the source of a module"),
    ):
        assert ended.code == 2
        assert f"{words}, which would be lost. Choose another name." in ended.err
    assert {path: path.read_bytes() for path in folder.glob("*.*")} == before


def test_a_full_disk_keeps_the_old_files(
    call: Call, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch(call, "baseline", "write", "known.json", "shop")
    dispatch(call, "check", "shop", "-o", "found.txt")
    before = {path: path.read_bytes() for path in shop.parent.glob("*.*")}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    for arguments in (
        ("baseline", "write", "known.json", "shop", "--select", "MDT001"),
        ("baseline", "prune", "known.json", "shop"),
        ("check", "shop", "-o", "found.txt", "--format", "json"),
    ):
        ended = dispatch(call, *arguments)
        assert ended.code == 2
        assert "No space left on device. Free space, or" in ended.err
    assert {path: path.read_bytes() for path in shop.parent.glob("*.*")} == before


# --- baselines ------------------------------------------------------------------------


def test_the_life_of_a_baseline(call: Call, shop: Path) -> None:
    known = ("shop", "--baseline", "known.json")
    ended = dispatch(call, "baseline", "write", "known.json", "shop")
    assert (ended.code, ended.out) == (0, "known.json: 2 findings\n")
    accepted = Path("known.json").read_text()
    ended = dispatch(call, "check", *known)
    assert (ended.code, ended.out) == (0, ACCEPTED)
    assert dispatch(call, "baseline", "diff", "known.json", "shop")[:2] == (0, "")

    rewrite(shop, "\n\n# moved down\n" + TIES)
    assert dispatch(call, "check", *known, "--strict-baseline").code == 0

    rewrite(shop, TIES + MEET + "\n@dispatch\ndef get(a: int): ...\n")
    ended = dispatch(call, "baseline", "diff", "known.json", "shop")
    assert [line[:8] for line in ended.out.splitlines()] == [
        "+ MDT003",
        "- MDT001",
        "- MDT010",
    ]
    assert ended.code == 1
    ended = dispatch(call, "check", *known, "--strict-baseline")
    assert ended.code == 1 and "stale in the baseline: MDT001" in ended.out

    rewrite(shop, TIES + MEET)
    ended = dispatch(call, "check", *known)
    assert (ended.code, ended.out) == (0, HALF_STALE)
    assert dispatch(call, "check", *known, "--strict-baseline").code == 4
    narrow = (*known, "--strict-baseline", "--select", "MDT010")
    assert dispatch(call, "check", *narrow).code == 0, "it was not looked for"
    assert dispatch(call, "baseline", "diff", "known.json", "shop").code == 4
    assert Path("known.json").read_text() == accepted, "nothing but `prune` changes it"
    ended = dispatch(call, "baseline", "prune", "known.json", "shop")
    assert ended.out == "known.json: 1 finding, 1 pruned\n"
    assert dispatch(call, "check", *known, "--strict-baseline").code == 0

    rewrite(shop, TIES)
    assert dispatch(call, "check", *known).code == 1, "a tie that came back is new"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"schema"',
        '{"schema": 1}',
        '{"schema": 1, "findings": [{}]}',
        '{"schema": 1, "findings": 3}',
        '{"schema": 1, "findings": [{"rule": 1, "function": "", "message": ""}]}',
        "[" * 5000,
    ],
)
def test_a_corrupt_baseline(call: Call, shop: Path, text: str) -> None:
    Path("known.json").write_text(text)
    line = (
        "mdtensor: DataError: known.json is not a baseline, or is damaged. "
        "Write it again with `mdtensor dispatch baseline write`.\n"
    )
    for command in (
        ["check", "shop", "--baseline", "known.json"],
        ["baseline", "diff", "known.json", "shop"],
        ["baseline", "prune", "known.json", "shop"],
    ):
        assert dispatch(call, *command) == (2, "", line)
    assert Path("known.json").read_text() == text


def test_a_baseline_that_is_binary_or_newer(call: Call, shop: Path) -> None:
    Path("known.json").write_bytes(b"\xff\xfe\x00")
    ended = dispatch(call, "check", "shop", "--baseline", "known.json")
    assert ended.code == 2 and "known.json is not a baseline" in ended.err
    Path("known.json").write_text('{"schema": 2, "findings": []}')
    ended = dispatch(call, "check", "shop", "--baseline", "known.json")
    words = "known.json has schema 2. This version reads schema 1."
    assert ended.err == f"mdtensor: DataError: {words}\n"


# --- questions ------------------------------------------------------------------------


def test_questions_are_answered(call: Call, shop: Path) -> None:
    asked = ("put", "bool", "bool", "--import", "shop")
    ended = dispatch(call, "explain", *asked)
    assert (ended.code, ended.err) == (0, "imported\n")
    assert ended.out.startswith("put(bool, bool)\n  => 2 methods fit equally well\n")
    ended = dispatch(call, "suggest", *asked)
    suggested = diagnose.suggest(sys.modules["shop"].put, bool, bool)
    assert suggested.source.splitlines() == ["@dispatch", suggested.header]
    assert ended.out == f"{suggested}\n"
    first = "put(bool, bool): ambiguous. Define in shop\n  @dispatch\n  def put(a: bool"
    assert ended.out.startswith(first)
    ended = dispatch(call, "coverage", "put", "--import", "shop")
    assert ended.out.startswith("shop.put: 25 type tuples\n")
    ended = dispatch(call, "methods", "shop.put", "--import", "shop")
    assert ended.out.splitlines() == [
        "put(a: bool, b: int)  shop.py:8",
        "put(a: int, b: bool)  shop.py:12",
    ]


def test_what_is_told_is_what_diagnose_says(call: Call) -> None:
    def told(*arguments: object) -> Any:
        return json.loads(dispatch(call, *arguments, "--format", "json").out)

    names = ("Float32Tensor", "int")
    found = diagnose.explain(md.add, md.Float32Tensor, int)
    explained = told("explain", "add", *names)
    assert explained["reason"] == found.reason
    assert len(explained["rows"]) == len(found.rows)
    full = told("explain", "mdtensor.generics.arithmetic.add", *names)
    assert full == explained
    suggested = told("suggest", "neg", "BoolTensor")
    assert suggested["header"] == diagnose.suggest(md.neg, md.BoolTensor).header
    listed = [method["signature"] for method in told("methods", "neg")]
    assert listed == [method.signature for method in diagnose.methods(md.neg)]
    (covered,) = told("coverage", "neg")
    assert covered["total"] == diagnose.coverage(md.neg).total
    assert [rule["id"] for rule in told("rule")] == [r.id for r in diagnose.rules()]
    assert told("rule", "MDT001")["example"] == diagnose.rule("MDT001").example.strip()


def test_names_of_functions(call: Call, shop: Path) -> None:
    """With as much of the module as is needed; those of named modules come first."""

    def asked(*arguments: str) -> str:
        return str(dispatch(call, "methods", *arguments).out)

    shown = asked("linalg.solve")
    assert shown.startswith("solve(") and shown == asked("mdtensor.linalg.solve")
    rewrite(shop, TIES.replace("def get", "def add"))
    assert asked("add", "--import", "shop") == "add(a: int)  shop.py:16\n"
    assert asked("mdtensor.add", "--import", "shop") == asked("add")
    ended = dispatch(call, "check", "--function", "linalg.s*")
    solvers = [s for s in diagnose.analyze(md.linalg).functions if ".linalg.s" in s]
    assert ended.out.startswith(f"{len(solvers)} functions, ")


def test_without_a_command_there_is_help(call: Call) -> None:
    for group in ((), ("baseline",)):
        ended = dispatch(call, *group)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"Usage: mdtensor {' '.join(('dispatch', *group))}")


def test_methods_by_type(call: Call) -> None:
    exact = dispatch(call, "methods-with", "LogicalTensor", "--exact").out
    assert "logical_not(x: LogicalTensor)" in exact
    only = ("methods-with", "BoolTensor", "--function", "logical_not")
    assert dispatch(call, *only).out.startswith("logical_not(x: LogicalTensor)  ")
    assert dispatch(call, *only, "--exact").out.strip() == ""


def test_rules_explain_themselves(call: Call) -> None:
    lines = dispatch(call, "rule").out.splitlines()
    assert [line.split()[0] for line in lines] == [r.id for r in diagnose.rules()]
    assert dispatch(call, "rule", "mdt001").out == f"{diagnose.rule('MDT001')}\n"


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["explain", "sofmax", "int"],
            2,
            "OptionError: no function is called sofmax. The closest are softmax",
        ),
        (
            ["explain", "add", "Float23Tensor"],
            2,
            "OptionError: no type is called Float23Tensor. The closest are Float32",
        ),
        (["methods-with", "Nope"], 2, "OptionError: no type is called Nope. "),
        (["coverage", "zzz"], 2, "no function is called zzz. Write its full name, and"),
        (["check", "--function", "ad"], 2, "no function is called ad. The closest"),
        (["check", "--select", "MDT999"], 2, "OptionError: no rule MDT999. There are"),
        (["rule", "MDT999"], 2, "OptionError: no rule 'MDT999'. There are MDT001"),
        (["check", "--format", "xml"], 2, "--format xml. Use text, json, jsonl"),
        (["methods", "add", "--format", "md"], 2, "--format md. Use text, json."),
        (["check", "--fail-on", "all"], 2, "--fail-on all. Use error, warning"),
        (
            ["check", "-o", "gone/out.json"],
            2,
            "gone/out.json cannot be written: No such file",
        ),
        (["check", "--baseline", "gone.json"], 2, "gone.json: No such file or dir"),
        (["baseline", "write", "."], 2, ". cannot be written: it is a folder."),
        (["check", "nowhere"], 3, "nowhere cannot be imported: ModuleNotFoundError"),
        (["check", "json"], 2, "no functions to check in json. Pass a package that"),
        (["explain"], 2, "missing argument 'FUNCTION'. See `mdtensor dispatch expl"),
        (["nope"], 2, "no such command 'nope'. See `mdtensor dispatch --help`."),
    ],
)
def test_one_clear_line(
    call: Call, shop: Path, arguments: list[str], code: int, line: str
) -> None:
    ended = dispatch(call, *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("mdtensor: ") and line in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('no such\\nthing')", "ValueError: no such (shop.py:1)."),
        ("x = = 1", "SyntaxError: invalid syntax (shop.py, line 1)."),
        ("import sys\nsys.exit(0)", "SystemExit: 0 (shop.py:2)."),
        ("import nowhere", "No module named 'nowhere' (shop.py:1)."),
    ],
)
def test_a_module_that_fails(call: Call, shop: Path, source: str, words: str) -> None:
    rewrite(shop, source)
    ended = dispatch(call, "check", "shop")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("mdtensor: ModuleError: shop cannot be imported: ")
    assert words in ended.err and ended.err.count("\n") == 1


# --- the process ----------------------------------------------------------------------


def test_the_module_is_the_command(shop: Path) -> None:
    """In a process of its own; at every width the same, and the report alone."""
    outs = []
    for columns in ("20", "200"):
        done = subprocess.run(
            [sys.executable, "-m", "mdtensor.diagnose", "check", "shop"],
            capture_output=True,
            text=True,
            timeout=120,
            env={"COLUMNS": columns, "PATH": ""},
        )
        assert (done.returncode, done.stderr) == (1, "imported\n")
        outs.append(done.stdout)
    assert outs[0] == outs[1]
    assert outs[0].startswith("error[MDT001]: ") and "\x1b" not in outs[0]
