"""Rounding to a grid by another rule than the exact one: which operation does what.

A rule gives the results of one library, bit for bit, for the operations that library
has on codes. What it has none of is refused by name, never approximated.
"""

from typing import Any

import numpy as np

from mdtensor import OptionError
from mdtensor.errors import written
from mdtensor.quant import rules
from mdtensor.quant.presets.table import TABLE
from mdtensor.quant.qparams import QParams


def rule_for(operation: str, out: QParams | None) -> Any:
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
        raise OptionError(
            f"{written('rounding', rule)} has no rule for {operation}",
            f"It has one for {', '.join(sorted(TABLE[rule]))}; "
            f"use {written('rounding', rules.EXACT)} here",
            operation,
        )
    return found


def ruled(operation: str, out: QParams | None) -> Any:
    """As `rule_for`, to be called with tensors: overflow is a rule's own matter."""
    found = rule_for(operation, out)
    return None if found is None else _quiet()(found.__call__)


def admit(
    operation: str, *specs: Any, out: QParams | None = None, **options: Any
) -> None:
    """Refuse a call that the rule in force does not compute.

    Raises:
        MdtensorError: as the call itself would.
    """
    if found := rule_for(operation, out):
        _quiet()(found.allow)(*specs, out, **options)


def _quiet() -> np.errstate:
    return np.errstate(over="ignore", invalid="ignore")
