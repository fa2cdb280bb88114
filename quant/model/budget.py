"""Limits on the work that a model file may cause while it is loaded.

A file of 100 bytes can define a constant of 160 GB, or a million nodes. Elements and
nodes are counted before they are computed, so such a file raises an error at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from time import monotonic

from mdtensor.errors import ModelError, OptionError, shown
from mdtensor.extend import explain_wrong_calls

#: Constants of a file count as often: folding may transpose, cast and scale each.
TIMES = 8


@explain_wrong_calls
@dataclass(frozen=True)
class Budget:
    """Limits on what `load` computes; a file that needs more raises `ModelError`.

    Args:
        elements: how many elements all computed constants may have together, in
            addition to eight times the elements of the constants in the file.
        nodes: how many nodes the graph may have.
        seconds: how long reading and simplifying may take.

    Raises:
        OptionError: a limit is not a positive number.

    Example:
        >>> Budget(seconds=20)
        Budget(elements=134217728, nodes=200000, seconds=20)
    """

    elements: int = 2**27
    nodes: int = 200_000
    seconds: float = 600

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            # NaN is not above 0 either.
            if not isinstance(value, (int, float)) or not value > 0:
                problem = f"the budget has {limit.name}={shown(value)}"
                raise OptionError(problem, "Use a positive number")


class Spending:
    """What one `load` has used of its budget.

    Args:
        budget: the limits; by default the usual ones.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = Budget() if budget is None else budget
        self._elements = 0
        self._allowance = self.budget.elements
        self._end = monotonic() + self.budget.seconds

    def add_stored(self, elements: int) -> None:
        """Add the elements of a constant in the file, which raise the limit."""
        self._allowance += TIMES * elements

    def add_computed(self, where: str, elements: int) -> None:
        """Add the elements of a constant that `where` computes.

        Raises:
            ModelError: the budget does not allow so many, or the time is over.
        """
        self._elements += elements
        if self._elements > self._allowance:
            raise _error(
                f"{where} computes {elements:,} elements while the model is loaded, "
                f"{self._elements:,} together with earlier constants; the limit is "
                f"{self._allowance:,}",
                "elements",
            )
        self.check_time(where)

    def check_nodes(self, where: str, count: int) -> None:
        """Raise if the graph has more nodes than allowed, or the time is over.

        Raises:
            ModelError: the graph has too many nodes, or the time is over.
        """
        if count > self.budget.nodes:
            problem = f"{where} makes more than {self.budget.nodes:,} nodes"
            raise _error(problem, "nodes")
        self.check_time(where)

    def check_time(self, where: str) -> None:
        """Raise if loading takes longer than allowed.

        Raises:
            ModelError: the time is over.
        """
        if monotonic() > self._end:
            problem = f"loading takes more than {self.budget.seconds:g} s, at {where}"
            raise _error(problem, "seconds")


def _error(problem: str, limit: str) -> ModelError:
    """Build the error for a budget that is used up."""
    return ModelError(problem, f"If you trust the file, allow more {limit} in budget=")
