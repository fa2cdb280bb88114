"""Facts about this installation: `mdtensor support`, `info`, `verify` and `stubs`.

Each command has a function that computes plain facts; `show_*` functions print them.
"""

import importlib.metadata
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskProgressColumn
from rich.table import Table
from rich.text import Text

import mdtensor
from mdtensor import fft, linalg, quant
from mdtensor.cli.loading import load
from mdtensor.cli.outputs import write_text
from mdtensor.cli.report import Facts as VerifyFacts, columns, progress
from mdtensor.errors import OptionError
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.native import library
from mdtensor.quant.certificate.case import EDITION
from mdtensor.quant.certificate.verify import Run, Verdict, certify, runways, total_cost
from mdtensor.stubs import Package, outdated, places
from mdtensor.support_table import Support

Facts = dict[str, Any]
#: Mark, style in a terminal, and meaning of each state.
MARKS = {
    "runs": ("●", "green", "runs"),
    "rounds": ("◐", "cyan", "runs with out=, the grid of the result"),
    "missing": ("○", "yellow", "the device is missing, or does not have a method yet"),
    "refused": ("·", "dim", "refused: no meaning for the type, or no exact one"),
    "ambiguous": ("✖", "bold red", "several methods fit equally well"),
    "unknown": ("?", "red", "no example call is known for any type"),
}
#: Column titles of the kinds of element types.
KINDS = {
    "signed integer": "int",
    "unsigned integer": "uint",
    "real floating": "float",
    "complex floating": "complex",
}


def describe_support(pattern: str, device: str | None, modules: Iterable[str]) -> Facts:
    """Return the table of support as plain data.

    Args:
        pattern: a pattern of operation names.
        device: the name of one device; all devices by default.
        modules: packages with more types and operations.

    Returns:
        The devices, the element types by kind, and the operations with their states.

    Raises:
        OptionError: no operation fits the pattern.
        ModuleError: a module cannot be imported.
        DeviceError: the device does not exist.
    """
    # First of all, so that the types and operations of these packages have cells.
    load(modules)
    cells = mdtensor.support(pattern, device=device)
    # In the order of the cells: the host first.
    places = dict.fromkeys(cell.device for cell in cells)
    kinds: dict[str, list[str]] = {}
    for dtype in dict.fromkeys(cell.dtype for cell in cells):
        kinds.setdefault(dtype.kind, []).append(dtype.name)
    return {
        "devices": {place.name: place.missing for place in places},
        "types": kinds,
        "operations": [
            _operation(list(row)) for _, row in groupby(cells, lambda cell: cell.name)
        ],
    }


def _operation(cells: list[Support]) -> Facts:
    """Return the state of each type on each device, and the reasons."""
    states: dict[str, dict[str, str]] = {}
    reasons: dict[str, dict[str, str]] = {}
    for cell in cells:
        states.setdefault(cell.device.name, {})[cell.dtype.name] = cell.state
        if cell.why:
            reasons.setdefault(cell.device.name, {})[cell.dtype.name] = cell.why
    first = cells[0]
    return {
        "name": first.operation,
        "family": first.family,
        "states": states,
        "why": reasons,
    }


def show_support(console: Console, facts: Facts) -> None:
    """Print a table for each available device, and the meaning of the marks."""
    shown = _devices(facts)
    for device in shown:
        console.print(Text(device, "bold"))
        console.print(_table(facts, device))
    for device, missing in facts["devices"].items():
        if device not in shown:
            count = _counts(facts, device)["missing"]
            console.print(f"{device}: {missing}; {count:,} cells would run there")
    _show_legend(console, facts, shown)
    if len(facts["operations"]) == 1:
        _show_reasons(console, facts["operations"][0], shown)


def _devices(facts: Facts) -> list[str]:
    """Return the available devices; if none is available, return all."""
    present = [name for name, missing in facts["devices"].items() if not missing]
    return present or list(facts["devices"])


def _families(facts: Facts) -> Iterator[tuple[str, list[Facts]]]:
    """Yield operations by family, both in alphabetical order."""
    rows = sorted(facts["operations"], key=lambda row: (row["family"], row["name"]))
    for family, group in groupby(rows, lambda row: row["family"]):
        yield family, list(group)


