"""A way of dispatch: what is called, and what it is called with."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from bench.harness import Contender
from bench.harness.agreement import Disagreement
from bench.rivals.kernels import NAMES


@dataclass(frozen=True)
class Way:
    """One way to come from two arguments to the kernel for their types.

    Args:
        name: of the way.
        call: the function.
        argument: a value of the element type of that name.
        statement: how it is called, on `a` and `b`.
        refusal: what types without a kernel raise; none where they are not looked at.
        knows: the element types it is for; one, where it was chosen before.
    """

    name: str
    call: Callable[..., Any]
    argument: Callable[[str], Any]
    statement: str = "call(a, b)"
    refusal: type[Exception] | None = TypeError
    knows: tuple[str, ...] = NAMES

    def contender(self, element: str) -> Contender:
        """Two arguments of one element type."""
        names = {"call": self.call, "a": self.argument(element)}
        names["b"] = self.argument(element)
        return Contender(self.name, self.statement, names)

    def run(self, first: str, second: str) -> Any:
        names = {"call": self.call, "a": self.argument(first)}
        return eval(self.statement, names | {"b": self.argument(second)})


def check_ways(ways: Iterable[Way]) -> None:
    """All pairs of types give their kernel, or the refusal that there is none.

    Raises:
        Disagreement: a way does not.
    """
    for way in ways:
        for first, second in product(way.knows, repeat=2):
            if first == second or way.refusal:
                wanted = first if first == second else way.refusal
                if (found := _outcome(way, first, second)) is not wanted:
                    call = f"{way.name} of {first} and {second}"
                    raise Disagreement(f"{call} gives {found!r}")


def _outcome(way: Way, first: str, second: str) -> Any:
    try:
        return way.run(first, second)
    except Exception as error:
        if way.refusal and isinstance(error, way.refusal):
            return way.refusal
        raise
