"""Reports: all findings about some functions, and baselines of accepted findings.

A baseline is a file of accepted findings. `compare` splits a report into new and known
findings, and finds entries that can be removed from the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from mdtensor.diagnose.finding import LEVELS, Finding, level_counts, quantity
from mdtensor.diagnose.rules import RULES
from mdtensor.diagnose.source import is_function, source, sources
from mdtensor.diagnose.study import Study, contracts_of
from mdtensor.diagnose.universe import Universe, universe_of
from mdtensor.errors import DataError, OptionError, shown
from mdtensor.html import join, small_table, tag


@dataclass(frozen=True)
class Report:
    """The findings about some functions, the same for every order of registration.

    Args:
        functions: the names of the functions that were checked.
        methods: the number of their methods.
        universe: the number of concrete types.
        findings: the findings, sorted by rule, function and signature.
    """

    functions: tuple[str, ...]
    methods: int
    universe: int
    findings: tuple[Finding, ...]

    def of(self, *rules: str) -> tuple[Finding, ...]:
        """Return the findings of some rules."""
        return tuple(f for f in self.findings if f.rule in rules)

    def at_least(self, level: str) -> tuple[Finding, ...]:
        """Return the findings of a level and of the levels above it.

        Raises:
            OptionError: the level is unknown.
        """
        if not isinstance(level, str) or level not in LEVELS:
            raise OptionError(
                f"unknown level {shown(level)}", f"Use {', '.join(LEVELS)}"
            )
        wanted = LEVELS[: LEVELS.index(level) + 1]
        return tuple(f for f in self.findings if f.level in wanted)

    @property
    def summary(self) -> dict[str, int]:
        """Return the number of findings of each rule."""
        return dict(Counter(f.rule for f in self.findings))

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.findings), self.counts])

    @property
    def counts(self) -> str:
        """Return one line: the sizes of the check and the number of findings."""
        found = ", ".join(level_counts(self.findings))
        return f"{self.sizes}: {found or 'nothing found'}"

    @property
    def sizes(self) -> str:
        """Return the sizes of the check: `2 functions, 3 methods, 5 types`."""
        sizes = (
            quantity(len(self.functions), "function"),
            quantity(self.methods, "method"),
            quantity(self.universe, "type"),
        )
        return ", ".join(sizes)

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows: a row a finding, errors first."""
        # The sort is stable, so findings of one level keep the order of the report.
        order = sorted(self.findings, key=lambda f: LEVELS.index(f.level))
        heads = ["", "rule", "what", "where", "fix"]
        table = small_table(heads, map(_row, order)) if order else ""
        return tag("div", tag("p", self.counts), table)


def _row(finding: Finding) -> tuple[object, ...]:
    places = join(*(tag("div", tag("code", m)) for m in finding.methods))
    fix = tag("pre", finding.fix, style="margin: 0") if finding.fix else ""
    level = tag(
        "b", f"✖ {finding.level}" if finding.level == "error" else finding.level
    )
    return level, finding.rule, finding.message, places, fix


def analyze(functions: object = None, universe: Iterable[type] | None = None) -> Report:
    """Find every ambiguity, hole and surprise in the methods of some functions.

    The result is exact over the universe: each tuple of its types is resolved as plum
    resolves it, without a call.

    Args:
        functions: an operation, a plum function, a Dispatcher, a module, or several of
            these; all operations if you omit it.
        universe: the concrete types that arguments can have. By default these are the
            Python scalars, None, all concrete tensor types if an operation is among the
            functions, and the classes in the signatures that have instances.

    Returns:
        The report. It prints as the findings and one line of counts.

    Raises:
        OptionError: `functions` holds something else.

    Example:
        >>> import plum
        >>> dispatch = plum.Dispatcher()
        >>> @dispatch
        ... def put(a: bool, b: int): ...
        >>> @dispatch
        ... def put(a: int, b: bool): ...
        >>> for finding in analyze(dispatch).findings:
        ...     print(finding.rule, finding.witness, finding.count, finding.total)
        ...     print(finding.fix)
        MDT001 ('bool', 'bool') 1 25
        @dispatch
        def put(a: bool, b: bool): ...

    Source: Julia, `Test.detect_ambiguities`; Aqua.jl.
    """
    study = study_of(functions, universe)
    # A dict drops findings that two rules or two orders of methods report alike.
    findings = {
        (finding.key, finding): finding
        for rule in RULES.values()
        for finding in rule.check(study)
    }
    return Report(
        tuple(found.name for found in study.sources),
        sum(len(found.methods) for found in study.sources),
        len(study.universe.types),
        tuple(sorted(findings.values(), key=lambda finding: finding.key)),
    )


