"""`check` and its like: which findings there are, and which of them count."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mdtensor.cli.dispatch.query import chosen, functions, is_called
from mdtensor.diagnose import Finding, Report, analyze
from mdtensor.diagnose.baseline import Baseline, Entry
from mdtensor.diagnose.finding import LEVELS
from mdtensor.errors import OptionError

NEVER = "never"
CLEAN, FOUND, STALE = 0, 1, 4


@dataclass(frozen=True)
class Asked:
    """What a user wants checked.

    Args:
        modules: to import, and whose functions are meant; all operations without any.
        pattern: of the names of functions.
        select, ignore: ids of rules.
    """

    modules: Sequence[str] = ()
    pattern: str = "*"
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def concerns(self, entry: Entry) -> bool:
        """Whether what a baseline accepts is among what is asked for."""
        called = is_called(entry.function, self.pattern)
        return called and entry.rule in chosen(self.select, self.ignore)


@dataclass(frozen=True)
class Checked:
    """What was found, beside what is accepted.

    Args:
        report: all that was found.
        findings: those that were asked for.
        known: the fingerprints of those that the baseline accepts.
        stale: what the baseline accepts, and is not there.
    """

    report: Report
    findings: tuple[Finding, ...]
    known: frozenset[str] = frozenset()
    stale: tuple[Entry, ...] = ()

    @property
    def new(self) -> tuple[Finding, ...]:
        """The findings that nobody has accepted."""
        return tuple(f for f in self.findings if f.fingerprint not in self.known)

    @property
    def old(self) -> tuple[Finding, ...]:
        """The findings that the baseline accepts."""
        return tuple(f for f in self.findings if f.fingerprint in self.known)

    def code(self, fail_on: str, strict: bool) -> int:
        """The exit code: 1 for new findings, 4 for a stale baseline if `strict`."""
        failing = () if fail_on == NEVER else LEVELS[: LEVELS.index(fail_on) + 1]
        if any(f.level in failing for f in self.new):
            return FOUND
        return STALE if strict and self.stale else CLEAN


def check(asked: Asked, baseline: Path | None = None) -> Checked:
    """Look at what is asked for.

    Raises:
        OptionError: there is no such rule or function.
        ModuleError: a module cannot be imported.
        DataError: the file is no baseline.
        OSError: the file cannot be read.
    """
    wanted = chosen(asked.select, asked.ignore)
    accepted = Baseline.read(baseline) if baseline else Baseline()
    report = analyze(functions(asked.modules, asked.pattern))
    findings = report.of(*wanted)
    compared = accepted.compared(findings)
    known = frozenset(f.fingerprint for f in compared.known)
    return Checked(
        report, findings, known, tuple(filter(asked.concerns, compared.stale))
    )


def fail_level(level: str) -> str:
    """The level as it was given, if it is one.

    Raises:
        OptionError: it is none.
    """
    if level not in (*LEVELS, NEVER):
        fix = f"Use {', '.join(LEVELS)} or {NEVER}"
        raise OptionError(f"--fail-on is {level}", fix)
    return level
