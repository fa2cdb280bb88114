"""Public packages that use plum: what was found there is plum's own behaviour."""

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import plum
import pytest

from mdtensor import diagnose
from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.report import study_of
from mdtensor.diagnose.source import functions_of, sources

GENERATE = Path(__file__).parents[2] / "docs" / "generate"


def script(name: str) -> Any:
    """Import a script of docs/generate, which imports its neighbours by name."""
    sys.path.insert(0, str(GENERATE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(GENERATE))


confirm, strangers = script("confirm"), script("strangers")
RESULTS = strangers.read()["packages"]
#: MDT012 is about promises, and strangers make none to us.
RULES = [rule for rule in diagnose.rules() if rule.id != "MDT012"]


def test_the_page_has_the_results() -> None:
    text = strangers.PAGE.read_text()
    assert strangers.page(text, strangers.read()) == text, (
        "run python docs/generate/strangers.py"
    )


def test_ten_packages_end_and_every_finding_is_confirmed() -> None:
    checked = [row for row in RESULTS if "problem" not in row]
    assert len(checked) >= 10
    for row in checked:
        assert row["seconds"] < strangers.LIMIT
    doubtful = [row["package"] for row in checked if row["unconfirmed"]]
    # The page lists its four findings; three of them are mended since.
    assert doubtful in ([], ["coordinax"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_plum_confirms_the_example_of_a_rule(
    rule: diagnose.Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest reproduction of each kind; repaired, nothing is left to confirm."""
    if rule.id == "MDT005":
        pytest.skip("its packages are not installed; see the test of distributions")
    for text, is_bad in ((rule.example, True), (rule.repaired, False)):
        module = types.ModuleType("stranger")
        monkeypatch.setitem(sys.modules, "stranger", module)
        exec(compile(text, "stranger.py", "exec", dont_inherit=True), vars(module))
        calls = functions_of(["stranger"])
        found = diagnose.analyze(calls).of(rule.id)
        assert bool(found) == is_bad
        universe = study_of(calls).universe
        assert confirm.unconfirmed(found, sources(calls), universe) == []


def test_a_pirate_is_confirmed_by_the_files_of_distributions() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def show(x: int): ...

    def extra(x: float): ...

    extra.__module__ = "numpy.pirates"
    show.register(extra)
    (found,) = diagnose.analyze(show).of("MDT005")
    universe = study_of(show).universe
    assert confirm.unconfirmed([found], sources(show), universe) == []


def test_what_plum_does_not_do_is_not_confirmed() -> None:
    """A check that confirms everything would confirm nothing."""
    dispatch = plum.Dispatcher()

    @dispatch
    def pick(a: int, b: object): ...
    @dispatch
    def pick(a: float, b: object): ...

    (source,) = sources(pick)
    infos = tuple(map(MethodInfo.of, source.methods))
    universe = study_of(pick).universe
    for rule, methods in {
        "MDT001": infos,
        "MDT003": infos,
        "MDT004": infos[:1],
        "MDT005": infos[:1],
        "MDT006": infos[:1],
        "MDT007": infos,
        "MDT008": (),
        "MDT009": infos[:1],
        "MDT010": infos[:1],
        "MDT011": infos,
        "MDT014": infos,
    }.items():
        text = "2 classes are called no.Such"
        false = Finding(
            rule, "error", source.name, text, methods, witness=("int", "int")
        )
        assert confirm.unconfirmed([false], [source], universe) == [false], rule
