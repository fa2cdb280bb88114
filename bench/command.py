"""The command line: which benches run, how long, and what is kept of it."""

import argparse
import importlib
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from bench import gpu, report
from bench.harness import Bench, Found, spread
from bench.harness.machine import environment
from bench.harness.promise import judged
from bench.harness.reading import Reading
from bench.harness.result import RESULTS, Result, command
from bench.harness.row import Row
from bench.harness.table import tabled
from bench.harness.turns import QUICK, Effort
from bench.zoo import run as zoo

NAMES = ("dispatch", "expression", "start", "tables", "calls", "elementwise")
NAMES += ("for_each", "sizes", "codes", "kernels", "layers", "floats", "inference")
NAMES += ("diagnose", "checked", "attention", "encoder", "graph", "native")


def execute(arguments: Sequence[str]) -> int:
    """Run what is asked for.

    Returns:
        1 if a full run misses a limit, else 0.
    """
    options = parsed(arguments)
    if options.names == ["report"]:
        return report.write(NAMES)
    if options.names == ["gpu"]:
        return gpu.execute(options.quick, options.saves)
    if options.names == ["zoo"]:
        return zoo.execute(options.row, options.quick, options.saves)
    return show_rows(options) if options.rows else measure(options)


def measure(options: argparse.Namespace) -> int:
    """Run the benches; return 2 without a row, 1 if a limit is missed, else 0."""
    results = []
    for name in options.names or NAMES:
        result = run(name, options)
        if result is not None:
            results.append(result)
    if not results:
        return no_row(options)
    if options.quick:
        print("quick: too few rounds to judge a number by")
        return 0
    if not options.names and options.saves:
        return report.write(NAMES)
    return report.close(results)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(NAMES)}, or report, or zoo, or gpu",
    )
    parser.add_argument("--quick", action="store_true", help="one round, none kept")
    parser.add_argument(
        "--row", default="*", help="a name or a glob pattern; --rows prints the names"
    )
    parser.add_argument(
        "--rows", action="store_true", help="print what --row takes; run nothing"
    )
    parser.add_argument("--rounds", type=int, help="turns of each contender")
    parser.add_argument("--no-save", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    unknown = [n for n in options.names if n not in NAMES]
    if unknown and options.names not in (["report"], ["zoo"], ["gpu"]):
        parser.error(f"no bench is called {', '.join(unknown)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: a row takes at least one")
    # What is kept is always the whole of a full run.
    partial = options.quick or options.row != "*" or options.rounds is not None
    options.saves = not (options.no_save or partial)
    return options


def show_rows(options: argparse.Namespace) -> int:
    """Print the command of each row that is asked for; 2 if there is none."""
    benches = {name: bench_of(name) for name in options.names or NAMES}
    found = [
        command(name, row.name)
        for name, bench in benches.items()
        for row in bench.chosen(options.row, options.quick)
    ]
    if not found:
        return no_row(options)
    print("\n".join(found))
    return 0


def no_row(options: argparse.Namespace) -> int:
    print(f"no row is called {options.row!r}; see --rows", file=sys.stderr)
    return 2


def bench_of(name: str) -> Bench:
    found: Bench = importlib.import_module(f"bench.{name}").BENCH
    return found


def run(name: str, options: argparse.Namespace) -> Result | None:
    """Measure the rows of one bench; none if it has no row of that name."""
    bench = bench_of(name)
    rows = bench.chosen(options.row, options.quick)
    if not rows:
        return None
    print(f"\n== {name}: {bench.title}", flush=True)
    start = time.perf_counter()
    effort = QUICK if options.quick else Effort(options.rounds or bench.rounds)
    # Infinities and NaN among the data are meant; to warn of them takes time.
    with np.errstate(all="ignore"):
        readings = list(measured(name, bench, rows, effort))
    limits = judged(bench.promises, Found(readings)) if options.row == "*" else []
    result = Result(name, bench.title, bench.notes, environment(), readings, limits)
    if options.saves:
        result.save(RESULTS)
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return result


def measured(
    name: str, bench: Bench, rows: Sequence[Row], effort: Effort
) -> Iterator[Reading]:
    """The readings of all rows, printed with the commands that repeat them."""
    for row, found in spread.read(rows, effort):
        readings = [bench.explained(reading) for reading in found]
        print(f"\n{tabled(readings)}\n    {command(name, row.name)}", flush=True)
        yield from readings
