"""`pytest --mdt-dispatch`: in a pytest of its own, inside of this one.

That one forgets what modules it imported, so those of mdtensor must be there before.
"""

import json
import sys
import tomllib
from pathlib import Path

import pytest

import mdtensor.cli.commands
import mdtensor.cli.dispatch.commands
import mdtensor.diagnose
import mdtensor.quant  # noqa: F401
from mdtensor.cli import execute

ROOT = Path(__file__).resolve().parents[2]
pytest_plugins = ["pytester"]

SHOP = """
import plum
dispatch = plum.Dispatcher()

@dispatch
def put(a: bool, b: int): ...
@dispatch
def put(a: int, b: bool): ...
@dispatch
def take(a: int): ...
"""
MENDED = f"{SHOP}\n@dispatch\ndef put(a: bool, b: bool): ...\n"
OTHER = "def test_other(): pass\n"


@pytest.fixture
def shop(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.syspathinsert()
    pytester.makepyfile(shop=SHOP)
    return pytester


OPTIONS = ("-p", "pytest_mdtensor", "-p", "no:cacheprovider")


def run(at: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return at.runpytest_inprocess(*OPTIONS, *arguments)


def baseline(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "shop", raising=False)
        assert execute(["dispatch", "baseline", command, "known.json", "shop"]) == 0
        sys.modules.pop("shop", None)


def test_a_new_ambiguity_fails_with_what_mends_it(shop: pytest.Pytester) -> None:
    done = run(shop, "--mdt-dispatch", "shop", "-v")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            "dispatch::shop.put FAILED*",
            "dispatch::shop.take PASSED*",
            "error?MDT001?: *",
            "*def put(a: bool, b: bool): ...",
            "Mend it, or accept it: mdtensor dispatch baseline write FILE shop",
        ]
    )
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_an_accepted_one_passes_on_any_line(
    shop: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline("write", monkeypatch)
    shop.makepyfile(shop=f"# another line\n\n{SHOP}")
    shop.makeini("[pytest]\nmdt_baseline = known.json\n")
    run(shop, "--mdt-dispatch", "shop").assert_outcomes(passed=3)


def test_a_mended_one_must_be_forgotten(
    shop: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline("write", monkeypatch)
    shop.makepyfile(shop=MENDED)
    named = "--mdt-dispatch", "shop", "--mdt-baseline", "known.json"
    done = run(shop, *named)
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["gone: MDT001 *", "*baseline prune *known.json shop"])
    baseline("prune", monkeypatch)
    assert json.loads((shop.path / "known.json").read_text())["findings"] == []
    run(shop, *named).assert_outcomes(passed=3)


def test_they_are_chosen_by_name_and_come_last(shop: pytest.Pytester) -> None:
    shop.makepyfile(test_other=OTHER)
    done = run(shop, "--mdt-dispatch", "shop", "-k", "take or other", "-v")
    done.assert_outcomes(passed=2, deselected=1)
    done.stdout.fnmatch_lines(["*test_other PASSED*", "*shop.take PASSED*"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nowhere",), "*--mdt-dispatch: nowhere cannot be imported: *"),
        (("shop", "--mdt-baseline", "none.json"), "*--mdt-baseline: *none.json*"),
        (("shop", "--mdt-baseline", "shop.py"), "*shop.py is not a baseline*"),
    ],
)
def test_what_cannot_be_looked_at(
    shop: pytest.Pytester, arguments: tuple[str, ...], line: str
) -> None:
    done = run(shop, "--mdt-dispatch", *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([line])


TWINS = """
import plum
dispatch = plum.Dispatcher()

def made():
    class Meter: ...
    return Meter

First, Second = made(), made()

@dispatch
def length(x: First): ...
@dispatch
def length(x: Second): ...
"""


def test_what_concerns_no_function_has_a_name(shop: pytest.Pytester) -> None:
    shop.makepyfile(shop=TWINS)
    done = run(shop, "--mdt-dispatch", "shop", "-v")
    done.stdout.fnmatch_lines(["dispatch::classes FAILED*", "*fix: *__qualname__"])
    done.assert_outcomes(passed=1, failed=1)


def test_nothing_is_imported_unless_it_is_asked_for(shop: pytest.Pytester) -> None:
    shop.makepyfile(
        test_other="import sys\ndef test(): assert 'mdtensor' not in sys.modules\n"
    )
    shop.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=1)


@pytest.mark.long
def test_in_a_process_of_its_own(shop: pytest.Pytester) -> None:
    done = shop.runpytest_subprocess(*OPTIONS, "--mdt-dispatch", "shop")
    done.assert_outcomes(passed=1, failed=1)


def test_pytest_finds_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    points = project["project"]["entry-points"]["pytest11"]
    assert points == {"pytest_mdtensor": "pytest_mdtensor"}
    setuptools = project["tool"]["setuptools"]
    assert "pytest_mdtensor" in setuptools["packages"]
    folder = ROOT / setuptools["package-dir"]["pytest_mdtensor"]
    assert (folder / "__init__.py").is_file()
