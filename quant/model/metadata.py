"""What a file says that ONNX has no place for, in its metadata.

mdtensor.rounding       the rule that results are rounded by
mdtensor.narrow_range   names of codes that leave out the smallest, as JSON
mdtensor.notes          why nodes stayed float, by their names, as JSON
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mdtensor.errors import ModelError, OptionError
from mdtensor.quant.rules import EXACT, check_rule

ROUNDING, NARROW_RANGE = "mdtensor.rounding", "mdtensor.narrow_range"
NOTES = "mdtensor.notes"


def properties(
    rounding: str, narrow: Iterable[str], notes: Mapping[str, str]
) -> dict[str, str]:
    """What is to be written; nothing of what is as everywhere."""
    found = {} if rounding == EXACT else {ROUNDING: rounding}
    if names := sorted(narrow):
        found[NARROW_RANGE] = json.dumps(names)
    if notes:
        found[NOTES] = json.dumps(dict(notes))
    return found


def rule_in(model: Any) -> str:
    """The rule that the metadata of a file names; `exact` if it names none.

    Raises:
        ModelError: it names one that is not known here.
    """
    try:
        return check_rule(_found(model).get(ROUNDING, EXACT))
    except OptionError as error:
        raise ModelError(f"the file's {error.problem}", error.fix) from None


def narrow_in(model: Any) -> frozenset[str]:
    """The names of codes that leave out the smallest.

    Raises:
        ModelError: what the file has there is no list of names.
    """
    text = _found(model).get(NARROW_RANGE, "[]")
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ModelError(
            f"the file's {NARROW_RANGE} is no list of names", "Save the model again"
        )
    return frozenset(names)


def notes_in(model: Any) -> dict[str, str]:
    """Why nodes stayed float; only for reports, so what is no such note is left out."""
    try:
        notes = json.loads(_found(model).get(NOTES, "{}"))
    except ValueError:
        return {}
    pairs = notes.items() if isinstance(notes, dict) else ()
    return {name: why for name, why in pairs if isinstance(why, str)}


def _found(model: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}