def _table(facts: Facts, device: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for kind in facts["types"]:
        table.add_column(KINDS.get(kind, kind), no_wrap=True, header_style="bold")
    for family, rows in _families(facts):
        table.add_row(Text(family, "bold"))
        for row in rows:
            marks = _marks(facts, row, device)
            cells = (
                Text.assemble(*((MARKS[s][0], MARKS[s][1]) for s in m)) for m in marks
            )
            table.add_row(f"  {row['name']}", *cells)
    return table


def _marks(facts: Facts, row: Facts, device: str) -> list[list[str]]:
    """Return for each kind the states of the types that the device has."""
    states = row["states"].get(device, {})
    return [
        [states[t] for t in types if t in states] for types in facts["types"].values()
    ]


def _counts(facts: Facts, device: str) -> Counter[str]:
    rows = (row["states"].get(device, {}) for row in facts["operations"])
    return Counter(state for states in rows for state in states.values())


def _show_legend(console: Console, facts: Facts, shown: list[str]) -> None:
    counts: Counter[str] = sum((_counts(facts, name) for name in shown), Counter())
    console.print()
    for state, (mark, style, meaning) in MARKS.items():
        if counts[state]:
            count = f"{counts[state]:,}"
            console.print(Text.assemble((mark, style), f" {count:>6}  {meaning}"))
    for kind, types in facts["types"].items():
        if len(types) > 1:
            console.print(f"{KINDS.get(kind, kind)}: {' '.join(types)}")


def _show_reasons(console: Console, row: Facts, shown: list[str]) -> None:
    """Print why an operation does not run; T stands for the type in a reason."""
    for device in shown:
        grouped: dict[str, list[str]] = {}
        for name, why in row["why"].get(device, {}).items():
            own = mdtensor.leaf(mdtensor.dtype(name), mdtensor.device(device))
            short = why.replace(own.__name__, "T").partition(" Nearest: ")[0]
            grouped.setdefault(short, []).append(name)
        for why, names in grouped.items():
            console.print(f"{' '.join(names)}: {why}")


def markdown(facts: Facts, device: str) -> str:
    """Return the table of one device in Markdown, a section for each family.

    Example:
        >>> facts = describe_support("sin", "cpu", [])
        >>> print(markdown(facts, "cpu").splitlines()[-1])
        | `sin` | · | ···· | ···· | ●●●● | ●● | ◐◐◐◐···· |
    """
    heads = ["operation", *(KINDS.get(kind, kind) for kind in facts["types"])]
    parts = []
    for family, rows in _families(facts):
        lines = [f"## {family}", "", _line(heads), _line(["---"] * len(heads))]
        for row in rows:
            marks = (
                "".join(MARKS[s][0] for s in m) for m in _marks(facts, row, device)
            )
            lines.append(_line([f"`{row['name']}`", *marks]))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def show_markdown(console: Console, facts: Facts) -> None:
    """Print the table of support as Markdown."""
    for device in _devices(facts):
        console.print(f"# {device}\n")
        console.print(markdown(facts, device))


#: Packages whose versions `mdtensor info` prints.
PACKAGES = (
    "numpy",
    "plum-dispatch",
    "numba",
    "ml_dtypes",
    "onnx",
    "tflite",
    "typer",
    "rich",
    "onnxruntime",
    "rapidocr-onnxruntime",
    "scikit-image",
    "threadpoolctl",
)


def describe_host() -> dict[str, Any]:
    """Return versions, the CPU, and its ISA with the reason for the choice."""
    return {
        "mdtensor": mdtensor.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "packages": {name: _version(name) for name in PACKAGES},
        "cpu": isa.describe() | {"kernels": library.describe(isa.ISA)},
        "devices": {place.name: place.missing for place in mdtensor.devices()},
        "tensor_types": len(mdtensor.leaves()),
        "operations": len(mdtensor.operations()),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe_verdict(
    quick: bool, emulated: bool, is_quiet: bool = False
) -> VerifyFacts:
    """Run the certificate and return its facts; show a bar unless `is_quiet`."""
    title = f"{', '.join(runways(emulated))}, oracle"
    with progress(is_quiet, TaskProgressColumn()) as bar:
        task = bar.add_task(title, total=total_cost(quick, emulated))
        verdict = certify(quick, emulated, lambda cost: bar.advance(task, cost))
    return {
        "conforms": verdict.conforms,
        "edition": EDITION,
        "quick": quick,
        "hash": _measured(verdict),
        "published": verdict.published,
        "cpu": isa.cpu_name(),
        "runs": list(map(_run, verdict.runs, verdict.hashes)),
        "kernels": [asdict(tally) for tally in verdict.tallies],
        "first_difference": _difference(verdict),
    }


def _measured(verdict: Verdict) -> str | None:
    """Return the hash of this machine, the first wrong one; None if a run failed."""
    found = (*verdict.hashes, verdict.oracle)
    wrong = [each for each in found if each != verdict.published]
    return (wrong[0] or None) if wrong else verdict.published


def _run(run: Run, found: str) -> VerifyFacts:
    return {
        "isa": run.runway,
        "runway": run.runway,
        "threads": run.threads,
        "hash": found or None,
        "problem": run.problem or None,
        "seconds": round(run.seconds, 2),
    }


def _difference(verdict: Verdict) -> VerifyFacts | None:
    if verdict.first is None:
        return None
    run = verdict.runs[verdict.first.run]
    facts = asdict(verdict.first)
    return facts | {
        "run": {"isa": run.runway, "runway": run.runway, "threads": run.threads}
    }


def show_verdict(console: Console, facts: VerifyFacts) -> None:
    """Print the kernels, the hashes and the verdict of `mdtensor verify`."""
    runs, kernels = facts["runs"], facts["kernels"]
    table = columns("kernel", "cases", "results", *map(_head, runs))
    for row in kernels:
        cells = map(_cell, runs, row["mismatches"])
        table.add_row(row["kernel"], str(row["cases"]), f"{row['elements']:,}", *cells)
    cases, elements = (sum(k[key] for k in kernels) for key in ("cases", "elements"))
    seconds = [f"{run['seconds']:.1f} s" for run in runs]
    table.add_row("all", str(cases), f"{elements:,}", *seconds, style="bold")
    console.print(table)
    for run in runs:
        if run["problem"]:
            console.print(f"{_label(run)}: {run['problem']}")
    console.print(f"\nhash       {facts['hash'] or 'missing'}")
    console.print(f"published  {facts['published']}")
    color = "green" if facts["conforms"] else "red"
    console.print(_ending(facts), style=f"bold {color}")


def _cell(run: VerifyFacts, mismatches: int) -> Text:
    if run["problem"]:
        return Text("failed", "red")
    return Text(f"{mismatches} differ", "red") if mismatches else Text("equal", "green")


def _head(run: VerifyFacts) -> str:
    return _label(run).replace(", ", "\n")


def _label(run: VerifyFacts) -> str:
    return f"{run['isa']}, {run['threads']} thread{'s' * (run['threads'] > 1)}"


def _ending(facts: VerifyFacts) -> str:
    first, cpu = facts["first_difference"], facts["cpu"]
    if facts["conforms"]:
        return f"{cpu} conforms: every run gave the published hash"
    if first is None:
        return f"{cpu} does not conform: see above"
    index = ",".join(map(str, first["index"]))
    where = f"[{index}]" if index else "type and shape"
    return (
        f"{cpu} does not conform: {first['case']}\n"
        f"on {_label(first['run'])} at {where}: expected {first['expected']}, "
        f"got {first['got']}"
    )


#: The words by which the first lines of a generated stub are known.
STUB_MARK = "written by `mdtensor stubs`"
#: The modules that have stubs.
SPACES = (mdtensor, linalg, fft, quant)


def write_stubs(
    output: Path | None = None, modules: tuple[str, ...] = (), check: bool = False
) -> dict[str, Any]:
    """Write the stubs of all registered operations, or only compare them.

    Args:
        output: the folder of the stubs; by default mdtensor's own folder.
        modules: modules to import for the types and methods that they register.
        check: whether to write nothing.

    Returns:
        All files, and the files that were outdated.

    Raises:
        OptionError: `modules` would change mdtensor's own files, or a stub that is
            written by hand would be lost.
        ModuleError: a module cannot be imported.
    """
    if modules and output is None:
        raise OptionError(
            "--import would add other types to mdtensor's own files",
            "Pass a folder as --output DIR",
        )
    others = load(modules)
    files = places(Package(SPACES, others).files(), output)
    stale = outdated(files)
    for path in () if check else stale:
        _require_generated(path)
    for path in () if check else stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, files[path])
    return {"files": [*map(str, files)], "changed": [*map(str, stale)]}


def _require_generated(path: Path) -> None:
    """Raise if a stub exists that this command did not write."""
    if path.exists() and STUB_MARK not in path.read_text(encoding="utf-8")[:200]:
        raise OptionError(
            f"{path} is written by hand, and would be lost", "Choose another folder"
        )
