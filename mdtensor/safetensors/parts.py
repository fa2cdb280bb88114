"""Conversion of tensors to named arrays and back, with a note on their structure.

A tensor `w` of one array is stored as the array `w` if the array's type determines the
element type. Any other tensor is stored as arrays `w`, `w_scale` and so on, by
`to_parts` of its type, with a note in the metadata. The key is `mdtensor`, the value
is JSON:

    {"version": 1,
     "tensors": {"w": {"type": "qint8", "parts": ["", "_scale"], "facts": {"axis": 0}}}}

The name selects one of the registered types, so a file never imports code.
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
def split_tensor(name: str, x: Any) -> tuple[dict[str, Array], Note | None]:
    """Return the arrays of a tensor by name, and a note if they need one."""
    if not isinstance(x, Tensor):
        raise StorageError(
            f"{shown(name)} is a {type(x).__name__}, not a tensor", "Use asarray(x)"
        )
    # A silent move from a device could be slow, so the caller decides.
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
    """Return the tensor type of `from_numpy` for arrays of dtype `stored`, or None."""
    try:
        return leaf(find_dtype(stored))
    except MdtensorError:
        return None


def note_metadata(notes: Mapping[str, Note]) -> dict[str, str]:
    """Return metadata with the notes, empty if there are none."""
    text = {"version": VERSION, "tensors": dict(notes)}
    return {KEY: json.dumps(text, separators=(",", ":"))} if notes else {}


def pop_notes(metadata: dict[str, str], names: set[str]) -> dict[str, Note]:
    """Remove the notes from the metadata and return them by name.

    Args:
        metadata: the texts of a file; loses its notes.
        names: the names of all arrays in the file.

    Raises:
        StorageError: the version is unknown, the notes are malformed, or they name
            arrays that are not in the file.
    """
    if KEY not in metadata:
        return {}
    try:
        found = json.loads(metadata.pop(KEY))
    except (ValueError, RecursionError):
        raise StorageError("the note on tensors is not JSON") from None
    version = found.get("version") if isinstance(found, dict) else None
    # True equals 1, but is not a version.
    if version != VERSION or type(version) is not int:
        raise StorageError(
            f"the note on tensors has version {shown(version)}, but this mdtensor "
            f"reads {VERSION}",
            "Read it with the mdtensor that wrote it, or a later one",
        )
    notes = found.get("tensors")
    if not isinstance(notes, dict):
        raise StorageError("the note on tensors does not list any")
    # Two tensors must not share an array.
    free = set(names)
    for name, note in notes.items():
        _check_note(name, note)
        own = {name + ending for ending in note["parts"]}
        if not own <= free or len(own) < len(note["parts"]):
            missing = sorted(own - free) or [name]
            raise StorageError(
                f"{shown(name)} has a part {shown(missing[0])} that does not exist or "
                "belongs to another tensor"
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
        raise StorageError(f"the note on {shown(name)} lacks type, parts or facts")


def join_tensor(name: str, note: Note | None, array: Callable[[str], Array]) -> Tensor:
    """Return the tensor `name`, made of the arrays that `array` returns by name.

    Raises:
        StorageError: the type is not registered, or the parts do not fit the type.
    """
    if note is None:
        return _dense(name, array(name))
    parts = {ending: array(name + ending) for ending in note["parts"]}
    try:
        # Errors of `from_parts` do not know the name of the tensor.
        return _find_type(note["type"]).from_parts(parts, note["facts"])
    except StorageError as error:
        raise StorageError(f"{shown(name)}: {error.problem}", error.fix) from None
    except MdtensorError as error:
        raise StorageError(f"{shown(name)}: {error}".rstrip(".")) from None


def _dense(name: str, array: Array) -> Tensor:
    try:
        return from_numpy(array)
    except MdtensorError:
        raise StorageError(
            f"{shown(name)} holds {array.dtype}, which is not an element type",
            f"Read the array: safe_open(filename).array({shown(name)})",
        ) from None


def _find_type(name: str) -> type[Tensor]:
    try:
        return leaf(find_dtype(name))
    except OptionError:
        raise StorageError(
            f"the element type {shown(name)} is not registered",
            "Import the package that declares it, such as mdtensor.quant",
        ) from None
