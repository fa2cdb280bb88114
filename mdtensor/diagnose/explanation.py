"""Answers to questions about one call: data that prints as text of any width."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import wrap

from mdtensor.diagnose.finding import MethodInfo
from mdtensor.diagnose.hints import type_name

#: Columns of a text.
WIDTH = 100


@dataclass(frozen=True)
class Row:
    """One method in an explanation.

    Args:
        method: the method.
        rank: 1 for the one that runs, or for those that tie; more for the others that
            fit; 0 for those that do not.
        reason: why it is where it is.
    """

    method: MethodInfo
    rank: int
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What a call runs, and why.

    Args:
        function: the name, with its module.
        types: of the arguments.
        winner: the method that runs, if one does.
        tied: those that fit equally well, if none runs because of that.
        reason: in a few words.
        rows: every method, those that fit first.
        facts: (name, text) for what runs, of an operation of ours: the place of the
            function, promotion, casts, kernel with instruction set and device, or why
            the call is refused; see `md.which`.
    """

    function: str
    types: tuple[str, ...]
    winner: MethodInfo | None
    tied: tuple[MethodInfo, ...]
    reason: str
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        short = self.function.rpartition(".")[2]
        lines = [f"{short}({', '.join(self.types)})"]
        lines.append(f"  => {self.winner}" if self.winner else f"  => {self.reason}")
        if self.winner:
            lines.append(f"  why: {self.reason}, of {len(self.rows)} in all")
        lines += [f"  {name}: {text}" for name, text in self.facts]
        return "\n".join(_fitted([*lines, *self._listed()]))

    def _listed(self) -> list[str]:
        """Return a line for each method, in columns where these fit."""
        names = [row.method.signature for row in self.rows]
        places = [row.method.location for row in self.rows]
        wide, far = max(map(len, names), default=0), max(map(len, places), default=0)
        reasons = max((len(row.reason) for row in self.rows), default=0)
        if wide + far + reasons + 10 > WIDTH:
            wide = far = 0
        return [
            f"  {row.rank or '-':>2}  {name:<{wide}}  {place:<{far}}  {row.reason}"
            for row, name, place in zip(self.rows, names, places, strict=True)
        ]


def _fitted(lines: Iterable[str]) -> Iterable[str]:
    """Yield lines of at most `WIDTH` columns."""
    for line in lines:
        if len(line) <= WIDTH:
            yield line
        else:
            text = line.lstrip()
            indent = " " * (len(line) - len(text))
            more = f"{indent}    "
            yield from wrap(text, WIDTH, initial_indent=indent, subsequent_indent=more)


@dataclass(frozen=True)
class Suggestion:
    """What makes a call work.

    Args:
        call: the call, by its types.
        problem: `ambiguous`, `missing`, or `works`.
        header: of the method to write; with it the call works, which was tried.
    """

    call: str
    problem: str
    header: str

    def __str__(self) -> str:
        if not self.header:
            return f"{self.call}: {self.problem}"
        return f"{self.call}: {self.problem}. Define\n  {self.header}"


def called(function: str, types: Iterable[type]) -> str:
    """`add(Int8Tensor, int)`."""
    return f"{function}({', '.join(map(type_name, types))})"
