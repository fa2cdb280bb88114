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


def ruled(operation: str, out: QParams | None) -> Any:
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
    return np.errstate(over="ignore", invalid="ignore")(found.__call__)
