"""Printed results of the commands: to the width of a terminal, elsewhere plain.

`summary` and `compare_outputs` compute the facts about outputs of a model; `working` is
the progress bar.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from mdtensor.errors import DataError
from mdtensor.kernels.cpu.compilation import Notice

Facts = dict[str, Any]
#: Width outside a terminal: lines are not wrapped there.
UNBOUNDED = 100_000
#: Least width of a terminal for which a plan shows types and sizes too.
WIDE = 120
#: Most nodes that are listed for one reason.
SHOWN = 6
#: Classes that are listed for a row of scores; --json has some more.
BEST = 3
COUNTED = MofNCompleteColumn()


def progress(is_quiet: bool = False, share: ProgressColumn = COUNTED) -> Progress:
    """Return a progress bar on stderr, which only shows in a terminal.

    Args:
        is_quiet: whether to show no bar at all.
        share: the column that shows how much is done.
    """
    is_terminal = sys.stderr.isatty() and not is_quiet
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        share,
        TimeElapsedColumn(),
        # Older versions of rich end a line even if the bar is disabled.
        console=Console(stderr=True, quiet=not is_terminal),
        transient=True,
        disable=not is_terminal,
    )


def text_of(show: Callable[[Console, Facts], None], facts: Facts) -> str:
    """Return what `show` prints, without trailing blanks."""
    console = Console(highlight=False, markup=False, emoji=False)
    # Wrapped lines would break `grep` and scripts that read the output.
    if not console.is_terminal:
        console.width = UNBOUNDED
    with console.capture() as captured:
        show(console, facts)
    # rich fills lines to the width of the table.
    text = "\n".join(line.rstrip() for line in captured.get().splitlines())
    # A stdout in ASCII or Latin-1 must not fail because of a bullet.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def columns(*heads: str) -> Table:
    """Return a table without lines: the first column left, the others right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        # Numbers stand on the right, so that their digits align.
        side: Any = "right" if table.columns else "left"
        table.add_column(head, justify=side, no_wrap=True)
    return table


