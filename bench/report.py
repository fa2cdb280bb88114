"""docs/reference/benchmarks.md from bench/results/*.json; fails if a promise is broken.

The page is never typed by hand: a number in it comes from a run that can be repeated.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figures import FIGURES
from bench.harness.reading import Reading
from bench.harness.result import RESULTS, Result, command, environment_line, load
from bench.harness.table import tabled

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "benchmarks.md"
HEAD = """# Benchmarks

This page shows how fast mdtensor is, compared with other libraries and with other ways
to dispatch. The main figures are under [Whole networks](#whole-networks). To repeat a
table, run the command below it; `make bench` measures everything on your machine.
`python -m bench report` writes this page from the results in `bench/results/`.

How to read the tables:

- A ratio is the time of mdtensor divided by the time of the other library. Below 1,
  mdtensor is faster. If a ratio is above 1, the end of the section gives the reason.
- All libraries in a row are measured in the same run, in turns, on as many cores as
  they have threads. A ratio is the median over all rounds, so it differs a little from
  the quotient of the two median times. Intervals are 95 % bootstrap intervals of the
  median.
- Before each measurement the benchmark checks that all results are the same. Runtimes
  round differently, so the results of whole networks may differ within the tolerance of
  their section. The column `off by` shows by how much.
- `met` and `MISSED` compare a value with its limit.
"""


def write(names: Sequence[str]) -> int:
    """Write the page; print what is slower than a baseline, and what misses its limit.

    Args:
        names: of all benches, in the order of the page; what has no result is listed.

    Returns:
        2 if nothing is written, 1 if a limit is missed, else 0.
    """
    results = list(kept(names))
    if not results:
        print(f"report: no results, {PAGE.name} stays as it is", file=sys.stderr)
        return 2
    found = {result.name for result in results}
    missing = [name for name in names if name not in found]
    try:
        draw(results)
    except ModuleNotFoundError as error:
        needed = f"report: figures need {error.name}, {PAGE.name} stays as it is. "
        print(needed + "Use `pip install -e .[bench]`", file=sys.stderr)
        return 2
    parts = [HEAD.rstrip(), *map(section, results), *unmeasured(missing)]
    PAGE.write_text("\n\n".join(parts) + "\n")
    print(f"report: {len(results)} benchmarks in {PAGE.name}")
    return close(results)


def kept(names: Sequence[str]) -> Iterator[Result]:
    """Yield the stored results of these benches; report files of another layout."""
    for name in names:
        path = RESULTS / f"{name}.json"
        if path.exists():
            result = load(path)
            if result is None:
                left_out = f"report: left out {path.name}, which has another layout."
                print(f"{left_out} `{command(name)}` measures it again")
            else:
                yield result


def draw(results: Sequence[Result]) -> None:
    """Draw the figures of the page, and remove figures of earlier pages."""
    folder = PAGE.with_suffix("")
    earlier = set(folder.glob("*.svg"))
    for result in results:
        for figure in FIGURES.get(result.name, ()):
            if readings := figure.readings(result):
                earlier.discard(figure.write(readings, folder))
    for path in earlier:
        path.unlink()


def unmeasured(names: Sequence[str]) -> list[str]:
    """Return a section with the benchmarks that do not have a stored run."""
    if not names:
        return []
    return ["## Not measured yet", "\n".join(f"- `{command(name)}`" for name in names)]


def close(results: Sequence[Result]) -> int:
    """Print the ratios above 1 with their reasons, and the limits that are missed.

    Returns:
        1 if a limit is missed, else 0.
    """
    worse = [line for result in results for line in reasons(result)]
    print("\nRatios worse than 1:" if worse else "\nNo ratio is worse than 1.")
    print("\n".join(worse))
    missed = [limit for result in results for limit in result.missed]
    is_judged = any(result.limits for result in results)
    held = "All limits are met." if is_judged else "No limit was judged."
    print("\nLimits:" if missed else f"\n{held}")
    print("\n".join(map(str, missed)))
    return 1 if any(limit.value is not None for limit in missed) else 0


def reasons(result: Result) -> Iterator[str]:
    """Yield each reason, followed by the ratios above 1 that it explains."""
    worse = [reading for reading in result.readings if reading.is_worse]
    for why in dict.fromkeys(reading.why for reading in worse):
        yield f"- {result.name}: {why or 'no reason is known'}:"
        for reading in worse:
            if reading.why == why:
                pair = f"{reading.row}, relative to {reading.contender}"
                yield f"  - {pair}: {reading.ratio}"


def section(result: Result) -> str:
    """Return the section of a benchmark: tables, limits, reasons and the machine."""
    parts = [f"## {result.title}", result.notes]
    for heading, readings in result.tables():
        parts.append(f"### {heading}" if heading else "")
        parts += [
            figure.markdown(PAGE.stem)
            for figure in FIGURES.get(result.name, ())
            if figure.heading(result) == heading
        ]
        parts.append(tabled(readings))
        parts.append(commands(result.name, readings))
    parts.append("\n".join(f"- {limit}." for limit in result.limits))
    worse = list(reasons(result))
    parts.append("\n".join(["Worse than 1, and why:\n", *worse]) if worse else "")
    parts.append(f"{environment_line(result.environment)}.")
    return "\n\n".join(part for part in parts if part)


def commands(name: str, readings: Sequence[Reading]) -> str:
    """Return the commands that repeat the rows; folded if there are several."""
    rows = list(dict.fromkeys(reading.row for reading in readings))
    lines = [command(name, row) for row in rows]
    if len(lines) == 1:
        return f"Repeat it with `{lines[0]}`."
    text = "\n".join(["```sh", *lines, "```"])
    return (
        f"<details><summary>The command of each row</summary>\n\n{text}\n\n</details>"
    )
