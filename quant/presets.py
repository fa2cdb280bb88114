"""Rounding to a grid by another rule than the exact one: which operation does what.

A rule gives the results of one library, bit for bit, for the operations that library
has on codes. What it has none of is refused by name, never approximated.
"""

from collections.abc import Callable
from typing import Any

from mdtensor import OptionError
from mdtensor.quant import rules
from mdtensor.quant.qparams import QParams

#: Takes the tensors of a call and its grid, gives the result on it.
Ruled = Callable[..., Any]
#: By rule, then by operation.
TABLE: dict[str, dict[str, Ruled]] = {name: {} for name in rules.NAMES}


def ruled(operation: str, out: QParams | None) -> Ruled | None:
    """What computes `operation` by the rule in force; None if that is `exact`.

    Raises:
        OptionError: the rule does not define the operation.
    """
    if out is None:
        return None
    rule = out.rounding or rules.current()
    if rule == rules.EXACT:
        return None
    found = TABLE[rule].get(operation)
    if found is None:
        defined = ", ".join(sorted(TABLE[rule])) or "nothing"
        raise OptionError(
            f"rounding={rule!r} has no rule for {operation}",
            f"It has one for {defined}; use rounding='exact' here",
            operation,
        )
    return found
