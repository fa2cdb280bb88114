"""Fair timing: contenders take turns, and every claim is a ratio with an interval.

A machine's clock, cache and neighbours drift over seconds. So contenders run A B A B,
in a rotated order each round; a ratio is taken inside each round, where both sides saw
the same weather; and the interval comes from resampling those ratios.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from random import Random
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("mdtensor", "plum-dispatch", "numpy", "numba", "llvmlite", "onnxruntime")


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Args:
        name: row of the table.
        statement: source of the call, or a callable; source adds no call of its own,
            which matters below a microsecond.
        namespace: what the source's names mean.
    """

    name: str
    statement: str | Callable[[], object]
    namespace: Mapping[str, Any] = field(default_factory=dict)

    def timer(self) -> timeit.Timer:
        # An own dict: the timed loop reads its names as a function of theirs would.
        return timeit.Timer(self.statement, globals=dict(self.namespace))


@dataclass(frozen=True)
class Ratio:
    """Median of the ratios of each round, with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True)
class Limit:
    """A promise: `value` is at most `limit`."""

    claim: str
    value: float
    limit: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "MISSED"
        shown = f"{self.value:.2f}{self.unit} of at most {self.limit:.2f}{self.unit}"
        return f"{verdict}: {self.claim}: {shown}"


Samples = dict[str, list[float]]


def interleave(
    contenders: Sequence[Contender], rounds: int, sample_seconds: float = 0.005
) -> Samples:
    """Seconds a call, one sample a contender and round.

    Args:
        contenders: what takes turns.
        rounds: how often each of them runs.
        sample_seconds: a sample repeats its call until it lasts about this long.
    """
    timers = {contender.name: contender.timer() for contender in contenders}
    # The count is settled on warm calls: the first compile, resolve and fill caches.
    loops = {name: _loops(timer, sample_seconds) for name, timer in timers.items()}
    samples: Samples = {name: [] for name in timers}
    names = list(timers)
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            seconds = timers[name].timeit(loops[name]) / loops[name]
            samples[name].append(seconds)
    return samples


def _loops(timer: timeit.Timer, sample_seconds: float) -> int:
    timer.timeit(1)
    loops = 1
    while (taken := timer.timeit(loops)) < sample_seconds / 4:
        loops *= 2
    return max(1, round(loops * sample_seconds / taken))


def medians(samples: Samples) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in samples.items()}


def ratio(samples: Samples, name: str, rival: str, resamples: int = 1000) -> Ratio:
    """Time of `name` over that of `rival`, round by round."""
    pairs = zip(samples[name], samples[rival], strict=True)
    return interval([mine / theirs for mine, theirs in pairs], resamples)


def interval(values: Sequence[float], resamples: int = 1000) -> Ratio:
    """The median with the middle 95 % of the medians of resamples (Efron 1979)."""
    draw = Random(0)
    again = sorted(
        statistics.median(draw.choices(values, k=len(values))) for _ in range(resamples)
    )
    low, high = again[resamples * 25 // 1000], again[resamples * 975 // 1000 - 1]
    return Ratio(statistics.median(values), low, high)


def environment() -> dict[str, object]:
    """What a number depends on besides the code."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "packages": versions,
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def arguments(description: str, rounds: int) -> argparse.Namespace:
    """The two options of every benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="turns of each")
    parser.add_argument("--no-save", action="store_true", help="write no result file")
    return parser.parse_args()


def report(
    name: str,
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    limits: Sequence[Limit],
    *,
    save: bool,
    notes: str = "",
) -> None:
    """Print the table and the limits; keep them as bench/results/<name>.json."""
    print(title)
    print(table(header, rows))
    for limit in limits:
        print(limit)
    if not save:
        return
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "title": title,
        "header": list(header),
        "rows": [list(row) for row in rows],
        "limits": [asdict(limit) for limit in limits],
        "notes": notes,
        "environment": environment(),
        "command": f"python bench/{Path(sys.argv[0]).name}",
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    cells = [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in lines]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)
