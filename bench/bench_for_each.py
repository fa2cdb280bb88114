"""One Python function over many elements: beside NumPy, and on two threads.

Elementwise rows run on one thread, as NumPy does. The loads run on two, and differ in
how they are shared out only: a triangle has rows of 1 to n steps.
"""

from math import exp, log1p
from typing import Any

import harness
import ml_dtypes
import numpy as np

import mdtensor as md

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
    md.set_num_threads(2)
    shared, ratios = loads(options.rounds)
    limits = [
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
        [*rows, *shared],
        limits,
        save=not options.no_save,
        notes="`other` is NumPy's formula on one thread, or uniform scheduling on two. "
        "A sum over a triangle has three quarters of its work in the second half: "
        "uniform waits for it, 0.67 would be all that can be won.",
    )


if __name__ == "__main__":
    main()
