"""Functions and types by the names that a user types; checks and their exit code."""

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
from mdtensor.diagnose.patches import Edit, diff, edits
from mdtensor.diagnose.report import Baseline, Entry
from mdtensor.diagnose.source import Source, brings_types, functions_of, source, sources
from mdtensor.diagnose.universe import SCALARS, universe_of
from mdtensor.errors import OptionError


def functions(modules: Sequence[str], pattern: str = "*") -> tuple[Any, ...]:
    """Return the functions of modules, or all operations.

    Args:
        modules: the modules to import. If they only define tensor types, the result is
            all operations.
        pattern: a pattern of names, with or without the module.

    Raises:
        OptionError: no name fits the pattern, or the modules are without functions.
        ModuleError: a module cannot be imported.
    """
    load(modules)
    theirs = functions_of(modules)
    known = sources(theirs or (None if not modules or brings_types(modules) else ()))
    found = [each.call for each in known if is_called(each.name, pattern)]
    if modules and not known:
        text = f"no functions to check in {', '.join(modules)}"
        fix = "Pass a package that declares functions or adds methods"
        raise OptionError(text, fix)
    if not found and pattern != "*":
        raise OptionError(
            f"no function is called {pattern}", _closest(pattern, _names(known))
        )
    return tuple(found)


def is_called(name: str, pattern: str) -> bool:
    """Return whether a name fits a pattern, in full or by its last parts.

    Example:
        >>> is_called("mdtensor.generics.linalg.solve", "linalg.s*")
        True
        >>> is_called("mdtensor.generics.linalg.solve", "g*")
        False
    """
    parts = name.split(".")[-1 - pattern.count(".") :]
    return fnmatchcase(name, pattern) or fnmatchcase(".".join(parts), pattern)


def function(name: str, modules: Sequence[str]) -> Any:
    """Return the one function with a name, with or without its module.

    Functions of `modules` come before operations of mdtensor. `lab.matmul` is the
    function that the module lab holds under that name.

    Raises:
        OptionError: no function or several functions have the name.
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
            listed = ", ".join(s.name for s in suits)
            raise OptionError(
                f"{len(suits)} functions are called {name}", f"Use {listed}"
            )
    fix = _closest(name, _names([*theirs, *ours]))
    raise OptionError(f"no function is called {name}", fix)


def types(names: Iterable[str], functions: Iterable[Any]) -> tuple[type, ...]:
    """Return the types with these names: concrete types, or kinds in signatures.

    Raises:
        OptionError: no type or several types have a name.
    """
    known = _types(functions)
    return tuple(_type(name, known) for name in names)


def _types(functions: Iterable[Any]) -> dict[str, list[type]]:
    """Return the types that functions know, by short and by full name."""
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
        found = list(_imported_class(name))
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(map(qualified, found))
        raise OptionError(f"{len(found)} types are called {name}", f"Use {listed}")
    raise OptionError(f"no type is called {name}", _closest(name, known))


def _imported_class(name: str) -> Iterator[type]:
    """Yield the class `module.Class` if its module is imported already."""
    cls = _attribute(name)
    if isinstance(cls, type):
        yield cls


def _attribute(name: str) -> Any:
    """Return the value of a dotted name, if its module is imported already."""
    module, _, last = name.rpartition(".")
    return getattr(sys.modules.get(module), last, None)


def _names(known: Iterable[Source]) -> list[str]:
    return [name for each in known for name in (each.short, each.name)]


def _closest(name: str, known: Iterable[str]) -> str:
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(lower), 3, 0.6)
    if not near:
        return "Write its full name, and pass its module with --import"
    return f"The closest are {', '.join(lower[each] for each in near)}"


def selected_rules(select: Sequence[str], ignore: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the rules that are selected and not ignored.

    Args:
        select: ids, separated by commas; all rules if there are none.
        ignore: ids of the rules to leave out.

    Raises:
        OptionError: no rule has an id.
    """
    known = [each.id for each in rules()]
    wanted, unwanted = _ids(select, known), _ids(ignore, known)
    return tuple(r for r in known if r not in unwanted and (not wanted or r in wanted))


def _ids(given: Sequence[str], known: Sequence[str]) -> set[str]:
    ids = {part.strip().upper() for text in given for part in text.split(",")} - {""}
    for each in sorted(ids - set(known)):
        raise OptionError(f"no rule {each}", f"There are {', '.join(known)}")
    return ids


NEVER = "never"
# Exit codes of `check`.
CLEAN, FOUND, STALE = 0, 1, 4


