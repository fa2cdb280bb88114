"""The calls that run in two processes: one of each kind of kernel, in several sizes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import quant

Call = Callable[[], Any]
#: Elements of the tensors; a few show what a call costs, many what a kernel does.
SIZES = (16, 1000, 100_000, 1_000_000)
FLOATS = ("exp", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "sin", "sum")
CODES = ("relu", "hardswish", "sigmoid", "gelu")
#: Rows, inner size and columns of products, by the size that they belong to.
PRODUCTS = {16: (4, 16, 4), 1000: (16, 64, 16), 100_000: (64, 256, 256)}
PRODUCTS |= {1_000_000: (512, 512, 512)}
KINDS = (
    *(f"{name} of floats" for name in FLOATS),
    *("add of floats", "softmax of floats", "add of int8"),
    *("quantize", "dequantize", "add of codes", "multiply of codes"),
    *(f"{name} of codes" for name in CODES),
    *("matmul of floats", "matmul of codes"),
)


def names_of(size: int) -> list[str]:
    """The names of the calls of a size."""
    return [f"{kind}, {size:,}" for kind in KINDS]


def calls_of(size: int) -> dict[str, Call]:
    """The calls of a size, by name."""
    return dict(zip(names_of(size), _calls(size), strict=True))


def _calls(size: int) -> Iterator[Call]:
    """The calls of `KINDS`, in that order."""
    rng = np.random.default_rng(size)
    x, y = (md.asarray(a) for a in rng.standard_normal((2, size)).astype(np.float32))
    yield from (partial(getattr(md, name), x) for name in FLOATS)
    yield partial(md.add, x, y)
    yield partial(md.softmax, md.reshape(x[: size // 8 * 8], (-1, 8)), axis=-1)
    integers = rng.integers(-60, 60, (2, size)).astype(np.int8)
    yield partial(md.add, *map(md.asarray, integers))
    grid = quant.QParams(0.05, 3, dtype=quant.qint8)
    codes = [quant.quantize(a, grid) for a in (x, y)]
    yield partial(quant.quantize, x, grid)
    yield partial(quant.dequantize, codes[0])
    yield partial(md.add, *codes, out=grid)
    yield partial(md.multiply, *codes, out=grid)
    yield partial(md.relu, codes[0])
    yield from (partial(getattr(md, name), codes[0], out=grid) for name in CODES[1:])
    yield from _products(rng, *PRODUCTS[size])


def _products(rng: Any, rows: int, inner: int, columns: int) -> Iterator[Call]:
    """A product of floats, and one of codes that is rounded."""
    pair = [
        md.asarray(rng.standard_normal(shape).astype(np.float32))
        for shape in ((rows, inner), (inner, columns))
    ]
    yield partial(md.matmul, *pair)
    grid = quant.QParams(0.05, 0, dtype=quant.qint8)
    wide = quant.QParams(0.5, 0, dtype=quant.qint8)
    yield partial(md.matmul, *(quant.quantize(a, grid) for a in pair), out=wide)
