"""What `checked` costs: calls in its block against the same calls outside."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import mdtensor as md
from bench.harness import Bench, Contender, Promise, Race, Reason, Row
from bench.harness.agreement import alike
from mdtensor.quant import QInt8Tensor, QParams

SIZES = (10, 100_000, 1_000_000)
GRID = QParams(0.2, 3)
INSIDE, OUTSIDE = "checked", "unchecked"
INTEGERS = [
    f"{name} {dtype}"
    for dtype in (md.int8, md.int32, md.int64)
    for name in ("add", "mul", "sum")
] + ["int32 as int8"]
#: Calls in one block.
CALLS = 10


def operation(name: str, size: int) -> Callable[[], Any]:
    """One operation on so many elements, by its name in the table."""
    whole = np.random.default_rng(1).integers(-100, 100, size)
    if name == "int32 as int8":
        wide = md.from_numpy(whole.astype(np.int32))
        return partial(md.astype, wide, md.int8, casting="wrap")
    if name == "add qint8":
        codes = QInt8Tensor(whole.astype(np.int8), scale=0.1)
        return partial(md.add, codes, codes, out=GRID)
    function, _, dtype = name.partition(" ")
    x = md.from_numpy(whole.astype(dtype))
    return partial(getattr(md, function), *([x] if function == "sum" else [x, x]))


def codes_of(result: Any) -> Any:
    return getattr(result, "codes", result)


def inside(call: Callable[[], Any]) -> Any:
    with md.checked():
        for _ in range(CALLS):
            result = call()
    return codes_of(result)


def outside(call: Callable[[], Any]) -> Any:
    for _ in range(CALLS):
        result = call()
    return codes_of(result)


def contenders(name: str, size: int) -> list[Contender]:
    call = operation(name, size)
    return [
        Contender(INSIDE, partial(inside, call), calls=CALLS),
        Contender(OUTSIDE, partial(outside, call), calls=CALLS),
    ]


def label(name: str, size: int) -> str:
    return f"{name}, {size:,}"


def rows(quick: bool) -> Iterator[Row]:
    for size in SIZES[:2] if quick else SIZES:
        for name in (*INTEGERS, "add qint8"):
            make = partial(contenders, name, size)
            yield Race(label(name, size), make, alike, ours=INSIDE)


MILLION = [label(name, max(SIZES)) for name in INTEGERS]
BENCH = Bench(
    "Checked arithmetic, against the same calls unchecked",
    rows,
    rounds=15,
    promises=[
        Promise(
            "a million integers: checked relative to unchecked",
            6,
            lambda found: found.worst(MILLION, OUTSIDE),
        )
    ],
    reasons=[
        Reason(
            "the check computes every result once more, in a type that does not wrap"
        )
    ],
)
