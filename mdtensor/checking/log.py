"""What checked calls lost, added up by line, operation and types."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

#: What can become of a value, with what helps.
FIXES = {
    "wrapped": "Use astype(x, dtype) to a wider type first",
    "saturated": "Use a larger scale or a wider type",
    "rounded": "Use a type that holds all values of the operands",
}


@dataclass(frozen=True)
class Lost:
    """Elements of a result that are not the exact ones.

    Args:
        kind: "wrapped" modulo 2**bits, "saturated" at an end of the range, or
            "rounded" by a cast.
        count: how many.
    """

    kind: str
    count: int


@dataclass(frozen=True)
class Headroom:
    """Bits that an accumulator had left.

    Args:
        bits: how often its largest element could double and still fit.
        width: bits of the accumulator without its sign.
    """

    bits: int
    width: int


class Key(NamedTuple):
    """What is added up: calls of one operation for the same types in one line."""

    place: str
    operation: str
    types: tuple[str, ...]


@dataclass
class Entry:
    """Calls of one operation for the same types in one line of source.

    Args:
        place: `file.py:line` of the caller.
        operation: its name.
        types: names of the types of the arguments.
        calls: how many there were.
        elements: of all results.
        lost: how many elements of each kind.
        headroom: the least of its calls; None where nothing is accumulated.
    """

    place: str
    operation: str
    types: tuple[str, ...]
    calls: int = 0
    elements: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    headroom: Headroom | None = None

    def __str__(self) -> str:
        parts = [f"{count:,} {kind}" for kind, count in sorted(self.lost.items())]
        found = f"{', '.join(parts) or 'nothing lost'} of {self.elements:,}"
        if self.headroom is not None:
            found += f", {self.headroom.bits} of {self.headroom.width} bits left"
        place = self.place.removeprefix(f"{Path.cwd()}{os.sep}")
        head = f"{place}  {self.operation}({', '.join(self.types)})"
        return f"{head}: {found}"


class Log:
    """What `checked` found: entries in the order of their first call.

    True if anything was lost; `print(log)` shows the lines that lost something or
    accumulated.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._lock = threading.Lock()

    def note(self, key: Key, elements: int, found: list[Lost | Headroom]) -> None:
        """Add one call to its entry."""
        with self._lock:
            entry = self._entries.setdefault(key, Entry(*key))
            entry.calls += 1
            entry.elements += elements
            for item in found:
                if isinstance(item, Headroom):
                    known = entry.headroom or item
                    entry.headroom = min(known, item, key=lambda room: room.bits)
                elif item.count:
                    entry.lost[item.kind] += item.count

    @property
    def lost(self) -> Counter[str]:
        """Elements of each kind, of all entries."""
        return sum((entry.lost for entry in self), Counter())

    @property
    def headroom(self) -> int | None:
        """The fewest bits that any accumulator had left; None if there was none."""
        rooms = [entry.headroom.bits for entry in self if entry.headroom]
        return min(rooms, default=None)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return any(entry.lost for entry in self)

    def __str__(self) -> str:
        shown = [entry for entry in self if entry.lost or entry.headroom]
        calls = sum(entry.calls for entry in self)
        losing = sum(1 for entry in self if entry.lost)
        head = (
            f"{calls:,} calls checked, {losing:,} of {len(self):,} lines lost something"
        )
        return "\n".join([head, *map(str, shown)])

    def __repr__(self) -> str:
        return f"<Log of {len(self)} entries, lost {dict(self.lost)}>"
