"""All findings about some functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from mdtensor.diagnose.contracts import contracts_of
from mdtensor.diagnose.finding import LEVELS, Finding, counted, leveled
from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.rules import RULES
from mdtensor.diagnose.source import is_function, source, sources
from mdtensor.diagnose.study import Study
from mdtensor.diagnose.universe import Universe, universe_of
from mdtensor.errors import OptionError, shown
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
