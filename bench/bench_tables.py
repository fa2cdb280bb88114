"""What a dispatch table costs: to select from, and to call what it selected.

The methods return an argument, so that only the way there is timed. The space is that
of the scan in docs/tables.md, five axes; all ways choose among the same two methods.
"""

from typing import Any

import harness
import plum

import mdtensor as md
from mdtensor.tables import (
    Axes,
    Axis,
    Contiguity,
    Contiguous,
    Cpu,
    Cuda,
    Determinism,
    DispatchTable,
    Float32,
    Float64,
    InPlace,
    Int32,
    Int64,
    OutOfPlace,
    Placement,
    Required,
    Tag,
)

HANDLE, CALL, SELECT = "handle", "call of the operation", "select by five classes"
SPACE = Axes(
    Axis(Cpu, Cuda),
    Axis(Float32, Float64, Int32, Int64),
    Axis.full(Contiguity),
    Axis.full(Placement),
    Axis.full(Determinism),
)
POINT = (Cpu, Float32, Contiguous, OutOfPlace, Required)


@md.generic
def scan(tag, x, out, /):
    """Return `x`; only the way there is of interest."""


@md.method(scan)
def scan(tag: Tag[Cpu, OutOfPlace], x: md.Tensor, out: md.Tensor, /):
    return x


@md.method(scan)
def scan(tag: Tag[Cpu, InPlace], x: md.Tensor, out: md.Tensor, /):
    return x


def bare(tag: Any, x: Any, out: Any) -> Any:
    return x


def bare_plum() -> Any:
    """The same two methods in plum alone."""
    function = plum.Dispatcher().abstract(bare)
    for tag in (Tag[Cpu, OutOfPlace], Tag[Cpu, InPlace]):
        signature = plum.Signature(tag, md.Tensor, md.Tensor)
        function.register(lambda tag, x, out: x, signature=signature)
    return function


def contenders() -> list[harness.Contender]:
    table = DispatchTable(SPACE, Tag[Cpu], scan)
    x, tag = md.asarray([1.0]), Tag[POINT]()
    values = {"x": x, "tag": tag, "select": table.select, "run": table.select(*POINT)}
    values |= dict(zip("abcde", POINT, strict=True))
    rows = [
        ("bare call of the method", "call(tag, x, x)", {"call": bare}),
        (HANDLE, "run(x, x)", {}),
        (CALL, "call(tag, x, x)", {"call": scan}),
        ("plum alone", "call(tag, x, x)", {"call": bare_plum()}),
        (SELECT, "select(a, b, c, d, e)", {}),
        ("select by device, dtype and three", "select(x.device, x.dtype, c, d, e)", {}),
        ("select and call", "select(a, b, c, d, e)(x, x)", {}),
    ]
    return [harness.Contender(n, code, {**values, **more}) for n, code, more in rows]


def main() -> None:
    options = harness.arguments(__doc__, rounds=200)
    samples = harness.interleave(contenders(), options.rounds)
    ratios = {name: harness.ratio(samples, name, CALL) for name in samples}
    rows = [
        (name, f"{1e9 * seconds:.0f}", str(ratios[name]))
        for name, seconds in harness.medians(samples).items()
    ]
    by_bare = harness.ratio(samples, HANDLE, "bare call of the method").median
    harness.report(
        "tables",
        "Selecting from a dispatch table of five axes, and calling what it gives",
        ("way", "ns a call", f"this / {CALL} (95 %)"),
        rows,
        [
            harness.Limit("time of a handle over a bare call", by_bare, 1.3),
            harness.Limit("time of a select over a call", ratios[SELECT].median, 1.6),
        ],
        save=not options.no_save,
    )


if __name__ == "__main__":
    main()
