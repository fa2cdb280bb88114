"""Checks of the rows of a stored plan, before any kernel runs."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor_run.packing import Packing
from mdtensor_run.row import ALIGN, SLACK, Refused, Row
from mdtensor_run.rules_of_codes import RULES as OF_CODES
from mdtensor_run.rules_of_floats import RULES as OF_FLOATS
from mdtensor_run.rules_of_sequences import RULES as OF_SEQUENCES

#: The rule of each kind of step, by the name of its function.
RULES = OF_CODES | OF_FLOATS | OF_SEQUENCES


# Kernels do not test their indices, so a plan is checked once, when it is loaded
# (decision 0064).
def check_rows(
    rows: npt.NDArray[Any],
    kernels: Sequence[str],
    arena: int,
    constants: npt.NDArray[np.uint8],
    packing: Packing,
) -> list[Row]:
    """Return the rows as Python numbers, after all checks.

    Args:
        rows: the records; the field `kind` is an index of `kernels`.
        kernels: names of functions.
        arena: its bytes.
        constants: of all steps.

    Raises:
        Refused: a kernel could read or write other bytes than its own.
    """
    found, names = [], rows.dtype.names or ()
    window = rows.dtype["window"].names or ()
    # Arrays inside of a record stay arrays, whose integers would overflow.
    arrays = [name for name in names if rows.dtype[name].shape]
    for number, values in enumerate(rows.tolist()):
        named = dict(zip(names, values, strict=True))
        pairs = zip(window, named["window"], strict=True)
        named["window"] = SimpleNamespace(**dict(pairs))
        for name in arrays:
            named[name] = np.asarray(named[name]).tolist()
        row = Row(named, constants, packing)
        try:
            _check(row, kernels, arena, constants.size)
        except Refused as problem:
            raise Refused(f"step {number} {problem}") from None
        found.append(row)
    return found


def _check(row: Row, kernels: Sequence[str], arena: int, constants: int) -> None:
    """Check the buffers of a row, then what its kernel does with them."""
    f = row.fields
    row.ints("kind", least=0, most=len(kernels) - 1)
    rule = RULES.get(kernels[f.kind])
    row.require(rule is not None, f"runs {kernels[f.kind]}, which has no rule")
    # The loop over steps skips a step without a result.
    if f.out_bytes == 0:
        return
    for name in ("x", "y", "out", "constants"):
        place, size = row.ints(name, f"{name}_bytes", least=0)
        slack = 0 if name == "constants" else SLACK
        room = constants if name == "constants" else arena
        row.require(place % ALIGN == 0, f"has {name} at {place}")
        row.require(
            place + size + slack <= room, f"has {name} at {place} + {size} of {room}"
        )
    row.ints("scratch_bytes", least=0, most=arena)
    _require_apart(row)
    row.needs["out"] = f.out_bytes
    if rule is not None:
        rule(row)


def _require_apart(row: Row) -> None:
    """Require that a kernel cannot change its input while it reads it.

    Indices into tables come from inputs, and are not tested.
    """
    f = row.fields
    for name in ("x", "y"):
        place, size = getattr(f, name), getattr(f, f"{name}_bytes")
        is_apart = place + size <= f.out or f.out + f.out_bytes <= place
        row.require(is_apart, f"writes its own input {name}")
        row.require(f.scratch_bytes <= place, f"has scratch in its input {name}")
    row.require(f.scratch_bytes <= f.out, "has scratch in its result")
