"""What `checked` costs: calls in its block against the same calls outside."""

from collections.abc import Callable
from functools import partial
from typing import Any

import harness
import numpy as np

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QParams

RNG = np.random.default_rng(1)
SIZES = (10, 100_000, 1_000_000)
GRID = QParams(0.2, 3)


def calls(size: int) -> dict[str, Callable[[], Any]]:
    """Operations on so many elements, by name."""
    whole = RNG.integers(-100, 100, size)
    found: dict[str, Callable[[], Any]] = {}
    for dtype in (md.int8, md.int32, md.int64):
        x = md.astype(md.from_numpy(whole), dtype)
        found[f"add {dtype}"] = partial(md.add, x, x)
        found[f"mul {dtype}"] = partial(md.mul, x, x)
        found[f"sum {dtype}"] = partial(md.sum, x)
    wide = md.from_numpy(whole.astype(np.int32))
    found["int32 as int8"] = partial(md.astype, wide, md.int8, casting="wrap")
    codes = QInt8Tensor(whole.astype(np.int8), scale=0.1)
    found["add qint8"] = partial(md.add, codes, codes, out=GRID)
    return found


def inside(call: Callable[[], Any]) -> None:
    with md.checked():
        for _ in range(10):
            call()


def outside(call: Callable[[], Any]) -> None:
    for _ in range(10):
        call()


def main() -> None:
    options = harness.arguments(__doc__, rounds=15)
    rows, worst = [], 0.0
    for size in SIZES:
        for name, call in calls(size).items():
            contenders = [
                harness.Contender("inside", partial(inside, call)),
                harness.Contender("outside", partial(outside, call)),
            ]
            samples = harness.interleave(contenders, options.rounds)
            seconds = harness.medians(samples)
            ratio = harness.ratio(samples, "inside", "outside")
            times = [f"{1e5 * seconds[k]:.3g}" for k in ("outside", "inside")]
            rows.append((name, f"{size:,}", *times, str(ratio)))
            if size == max(SIZES) and "q" not in name:
                worst = max(worst, ratio.median)
    harness.report(
        "checked",
        "Checked arithmetic, against the same calls unchecked",
        ("operation", "elements", "us", "us checked", "times (95 %)"),
        rows,
        [harness.Limit("a million integers checked, over unchecked", worst, 6)],
        save=not options.no_save,
    )


if __name__ == "__main__":
    main()
