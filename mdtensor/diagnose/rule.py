"""What a rule is: an id that stays, a hazard, an example that sins, and its repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.source import Registered, Source, distribution
from mdtensor.diagnose.study import Study


@dataclass(frozen=True)
class Rule:
    """One hazard.

    Args:
        id: `MDT001`; never given to another hazard.
        level: `error`, `warning` or `info`.
        title: the hazard in a few words.
        explanation: what happens, to whom, and why it is not seen before.
        example: source that sins; it makes a plum.Dispatcher called `dispatch`.
        repaired: the same source without the sin.
        check: finds the sins of a study.
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
        """A finding of this rule; whoever registered the last method is named."""
        if methods and "distribution" not in more:
            last = max(methods, key=lambda method: method.order)
            more["distribution"] = distribution(last.module)
        shown = tuple(map(MethodInfo.of, methods))
        return Finding(self.id, self.level, found.name, message, shown, **more)

    def __str__(self) -> str:
        parts = [f"{self.id} ({self.level}): {self.title}", self.explanation.strip()]
        parts += ["Sins:", _indented(self.example), "Does not:"]
        return "\n\n".join([*parts, _indented(self.repaired)])


def _indented(source: str) -> str:
    lines = source.strip().splitlines()
    return "\n".join(f"    {line}" if line else "" for line in lines)
