"""pytest fails for a new hazard in a table of methods: `pytest --mdt-dispatch MODULE`.

The plugin is a module of its own because pytest loads plugins in every project. It
imports mdtensor only if you pass `--mdt-dispatch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

BASELINE = "mdt_baseline"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--mdt-dispatch`, `--mdt-baseline` and the setting `mdt_baseline`."""
    group = parser.getgroup("mdtensor", "tables of methods")
    group.addoption(
        "--mdt-dispatch",
        action="append",
        default=[],
        metavar="MODULE",
        help="check the functions of a package; one test for each function",
    )
    group.addoption(
        "--mdt-baseline",
        metavar="FILE",
        help="findings that are accepted, see `mdtensor dispatch baseline`",
    )
    parser.addini(BASELINE, "findings that are accepted, by --mdt-dispatch")


@pytest.hookimpl(tryfirst=True)  # so that -k and -m choose among them too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Append one test for each function, and one test for the baseline."""
    modules = config.getoption("--mdt-dispatch")
    if modules:
        found = Tables.from_parent(
            session, name="dispatch", nodeid="dispatch", modules=modules
        )
        items += found.collect()


class Tables(pytest.Collector):
    """A collector: one test for each function of some modules."""

    def __init__(self, *, modules: Sequence[str], **given: Any) -> None:
        super().__init__(**given)
        self.modules = modules
        self.file = _baseline(self.config)

    def collect(self) -> Iterator[pytest.Item]:
        """Check all functions at once, and yield one test for each function.

        Raises:
            UsageError: a module cannot be imported, or the baseline cannot be read.
        """
        from mdtensor.cli.dispatch.query import Request, check
        from mdtensor.errors import MdtensorError

        try:
            checked = check(Request(self.modules), self.file)
        except MdtensorError as error:
            raise pytest.UsageError(f"--mdt-dispatch: {error}") from None
        except OSError as error:
            raise pytest.UsageError(f"--mdt-baseline: {error}") from None
        failing = set(checked.report.at_least("warning"))
        new = [finding for finding in checked.new if finding in failing]
        names = {*checked.report.functions, *map(_name, new)}
        for name in sorted(names):
            texts = [str(finding) for finding in new if _name(finding) == name]
            yield self._verdict(name, texts, self._accept)
        if self.file:
            texts = [f"gone: {entry}" for entry in checked.stale]
            yield self._verdict("baseline", texts, self._prune)

    def _verdict(self, name: str, texts: Sequence[str], advice: str) -> pytest.Item:
        known = {"name": name, "nodeid": f"{self.nodeid}::{name}"}
        return Verdict.from_parent(self, **known, texts=texts, advice=advice)

    @property
    def _accept(self) -> str:
        file = self.file or "FILE"
        return f"Mend it, or accept it: {self._command('write', file)}"

    @property
    def _prune(self) -> str:
        return f"Forget what is mended: {self._command('prune', self.file)}"

    def _command(self, name: str, file: object) -> str:
        asked = " ".join(self.modules)
        return f"mdtensor dispatch baseline {name} {file} {asked}".strip()


class Verdict(pytest.Item):
    """A test that fails if there are findings, and passes otherwise."""

    def __init__(self, *, texts: Sequence[str], advice: str, **given: Any) -> None:
        super().__init__(**given)
        self.texts = texts
        self.advice = advice

    def runtest(self) -> None:
        """Fail with the texts of all findings and the advice, if there are any."""
        if self.texts:
            pytest.fail("\n\n".join([*self.texts, self.advice]), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the path and the title that pytest prints above a failure."""
        return self.path, None, f"dispatch: {self.name}"


def _name(finding: object) -> str:
    """Return the name of a finding's test: its function, or `classes` without one."""
    return str(finding.function) or "classes"


def _baseline(config: pytest.Config) -> Path | None:
    """Return the path of the baseline file, or None.

    The option is relative to the folder where pytest was started, the setting to the
    folder of the settings file.
    """
    given = config.getoption("--mdt-baseline")
    if given:
        return config.invocation_params.dir / given
    named = config.getini(BASELINE)
    return config.rootpath / named if named else None
