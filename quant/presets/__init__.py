"""Presets: rounding rules other than `exact`, each equal to one library bit for bit.

A rule covers the operations that its library has on codes. Any other operation raises
an error that names it; results are never approximated.
"""

from typing import Any

import numpy as np

from mdtensor import OptionError
from mdtensor.errors import written
from mdtensor.quant import rules
from mdtensor.quant.qparams import QParams


def find_rule(operation: str, out: QParams | None) -> Any:
    """Return the `Preset` of `calls.py` that computes `operation` by the rule in force.

    Args:
        out: the grid of the result. Its rule applies, else the rule of the context.

    Returns:
        None if the rule is `exact`, or if `out` is None.

    Raises:
        OptionError: the rule does not define the operation.
    """
    if out is None:
        return None
    rule = out.rounding or rules.current()
    if rule == rules.EXACT:
        return None
    # Imported late: most programs round by the rule `exact` (decision 0091).
    from mdtensor.quant.presets.table import TABLE

    found = TABLE[rule].get(operation)
    if found is None:
        raise OptionError(
            f"{written('rounding', rule)} does not define {operation}",
            f"It defines {', '.join(sorted(TABLE[rule]))}; "
            f"use {written('rounding', rules.EXACT)} here",
            operation,
        )
    return found


def rounding_rule(operation: str, out: QParams | None) -> Any:
    """Return the result of `find_rule` as a function of tensors, or None."""
    found = find_rule(operation, out)
    # The kernels reproduce how a library overflows, so NumPy must not warn of it.
    return None if found is None else _quiet()(found.__call__)


def admit(
    operation: str, *specs: Any, out: QParams | None = None, **options: Any
) -> None:
    """Raise if the rule in force does not compute a call.

    Args:
        specs: the arguments of the call, as specs.
        out: the grid of the result.
        options: all other options of the call.

    Raises:
        MdtensorError: the error that the call itself would raise.
    """
    if found := find_rule(operation, out):
        _quiet()(found.allow)(*specs, out, **options)


def _quiet() -> np.errstate:
    return np.errstate(over="ignore", invalid="ignore")
