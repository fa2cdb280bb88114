"""One Python function over many elements: beside NumPy, and on two threads.

Elementwise rows run on one thread, as NumPy does; the same formula in 106 bits beside
that in float64, with the distance of both from decimals of 60 digits. The loads run on
two, and differ in how they are shared out only: a triangle has rows of 1 to n steps.
"""

import math
import time
from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from functools import partial
from math import exp, log1p
from typing import Any

import ml_dtypes
import numpy as np

import mdtensor as md
from bench.harness import Bench, Contender, Count, Promise, Race, Reason, Row
from bench.harness.agreement import near
from mdtensor import wide
from mdtensor.wide import Wide

MILLION = 10**6
ROWS = 1500
SOFTPLUS = "np.where(0.5 * x > 20, x, np.log1p(np.exp(0.5 * x)) / 0.5)"
WIDE = "softplus in 106 bits"
#: How far from NumPy's float64 a result may be.
DTYPES = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-2, "bfloat16": 1e-1}


@md.elementwise
def axpy(x, y):
    """x · x + y."""
    return x * x + y


@md.elementwise
def softplus(x, beta, threshold):
    """log(1 + exp(beta · x)) / beta, and x above the threshold."""
    return x if beta * x > threshold else log1p(exp(beta * x)) / beta


@md.elementwise
def wide_softplus(x, beta, threshold):
    """The same, rounded once."""
    z = Wide(beta) * x
    return x if z > threshold else float(wide.log1p(wide.exp(z)) / beta)


def triangle(i, out):
    total = 0.0
    for j in range(i * 20):
        total += (j % 7) * 0.5
    out[i] = total


def square(i, out):
    total = 0.0
    for j in range(out.size * 10):
        total += ((j + i) % 7) * 0.5
    out[i] = total


def data(dtype: str) -> list[Any]:
    rng = np.random.default_rng(1)
    kind = getattr(ml_dtypes, dtype, dtype)
    return [rng.standard_normal(MILLION).astype(kind) for _ in range(2)]


def formula(ours: str, theirs: str, dtype: str) -> list[Contender]:
    """The same formula as a function of elements, and of NumPy's arrays."""
    md.set_num_threads(1)
    x, y = data(dtype)
    names = {"f": axpy, "g": softplus, "np": np, "x": x, "y": y}
    own = names | {"x": md.from_numpy(x), "y": md.from_numpy(y)}
    return [Contender("mdtensor", ours, own), Contender("NumPy", theirs, names)]


def check_formula(results: dict[str, Any], theirs: str, dtype: str) -> None:
    x, y = (z.astype(np.float64) for z in data(dtype))
    near(eval(theirs, {"np": np, "x": x, "y": y}), DTYPES[dtype])(results)


def in_106_bits() -> list[Contender]:
    md.set_num_threads(1)
    x = np.random.default_rng(1).standard_normal(MILLION // 10) * 10
    names = {"x": md.from_numpy(x)}
    return [
        Contender("106 bits", "f(x, 0.5, 20.0)", names | {"f": wide_softplus}),
        Contender("float64", "f(x, 0.5, 20.0)", names | {"f": softplus}),
    ]


def check_bits(results: dict[str, Any]) -> None:
    near(results["float64"], 1e-9)({"106 bits": results["106 bits"]})


def worst(function: Callable[..., Any]) -> float:
    """The largest distance from the exact value, in units of the last place."""
    found, rng = 0.0, np.random.default_rng(1)
    for beta in (1.0, 3.3, 0.1, 1e-3, 50.0):
        x = rng.uniform(-760.0, 21.0, 2000) / beta
        values = function(md.from_numpy(x), beta, 20.0).tolist()
        for x_i, value in zip(x.tolist(), values, strict=True):
            want = exact_softplus(x_i, beta)
            unit = Decimal(math.ulp(float(want)))
            found = max(found, float(abs(Decimal(value) - want) / unit))
    return found


def distances() -> dict[str, float]:
    return {"106 bits": worst(wide_softplus), "float64": worst(softplus)}


def exact_softplus(x: float, beta: float) -> Decimal:
    with localcontext(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN):
        z = Decimal(beta) * Decimal(x)
        if z > 20:
            return Decimal(x)
        power = z.exp()
        is_tiny = power < Decimal("1e-30")
        return (power if is_tiny else (1 + power).ln()) / Decimal(beta)


def shared(work: Callable[..., None]) -> list[Contender]:
    """Two threads share the rows of a sum, in two ways."""
    md.set_num_threads(2)
    view = md.flat_out(md.zeros(ROWS))
    names = {"each": md.for_each, "n": ROWS, "f": work, "out": view, "md": md}
    return [
        Contender(
            scheduling, f"each(n, f, out, scheduling={scheduling!r}, grain=1)", names
        )
        for scheduling in ("adaptive", "uniform")
    ]


def check_sums(results: dict[str, Any], work: Callable[..., None]) -> None:
    """Both ways write what one thread writes; a call of `for_each` returns nothing."""
    assert set(results.values()) == {None}
    found = []
    for threads in (1, 2):
        md.set_num_threads(threads)
        sums = md.zeros(ROWS)
        md.for_each(ROWS, work, md.flat_out(sums), grain=1)
        found.append(sums.tolist())
    assert found[0] == found[1]


def rows(quick: bool) -> Iterator[Row]:
    pairs = {"x · x + y": ("f(x, y)", "x * x + y")}
    pairs["softplus"] = ("g(x, 0.5, 20.0)", SOFTPLUS)
    for dtype in DTYPES:
        for name, (mine, theirs) in pairs.items():
            yield Race(
                f"{name}, {dtype}, {MILLION:,}",
                partial(formula, mine, theirs, dtype),
                partial(check_formula, theirs=theirs, dtype=dtype),
                "Against NumPy",
            )
    yield Race(WIDE, in_106_bits, check_bits, "In 106 bits", ours="106 bits")
    yield Count(f"{WIDE}, distance", distances, "ulp", "In ulp", "106 bits")
    for work in (triangle, square):
        yield Race(
            f"{work.__name__} on two threads",
            partial(shared, work),
            partial(check_sums, work=work),
            "Shared by two threads",
            ours="adaptive",
            threads=2,
            clock=time.perf_counter,
        )


BENCH = Bench(
    "One Python function over many elements",
    rows,
    rounds=40,
    promises=[
        Promise(
            "softplus of float64 in 106 bits: units in the last place",
            0.51,
            lambda found: found.value(f"{WIDE}, distance", "106 bits"),
        ),
        Promise(
            "softplus of float64 in 106 bits, relative to float64",
            5.0,
            lambda found: found.ratio(WIDE, "float64"),
        ),
        Promise(
            "a triangle on two threads: adaptive relative to uniform",
            0.85,
            lambda found: found.ratio("triangle on two threads", "uniform"),
        ),
        Promise(
            "equal rows on two threads: adaptive relative to uniform",
            1.1,
            lambda found: found.ratio("square on two threads", "uniform"),
        ),
    ],
    reasons=[
        Reason("twice the bits take several times the operations", WIDE),
        Reason("equal rows leave nothing to balance", "square*"),
        Reason("one processor was busy: there was nothing to balance", "triangle*"),
        Reason("NumPy has its own loop for float64 and float32", "*"),
    ],
    notes=(
        '"Shared by two threads" runs a function on rows of growing length, a '
        "triangle, and on rows of equal length, a square. The second half of the "
        "triangle's rows is three quarters of the work. With uniform scheduling the "
        "thread with the first half waits for the other thread, so a ratio of 0.67 is "
        "the best possible."
    ),
)
