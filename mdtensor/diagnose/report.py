"""All findings about some functions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from mdtensor.diagnose.finding import LEVELS, Finding, counted, leveled
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.rules import RULES
from mdtensor.diagnose.source import is_function, source, sources
from mdtensor.diagnose.study import Study, contracts_of
from mdtensor.diagnose.universe import Universe, universe_of
from mdtensor.errors import DataError, OptionError, shown
from mdtensor.html import joined, small_table, tag


@dataclass(frozen=True)
class Report:
    """What was found: sorted, and the same for every order of registration.

    Args:
        functions: the names of the functions that were looked at.
        methods: how many methods they have.
        universe: how many concrete types there are.
        findings: by rule, function and signature.
    """

    functions: tuple[str, ...]
    methods: int
    universe: int
    findings: tuple[Finding, ...]

    def of(self, *rules: str) -> tuple[Finding, ...]:
        """The findings of some rules."""
        return tuple(f for f in self.findings if f.rule in rules)

    def at_least(self, level: str) -> tuple[Finding, ...]:
        """The findings of a level, and of those above it.

        Raises:
            OptionError: there is no such level.
        """
        if not isinstance(level, str) or level not in LEVELS:
            raise OptionError(f"level is {shown(level)}", f"Use {', '.join(LEVELS)}")
        wanted = LEVELS[: LEVELS.index(level) + 1]
        return tuple(f for f in self.findings if f.level in wanted)

    @property
    def summary(self) -> dict[str, int]:
        """How many findings each rule has."""
        return dict(Counter(f.rule for f in self.findings))

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.findings), self.counts])

    @property
    def counts(self) -> str:
        """What was looked at and how much was found, in one line."""
        found = ", ".join(leveled(self.findings))
        return f"{self.sizes}: {found or 'nothing found'}"

    @property
    def sizes(self) -> str:
        """What was looked at: `2 functions, 3 methods, 5 types`."""
        sizes = (
            counted(len(self.functions), "function"),
            counted(self.methods, "method"),
            counted(self.universe, "type"),
        )
        return ", ".join(sizes)

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each finding, those of errors first."""
        order = sorted(self.findings, key=lambda f: LEVELS.index(f.level))
        heads = ["", "rule", "what", "where", "fix"]
        table = small_table(heads, map(_row, order)) if order else ""
        return tag("div", tag("p", self.counts), table)


def _row(finding: Finding) -> tuple[object, ...]:
    places = joined(*(tag("div", tag("code", m)) for m in finding.methods))
    fix = tag("pre", finding.fix, style="margin: 0") if finding.fix else ""
    level = tag(
        "b", f"✖ {finding.level}" if finding.level == "error" else finding.level
    )
    return level, finding.rule, finding.message, places, fix


def analyze(functions: Any = None, universe: Iterable[type] | None = None) -> Report:
    """Every ambiguity, hole and surprise in the methods of some functions.

    Exact over the universe: each tuple of its types is answered as plum answers it,
    without a call.

    Args:
        functions: an operation, a function of plum, a Dispatcher, a module, or several
            of these; all operations if it is left out.
        universe: the concrete types that arguments can be of; if it is left out, the
            Python scalars, None, all our leaves where our operations are concerned,
            and what has instances among the classes in the signatures.

    Returns:
        The report. Printed, it is the findings and one line of counts.

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


def study_of(functions: Any = None, universe: Iterable[type] | None = None) -> Study:
    """What `analyze` looks at."""
    if is_function(functions) and is_function(universe):
        _one_list(functions, universe)
    found = sources(functions)
    promises = contracts_of([source.call for source in found])
    promised = [kind for promise in promises for kind in promise.types]
    known = universe_of(found, promised) if universe is None else Universe.of(universe)
    return Study(found, known, promises)


def _one_list(first: Any, second: Any) -> NoReturn:
    """Refuse a function where the universe is wanted."""
    one, other = source(first).short, source(second).short
    raise OptionError(
        f"a universe is several classes, not the function {other}",
        f"Give several functions as one list: analyze([{one}, {other}])",
    )


def rules() -> tuple[Rule, ...]:
    """All rules, by id."""
    return tuple(RULES.values())


def rule(name: str) -> Rule:
    """The rule with an id; printed, it explains itself.

    Raises:
        OptionError: there is none.

    Example:
        >>> rule("MDT001").title
        'ambiguous call'

    Source: rustc, `--explain`.
    """
    found = RULES.get(name.upper()) if isinstance(name, str) else None
    if found is None:
        raise OptionError(f"no rule {shown(name)}", f"There are {', '.join(RULES)}")
    return found


# Findings that are known and accepted: a file that only ever needs to shrink.

SCHEMA = 1


@dataclass(frozen=True, order=True)
class Entry:
    """One accepted finding.

    Args:
        rule, function, message: as of the finding; for whoever reads the file.
        fingerprint: by which the finding is known again, on whatever line it stands.
    """

    rule: str
    function: str
    message: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.rule} {self.fingerprint} {self.message}"


@dataclass(frozen=True)
class Compared:
    """A report beside a baseline.

    Args:
        new: the findings that the baseline does not have.
        known: those that it has.
        stale: its entries that are not found any more.
    """

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    stale: tuple[Entry, ...]


@dataclass(frozen=True)
class Baseline:
    """Accepted findings.

    Args:
        entries: one for each, sorted.

    Example:
        >>> Baseline.of([Finding("MDT001", "error", "shop.put", "tie")]).text[:15]
        '{\\n  "schema": 1'

    Source: Aqua.jl, `exclude` and `broken`; by fingerprint instead of by number.
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Baseline:
        """One that accepts these findings."""
        found = {Entry(f.rule, f.function, f.message, f.fingerprint) for f in findings}
        return cls(tuple(sorted(found)))

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """The one in a file.

        Raises:
            DataError: the file is no baseline.
            OSError: it cannot be read.
        """
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            schema = held["schema"]
            entries = tuple(sorted(map(_entry, held["findings"])))
        except (ValueError, TypeError, KeyError, RecursionError):
            fix = "Write it anew with `mdtensor dispatch baseline write`"
            raise DataError(f"{path} is no baseline, or is damaged", fix) from None
        if schema != SCHEMA:
            fix = f"This version reads schema {SCHEMA}"
            raise DataError(f"{path} has schema {schema!r}", fix)
        return cls(entries)

    @property
    def text(self) -> str:
        """What its file holds: the same bytes for the same findings."""
        held = {"schema": SCHEMA, "findings": [asdict(entry) for entry in self.entries]}
        return json.dumps(held, indent=2, ensure_ascii=False) + "\n"

    def compared(self, findings: Iterable[Finding]) -> Compared:
        """What of some findings is new, what is known, and what is not found."""
        accepted = {entry.fingerprint for entry in self.entries}
        found = tuple(findings)
        prints = {finding.fingerprint for finding in found}
        return Compared(
            tuple(f for f in found if f.fingerprint not in accepted),
            tuple(f for f in found if f.fingerprint in accepted),
            tuple(e for e in self.entries if e.fingerprint not in prints),
        )

    def without(self, stale: Iterable[Entry]) -> Baseline:
        """The same, some entries left out."""
        gone = set(stale)
        return Baseline(tuple(e for e in self.entries if e not in gone))


def _entry(held: Any) -> Entry:
    fields = [held[name] for name in ("rule", "function", "message", "fingerprint")]
    if not all(isinstance(value, str) for value in fields):
        raise TypeError
    return Entry(*fields)
