"""Findings that are known and accepted: a file that only ever needs to shrink."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mdtensor.diagnose.finding import Finding
from mdtensor.errors import DataError

SCHEMA = 1


@dataclass(frozen=True, order=True)
class Entry:
    """One accepted finding.

    Args:
        rule, function, message: as of the finding; for whoever reads the file.
        fingerprint: by which the finding is known again, on whatever line it stands.
    """

    rule: str
    function: str
    message: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.rule} {self.fingerprint} {self.message}"


@dataclass(frozen=True)
class Compared:
    """A report beside a baseline.

    Args:
        new: the findings that the baseline does not have.
        known: those that it has.
        stale: its entries that are not found any more.
    """

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    stale: tuple[Entry, ...]


@dataclass(frozen=True)
class Baseline:
    """Accepted findings.

    Args:
        entries: one for each, sorted.

    Example:
        >>> Baseline.of([Finding("MDT001", "error", "shop.put", "tie")]).text[:15]
        '{\\n  "schema": 1'

    Source: Aqua.jl, `exclude` and `broken`; by fingerprint instead of by number.
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Baseline:
        """One that accepts these findings."""
        found = {Entry(f.rule, f.function, f.message, f.fingerprint) for f in findings}
        return cls(tuple(sorted(found)))

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """The one in a file.

        Raises:
            DataError: the file is no baseline.
            OSError: it cannot be read.
        """
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            schema = held["schema"]
            entries = tuple(sorted(map(_entry, held["findings"])))
        except (ValueError, TypeError, KeyError, RecursionError):
            fix = "Write it anew with `mdtensor dispatch baseline write`"
            raise DataError(f"{path} is no baseline, or is damaged", fix) from None
        if schema != SCHEMA:
            fix = f"This version reads schema {SCHEMA}"
            raise DataError(f"{path} has schema {schema!r}", fix)
        return cls(entries)

    @property
    def text(self) -> str:
        """What its file holds: the same bytes for the same findings."""
        held = {"schema": SCHEMA, "findings": [asdict(entry) for entry in self.entries]}
        return json.dumps(held, indent=2, ensure_ascii=False) + "\n"

    def compared(self, findings: Iterable[Finding]) -> Compared:
        """What of some findings is new, what is known, and what is not found."""
        accepted = {entry.fingerprint for entry in self.entries}
        found = tuple(findings)
        prints = {finding.fingerprint for finding in found}
        return Compared(
            tuple(f for f in found if f.fingerprint not in accepted),
            tuple(f for f in found if f.fingerprint in accepted),
            tuple(e for e in self.entries if e.fingerprint not in prints),
        )

    def without(self, stale: Iterable[Entry]) -> Baseline:
        """The same, some entries left out."""
        gone = set(stale)
        return Baseline(tuple(e for e in self.entries if e not in gone))


def _entry(held: Any) -> Entry:
    fields = [held[name] for name in ("rule", "function", "message", "fingerprint")]
    if not all(isinstance(value, str) for value in fields):
        raise TypeError
    return Entry(*fields)