def show_info(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor info`."""
    cpu = facts["cpu"]
    packages = facts["packages"].items()
    rows = [
        ("mdtensor", facts["mdtensor"]),
        ("python", f"{facts['python']} on {facts['platform']}"),
        *((name, version or "not installed") for name, version in packages),
        ("cpu", f"{cpu['cpu']} ({cpu['machine']})"),
        ("features", " ".join(cpu["features"])),
        ("ISA", f"{cpu['isa']}: {cpu['why']}"),
        *[("", "only emulated so far: `mdtensor verify` checks it here")]
        * (not cpu["proven"]),
        ("kernels", f"from {cpu['kernels']}"),
        *_device_rows(facts["devices"]),
        ("tensor types", str(facts["tensor_types"])),
        ("operations", str(facts["operations"])),
    ]
    pairs(console, rows)


def _device_rows(devices: dict[str, str]) -> list[tuple[str, str]]:
    """Return a row for the devices that can be used, and one for each other device."""
    usable = [name for name, missing in devices.items() if not missing]
    reasons = [f"{name}: {missing}" for name, missing in devices.items() if missing]
    return [("devices", " ".join(usable)), *(("", reason) for reason in reasons)]


def show_stubs(console: Console, result: Facts) -> None:
    """Print the result of `mdtensor stubs`."""
    changed = set(result["changed"])
    pairs(console, [(p, "new" if p in changed else "same") for p in result["files"]])


def pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    """Print a line for each name and its text."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    # Paths are folded and not cut: a reader may want to copy them.
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _kilobytes(count: int) -> str:
    return f"{count / 1000:.1f} kB"


def size_change(before: int, after: int) -> str:
    """Return bytes before and after as text, with their ratio."""
    # A model without weights has none to compare.
    share = f"{after / before:.3f} of float" if before else "none"
    return f"{_kilobytes(before)} -> {_kilobytes(after)} ({share})"


def show_quantized(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor quantize`."""
    files, weights = facts["file_bytes"], facts["weight_bytes"]
    checks = facts["check"] or {}
    pairs(
        console,
        [
            ("written", facts["output"]),
            ("calibrated on", f"{facts['samples']} samples"),
            ("file", size_change(files["float"], files["int8"])),
            ("weights", size_change(weights["float"], weights["int8"])),
            ("nodes", f"{facts['nodes']}, {len(facts['float_nodes'])} in float"),
            *((f"check of {name}", _check(c)) for name, c in checks.items()),
            *_search(facts.get("search")),
            ("time", f"{facts['seconds']:.2f} s"),
        ],
    )
    for node in facts["float_nodes"]:
        name = f"{node['node']} ({node['operation']})"
        console.print(f"  {name} stays float: {node['why']}")


def _search(found: Facts | None) -> list[tuple[str, str]]:
    """Return the line about a search under a budget, if there was one."""
    if found is None:
        return []
    allowed = f"of {found['budget']:.4g} allowed in {len(found['steps'])} tries"
    return [("error", f"{found['error']:.4g} {allowed}")]


def _check(found: Facts) -> str:
    """Return one line that compares an int8 output with float."""
    largest = f"largest difference {found['largest_difference']:.3g}"
    if found["integers"]:
        return f"{found['equal']} of {found['integers']} as in float, {largest}"
    ratio = found["sqnr_db"]
    parts = [
        f"signal to noise {ratio:.1f} dB" if ratio is not None else "no noise",
        largest,
    ]
    # Only outputs that are scores of classes decide anything.
    if found["rows"]:
        same = f"{found['same_argmax']} of {found['rows']} have the same class as float"
        parts.insert(0, same)
    return ", ".join(parts)


def show_run(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor run`."""
    for name, output in facts["outputs"].items():
        _show_output(console, name, output)
    console.print(f"time {1e3 * facts['seconds']:.3f} ms")
    if facts.get("output"):
        console.print(f"written {facts['output']}")
    if facts["plan"]:
        show_plan(console, facts["plan"])


def _show_output(console: Console, name: str, output: Facts) -> None:
    shape = ",".join(map(str, output["shape"]))
    console.print(f"{name}  {output['dtype']}[{shape}]{_range(output)}")
    if output["top"] is None:
        # The dots show that the line is cut, so they must not follow a whole output.
        more = " ..." if _size(output) > len(output["first"]) else ""
        console.print(f"  {' '.join(map(_number, output['first']))}{more}")
        return
    for number, row in enumerate(output["top"]):
        scores = ", ".join(f"{_class(c)} {_number(c['score'])}" for c in row[:BEST])
        console.print(f"  row {number}: {scores}")
    left = len(output["argmax"]) - len(output["top"])
    if left:
        console.print(f"  {left} more rows; --json has the argmax of each")


def _range(output: Facts) -> str:
    text = ""
    if output["range"]:
        text = "  from {} to {}".format(*map(_number, output["range"]))
    lost = output["not_finite"]
    return f"{text}  {lost} NaN or infinite" if lost else text


def _size(output: Facts) -> int:
    count = 1
    for size in output["shape"]:
        count *= size
    return count


def _number(value: float | None) -> str:
    if isinstance(value, int):
        return str(value)
    return "nan" if value is None else f"{value:.6g}"


def _class(found: Facts) -> str:
    return found["label"] or f"class {found['class']}"


def show_plan(console: Console, nodes: list[Facts]) -> None:
    """Print a line for each node, the totals, and why nodes run in float."""
    # Imported here, because the other commands print without the quantized part.
    from mdtensor.graph.plan import COLUMNS, cells

    count, room = len(COLUMNS), UNBOUNDED
    # A pipe does not have a width, so it gets all columns.
    if console.is_terminal:
        count, room = (7, 40) if console.width >= WIDE else (4, 20)
    table = Table(box=None, pad_edge=False)
    for head in COLUMNS[:count]:
        side: Any = "right" if head == "MACs" else "left"
        table.add_column(head, justify=side, no_wrap=True, overflow="ellipsis")
    for node in nodes:
        row = cells(node) | {"node": _tail(node["node"], room)}
        table.add_row(*(row[head] for head in COLUMNS[:count]))
    console.print(table)
    _show_sums(console, nodes)
    if count < len(COLUMNS):
        left = ", ".join(COLUMNS[count:])
        console.print(f"columns that do not fit here: {left}; a pipe gets them")


def _tail(name: str, room: int) -> str:
    """Shorten a long name at its start: the end tells it from its neighbours."""
    return name if len(name) <= room else f"...{name[3 - room :]}"


def _show_sums(console: Console, nodes: list[Facts]) -> None:
    counts = Counter(n["arithmetic"] for n in nodes)
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    macs = sum(n["macs"] for n in nodes)
    work = f"; {macs:,} MACs" if macs else ""
    console.print(f"{len(nodes)} nodes: {listed}{work}")
    from mdtensor.graph.plan import FLOAT_VALUES, NOT_QUANTIZED, is_not_quantized

    # Grouped by reason, since one cause often keeps dozens of nodes in float.
    reasons: dict[str, list[str]] = {}
    for n in nodes:
        if n["arithmetic"] == "float":
            reasons.setdefault(n["why"], []).append(n["node"])
    if is_not_quantized((n["arithmetic"], n["why"]) for n in nodes):
        console.print(f"  {NOT_QUANTIZED}")
        reasons.pop(FLOAT_VALUES)
    for why, names in reasons.items():
        console.print(f"  float, since {why}: {_some(names)}")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    left = len(names) - SHOWN
    return f"{shown} and {left} more" if left > 0 else shown


def show_demo(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor demo`."""
    found = facts["agreement"]
    console.print(
        f"{facts['model']}: which way up is a line of text?\n"
        f"calibrated on {facts['calibration_crops']} crops, judged on "
        f"{found['crops']} others from {found['lines']} lines, upright and turned"
    )
    _show_table(console, facts)
    _show_sizes(console, facts["bytes"])
    for threads, row in facts["times"].items():
        console.print(
            f"time, {_threads(threads)}: mdtensor int8 takes "
            f"{row['ratio']:.2f} of {row['faster_peer']}, the faster peer"
        )
    plan = facts["plan"]
    console.print(
        f"plan: of {plan['nodes']} nodes {plan['integer']} run as integers on "
        f"{'/'.join(plan['isas'])}, {plan['views']} as a view, "
        f"{len(plan['float'])} as float; {plan['macs'] / 1e6:.1f} million MACs"
    )
    for node in plan["float"]:
        console.print(f"  float: {node['operation']}; {node['why']}")
    console.print("which conv2d runs, by the types of its arguments:")
    for found in facts["which"]:
        console.print(f"  {found['selected']}", soft_wrap=True)
        console.print(f"    {found['why']}", soft_wrap=True)
    page = facts["page"]
    rates = ", ".join(f"{k} {v:.3f}" for k, v in page["wrong_characters"].items())
    console.print("the page, read by detector, direction and recognizer in int8:")
    console.print(f"  {page['text']}", soft_wrap=True)
    console.print(f"  wrong characters: {rates}")


def _show_table(console: Console, facts: Facts) -> None:
    found, times = facts["agreement"], facts["times"]
    table = columns("", "as float", f"{found['sure']} sure", "right")
    for threads in times:
        table.add_column(_threads(threads), justify="right")
    for label, row in found["rows"].items():
        table.add_row(
            label,
            f"{row['agree']}/{found['crops']} ({row['agree'] / found['crops']:.1%})",
            str(row["agree_where_sure"]),
            f"{row['right'] / found['crops']:.1%}",
            *(f"{t['milliseconds'][label]:.3f} ms" for t in times.values()),
        )
    console.print(table)


def _threads(count: str) -> str:
    return f"{count} thread{'s' if count != '1' else ''}"


def _show_sizes(console: Console, sizes: dict[str, int]) -> None:
    console.print(
        f"file: float {_kilobytes(sizes['float file'])}, mdtensor int8 "
        f"{_kilobytes(sizes['mdtensor int8 file'])}, onnxruntime int8 "
        f"{_kilobytes(sizes['onnxruntime int8 file'])}; weights: "
        f"{size_change(sizes['float weights'], sizes['int8 weights'])}"
    )


Array = npt.NDArray[Any]
FIRST, TOP, ROWS = 8, 5, 8


def summary(array: Array, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Return facts about one output for JSON, with None for NaN and infinity.

    Args:
        array: an output.
        labels: the names of the classes along the last axis, if it holds scores.

    Raises:
        DataError: the number of labels is not the number of classes.
    """
    # JSON cannot hold NaN and infinity, so these are only counted.
    numbers = array[np.isfinite(array)]
    if not is_integer(numbers):
        numbers = numbers.astype(np.float64)
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "range": [_plain(f(numbers)) for f in (np.min, np.max)]
        if numbers.size
        else None,
        "not_finite": array.size - numbers.size,
        "first": [_plain(v) for v in array.reshape(-1)[:FIRST]],
        **_winners(array, labels),
    }


def is_scores(array: Array, labels: Sequence[str] = ()) -> bool:
    """Return whether rows are scores of classes: floats with two axes, the last > 1.

    An array with one axis may be one number for each sample, and integers are classes
    or indices. Both are scores only if there is a label for each.
    """
    if array.ndim not in (1, 2) or array.shape[-1] == 1 or not array.size:
        return False
    is_table = array.ndim == 2 and not is_integer(array)
    return is_table or array.shape[-1] == len(labels)


def is_integer(array: Array) -> bool:
    """Return whether the elements are integers or bools, such as class numbers."""
    return array.dtype.kind in "biu"


def _winners(array: Array, labels: Sequence[str]) -> dict[str, Any]:
    """Return the best class of every row, and the best few of the first rows."""
    if not is_scores(array, labels):
        return {"argmax": None, "top": None}
    rows = array.reshape(-1, array.shape[-1])
    # A wrong list of labels would name every class falsely.
    if labels and len(labels) != rows.shape[1]:
        raise DataError(
            f"expected {rows.shape[1]} labels, one for each class, not {len(labels)}",
            "Write one label per line",
        )
    return {
        "argmax": rows.argmax(axis=1).tolist(),
        "top": [_top(row, labels) for row in rows[:ROWS]],
    }


def _top(row: Array, labels: Sequence[str]) -> list[dict[str, Any]]:
    # Stable, so that of equal scores the lower class comes first on every machine.
    order = np.argsort(-row.astype(np.float64), kind="stable")[:TOP]
    return [
        {
            "class": int(i),
            "label": labels[i] if labels else None,
            "score": _plain(row[i]),
        }
        for i in order
    ]


def _plain(value: Any) -> float | None:
    if isinstance(value, (np.integer, np.bool_)):
        return int(value)
    return float(value) if np.isfinite(value) else None


def compare_outputs(pairs: Sequence[tuple[Array, Array]]) -> dict[str, Any]:
    """Compare one output of two networks on the same samples.

    Args:
        pairs: (float, int8) for each sample.

    Returns:
        The number of rows with the same argmax, if they are scores; the number of equal
        elements, if they are integers; the signal-to-noise ratio, or None without noise
        and for integers; the largest difference.
    """
    signal = noise = largest = 0.0
    rows = agree = integers = equal = 0
    for real, coded in pairs:
        # In float64, where squares of float32 numbers neither overflow nor lose digits.
        gaps = real.astype(np.float64) - coded
        signal += float((real.astype(np.float64) ** 2).sum())
        noise += float((gaps**2).sum())
        largest = max(largest, float(np.abs(gaps).max(initial=0.0)))
        if is_integer(real):
            integers, equal = integers + real.size, equal + int((gaps == 0).sum())
        if is_scores(real):
            same = real.argmax(axis=-1) == coded.argmax(axis=-1)
            rows, agree = rows + same.size, agree + int(same.sum())
    # Without signal or noise the logarithm is infinite.
    # The ratio of class numbers says nothing.
    has_ratio = signal and noise and not integers
    ratio = _plain(10 * np.log10(signal / noise)) if has_ratio else None
    return {
        "rows": rows,
        "same_argmax": agree,
        "integers": integers,
        "equal": equal,
        "sqnr_db": ratio,
        "largest_difference": _plain(largest),
    }


COMPILING = "compiling kernels, cached for the next run ..."


@contextmanager
def working() -> Iterator[Progress]:
    """Show a progress bar, and one line when the first kernel is compiled."""
    with progress() as bar:
        # Compilation is silent and may take half a minute, which looks like a hang.
        def notify() -> None:
            bar.console.print(COMPILING, highlight=False)

        with Notice(notify):
            yield bar
