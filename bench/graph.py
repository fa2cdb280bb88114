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
GENERATED, FROZEN = "generated", "frozen"
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


def our_softmax(x: Any, w: Any, b: Any) -> Any:
    """Return the softmax of rows, written out."""
    powers = md.exp(x - md.max(x, axis=-1, keepdims=True))
    return powers / md.sum(powers, axis=-1, keepdims=True)


def numpy_softmax(x: Any, w: Any, b: Any) -> Any:
    """Return the softmax of rows of NumPy."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def torch_softmax(x: Any, w: Any, b: Any) -> Any:
    """Return the softmax of rows of torch."""
    return torch.softmax(x, -1)


SOFTMAX = "softmax of rows of 250"
HARDSWISH = "hardswish(x * w + b)"
CHAINS: dict[str, tuple[Callable[..., Any], ...]] = {
    HARDSWISH: (our_hardswish, numpy_hardswish, torch_hardswish),
    "11 operations": (long_chain, long_chain, long_chain),
    SOFTMAX: (our_softmax, numpy_softmax, torch_softmax),
}


def contenders(name: str, count: int) -> list[Contender]:
    """Return each library's way to compute a chain on `count` elements."""
    ours, theirs, peers = CHAINS[name]
    rng = np.random.default_rng(count)
    shape = (count // 250, 250) if name == SOFTMAX else (count,)
    arrays = [rng.standard_normal(shape, np.float32) for _ in range(3)]
    tensors = [*map(md.from_numpy, arrays)]
    compiled = md.compile(ours)
    # The second call of a trace compiles its parts.
    compiled(*tensors), compiled(*tensors)
    frozen = compiled.freeze(*tensors)
    generated = md.compile(ours, generate=True)
    generated(*tensors), generated(*tensors)
    ways = [
        Contender(OURS, lambda: compiled(*tensors)),
        Contender(FROZEN, lambda: frozen(*tensors)),
        Contender(GENERATED, lambda: generated(*tensors)),
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


def convolutions() -> list[Contender]:
    """Return a small float network of images, compiled and one by one."""
    rng = np.random.default_rng(4)
    w, v, u = (
        md.from_numpy(rng.standard_normal(shape, np.float32) / 4)
        for shape in ((16, 3, 3, 3), (16, 1, 3, 3), (32, 16, 1, 1))
    )

    def network(x: Any) -> Any:
        y = md.relu(md.conv2d(x, w, stride=2, padding=1))
        y = md.relu6(md.conv2d(y, v, padding=1, groups=16))
        return md.relu(md.max_pool2d(md.conv2d(y, u), 2))

    x = md.from_numpy(rng.standard_normal((1, 3, 32, 32), np.float32))
    compiled = md.compile(network)
    compiled(x), compiled(x)
    return [
        Contender(OURS, lambda: compiled(x)),
        Contender(EAGER, lambda: network(x)),
    ]


def small_convolution() -> list[Contender]:
    """Return a convolution of a few pixels, by one call and by NumPy's product."""
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s, np.float32) for s in ((1, 3, 8, 8), (4, 3, 3, 3)))
    image, weights = md.from_numpy(x), md.from_numpy(w)

    def by_numpy() -> Any:
        seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        columns = seen.transpose(0, 1, 4, 5, 2, 3).reshape(1, 27, 36)
        return np.matmul(w.reshape(4, 27), columns).reshape(1, 4, 6, 6)

    return [
        Contender(OURS, lambda: md.conv2d(image, weights)),
        Contender(NUMPY, by_numpy),
    ]


def check_sums(results: dict[str, Any]) -> None:
    """Compare sums with NumPy's, which are added in another order."""
    near(np.asarray(results[NUMPY]).astype(np.float64), 1e-5)(results)


def check(results: dict[str, Any]) -> None:
    """Compare the results with the eager ones; ours must have their bytes."""
    wanted = np.asarray(results[EAGER])
    for name in {OURS, FROZEN, GENERATED} & results.keys():
        assert np.asarray(results[name]).tobytes() == wanted.tobytes()
    near(wanted.astype(np.float64), 1e-4)(results)


def rows(quick: bool) -> Iterator[Row]:
    """Yield a race for each chain and size, and one of quantized calls."""
    for name in CHAINS:
        for count in SIZES[:2] if quick else SIZES:
            if name == SOFTMAX and count < 250:
                continue
            yield Race(
                f"{name}, {count:,}",
                lambda name=name, count=count: contenders(name, count),
                check,
                "Chains of float32",
            )
    yield Race(QUANTIZED, quantized, check, "Quantized")
    yield Race(CONVOLUTIONS, convolutions, check, "Float convolutions")
    yield Race(SMALL, small_convolution, check_sums, "Float convolutions")


QUANTIZED = "quantize, conv2d, relu, max_pool2d"
CONVOLUTIONS = "3 convolutions, 3 activations, max_pool2d"
SMALL = "conv2d of 3 x 8 x 8"
BENCH = Bench(
    "Compiled functions against calls one by one",
    rows,
    rounds=25,
    promises=[
        Promise("quantized calls", 0.9, lambda f: f.ratio(QUANTIZED, EAGER)),
        Promise("float convolutions", 0.4, lambda f: f.ratio(CONVOLUTIONS, EAGER)),
        Promise(f"{SMALL}, relative to NumPy", 1.5, lambda f: f.ratio(SMALL, NUMPY)),
        *(
            Promise(
                f"{HARDSWISH} of {count:,} floats, relative to NumPy",
                limit,
                lambda f, n=count: f.ratio(f"{HARDSWISH}, {n:,}", NUMPY),
            )
            for count, limit in {1_000_000: 0.6, 10_000_000: 0.35}.items()
        ),
        Promise(
            f"generated {HARDSWISH} of 100,000 floats, relative to NumPy",
            0.4,
            lambda f: (
                f.ratio(f"{HARDSWISH}, 100,000", NUMPY)
                / f.ratio(f"{HARDSWISH}, 100,000", GENERATED)
            ),
        ),
        Promise(
            "11 operations, 100,000 floats, relative to the calls",
            0.5,
            lambda f: f.ratio("11 operations, 100,000", EAGER),
        ),
        Promise(
            f"{SOFTMAX}, 100,000 floats, relative to the calls",
            0.75,
            lambda f: f.ratio(f"{SOFTMAX}, 100,000", EAGER),
        ),
    ],
    reasons=[
        Reason("the call checks shapes and options, NumPy multiplies", SMALL, NUMPY),
        Reason("each call looks up its trace by types and shapes", "*", NUMPY),
        Reason("torch.compile compiles each chain, ours is interpreted", "*", TORCH),
    ],
    notes="A chain is one loop over the elements, which allocates its result alone.",
)