@dataclass(frozen=True)
class Request:
    """The functions and rules that the user wants to check.

    Args:
        modules: the modules to import and to check; without any, all operations.
        pattern: a pattern of function names.
        select, ignore: ids of rules.
    """

    modules: Sequence[str] = ()
    pattern: str = "*"
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()

    def concerns(self, entry: Entry) -> bool:
        """Return whether an entry of a baseline is about these functions and rules."""
        fits = is_called(entry.function, self.pattern)
        return fits and entry.rule in selected_rules(self.select, self.ignore)


@dataclass(frozen=True)
class Checked:
    """The result of a check, compared with a baseline.

    Args:
        report: the report with all findings.
        findings: the findings of the selected rules.
        known: the fingerprints of the findings that the baseline accepts.
        stale: the entries of the baseline that no finding matches.
    """

    report: Report
    findings: tuple[Finding, ...]
    known: frozenset[str] = frozenset()
    stale: tuple[Entry, ...] = ()

    @property
    def new(self) -> tuple[Finding, ...]:
        """Return the findings that the baseline does not accept."""
        return tuple(f for f in self.findings if f.fingerprint not in self.known)

    @property
    def patches(self) -> tuple[tuple[Finding, tuple[Edit, ...]], ...]:
        """Return the new findings that edits of the source mend, with the edits."""
        found = ((finding, edits(finding)) for finding in self.new)
        return tuple((finding, changes) for finding, changes in found if changes)

    @property
    def old(self) -> tuple[Finding, ...]:
        """Return the findings that the baseline accepts."""
        return tuple(f for f in self.findings if f.fingerprint in self.known)

    def code(self, fail_on: str, strict: bool) -> int:
        """Return 1 for new findings, 4 for a stale baseline if `strict`, or else 0."""
        failing = () if fail_on == NEVER else LEVELS[: LEVELS.index(fail_on) + 1]
        if any(f.level in failing for f in self.new):
            return FOUND
        return STALE if strict and self.stale else CLEAN


def check(request: Request, baseline: Path | None = None) -> Checked:
    """Check the requested functions, and compare with a baseline file.

    Raises:
        OptionError: a rule or function does not exist.
        ModuleError: a module cannot be imported.
        DataError: the file is not a baseline.
        OSError: the file cannot be read.
    """
    # A wrong rule or baseline must fail before the modules are imported.
    wanted = selected_rules(request.select, request.ignore)
    accepted = Baseline.read(baseline) if baseline else Baseline()
    report = analyze(functions(request.modules, request.pattern))
    findings = report.of(*wanted)
    compared = accepted.compare(findings)
    known = frozenset(f.fingerprint for f in compared.known)
    return Checked(
        report, findings, known, tuple(filter(request.concerns, compared.stale))
    )


def require_level(level: str) -> str:
    """Return the level if it is valid for `--fail-on`.

    Raises:
        OptionError: the level is unknown.
    """
    if level not in (*LEVELS, NEVER):
        fix = f"Use {', '.join(LEVELS)} or {NEVER}"
        raise OptionError(f"unknown level --fail-on {level}", fix)
    return level


def path_of(method: MethodInfo) -> str:
    """Return the file relative to the current folder, or else `package/file.py`."""
    module = sys.modules.get(method.module)
    name = getattr(module, "__file__", None)
    if name is None:
        return method.file
    path, here = Path(name).resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if here in path.parents else method.file


def path_of_file(file: Path) -> str:
    """Return a file relative to the current folder, or to its folder in `sys.path`."""
    path = file.resolve()
    folders = [Path.cwd().resolve(), *(Path(name).resolve() for name in sys.path)]
    within = [folder for folder in folders[1:] if folder in path.parents]
    longest = max(within, key=lambda folder: len(folder.parts), default=path.parent)
    base = folders[0] if folders[0] in path.parents else longest
    return path.relative_to(base).as_posix()


def diff_of(checked: Checked) -> str:
    """Return one unified diff with the patches of all new findings."""
    changes: dict[Path, set[Edit]] = {}
    for edit in (edit for _, found in checked.patches for edit in found):
        changes.setdefault(edit.file, set()).add(edit)
    return "".join(
        diff(path_of_file(file), file.read_bytes().decode(), found)
        for file, found in sorted(changes.items())
    )


def anchor(finding: Finding) -> MethodInfo | None:
    """Return the method to show a finding at: the last one of its distribution."""
    later = [m for m in finding.methods if m.distribution == finding.distribution]
    known = later or finding.methods
    return known[-1] if known else None
