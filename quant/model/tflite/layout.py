"""The binary layout of a TFLite file: a FlatBuffer, checked before anything reads it.

A FlatBuffer is a tree of tables that point to each other by offsets. The package
flatbuffers follows offsets without a check, so a damaged file could make it read other
parts, or loop. `check_layout` visits each table and vector that the reader will use;
after that every offset and every length is inside the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import unpack_from
from typing import Any

from mdtensor.errors import ModelError
from mdtensor.quant.model.tflite.identifier import IDENTIFIER

#: How often a part may be read through several offsets: the builder of LiteRT's
#: converter shares empty vectors and equal strings.
SHARED = 4


@dataclass(frozen=True)
class Vector:
    """A vector of numbers, or a text.

    Args:
        width: bytes of one element.
    """

    width: int


@dataclass(frozen=True)
class Tables:
    """A vector of tables of one kind."""

    fields: Mapping[int, Any]


@dataclass(frozen=True)
class Union:
    """A table whose kind another field names.

    Args:
        kind: the slot of that field, a byte.
        choices: the fields of each kind; other kinds are tables of unknown fields.
    """

    kind: int
    choices: Mapping[int, Mapping[int, Any]]


# The fields of each table by their slot: the bytes of a number, or what the offset
# there leads to. Slots that the reader does not use are omitted.
INT8S, INT32S, INT64S = Vector(1), Vector(4), Vector(8)
SHORTS = Vector(2)
INDICES = {1: {0: INT32S}, 2: {0: SHORTS}, 3: {0: INT8S}}
DIMENSION = {0: 1, 1: 4, 2: 1, 3: Union(2, INDICES), 4: 1, 5: Union(4, INDICES)}
SPARSITY = {0: INT32S, 1: INT32S, 2: Tables(DIMENSION)}
GRID = {2: INT32S, 3: INT64S, 4: 1, 6: 4}
TENSOR = {0: INT32S, 1: 1, 2: 4, 3: INT8S, 4: GRID, 5: 1, 6: SPARSITY, 7: INT32S, 8: 1}
#: Options with more than numbers, by their number in `tflite.BuiltinOptions`.
OPTIONS = {17: {0: INT32S}, 30: {0: INT32S}, 111: {0: INT8S, 1: INT8S}}
OPERATOR = {0: 4, 1: INT32S, 2: INT32S, 3: 1, 4: Union(3, OPTIONS), 5: INT8S, 6: 1}
SUBGRAPH = {0: Tables(TENSOR), 1: INT32S, 2: INT32S, 3: Tables(OPERATOR), 4: INT8S}
CODE = {0: 1, 1: INT8S, 2: 4, 3: 4}
BUFFER = {0: INT8S, 1: 8, 2: 8}
MODEL = {0: 4, 1: Tables(CODE), 2: Tables(SUBGRAPH), 4: Tables(BUFFER)}


# flatbuffers follows damaged offsets, so they are checked in one place (decision 0057).
def check_layout(data: bytes, what: object) -> None:
    """Raise unless all parts of a TFLite file that the reader uses are inside of it.

    Args:
        data: the bytes of the file.
        what: the name of the file, for the error.

    Raises:
        ModelError: the file is not a TFLite model, is truncated, or is damaged.
    """
    if data[4:8] != IDENTIFIER:
        problem = f"{what} is not a TFLite model: {len(data)} bytes"
        raise ModelError(problem, "Give a file that begins with 4 bytes and 'TFL3'")
    _Walk(data, what).run()


class _Walk:
    """A walk over the tables of a file, with a list instead of recursion.

    Its work is limited by the bytes of the file: tables and vectors may be shared, but
    not so often that a small file causes much work.
    """

    def __init__(self, data: bytes, what: object) -> None:
        self._data, self._what = data, what
        self._left = SHARED * len(data)
        self._waiting: list[tuple[int, Mapping[int, Any]]] = []

    def run(self) -> None:
        self._waiting.append((self._offset(0), MODEL))
        while self._waiting:
            self._table(*self._waiting.pop())

    def _table(self, at: int, fields: Mapping[int, Any]) -> None:
        """Check a table, and note the tables that it leads to."""
        self._require(at, 4)
        vtable = at - self._number("<i", at)
        self._require(vtable, 4)
        size, inside = self._number("<H", vtable), self._number("<H", vtable + 2)
        if size < 4 or size % 2 or inside < 4:
            raise self._damage(f"the table at byte {at} has a damaged header")
        self._require(vtable, size)
        self._require(at, inside)
        self._spend(at, inside)
        places = unpack_from(f"<{size // 2 - 2}H", self._data, vtable + 4)
        for place in places:
            if place and not 4 <= place < inside:
                raise self._damage(f"the table at byte {at} has a field outside of it")
        for slot, kind in fields.items():
            if slot < len(places) and places[slot]:
                self._field(at + places[slot], at + inside, kind, at, places)

    def _field(
        self, place: int, end: int, kind: Any, table: int, places: tuple[int, ...]
    ) -> None:
        """Check a field that begins at `place`, in a table that ends at `end`."""
        if place + (kind if isinstance(kind, int) else 4) > end:
            raise self._damage(f"the field at byte {place} is longer than its table")
        if isinstance(kind, int):
            return
        if isinstance(kind, Vector):
            self._vector(self._offset(place), kind.width)
        elif isinstance(kind, Tables):
            start = self._offset(place)
            for index in range(self._vector(start, 4)):
                entry = self._offset(start + 4 + 4 * index)
                self._waiting.append((entry, kind.fields))
        elif isinstance(kind, Union):
            has_kind = kind.kind < len(places) and places[kind.kind]
            number = self._data[table + places[kind.kind]] if has_kind else 0
            self._waiting.append((self._offset(place), kind.choices.get(number, {})))
        else:
            self._waiting.append((self._offset(place), kind))

    def _vector(self, at: int, width: int) -> int:
        """Check a vector and return its length."""
        self._require(at, 4)
        length = self._number("<I", at)
        self._require(at, 4 + length * width)
        self._spend(at, 4 + length * width)
        return length

    def _offset(self, at: int) -> int:
        """Return where the offset at `at` leads to."""
        self._require(at, 4)
        return at + self._number("<I", at)

    def _number(self, form: str, at: int) -> int:
        return int(unpack_from(form, self._data, at)[0])

    def _require(self, at: int, size: int) -> None:
        """Raise unless `size` bytes from `at` on are in the file."""
        if at < 0 or at + size > len(self._data):
            raise self._damage(f"an offset leads to byte {at} for {size} bytes")

    def _spend(self, at: int, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self._damage(f"its parts overlap, at byte {at}")

    def _damage(self, problem: str) -> ModelError:
        return ModelError(
            f"{self._what} is a damaged TFLite model of {len(self._data)} bytes: "
            f"{problem}",
            "Export or copy it again",
        )
