"""Compiled functions against the same calls made one by one, and against torch.

`torch.compile` is measured where torch and a C++ compiler are installed. All on one
thread. Results of the compiled function have the bytes of the eager calls; the others
must be near them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import mdtensor as md
from bench.harness import Bench, Contender, Promise, Race, Reason, Row
from bench.harness.agreement import near
from mdtensor import quant

torch: Any = None
with suppress(ImportError):
    import torch

OURS, EAGER = "mdtensor", "one by one"
NUMPY, TORCH = "NumPy", "torch.compile"
SIZES = (16, 1_000, 100_000, 1_000_000, 10_000_000)
GRID = quant.QParams(0.05, dtype=quant.qint8)


def numpy_hardswish(x: Any, w: Any, b: Any) -> Any:
    """Return hardswish(x * w + b) by the shortest formula of NumPy."""
    a = x * w + b
    return a * np.clip(a + 3, 0, 6) / 6


def our_hardswish(x: Any, w: Any, b: Any) -> Any:
    """Return hardswish(x * w + b)."""
    return md.hardswish(x * w + b)


def long_chain(x: Any, w: Any, b: Any) -> Any:
    """Return eleven operations on each element, in any of the libraries."""
    y = x * w + b
    y = y * 0.5 + x
    y = (y - 1) * y
    return (y + w) * (y - b) * 0.25 + 2


def torch_hardswish(x: Any, w: Any, b: Any) -> Any:
    """Return hardswish(x * w + b) of torch."""
    return torch.nn.functional.hardswish(x * w + b)


HARDSWISH = "hardswish(x * w + b)"
CHAINS: dict[str, tuple[Callable[..., Any], ...]] = {
    HARDSWISH: (our_hardswish, numpy_hardswish, torch_hardswish),
    "11 operations": (long_chain, long_chain, long_chain),
}


def contenders(name: str, count: int) -> list[Contender]:
    """Return each library's way to compute a chain on `count` elements."""
    ours, theirs, peers = CHAINS[name]
    rng = np.random.default_rng(count)
    arrays = [rng.standard_normal(count, np.float32) for _ in range(3)]
    tensors = [*map(md.from_numpy, arrays)]
    compiled = md.compile(ours)
    # The second call of a trace compiles its parts.
    compiled(*tensors), compiled(*tensors)
    ways = [
        Contender(OURS, lambda: compiled(*tensors)),
        Contender(EAGER, lambda: ours(*tensors)),
        Contender(NUMPY, lambda: theirs(*arrays)),
    ]
    if torch:
        torch.set_num_threads(1)
        given = [*map(torch.from_numpy, arrays)]
        other = torch.compile(peers)
        # Without a C++ compiler the first call raises.
        with suppress(Exception):
            other(*given)
            ways.append(Contender(TORCH, lambda: other(*given)))
    return ways


def quantized() -> list[Contender]:
    """Return four quantized calls, compiled and one by one."""
    rng = np.random.default_rng(3)
    w = quant.quantize(
        md.from_numpy(rng.standard_normal((16, 3, 3, 3), np.float32) / 4),
        quant.QParams(0.01, dtype=quant.qint8),
    )

    def network(x: Any) -> Any:
        codes = quant.quantize(x, GRID)
        return md.max_pool2d(md.relu(md.conv2d(codes, w, out=GRID)), 2)

    x = md.from_numpy(rng.standard_normal((1, 3, 16, 16), np.float32))
    compiled = md.compile(network)
    compiled(x), compiled(x)
    return [
        Contender(OURS, lambda: compiled(x).codes),
        Contender(EAGER, lambda: network(x).codes),
    ]


def check(results: dict[str, Any]) -> None:
    """Compare the results with the eager ones; ours must have their bytes."""
    wanted = np.asarray(results[EAGER])
    assert np.asarray(results[OURS]).tobytes() == wanted.tobytes()
    near(wanted.astype(np.float64), 1e-4)(results)


def rows(quick: bool) -> Iterator[Row]:
    """Yield a race for each chain and size, and one of quantized calls."""
    for name in CHAINS:
        for count in SIZES[:2] if quick else SIZES:
            yield Race(
                f"{name}, {count:,}",
                lambda name=name, count=count: contenders(name, count),
                check,
                "Chains of float32",
            )
    yield Race(QUANTIZED, quantized, check, "Quantized")


QUANTIZED = "quantize, conv2d, relu, max_pool2d"
BENCH = Bench(
    "Compiled functions against calls one by one",
    rows,
    rounds=25,
    promises=[
        Promise("quantized calls", 0.9, lambda f: f.ratio(QUANTIZED, EAGER)),
        *(
            Promise(
                f"{HARDSWISH} of {count:,} floats, relative to NumPy",
                limit,
                lambda f, n=count: f.ratio(f"{HARDSWISH}, {n:,}", NUMPY),
            )
            for count, limit in {1_000_000: 0.6, 10_000_000: 0.35}.items()
        ),
    ],
    reasons=[
        Reason("each call looks up its trace by types and shapes", "*", NUMPY),
        Reason("torch.compile compiles each chain, ours is interpreted", "*", TORCH),
    ],
    notes="A chain is one loop over the elements, which allocates its result alone.",
)