def study_of(functions: object = None, universe: Iterable[type] | None = None) -> Study:
    """Return the study that `analyze` checks."""
    # `analyze(f, g)` looks as if it checked both functions, so it gets an error of its
    # own.
    if is_function(functions) and is_function(universe):
        _refuse_second_function(functions, universe)
    found = sources(functions)
    promises = contracts_of([source.call for source in found])
    # Classes of contracts belong to the universe, even if no method names them yet.
    promised = [kind for promise in promises for kind in promise.types]
    known = universe_of(found, promised) if universe is None else Universe.of(universe)
    return Study(found, known, promises)


def _refuse_second_function(first: object, second: object) -> NoReturn:
    """Raise for a function in the place of the universe."""
    one, other = source(first).short, source(second).short
    raise OptionError(
        f"a universe is a list of classes, not the function {other}",
        f"Pass several functions as one list: analyze([{one}, {other}])",
    )


SCHEMA = 1


@dataclass(frozen=True, order=True)
class Entry:
    """One accepted finding.

    Args:
        rule, function, message: copied from the finding, for readers of the file.
        fingerprint: the id that recognizes the finding after its lines have moved.
    """

    rule: str
    function: str
    message: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.rule} {self.fingerprint} {self.message}"


@dataclass(frozen=True)
class Compared:
    """Findings, compared with a baseline.

    Args:
        new: the findings that the baseline does not have.
        known: the findings that it has.
        stale: entries of the baseline that no finding matches.
    """

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    stale: tuple[Entry, ...]


@dataclass(frozen=True)
class Baseline:
    """Accepted findings.

    Args:
        entries: one entry a finding, sorted.

    Example:
        >>> Baseline.of([Finding("MDT001", "error", "shop.put", "tie")]).text[:15]
        '{\\n  "schema": 1'

    Source: Aqua.jl, `exclude` and `broken`; by fingerprint instead of by number.
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Baseline:
        """Make a baseline that accepts these findings."""
        found = {Entry(f.rule, f.function, f.message, f.fingerprint) for f in findings}
        return cls(tuple(sorted(found)))

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a baseline from a file.

        Raises:
            DataError: the file is not a baseline.
            OSError: the file cannot be read.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            schema = data["schema"]
            entries = tuple(sorted(map(_entry, data["findings"])))
        # A file of another program may be any JSON, or nested without end.
        except (ValueError, TypeError, KeyError, RecursionError):
            fix = "Write it again with `mdtensor dispatch baseline write`"
            raise DataError(f"{path} is not a baseline, or is damaged", fix) from None
        if schema != SCHEMA:
            fix = f"This version reads schema {SCHEMA}"
            raise DataError(f"{path} has schema {schema!r}", fix)
        return cls(entries)

    @property
    def text(self) -> str:
        """Return the content of the file: the same bytes for the same findings."""
        data = {"schema": SCHEMA, "findings": [asdict(entry) for entry in self.entries]}
        # Keys, order and line ends are fixed, so that the file changes in a diff only
        # if the findings do.
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def compare(self, findings: Iterable[Finding]) -> Compared:
        """Split findings into new and known ones, and list the stale entries."""
        # By fingerprint, since messages and lines change with every edit of a file.
        accepted = {entry.fingerprint for entry in self.entries}
        found = tuple(findings)
        prints = {finding.fingerprint for finding in found}
        return Compared(
            tuple(f for f in found if f.fingerprint not in accepted),
            tuple(f for f in found if f.fingerprint in accepted),
            tuple(e for e in self.entries if e.fingerprint not in prints),
        )

    def without(self, stale: Iterable[Entry]) -> Baseline:
        """Return a baseline without some entries."""
        gone = set(stale)
        return Baseline(tuple(e for e in self.entries if e not in gone))


def _entry(data: Any) -> Entry:
    fields = [data[name] for name in ("rule", "function", "message", "fingerprint")]
    if not all(isinstance(value, str) for value in fields):
        # `read` turns it into the same error as for a damaged file.
        raise TypeError
    return Entry(*fields)
