"""A rule of the checker: a stable id, a hazard, a bad example and its repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.source import Registered, Source, distribution
from mdtensor.diagnose.study import Study


@dataclass(frozen=True)
class Rule:
    """A hazard that `analyze` looks for, with an example and its repair.

    Args:
        id: the id, such as `MDT001`; no other hazard ever gets it.
        level: `error`, `warning` or `info`.
        title: the hazard in a few words.
        explanation: what happens, who notices it, and how to mend it.
        example: bad source; it makes a plum.Dispatcher called `dispatch`.
        repaired: the same source without the hazard.
        check: a function that takes a `Study` (functions and the classes of their
            arguments) and yields a `Finding` for each place with the hazard.
    """

    id: str
    level: str
    title: str
    explanation: str
    example: str
    repaired: str
    check: Callable[[Study], Iterable[Finding]]

    def finding(
        self, found: Source, methods: Sequence[Registered], message: str, **more: Any
    ) -> Finding:
        """Make a finding of this rule, for the distribution of the last method."""
        if methods and "distribution" not in more:
            last = max(methods, key=lambda method: method.order)
            more["distribution"] = distribution(last.module)
        listed = tuple(map(MethodInfo.of, methods))
        return Finding(self.id, self.level, found.name, message, listed, **more)

    def __str__(self) -> str:
        parts = [f"{self.id} ({self.level}): {self.title}", self.explanation.strip()]
        parts += ["Bad:", _indent(self.example), "Good:"]
        return "\n\n".join([*parts, _indent(self.repaired)])


def _indent(source: str) -> str:
    lines = source.strip().splitlines()
    return "\n".join(f"    {line}" if line else "" for line in lines)
