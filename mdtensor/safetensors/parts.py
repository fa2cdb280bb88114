"""Tensors as arrays that have names, and a note of what several are together.

A tensor `w` of one array, whose element type the array's own says, is the array `w`.
Any other is arrays `w`, `w_scale` and so on, by `to_parts` of its type, and a note in
the metadata at `mdtensor`, which is JSON:

    {"version": 1,
     "tensors": {"w": {"type": "qint8", "parts": ["", "_scale"], "facts": {"axis": 0}}}}

A type is found by its name among those that are registered; a file imports nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mdtensor.device import cpu
from mdtensor.dtypes import dtype as find_dtype
from mdtensor.errors import (
    MdtensorError,
    OptionError,
    StorageError,
    describe,
    shown,
)
from mdtensor.tensor import Tensor, from_numpy, leaf

Array = npt.NDArray[Any]
Note = dict[str, Any]

#: The key of the notes in a file's metadata, and their version.
KEY: Final = "mdtensor"
VERSION: Final = 1


# Scales are arrays of their own, so that other readers of the format see them (decision
# 0028).
def taken_apart(name: str, x: Any) -> tuple[dict[str, Array], Note | None]:
    """The arrays of a tensor by their names, and a note unless they say it all."""
    if not isinstance(x, Tensor):
        raise StorageError(
            f"{shown(name)} is a {type(x).__name__}, not a tensor", "Use asarray(x)"
        )
    if x.device is not cpu:
        raise StorageError(
            f"{shown(name)} is on {x.device}", "Move it with to(cpu)", describe("", x)
        )
    parts, facts = x.to_parts()
    arrays = {name + ending: array for ending, array in parts.items()}
    if not facts and set(parts) == {""} and _own_type(parts[""].dtype) is type(x):
        return arrays, None
    return arrays, {"type": x.dtype.name, "parts": [*parts], "facts": facts}


def _own_type(stored: np.dtype[Any]) -> type[Tensor] | None:
    """What `from_numpy` makes of such an array."""
    try:
        return leaf(find_dtype(stored))
    except MdtensorError:
        return None


def noted(notes: Mapping[str, Note]) -> dict[str, str]:
    """The metadata that hold the notes by name, if there are any."""
    text = {"version": VERSION, "tensors": dict(notes)}
    return {KEY: json.dumps(text, separators=(",", ":"))} if notes else {}


def notes_in(metadata: dict[str, str], names: set[str]) -> dict[str, Note]:
    """The notes by name, taken out of the metadata; their arrays are all among `names`.

    Raises:
        StorageError: another version, no notes, or notes of arrays that are not there.
    """
    if KEY not in metadata:
        return {}
    try:
        found = json.loads(metadata.pop(KEY))
    except (ValueError, RecursionError):
        raise StorageError("the note on tensors is no JSON") from None
    version = found.get("version") if isinstance(found, dict) else None
    if version != VERSION or type(version) is not int:
        raise StorageError(
            f"the note on tensors has version {shown(version)}, this reads {VERSION}",
            "Read it with the mdtensor that wrote it, or a later one",
        )
    notes = found.get("tensors")
    if not isinstance(notes, dict):
        raise StorageError("the note on tensors names none")
    free = set(names)
    for name, note in notes.items():
        _check_note(name, note)
        own = {name + ending for ending in note["parts"]}
        if not own <= free or len(own) < len(note["parts"]):
            missing = sorted(own - free) or [name]
            raise StorageError(
                f"{shown(name)} has a part {shown(missing[0])} that is not there, or "
                "is another's"
            )
        free -= own
    return notes


def _check_note(name: str, note: Any) -> None:
    fields = {"type": str, "parts": list, "facts": dict}
    if (
        not isinstance(note, dict)
        or set(note) != set(fields)
        or not all(isinstance(note[field], kind) for field, kind in fields.items())
        or not all(isinstance(ending, str) for ending in note["parts"])
    ):
        raise StorageError(f"the note on {shown(name)} has not type, parts and facts")


def put_together(name: str, note: Note | None, array: Callable[[str], Array]) -> Tensor:
    """The tensor `name` of the arrays that `array` gives by name.

    Raises:
        StorageError: its type is not registered, or these are no parts of it.
    """
    if note is None:
        return _dense(name, array(name))
    parts = {ending: array(name + ending) for ending in note["parts"]}
    try:
        return _registered(note["type"]).from_parts(parts, note["facts"])
    except StorageError as error:
        raise StorageError(f"{shown(name)}: {error.problem}", error.fix) from None
    except MdtensorError as error:
        raise StorageError(f"{shown(name)}: {error}".rstrip(".")) from None


def _dense(name: str, array: Array) -> Tensor:
    try:
        return from_numpy(array)
    except MdtensorError:
        raise StorageError(
            f"{shown(name)} holds {array.dtype}, which no type of tensors does",
            f"Take the array: safe_open(filename).array({shown(name)})",
        ) from None


def _registered(name: str) -> type[Tensor]:
    try:
        return leaf(find_dtype(name))
    except OptionError:
        raise StorageError(
            f"no element type is called {shown(name)}",
            "Import the package that declares it, such as mdtensor.quant",
        ) from None
