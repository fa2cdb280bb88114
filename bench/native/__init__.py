"""Compare the steady speed of library kernels with the same kernels from numba."""

import sys
from collections.abc import Iterator
from functools import partial
from statistics import geometric_mean

from bench.harness import Bench, Found, Promise, Row
from bench.native.calls import SIZES, names_of
from bench.native.pairs import LIBRARY, NUMBA, NetworkRow, PairRow
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.native import library

#: Networks of `bench.inference`, in float and in int8.
NETWORKS = tuple(
    f"{network} {kind}"
    for network in ("classifier", "MobileNetV2 1.0/224")
    for kind in ("float", "int8")
)
#: As fast, but for what a run cannot tell.
LIMIT = 1.02


def rows(quick: bool) -> Iterator[Row]:
    """None where no library is built: there is nothing to compare."""
    where = library.describe(isa.ISA)
    if where != "a library":
        print(f"native is left out: kernels come from {where}", file=sys.stderr)
        return
    for size in SIZES[:1] if quick else SIZES:
        yield from (PairRow(name) for name in names_of(size))
    if not quick:
        yield from (NetworkRow(name) for name in NETWORKS)


def calls() -> list[str]:
    return [name for size in SIZES for name in names_of(size)]


def largest(names: tuple[str, ...], found: Found) -> float:
    """The largest ratio that a run shows with 95 % confidence."""
    return max(found.least_ratio(name, NUMBA) for name in names)


def mean(names: tuple[str, ...], found: Found) -> float:
    return geometric_mean(found.ratio(name, NUMBA) for name in names)


BENCH = Bench(
    "Kernels of a library and of numba",
    rows,
    rounds=15,
    promises=[
        Promise(f"{what} of a library, relative to numba: {claim}", LIMIT, value)
        for what, names in (("calls", tuple(calls())), ("networks", NETWORKS))
        for claim, value in (
            ("the worst, with 95 % confidence", partial(largest, names)),
            ("on average", partial(mean, names)),
        )
    ],
    notes=(
        f"Two processes take turns, one with MDTENSOR_KERNELS=native ({LIBRARY}) and "
        f"one with jit ({NUMBA}). Results have equal bytes. A sample is the least "
        "CPU time of five."
    ),
)
