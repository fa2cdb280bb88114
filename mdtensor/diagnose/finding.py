"""What the checker has to say: data, sorted and the same on every machine."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mdtensor.diagnose.hints import Hint, short, type_name
from mdtensor.diagnose.source import Registered, distribution

LEVELS = ("error", "warning", "info")


@dataclass(frozen=True)
class MethodInfo:
    """A method and where it stands.

    Args:
        function: its name.
        signature: `add(x1: RealTensor, x2: RealTensor)`; long unions are cut short.
        types: of each dispatched parameter, in full.
        file: `package/file.py`, without the folders of this machine.
        line: where it begins.
        module: where it was defined.
        distribution: what was installed to have it.
        precedence: what breaks a tie.
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
        """Of what was registered."""
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
        """`package/file.py:line`."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.signature}  {self.location}"


@dataclass(frozen=True)
class Relation:
    """How the methods of a finding compare in one argument.

    Args:
        argument: its name.
        types: what each method takes there.
        relation: of the first method to the second: `narrower`, `wider`, `same`,
            `incomparable`.
    """

    argument: str
    types: tuple[str, ...]
    relation: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with the methods of a function.

    Args:
        rule: `MDT001`; see `rule("MDT001")`.
        level: `error`, `warning` or `info`.
        function: which function, with its module.
        message: what is wrong, in one line.
        methods: those concerned.
        relations: how they compare, argument by argument.
        witness: types of arguments for which it happens, which can be made on this
            host if any can.
        count: for how many tuples of types it happens.
        total: how many there are.
        reach: `host`, `backend:<name>` or `latent`.
        fix: the source that mends it, tried; or what to do.
        distribution: what was installed to have the later method.
        notes: what else there is to know.
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
    notes: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The same when lines move; another when a signature changes.

        Findings without methods are told apart by what they say.
        """
        parts = [self.rule, self.function]
        parts += sorted(f"{', '.join(m.types)} {m.precedence}" for m in self.methods)
        if not self.methods:
            parts.append(self.message)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def key(self) -> tuple[Any, ...]:
        """What findings are sorted by."""
        shown = tuple(m.signature for m in self.methods)
        return self.rule, self.function, shown, self.message, self.witness

    def __str__(self) -> str:
        lines = [f"{self.level}[{self.rule}]: {self.message}"]
        lines += [f"  --> {method}" for method in self.methods]
        lines += [f"   | {_relation(relation)}" for relation in self.relations]
        if self.total:
            shown = f"{self.count} of {self.total} type tuples"
            first = f", first ({', '.join(self.witness)})" if self.witness else ""
            lines.append(f"   = for {shown}{first}; reachable: {self.reach}")
        lines += [f"   = {note}" for note in self.notes]
        lines += [f"   = fix: {line}" for line in self.fix.splitlines()[:1]]
        lines += [f"          {line}" for line in self.fix.splitlines()[1:]]
        return "\n".join([*lines, f"   = id {self.fingerprint}"])


def _relation(relation: Relation) -> str:
    first, second, *others = relation.types
    if others or relation.relation == "incomparable":
        shown = f"{', '.join(relation.types)}, side by side"
    elif relation.relation == "same":
        shown = first
    else:
        shown = f"{first} is {relation.relation} than {second}"
    return f"{relation.argument}: {shown}"


def counted(count: int, thing: str) -> str:
    """`1 method`, `2 methods`.

    Example:
        >>> counted(1, "type"), counted(0, "type")
        ('1 type', '0 types')
    """
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def leveled(findings: Iterable[Finding]) -> list[str]:
    """How many findings there are of each level: `1 error`, `2 warnings`, `3 info`."""
    counts = Counter(finding.level for finding in findings)
    found = [(level, counts[level]) for level in LEVELS if counts[level]]
    return [
        f"{n} {level}" if level == "info" else counted(n, level) for level, n in found
    ]


def relations(
    methods: tuple[Registered, ...], arity: int, compare: Any
) -> tuple[Relation, ...]:
    """How methods compare in each argument of a call with `arity` arguments.

    Args:
        methods: two or more; the word is about the first two.
        arity: the number of arguments.
        compare: gives the word for two annotations.
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
    """What a method takes at a place, those of `*arguments` included."""
    return method.hints[min(at, len(method.hints) - 1)]


def witnessed(types: tuple[type, ...]) -> tuple[str, ...]:
    """The names of types."""
    return tuple(map(type_name, types))
