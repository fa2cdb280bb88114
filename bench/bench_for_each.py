"""One Python function over many elements: beside NumPy, and on two threads.

Elementwise rows run on one thread, as NumPy does; the same formula in 106 bits beside
that in float64, with the distance of both from decimals of 60 digits. The loads run on
two, and differ in how they are shared out only: a triangle has rows of 1 to n steps.
"""

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from math import exp, log1p
from typing import Any

import harness
import ml_dtypes
import numpy as np

import mdtensor as md
from mdtensor import wide
from mdtensor.wide import Wide

RNG = np.random.default_rng(1)
MILLION = 10**6
ROWS = 1500


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


def against_numpy(rounds: int) -> list[tuple[str, ...]]:
    rows = []
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        x, y = (RNG.standard_normal(MILLION).astype(dtype) for _ in range(2))
        names = {"f": axpy, "g": softplus, "np": np, "x": x, "y": y}
        ours = names | {"x": md.from_numpy(x), "y": md.from_numpy(y)}
        pairs = {
            "x · x + y": ("f(x, y)", "x * x + y"),
            "softplus": ("g(x, 0.5, 20.0)", SOFTPLUS),
        }
        for name, (mine, theirs) in pairs.items():
            contenders = [
                harness.Contender("mdtensor", mine, ours),
                harness.Contender("NumPy", theirs, names),
            ]
            samples = harness.interleave(contenders, rounds)
            label = f"{name}, {np.dtype(dtype)}"
            rows.append(line(label, MILLION, samples, "mdtensor", "NumPy"))
    return rows


def in_106_bits(rounds: int) -> tuple[tuple[str, ...], list[harness.Limit]]:
    """Time over that in float64, and units in the last place of both."""
    x = md.from_numpy(RNG.standard_normal(MILLION // 10) * 10)
    names = {"wide": wide_softplus, "plain": softplus, "x": x}
    contenders = [
        harness.Contender(name, f"{name}(x, 0.5, 20.0)", names)
        for name in ("wide", "plain")
    ]
    samples = harness.interleave(contenders, rounds)
    slower = harness.ratio(samples, "wide", "plain")
    off, plain = worst(wide_softplus), worst(softplus)
    name = f"softplus of 106 bits, float64: {off:.4f} ulp, not {plain:.0f}"
    claim = "softplus of float64 in 106 bits: "
    limits = [
        harness.Limit(f"{claim}units in the last place", off, 0.51),
        harness.Limit(f"{claim}over float64", slower.median, 5.0),
    ]
    return line(name, x.size, samples, "wide", "plain"), limits


def worst(function: Callable[..., Any]) -> float:
    """The largest distance from the exact value, in units of the last place."""
    found = 0.0
    for beta in (1.0, 3.3, 0.1, 1e-3, 50.0):
        x = RNG.uniform(-760.0, 21.0, 2000) / beta
        values = function(md.from_numpy(x), beta, 20.0).tolist()
        for x_i, value in zip(x.tolist(), values, strict=True):
            want = exact_softplus(x_i, beta)
            unit = Decimal(math.ulp(float(want)))
            found = max(found, float(abs(Decimal(value) - want) / unit))
    return found


def exact_softplus(x: float, beta: float) -> Decimal:
    with localcontext(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN):
        z = Decimal(beta) * Decimal(x)
        if z > 20:
            return Decimal(x)
        power = z.exp()
        is_tiny = power < Decimal("1e-30")
        return (power if is_tiny else (1 + power).ln()) / Decimal(beta)


SOFTPLUS = "np.where(0.5 * x > 20, x, np.log1p(np.exp(0.5 * x)) / 0.5)"


def loads(rounds: int) -> tuple[list[tuple[str, ...]], dict[str, harness.Ratio]]:
    rows, ratios = [], {}
    view = md.flat_out(md.zeros(ROWS))
    for work in (triangle, square):
        contenders = [
            harness.Contender(
                scheduling,
                f"each(n, f, out, scheduling={scheduling!r}, grain=1)",
                {"each": md.for_each, "n": ROWS, "f": work, "out": view},
            )
            for scheduling in ("adaptive", "uniform")
        ]
        samples = harness.interleave(contenders, rounds)
        name = f"{work.__name__}, adaptive over uniform"
        ratios[work.__name__] = harness.ratio(samples, "adaptive", "uniform")
        rows.append(line(name, ROWS, samples, "adaptive", "uniform"))
    return rows, ratios


def line(
    name: str, count: int, samples: Any, mine: str, theirs: str
) -> tuple[str, ...]:
    seconds = harness.medians(samples)
    found = harness.ratio(samples, mine, theirs)
    times = [f"{1e6 * seconds[who]:.3g}" for who in (mine, theirs)]
    print(name, *times, found, flush=True)
    return name, f"{count:,}", *times, str(found)


def main() -> None:
    options = harness.arguments(__doc__, rounds=40)
    md.set_num_threads(1)
    with np.errstate(all="ignore"):
        rows = against_numpy(options.rounds)
        row, in_bits = in_106_bits(options.rounds)
    md.set_num_threads(2)
    shared, ratios = loads(options.rounds)
    limits = [
        *in_bits,
        harness.Limit(
            "a triangle on two threads: adaptive over uniform",
            ratios["triangle"].median,
            0.85,
        ),
        harness.Limit(
            "equal rows on two threads: adaptive over uniform",
            ratios["square"].median,
            1.1,
        ),
    ]
    harness.report(
        "for_each",
        "One Python function over many elements",
        ("function", "elements", "us", "other us", "ratio (95 %)"),
        [*rows, row, *shared],
        limits,
        save=not options.no_save,
        notes="`other` is NumPy's formula on one thread, uniform scheduling on two, "
        "or, of the formula in 106 bits, that with the C library's exp and log1p. "
        "A sum over a triangle has three quarters of its work in the second half: "
        "uniform waits for it, 0.67 would be all that can be won.",
    )


if __name__ == "__main__":
    main()
