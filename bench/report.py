"""docs/benchmarks.md from bench/results/*.json; fails if a promise is broken.

The page is never typed by hand: a number in it comes from a run that can be repeated.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness.reading import Reading
from bench.harness.result import RESULTS, Result, command, environment_line, load
from bench.harness.table import tabled

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Written by `python -m bench report` from `bench/results/`; run `make bench` to renew it.
Contenders of a row took turns in one run, pinned to as many processors as they have
threads, after a check that all give the same; an interval holds 95 % of the medians of
resampled rounds. A ratio is our time over theirs: below 1 we are faster.
"""


def write() -> int:
    """Write the page; say what is slower than a rival, and what misses its limit."""
    results, old = [], []
    for path in sorted(RESULTS.glob("*.json")):
        result = load(path)
        if result is None:
            old.append(path.stem)
        else:
            results.append(result)
    PAGE.write_text("\n\n".join([HEAD.rstrip(), *map(section, results)]) + "\n")
    print(f"report: {len(results)} benchmarks in {PAGE.name}")
    for name in old:
        print(f"report: left out {name}.json, which an older harness wrote")
    return close(results)


def close(results: Sequence[Result]) -> int:
    """The end of a run: ratios worse than 1 with the reason for each, missed limits.

    Returns:
        1 if a limit is missed, else 0.
    """
    worse = [line for result in results for line in reasons(result)]
    print("\nRatios worse than 1:" if worse else "\nNo ratio is worse than 1.")
    print("\n".join(worse))
    missed = [limit for result in results for limit in result.missed]
    print("\nLimits:" if missed else "\nAll limits hold.")
    print("\n".join(map(str, missed)))
    return 1 if any(limit.value is not None for limit in missed) else 0


def reasons(result: Result) -> Iterator[str]:
    """Each ratio worse than 1, under the line that says why."""
    worse = [reading for reading in result.readings if reading.is_worse]
    for why in dict.fromkeys(reading.why for reading in worse):
        told = "; ".join(_worse(reading) for reading in worse if reading.why == why)
        yield f"- {result.name}: {why or 'no reason is known'}: {told}."


def _worse(reading: Reading) -> str:
    return f"{reading.row}, over {reading.contender} {reading.ratio}"


def section(result: Result) -> str:
    """One benchmark: tables, promises, what is slower and why, and where it ran."""
    parts = [f"## {result.title}", result.notes]
    for heading, readings in result.tables():
        parts += [f"### {heading}" if heading else "", tabled(readings)]
        parts.append(commands(result.name, readings))
    parts.append("\n".join(f"- {limit}." for limit in result.limits))
    worse = list(reasons(result))
    parts.append("\n".join(["Worse than 1, and why:\n", *worse]) if worse else "")
    parts.append(f"{environment_line(result.environment)}.")
    return "\n\n".join(part for part in parts if part)


def commands(name: str, readings: Sequence[Reading]) -> str:
    """What measures each row again; folded where there are many."""
    rows = list(dict.fromkeys(reading.row for reading in readings))
    lines = [command(name, row) for row in rows]
    if len(lines) == 1:
        return f"Again: `{lines[0]}`."
    text = "\n".join(["```sh", *lines, "```"])
    return f"<details><summary>Each row again</summary>\n\n{text}\n\n</details>"
