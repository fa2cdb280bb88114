"""How the commands' results look in a terminal."""

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

console = Console(highlight=False)


def progress() -> Progress:
    """A bar on stderr, so that stdout holds the result alone."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def show_info(facts: dict[str, Any]) -> None:
    cpu = facts["cpu"]
    rows = [
        ("mdtensor", facts["mdtensor"]),
        ("python", f"{facts['python']} on {facts['platform']}"),
        *((name, version or "not installed") for name, version in _packages(facts)),
        ("cpu", f"{cpu['cpu']} ({cpu['machine']})"),
        ("features", " ".join(cpu["features"])),
        ("runway", f"{cpu['runway']}: {cpu['why']}"),
        ("devices", " ".join(facts["devices"])),
        ("tensor types", str(facts["tensor_types"])),
        ("operations", str(facts["operations"])),
    ]
    _pairs(rows)


def _packages(facts: dict[str, Any]) -> Any:
    return facts["packages"].items()


def _pairs(rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _kilobytes(count: int) -> str:
    return f"{count / 1000:.1f} kB"


def _shrunk(before: int, after: int) -> str:
    return f"{_kilobytes(before)} -> {_kilobytes(after)} ({after / before:.3f})"


def show_quantized(facts: dict[str, Any]) -> None:
    files, weights = facts["file_bytes"], facts["weight_bytes"]
    _pairs(
        [
            ("written", facts["output"]),
            ("calibrated on", f"{facts['samples']} samples"),
            ("file", _shrunk(files["float"], files["int8"])),
            ("weights", _shrunk(weights["float"], weights["int8"])),
            ("nodes", f"{facts['nodes']}, {len(facts['float_nodes'])} in float"),
        ]
    )
    for node in facts["float_nodes"]:
        console.print(f"  {node['node']}: {node['operation']} is float; {node['why']}")


def show_run(facts: dict[str, Any]) -> None:
    for name, output in facts["outputs"].items():
        shape = ",".join(map(str, output["shape"]))
        first = " ".join(f"{v:.6g}" for v in output["first"])
        console.print(f"{name}[{shape}]  argmax {output['argmax']}  first {first}")
    console.print(f"{1e3 * facts['seconds']:.3f} ms")
    if facts["plan"]:
        show_plan(facts["plan"])


def show_plan(nodes: list[dict[str, Any]]) -> None:
    table = Table(title="plan", title_justify="left")
    for column in ("node", "call", "kernel", "runway", "arithmetic", "why"):
        table.add_column(column, overflow="fold")
    for n in nodes:
        keys = ("node", "signature", "kernel", "runway", "arithmetic", "why")
        table.add_row(*(str(n[key]) for key in keys))
    console.print(table)


def show_demo(facts: dict[str, Any]) -> None:
    found = facts["agreement"]
    console.print(
        f"{facts['model']}: which way up is a line of text?\n"
        f"calibrated on {facts['calibration_crops']} crops, judged on "
        f"{found['crops']} others from {found['lines']} lines, upright and turned"
    )
    _show_table(facts)
    _show_sizes(facts["bytes"])
    for threads, row in facts["times"].items():
        plural = "s" if threads != "1" else ""
        console.print(
            f"time, {threads} thread{plural}: mdtensor int8 takes "
            f"{row['ratio']:.2f} of {row['faster_peer']}, the faster peer"
        )
    plan = facts["plan"]
    console.print(
        f"plan: {plan['integer']} of {plan['nodes']} nodes run as integers on "
        f"{'/'.join(plan['runways'])}, {plan['macs'] / 1e6:.1f} million MACs"
    )
    for node in plan["float"]:
        console.print(f"  float: {node['operation']}; {node['why']}")
    console.print("which conv2d runs, by the types of its arguments:")
    for found in facts["which"]:
        console.print(f"  {found['selected']}", soft_wrap=True)
        console.print(f"    {found['why']}", soft_wrap=True)


def _show_table(facts: dict[str, Any]) -> None:
    found, times = facts["agreement"], facts["times"]
    table = Table()
    table.add_column("")
    sure = f"of {found['sure']} sure"
    for head in ("says as float", sure, "right", "ms, 1 thread", "ms, 2 threads"):
        table.add_column(head, justify="right")
    for label, row in found["rows"].items():
        table.add_row(
            label,
            f"{row['agree']}/{found['crops']} ({row['agree'] / found['crops']:.1%})",
            str(row["agree_where_sure"]),
            f"{row['right'] / found['crops']:.1%}",
            *(f"{t['milliseconds'][label]:.3f}" for t in times.values()),
        )
    console.print(table)


def _show_sizes(sizes: dict[str, int]) -> None:
    console.print(
        f"file: float {_kilobytes(sizes['float file'])}, mdtensor int8 "
        f"{_kilobytes(sizes['mdtensor int8 file'])}, onnxruntime int8 "
        f"{_kilobytes(sizes['onnxruntime int8 file'])}; weights: "
        f"{_shrunk(sizes['float weights'], sizes['int8 weights'])}"
    )
