"""From what a user types to modules, functions and types."""

import builtins
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mdtensor.cli.loading import load
from mdtensor.diagnose import Finding, MethodInfo, Report, analyze, rules
from mdtensor.diagnose.finding import LEVELS
from mdtensor.diagnose.hints import qualified
from mdtensor.diagnose.report import Baseline, Entry
from mdtensor.diagnose.source import Source, brings_types, functions_of, source, sources
from mdtensor.diagnose.universe import SCALARS, universe_of
from mdtensor.errors import OptionError


def functions(modules: Sequence[str], pattern: str = "*") -> tuple[Any, ...]:
    """What is to be looked at: the functions of modules, or all operations.

    Args:
        modules: they are imported. One that brings nothing but types of tensors is
            looked at in all operations.
        pattern: of names, with or without the module.

    Raises:
        OptionError: no function is called like that, or modules have none.
        ModuleError: a module cannot be imported.
    """
    load(modules)
    theirs = functions_of(modules)
    known = sources(theirs or (None if not modules or brings_types(modules) else ()))
    found = [each.call for each in known if is_called(each.name, pattern)]
    if modules and not known:
        text = f"nothing to look at in {', '.join(modules)}"
        fix = "Name a package that declares functions or adds methods"
        raise OptionError(text, fix)
    if not found and pattern != "*":
        raise OptionError(
            f"no function is called {pattern}", _closest(pattern, _names(known))
        )
    return tuple(found)


def is_called(name: str, pattern: str) -> bool:
    """Whether a full name, or as many of its last parts as a pattern has, fits it.

    Example:
        >>> is_called("mdtensor.generics.linalg.solve", "linalg.s*")
        True
        >>> is_called("mdtensor.generics.linalg.solve", "g*")
        False
    """
    parts = name.split(".")[-1 - pattern.count(".") :]
    return fnmatchcase(name, pattern) or fnmatchcase(".".join(parts), pattern)


def function(name: str, modules: Sequence[str]) -> Any:
    """The one function called `name`, with or without its module.

    Those of `modules` come first; `lab.matmul` is what lab knows by that name.

    Raises:
        OptionError: there is none, or there are several.
    """
    load(modules)
    theirs, ours = sources(functions_of(modules)), sources()
    for suits in (
        [s for s in (*theirs, *ours) if s.call is _attribute(name)][:1],
        [s for s in theirs if f".{s.name}".endswith(f".{name}")],
        [s for s in ours if f".{s.name}".endswith(f".{name}")],
    ):
        if len(suits) == 1:
            return suits[0].call
        if suits:
            shown = ", ".join(s.name for s in suits)
            raise OptionError(
                f"{len(suits)} functions are called {name}", f"Say {shown}"
            )
    fix = _closest(name, _names([*theirs, *ours]))
    raise OptionError(f"no function is called {name}", fix)


def types(names: Iterable[str], functions: Iterable[Any]) -> tuple[type, ...]:
    """The types of these names: of arguments, or kinds that signatures speak of.

    Raises:
        OptionError: there is no such type, or there are several.
    """
    known = _types(functions)
    return tuple(_type(name, known) for name in names)


def _types(functions: Iterable[Any]) -> dict[str, list[type]]:
    """By short and by full name."""
    found = tuple(map(source, functions))
    known: set[type] = {*universe_of(found).types, *SCALARS}
    for method in (method for each in found for method in each.methods):
        known.update(c for kind in method.hints for c in kind.members)
    known.update(base for cls in tuple(known) for base in cls.__mro__)
    named: dict[str, list[type]] = {"None": [type(None)]}
    for cls in sorted(known, key=qualified):
        named.setdefault(cls.__name__, []).append(cls)
        named.setdefault(qualified(cls), []).append(cls)
    return named


def _type(name: str, known: dict[str, list[type]]) -> type:
    found = known.get(name, [])
    if not found and isinstance(getattr(builtins, name, None), type):
        found = [getattr(builtins, name)]
    if not found:
        found = list(_imported(name))
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(map(qualified, found))
        raise OptionError(f"{len(found)} types are called {name}", f"Say {shown}")
    raise OptionError(f"no type is called {name}", _closest(name, known))


def _imported(name: str) -> Iterator[type]:
    """The class `module.Class`, of a module that is imported already."""
    cls = _attribute(name)
    if isinstance(cls, type):
        yield cls


def _attribute(name: str) -> Any:
    """What a module that is imported already has by that name."""
    module, _, last = name.rpartition(".")
    return getattr(sys.modules.get(module), last, None)


def _names(known: Iterable[Source]) -> list[str]:
    return [name for each in known for name in (each.short, each.name)]


def _closest(name: str, known: Iterable[str]) -> str:
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(lower), 3, 0.6)
    if not near:
        return "Name it in full, and its module with --import"
    return f"The closest are {', '.join(lower[each] for each in near)}"


def chosen(select: Sequence[str], ignore: Sequence[str]) -> tuple[str, ...]:
    """The ids of the rules that are selected and not ignored.

    Args:
        select: ids, commas between them; all rules if there is none.
        ignore: ids of those to leave out.

    Raises:
        OptionError: there is no such rule.
    """
    known = [each.id for each in rules()]
    wanted, unwanted = _ids(select, known), _ids(ignore, known)
    return tuple(r for r in known if r not in unwanted and (not wanted or r in wanted))


def _ids(given: Sequence[str], known: Sequence[str]) -> set[str]:
    ids = {part.strip().upper() for text in given for part in text.split(",")} - {""}
    for each in sorted(ids - set(known)):
        raise OptionError(f"no rule {each}", f"There are {', '.join(known)}")
    return ids


# `check` and its like: which findings there are, and which of them count.

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
    compared = accepted.compare(findings)
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


# Where a method stands, as a reader on this machine or a service finds it.


def path_of(method: MethodInfo) -> str:
    """The file from the folder we stand in, or `package/file.py` if it is elsewhere."""
    module = sys.modules.get(method.module)
    name = getattr(module, "__file__", None)
    if name is None:
        return method.file
    path, here = Path(name).resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if here in path.parents else method.file


def anchor(finding: Finding) -> MethodInfo | None:
    """The method that a finding is shown at: one of who registered the latest."""
    later = [m for m in finding.methods if m.distribution == finding.distribution]
    known = later or finding.methods
    return known[-1] if known else None
