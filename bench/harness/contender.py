"""One way to do the work."""

import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Args:
        name: of the way.
        statement: source of an expression, or a callable; source adds no call of its
            own, which matters below a microsecond.
        namespace: what the source's names mean.
        calls: how often the statement does the work.
    """

    name: str
    statement: str | Callable[[], object]
    namespace: Mapping[str, Any] = field(default_factory=dict)
    calls: int = 1

    def timer(self, clock: Callable[[], float]) -> timeit.Timer:
        # An own dict: the timed loop reads its names as a function of theirs would.
        return timeit.Timer(self.statement, timer=clock, globals=dict(self.namespace))

    def result(self) -> Any:
        """What the statement gives, untimed."""
        if isinstance(self.statement, str):
            return eval(self.statement, dict(self.namespace))
        return self.statement()
