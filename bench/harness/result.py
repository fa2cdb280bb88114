"""The stored run of a bench: readings, limits and the machine, in JSON."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness.promise import Limit
from bench.harness.ratio import Ratio
from bench.harness.reading import Reading

RESULTS = Path(__file__).parents[1] / "results"
#: The layout of the files; a file of another layout is not read, but measured again.
LAYOUT = 2


@dataclass(frozen=True)
class Result:
    """One run of one bench."""

    name: str
    title: str
    notes: str
    environment: dict[str, Any]
    readings: Sequence[Reading]
    limits: Sequence[Limit]

    @property
    def missed(self) -> list[Limit]:
        """Return the limits that do not hold, or that this run could not measure."""
        return [limit for limit in self.limits if not limit.holds]

    def tables(self) -> Iterator[tuple[str, list[Reading]]]:
        """Yield each heading with its readings, in the order of the bench."""
        for heading in dict.fromkeys(reading.table for reading in self.readings):
            yield heading, [r for r in self.readings if r.table == heading]

    def save(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        kept = {"layout": LAYOUT, **asdict(self)}
        text = json.dumps(kept, indent=1, ensure_ascii=False)
        (folder / f"{self.name}.json").write_text(text + "\n")


def load(path: Path) -> Result | None:
    """Read a run from a file; return None if it was written in another layout."""
    kept = json.loads(path.read_text())
    if kept.pop("layout", None) != LAYOUT:
        return None
    for reading in kept["readings"]:
        if reading["ratio"] is not None:
            reading["ratio"] = Ratio(**reading["ratio"])
    readings = [Reading(**reading) for reading in kept.pop("readings")]
    limits = [Limit(**limit) for limit in kept.pop("limits")]
    return Result(readings=readings, limits=limits, **kept)


def command(name: str, row: str = "") -> str:
    """Return the command that measures a bench, or one row of it, again."""
    return f"python -m bench {name}" + (f" --row {shlex.quote(row)}" if row else "")


def environment_line(place: dict[str, Any]) -> str:
    packages = ", ".join(
        f"{name} {version}"
        for name, version in place["packages"].items()
        if version != "not installed"
    )
    machine = f"{place['cpu']}, {place['cores']} cores, load {place['load']}"
    return f"{machine}, commit {place['commit']}, Python {place['python']}, {packages}"
