"""What is promised to be covered: every tuple of types has one method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mdtensor.diagnose.hints import hint
from mdtensor.diagnose.source import source
from mdtensor.errors import OptionError, shown

_CONTRACTS: dict[tuple[int, tuple[Any, ...]], Contract] = {}


@dataclass(frozen=True, eq=False)
class Contract:
    """A promise about a function.

    Args:
        function: the operation or function of plum.
        types: for each argument the annotation whose every class is covered.
    """

    function: Any
    types: tuple[Any, ...]

    def withdraw(self) -> None:
        """Take the promise back."""
        _CONTRACTS.pop((id(self.function), self.types), None)


def contract(function: Any, /, *types: Any) -> Contract:
    """Promise that `function` has one method for all concrete arguments of `types`.

    `analyze` reports what breaks the promise as MDT012.

    Args:
        function: an operation or a function of plum.
        types: for each argument a class, or a Union of classes.

    Returns:
        The promise, which can be withdrawn.

    Raises:
        OptionError: `function` is neither, or a type is more than classes.

    Example:
        >>> import mdtensor as md
        >>> promise = contract(md.neg, md.NumericTensor)
        >>> from mdtensor.diagnose import analyze
        >>> [f.rule for f in analyze(md.neg).findings if f.rule == "MDT012"]
        []
        >>> promise.withdraw()

    Source: ours.
    """
    source(function)
    for kind in types:
        if hint(kind).exotic is not None:
            raise OptionError(f"{shown(kind)} is no class", "Promise classes or Unions")
    new = Contract(function, types)
    return _CONTRACTS.setdefault((id(function), types), new)


def contracts_of(functions: Any) -> tuple[Contract, ...]:
    """The promises about some functions, in the order they were made."""
    wanted = set(map(id, functions))
    return tuple(c for c in _CONTRACTS.values() if id(c.function) in wanted)
