"""Options of operations: numbers, names and truth values that are not dispatched on."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from mdtensor.errors import OptionError, shown


def number(value: Any, name: str, least: float | None = None) -> float:
    """`value` as a float.

    Raises:
        OptionError: it is no real number, or below `least`.

    Example:
        >>> number(1, "eps"), number(2.5, "p", least=0)
        (1.0, 2.5)
    """
    fix = "Use a real number" if least is None else f"Use a real number from {least} on"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise OptionError(f"{name} is {shown(value)}", fix)
    try:
        found = float(value)
    except OverflowError:
        found = float("inf") if abs(value) == value else float("-inf")
    if least is not None and not found >= least:
        raise OptionError(f"{name} is {shown(value)}", fix)
    return found


def choice(value: Any, name: str, known: Sequence[str]) -> str:
    """`value`, which is one of the `known` names.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(map(repr, known))
        raise OptionError(f"{name} is {shown(value)}", f"Use one of {listed}")
    return value


def flag(value: Any, name: str) -> bool:
    """`value`, which is True or False.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {shown(value)}", "Use True or False")
    return value
