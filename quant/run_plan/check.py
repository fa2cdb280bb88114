"""Checks of the rows of a stored plan, before any kernel runs."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor_run.packing import Packing
from mdtensor_run.row import ALIGN, ITEM, SLACK, Refused, Row
from mdtensor_run.rules_of_codes import RULES as OF_CODES
from mdtensor_run.rules_of_dynamic import RULES as OF_DYNAMIC
from mdtensor_run.rules_of_floats import RULES as OF_FLOATS
from mdtensor_run.rules_of_plain import RULES as OF_PLAIN
from mdtensor_run.rules_of_sequences import RULES as OF_SEQUENCES

#: The rule of each kind of step, by the name of its function.
RULES = OF_CODES | OF_FLOATS | OF_SEQUENCES | OF_DYNAMIC | OF_PLAIN


# Kernels do not test their indices, so a plan is checked once, when it is loaded
# (decision 0064).
def check_rows(
    rows: npt.NDArray[Any],
    kernels: Sequence[str],
    arena: int,
    constants: npt.NDArray[np.uint8],
    packing: Packing,
    are_pieces: bool = False,
) -> list[Row]:
    """Return the rows as Python numbers, after all checks.

    Args:
        rows: the records; the field `kind` is an index of `kernels`.
        kernels: names of functions.
        arena: its bytes.
        constants: of all steps.
        are_pieces: whether values may begin anywhere, as in pieces of steps.

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
        row.is_piece = are_pieces
        try:
            _check(row, kernels, arena, constants.size, are_pieces)
        except Refused as problem:
            raise Refused(f"step {number} {problem}") from None
        found.append(row)
    return found


def _check(
    row: Row, kernels: Sequence[str], arena: int, constants: int, is_piece: bool
) -> None:
    """Check the buffers of a row, then what its kernel does with them."""
    f = row.fields
    row.ints("kind", least=0, most=len(kernels) - 1)
    rule = RULES.get(kernels[f.kind])
    row.require(rule is not None, f"runs {kernels[f.kind]}, which has no rule")
    row.ints("scratch_bytes", least=0, most=arena)
    # The loop over steps skips a step without a result, after it made its scratch.
    if f.out_bytes == 0:
        return
    # Rules of codes say which buffers hold numbers, see `Row.holds_numbers`.
    item = 1 if kernels[f.kind] in OF_CODES else ITEM
    for name in ("x", "y", "out", "constants"):
        align = item if is_piece and name != "constants" else ALIGN
        place, size = row.ints(name, f"{name}_bytes", least=0)
        slack = 0 if name == "constants" else SLACK
        room = constants if name == "constants" else arena
        row.require(place % align == 0, f"has {name} at {place}")
        row.require(
            place + size + slack <= room, f"has {name} at {place} + {size} of {room}"
        )
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


#: The most pieces and rows of a group, since all are compared with each other.
MOST_PIECES, MOST_ROWS = 64, 1024


# A kernel may read a value twice, so another thread must not write it (decision 0095).
def check_apart(rows: Sequence[Row], pieces: Iterable[tuple[int, int]]) -> None:
    """Require that no piece writes what another one of its group reads or writes.

    Args:
        rows: the result of `check_rows`.
        pieces: the first row of each piece, and the row after its last.

    Raises:
        Refused: two pieces are not independent, or there are very many.
    """
    own = [[row.fields for row in rows[a:b] if row.fields.out_bytes] for a, b in pieces]
    count = sum(map(len, own))
    if len(own) > MOST_PIECES or count > MOST_ROWS:
        raise Refused(f"has {len(own)} pieces of {count} rows at once")
    for i, writers in enumerate(own):
        for f in writers:
            for others in own[:i] + own[i + 1 :]:
                for other in others:
                    _require_clear(f, other)


def check_groups(
    rows: Sequence[Row], pieces: npt.NDArray[Any], first: npt.NDArray[Any], most: int
) -> None:
    """Require that threads find whole pieces, and that those of a group are apart.

    Args:
        rows: the result of `check_rows`.
        pieces: int64 [pieces, 2]; the first row, and the row after the last.
        first: int64 [groups + 1], the first piece of each group, and their number.
        most: of groups.

    Raises:
        Refused: a place is not one, or pieces are not independent.
    """
    places, starts = pieces.tolist(), first.tolist()
    # One behind the other, so that the work below does not exceed that of all rows.
    ends = [0, *(b for _, b in places)][: len(places)]
    pairs = zip(ends, places, strict=True)
    if any(not end <= a <= b <= len(rows) for end, (a, b) in pairs):
        raise Refused("has a piece of rows that do not exist, or of another piece")
    # The loop runs the first row of a piece before it looks where the piece ends, so
    # it would run on behind all rows.
    if any(a == b for a, b in places):
        raise Refused("has a piece without rows")
    is_whole = 1 <= len(starts) - 1 <= most and starts[0] == 0
    if not is_whole or starts[-1] != len(places) or starts != sorted(starts):
        raise Refused("has groups of pieces that do not exist")
    for a, b in pairwise(starts):
        check_apart(rows, places[a:b])


def _require_clear(f: Any, other: Any) -> None:
    """Require that a step writes no value that another one reads or writes."""
    for name in ("x", "y", "out"):
        place, size = getattr(other, name), getattr(other, f"{name}_bytes")
        if place < f.out + f.out_bytes and f.out < place + size:
            raise Refused(f"writes {name} of a piece that may run at once")
        # The thread that calls has its scratch in the arena, and may take any piece.
        if place < f.scratch_bytes:
            raise Refused(f"has scratch in {name} of a piece that may run at once")
