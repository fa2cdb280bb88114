"""Findings of the checker: data, sorted and the same on every machine."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mdtensor.diagnose.hints import Hint, short, type_name
from mdtensor.diagnose.source import Registered, distribution

LEVELS = ("error", "warning", "info")


@dataclass(frozen=True)
class MethodInfo:
    """A method and its place in the source.

    Args:
        function: the name of its function.
        signature: `add(x1: RealTensor, x2: RealTensor)`; long unions are cut short.
        types: the type of each dispatched parameter, in full.
        file: `package/file.py`, which is the same on every machine.
        line: the first line of the method.
        module: the module that defines it.
        distribution: the installed distribution that the module belongs to.
        precedence: the number that breaks a tie.
    """

    function: str
    signature: str
    types: tuple[str, ...]
    file: str
    line: int
    module: str
    distribution: str
    precedence: int = 0

    @classmethod
    def of(cls, method: Registered) -> MethodInfo:
        """Describe a registered method."""
        return cls(
            method.function,
            method.text,
            tuple(map(str, method.hints)),
            method.file,
            method.line,
            method.module,
            distribution(method.module),
            method.precedence,
        )

    @property
    def location(self) -> str:
        """Return `package/file.py:line`."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.signature}  {self.location}"


@dataclass(frozen=True)
class Relation:
    """The comparison of the methods of a finding in one argument.

    Args:
        argument: the name of the argument.
        types: the type that each method takes there.
        relation: how the first method compares with the second: `narrower`, `wider`,
            `same` or `incomparable`.
    """

    argument: str
    types: tuple[str, ...]
    relation: str


@dataclass(frozen=True)
class Finding:
    """One problem with the methods of a function.

    Args:
        rule: the id of the rule, `MDT001`; see `rule("MDT001")`.
        level: `error`, `warning` or `info`.
        function: the name of the function with its module.
        message: the problem in one line.
        methods: the methods concerned.
        relations: how the methods compare, argument by argument.
        witness: argument types of one call with the problem, available on this machine
            if possible.
        count: the number of type tuples with the problem.
        total: the number of all type tuples.
        reach: `host`, `backend:<name>` or `latent`.
        fix: source that mends it and that was tried, or an instruction.
        distribution: the distribution of the method that was registered last.
        module: the module whose names `fix` uses, if it is source.
        notes: further facts, a line each.
    """

    rule: str
    level: str
    function: str
    message: str
    methods: tuple[MethodInfo, ...] = ()
    relations: tuple[Relation, ...] = ()
    witness: tuple[str, ...] = ()
    count: int = 0
    total: int = 0
    reach: str = "host"
    fix: str = ""
    distribution: str = ""
    module: str = ""
    notes: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return an id that survives moved lines, and changes with a signature."""
        parts = [self.rule, self.function]
        parts += sorted(f"{', '.join(m.types)} {m.precedence}" for m in self.methods)
        # Without methods only the message tells two findings apart.
        if not self.methods:
            parts.append(self.message)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the key that findings are sorted by."""
        signatures = tuple(m.signature for m in self.methods)
        return self.rule, self.function, signatures, self.message, self.witness

    def __str__(self) -> str:
        lines = [f"{self.level}[{self.rule}]: {self.message}"]
        lines += [f"  --> {method}" for method in self.methods]
        lines += [f"   | {_relation(relation)}" for relation in self.relations]
        if self.total:
            share = f"{self.count} of {self.total} type tuples"
            first = f", first ({', '.join(self.witness)})" if self.witness else ""
            lines.append(f"   = for {share}{first}; reachable: {self.reach}")
        lines += [f"   = {note}" for note in self.notes]
        lines += [f"   = fix: {line}" for line in self.fix.splitlines()[:1]]
        lines += [f"          {line}" for line in self.fix.splitlines()[1:]]
        return "\n".join([*lines, f"   = id {self.fingerprint}"])


def _relation(relation: Relation) -> str:
    first, second, *others = relation.types
    if others or relation.relation == "incomparable":
        text = f"{', '.join(relation.types)}, side by side"
    elif relation.relation == "same":
        text = first
    else:
        text = f"{first} is {relation.relation} than {second}"
    return f"{relation.argument}: {text}"


def quantity(count: int, thing: str) -> str:
    """Return a number with its noun: `1 method`, `2 methods`.

    Example:
        >>> quantity(1, "type"), quantity(0, "type")
        ('1 type', '0 types')
    """
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def level_counts(findings: Iterable[Finding]) -> list[str]:
    """Count the findings of each level: `1 error`, `2 warnings`, `3 info`."""
    counts = Counter(finding.level for finding in findings)
    found = [(level, counts[level]) for level in LEVELS if counts[level]]
    return [
        f"{n} {level}" if level == "info" else quantity(n, level) for level, n in found
    ]


def relations(
    methods: tuple[Registered, ...],
    arity: int,
    compare: Callable[[Hint, Hint], str],
) -> tuple[Relation, ...]:
    """Compare methods in each argument of a call with `arity` arguments.

    Args:
        methods: two or more methods; the relation is about the first two.
        arity: the number of arguments.
        compare: a function that returns the relation of two hints.
    """
    found = []
    for at in range(arity):
        kinds = [kind_at(method, at) for method in methods]
        names = methods[0].names
        name = names[min(at, len(names) - 1)] if names else f"argument {at + 1}"
        word = compare(kinds[0], kinds[1])
        found.append(Relation(name, tuple(map(short, kinds)), word))
    return tuple(found)


def kind_at(method: Registered, at: int) -> Hint:
    """Return the hint of a method at a position, also within `*arguments`."""
    return method.hints[min(at, len(method.hints) - 1)]


def type_names(types: tuple[type, ...]) -> tuple[str, ...]:
    """Return the names of types."""
    return tuple(map(type_name, types))
