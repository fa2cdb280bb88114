"""What a dispatch table costs: to select from, and to call what it selected.

The methods return an argument, so that only the way there is timed. The space is the
one of the scan in docs/how-to/dispatch-tables.md, with five axes; all ways choose among
the same two methods.
"""

from collections.abc import Iterator
from typing import Any

import plum

import mdtensor as md
from bench.harness import Bench, Contender, Promise, Race, Reason, Row
from bench.harness.agreement import gives
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

BARE, CALL, SELECT = "bare call of the method", "call of the operation", "select"
ROW = "scan of five axes"
SPACE = Axes(
    Axis(Cpu, Cuda),
    Axis(Float32, Float64, Int32, Int64),
    Axis.full(Contiguity),
    Axis.full(Placement),
    Axis.full(Determinism),
)
POINT = (Cpu, Float32, Contiguous, OutOfPlace, Required)
X, TAG = md.asarray([1.0]), Tag[POINT]()


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


def calls() -> list[Contender]:
    """Ways to run the method."""
    table = DispatchTable(SPACE, Tag[Cpu], scan)
    values = {"x": X, "tag": TAG, "select": table.select, "run": table.select(*POINT)}
    values |= dict(zip("abcde", POINT, strict=True))
    ways = [
        ("handle", "run(x, x)", {}),
        (BARE, "call(tag, x, x)", {"call": bare}),
        (CALL, "call(tag, x, x)", {"call": scan}),
        ("plum alone", "call(tag, x, x)", {"call": bare_plum()}),
        ("select and call", "select(a, b, c, d, e)(x, x)", {}),
    ]
    return [Contender(name, code, {**values, **more}) for name, code, more in ways]


def selects() -> list[Contender]:
    """Ways to choose it, beside a call that chooses by three arguments."""
    table = DispatchTable(SPACE, Tag[Cpu], scan)
    values = {"x": X, "tag": TAG, "select": table.select, "call": scan}
    values |= dict(zip("abcde", POINT, strict=True))
    ways = [
        (SELECT, "select(a, b, c, d, e)"),
        (
            "select by device, dtype and three more axes",
            "select(x.device, x.dtype, c, d, e)",
        ),
        (CALL, "call(tag, x, x)"),
    ]
    return [Contender(name, code, values) for name, code in ways]


def check_selects(results: dict[str, Any]) -> None:
    """What is selected gives what the call gives."""
    *handles, called = results.values()
    gives(called)({str(at): handle(X, X) for at, handle in enumerate(handles)})


def rows(quick: bool) -> Iterator[Row]:
    yield Race(ROW, calls, gives(X), "Calls", ours="handle")
    yield Race(f"select, {ROW}", selects, check_selects, "Selecting", ours=SELECT)


BENCH = Bench(
    "Selection from a dispatch table with five axes, and the call of the selected "
    "method",
    rows,
    rounds=200,
    promises=[
        Promise(
            "call of a handle relative to a bare call",
            1.3,
            lambda f: f.ratio(ROW, BARE),
        ),
        Promise(
            "time of `select` relative to a call",
            1.6,
            lambda f: f.ratio(f"select, {ROW}", CALL),
        ),
    ],
    reasons=[
        Reason("a select reads a dict by five classes, a call by three", "select*"),
        Reason("both are one Python call; the difference is noise", ROW, BARE),
    ],
)
