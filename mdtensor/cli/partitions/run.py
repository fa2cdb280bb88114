"""`mdtensor run --data`: a model over many files, each with results of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from mdtensor.cli.partitions.dask import SCHEME, require_package, run_dask
from mdtensor.cli.partitions.local import run_local
from mdtensor.cli.partitions.store import begin, partitions
from mdtensor.cli.partitions.work import Done, Task
from mdtensor.cli.report import Facts, pairs, working
from mdtensor.cli.samples import parse_shapes
from mdtensor.errors import DataError, OptionError
from mdtensor.quant.model.load import load

LOCAL = "local"
#: Most failed files that an error names.
NAMED = 3


def run_partitions(
    model: Path,
    pattern: str,
    folder: Path | None,
    shapes: Sequence[str],
    engine: str,
    workers: int | None,
    threads: int | None,
) -> Facts:
    """Run a model on every file that fits a pattern; return facts about the run.

    Raises:
        DataError: some files have no results; those of all others are written.
        OptionError: an option is wrong, or the folder has results of another run.
    """
    if folder is None:
        raise OptionError("results need a folder", "Pass --output FOLDER")
    _check_engine(engine, workers)
    start, texts = time.perf_counter(), tuple(shapes)
    # A model that does not load must fail here, once, and not in each worker.
    load(model, parse_shapes(texts))
    found = partitions(pattern, folder)
    begin(folder, model, {"shapes": texts}, found)
    left = [one for one in found if not one.is_done]
    place = model.resolve()
    tasks = [Task(place, texts, threads or 1, one.absolute()) for one in left]
    done: list[Done] = []
    with working() as progress:
        bar = progress.add_task("running", total=len(left))
        for one in _run(tasks, engine, workers):
            done.append(one)
            progress.advance(bar)
    _require_all(done, len(found))
    return {
        "model": str(model),
        "output": str(folder),
        "engine": engine,
        "partitions": len(found),
        "ran": len(done),
        "had_results": len(found) - len(left),
        "samples": sum(one.samples for one in done),
        "seconds": time.perf_counter() - start,
    }


def require_alone(inputs: Sequence[Path], labels: Path | None, plan: bool) -> None:
    """Raise for options of a single run.

    Raises:
        OptionError: there is one.
    """
    given = {"INPUT": inputs, "--labels": labels, "--plan": plan}
    if wrong := [name for name, value in given.items() if value]:
        raise OptionError(f"--data does not go with {wrong[0]}", "Omit one of them")


def _check_engine(engine: str, workers: int | None) -> None:
    if engine != LOCAL and not engine.startswith(SCHEME):
        raise OptionError(f"no engine {engine!r}", f"Use {LOCAL} or {SCHEME}host:port")
    if engine != LOCAL:
        # Before any work: the package may be missing.
        require_package()
    if workers is not None and engine != LOCAL:
        raise OptionError("--workers is for --engine local", "Omit it")
    if workers is not None and workers < 1:
        raise OptionError(f"--workers is {workers}", "Pass at least 1")


def _run(tasks: Sequence[Task], engine: str, workers: int | None) -> Iterator[Done]:
    if not tasks:
        return iter(())
    if engine == LOCAL:
        return run_local(tasks, workers or os.cpu_count() or 1)
    return run_dask(tasks, engine)


def _require_all(done: Sequence[Done], total: int) -> None:
    failed = [one for one in done if one.problem is not None]
    if failed:
        listed = "; ".join(f"{one.problem}" for one in failed[:NAMED])
        more = f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        text = f"{len(failed)} of {total} files have no results. {listed}{more}"
        raise DataError(
            text.rstrip("."),
            "Mend them and run the same command again: it keeps all other results",
        )


def show_partitions(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor run --data`."""
    kept = facts["had_results"]
    again = f", {kept} had results already" if kept else ""
    rows = [
        ("results", facts["output"]),
        ("files", f"{facts['partitions']}{again}"),
        ("samples", str(facts["samples"])),
        ("time", f"{facts['seconds']:.2f} s"),
    ]
    pairs(console, rows)
