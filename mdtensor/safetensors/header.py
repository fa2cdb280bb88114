"""The header of a safetensors file: which arrays it holds, and where.

    8 bytes, little endian: the size n of the header
    n bytes of JSON: {name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
    the elements, row-major, from one array to the next without a gap

`__metadata__` in the place of a name holds texts by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import prod
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from mdtensor.errors import StorageError, shown

LENGTH: Final = 8
#: What the package `safetensors` reads, too.
LONGEST: Final = 100_000_000
METADATA: Final = "__metadata__"
#: NumPy's limit.
_AXES = 64

#: The types that the format names, as it sorts arrays: the last ones come first.
STORED: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(stored)
    for name, stored in {
        "BOOL": np.bool_,
        "U8": np.uint8,
        "I8": np.int8,
        "F8_E5M2": ml_dtypes.float8_e5m2,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E8M0": ml_dtypes.float8_e8m0fnu,
        "I16": np.int16,
        "U16": np.uint16,
        "F16": np.float16,
        "BF16": ml_dtypes.bfloat16,
        "I32": np.int32,
        "U32": np.uint32,
        "F32": np.float32,
        "C64": np.complex64,
        "F64": np.float64,
        "I64": np.int64,
        "U64": np.uint64,
    }.items()
}
_NAMES = {stored: name for name, stored in STORED.items()}
_ORDER = list(STORED)


class Entry(NamedTuple):
    """One array: its type by the format's name, and its bytes behind the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Header(NamedTuple):
    """What a file says of itself, and where its elements begin."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    start: int


def type_name(stored: np.dtype[Any]) -> str | None:
    """The format's name of a NumPy type; None if it has none."""
    return _NAMES.get(stored)


def written(
    shapes: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> tuple[bytes, list[str]]:
    """The bytes before the elements, and the names in the order of their arrays.

    Args:
        shapes: type and shape of each array.
        metadata: texts by name.
    """
    names = sorted(shapes, key=lambda n: (-_ORDER.index(shapes[n][0]), n))
    sizes = [STORED[shapes[n][0]].itemsize * prod(shapes[n][1]) for n in names]
    stops = list(accumulate(sizes))
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    for name, size, stop in zip(names, sizes, stops, strict=True):
        dtype, shape = shapes[name]
        offsets = [stop - size, stop]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # elements begin where any type may
    if len(text) > LONGEST:
        raise StorageError(f"the header has {len(text)} bytes, more than {LONGEST}")
    return len(text).to_bytes(LENGTH, "little") + text, names


def header_size(first: bytes, total: int) -> int:
    """The size of the header of a file of `total` bytes, of which these are the first.

    Raises:
        StorageError: it is no such file.
    """
    size = int.from_bytes(first[:LENGTH], "little")
    if total < LENGTH or size > LONGEST or LENGTH + size > total:
        raise StorageError(
            f"no safetensors file, or cut short: {total} bytes", "Copy it again"
        )
    return size


def parsed(text: bytes, total: int) -> Header:
    """The header that `text` is, of a file of `total` bytes.

    Raises:
        StorageError: it does not describe such a file, to the last byte.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once)
        json.dumps(found, ensure_ascii=False).encode()  # no half of a pair in a text
    except StorageError:
        raise
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise StorageError("the header is no JSON") from None
    if not isinstance(found, dict):
        raise StorageError("the header is no JSON object")
    metadata = _metadata(found.pop(METADATA, {}))
    entries = {name: _entry(name, given) for name, given in found.items()}
    start = LENGTH + len(text)
    _check_gapless(entries.values(), total - start)
    return Header(entries, metadata, start)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise StorageError("the header has a name twice")
    return found


def _metadata(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(
        isinstance(text, str) for text in given.values()
    ):
        raise StorageError("the metadata are not texts by name")
    return given


def _entry(name: str, given: Any) -> Entry:
    fields = {"dtype", "shape", "data_offsets"}
    if not isinstance(given, dict) or set(given) != fields:
        raise StorageError(f"{shown(name)} has not the fields dtype, shape and offsets")
    dtype, shape, offsets = (given[f] for f in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str):
        raise StorageError(f"the dtype of {shown(name)} is {shown(dtype)}")
    if not are_sizes(shape) or len(shape) > _AXES or _elements(shape) >= 2**60:
        raise StorageError(f"the shape of {shown(name)} is {shown(shape)}")
    if not are_sizes(offsets) or len(offsets) != 2:
        raise StorageError(f"the offsets of {shown(name)} are {shown(offsets)}")
    start, stop = offsets
    width = STORED[dtype].itemsize if dtype in STORED else None
    if start > stop or (width and width * prod(shape) != stop - start):
        raise StorageError(
            f"{shown(name)}, {dtype} of shape {shown(tuple(shape))}, has bytes {start} "
            f"to {stop}"
        )
    return Entry(dtype, tuple(shape), start, stop)


def are_sizes(given: Any) -> bool:
    """Whether it is a list of integers from 0."""
    return isinstance(given, list) and all(
        type(size) is int and size >= 0 for size in given
    )


def _elements(shape: list[int]) -> int:
    """How many there would be if no size was 0, which NumPy wants to fit 64 bits."""
    return prod(size for size in shape if size)


def _check_gapless(entries: Iterable[Entry], total: int) -> None:
    """Refuse arrays that overlap, or bytes that belong to none."""
    end = 0
    for entry in sorted(entries, key=lambda e: (e.start, e.stop)):
        if entry.start != end:
            raise StorageError(f"an array begins at byte {entry.start}, not at {end}")
        end = entry.stop
    if end != total:
        raise StorageError(
            f"the arrays have {end} bytes, the file holds {total}", "Copy it again"
        )
