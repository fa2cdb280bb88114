"""Every kernel text that calls of all operations render, collected without running any.

Each operation is called with its sample and with every element type, and so are casts
between all types, mixed operands, and products, pools and conversions of codes. On the
emulated device launches are recorded instead of queued.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from support import samples

import mdtensor as md
from mdtensor import quant
from mdtensor.kernels.loops.kernel import Kernel
from mdtensor.quant import (
    QInt8Tensor,
    QInt16Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
)

#: Digits at the end of a kernel's name.
HASH = 12
TYPES = [kind.dtype for kind in md.leaves() if kind.device is md.cpu][:15]


def collected(device: Any, monkeypatch: Any) -> list[Kernel]:
    """Return the kernels in the order of their first launch."""
    found: dict[str, Kernel] = {}

    def issue(self: Any, stream: Any, kernel: Kernel, launch: Any) -> None:
        # Operations with one text differ in its name before the hash only.
        found.setdefault(kernel.name[-HASH:], kernel)
        # As if it had run: memory keeps its poison.
        stream.issued += 1
        stream.done += 1

    monkeypatch.setattr(type(device), "issue", issue)
    for call in every_call(device):
        # What a device lacks, and what poison does to checks of elements.
        with suppress(md.errors.MdtensorError):
            call()
    return list(found.values())


def every_call(device: Any) -> Iterator[Callable[[], Any]]:
    """Yield calls whose tensors are on the device."""
    for operation, dtype in itertools.product(md.operations().values(), TYPES):
        arguments, options = samples.sample(operation)
        given = tuple(moved(x, dtype, device) for x in arguments)
        named = {key: moved(x, dtype, device) for key, x in options.items()}
        yield lambda f=operation, a=given, o=named: samples.call(f, a, o)
    ones = {t: md.asarray([1, 0], dtype=md.int8).astype(t).to(device) for t in TYPES}
    for (a, x), (b, y) in itertools.product(ones.items(), repeat=2):
        for casting in ("wrap", "saturate", "check", "exact"):
            yield lambda x=x, b=b, c=casting: md.astype(x, b, casting=c)
        if a is not b:
            for f in (md.add, md.less, md.equal):
                yield lambda f=f, x=x, y=y: f(x, y)
    yield from calls_of_codes(device)


def moved(x: Any, dtype: Any, device: Any) -> Any:
    """Return an argument with its floats as another type, on the device."""
    if isinstance(x, (tuple, list)):
        return type(x)(moved(part, dtype, device) for part in x)
    if not isinstance(x, md.Tensor):
        return x
    if x.dtype is md.float32:
        x = md.astype(x, dtype, casting="wrap")
    with suppress(md.errors.MdtensorError):
        return x.to(device)
    return x


def calls_of_codes(device: Any) -> Iterator[Callable[[], Any]]:
    """Yield products, pools, conversions and functions of quantized tensors."""
    out = QParams(0.5)
    kinds = (QInt8Tensor, QUInt8Tensor, QInt16Tensor)
    for a, b in itertools.product(kinds, repeat=2):
        x, w = codes(a, device, 1, 4, 6, 6), codes(b, device, 8, 4, 3, 3)
        rows, lines = codes(a, device, 5, 8), codes(b, device, 3, 8)
        for grid in (None, out):
            yield lambda x=rows, w=lines, g=grid: md.linear(x, w, out=g)
            yield lambda x=rows, w=lines, g=grid: md.matmul(x, w.T, out=g)
            yield lambda x=x, w=w, g=grid: md.conv2d(x, w, padding=1, out=g)
        yield lambda x=rows, y=lines: md.add(x, y[:1], out=out)
    yield from calls_by_tiles(device)
    yield from calls_of_weights(device)
    for kind in kinds:
        x = codes(kind, device, 1, 4, 6, 6)
        yield lambda x=x: md.max_pool2d(x, kernel_size=2)
        yield lambda x=x: md.avg_pool2d(x, kernel_size=2, out=out)
        yield lambda x=x: md.sum(x, axis=1)
        yield lambda x=x: quant.dequantize(x)
        yield lambda x=x: quant.requantize(x, out=out)
        for dtype in (md.float16, md.bfloat16, md.float32, md.float64):
            y = md.asarray([1.0]).astype(dtype).to(device)
            yield lambda y=y, k=kind: quant.quantize(y, QParams(0.5, dtype=k.dtype))
        for f in (md.exp, md.relu, md.sigmoid):
            yield lambda f=f, x=x: f(x, out=out)


def calls_by_tiles(device: Any) -> Iterator[Callable[[], Any]]:
    """Yield products with enough rows or columns: slices, tiles of 64, and of 128."""
    out, pairs = QParams(0.5), itertools.product((QInt8Tensor, QUInt8Tensor), repeat=2)
    sizes = (3, 32), (32, 32), (2048, 1024)
    for (m, n), (a, b) in itertools.product(sizes, pairs):
        x, w = codes(a, device, m, 16), codes(b, device, n, 16)
        yield lambda x=x, w=w: md.linear(x, w, out=out)
    # What a layer of a model has: scales of channels, biases and a zero point.
    for m, n in sizes:
        x, scales = codes(QUInt8Tensor, device, m, 16, zero=3), np.linspace(1, 2, n)
        w = QInt8Tensor(np.ones((n, 16), int), scale=scales, axis=0).to(device)
        bias = QInt32Tensor(np.ones(n, int), scale=0.25 * scales, axis=0).to(device)
        yield lambda x=x, w=w, b=bias: md.linear(x, w, b, out=QParams(0.5, 7))
    image = codes(QUInt8Tensor, device, 1, 4, 6, 6, zero=3)
    filters = codes(QInt8Tensor, device, 32, 4, 3, 3, zero=2)
    apart = codes(QInt8Tensor, device, 4, 1, 3, 3, zero=2)
    for grid in (None, out):
        yield lambda g=grid: md.conv2d(image, filters, padding=1, out=g)
        yield lambda g=grid: md.conv2d(image, apart, groups=4, padding=1, out=g)


def calls_of_weights(device: Any) -> Iterator[Callable[[], Any]]:
    """Yield products of floats with quantized weights, with zero points and a bias."""
    kinds = ("qint4", "quint4", "qint8", "quint8")
    for name, dtype in itertools.product(kinds, TYPES):
        if not dtype.is_floating:
            continue
        for zero in (0, 3):
            grid = QParams(np.ones((3, 4)), zero, dtype=name, axis=1, block_size=16)
            w = quant.quantize(md.ones((3, 64)), grid).to(device)
            x = md.ones((2, 64)).astype(dtype).to(device)
            bias = md.ones((3,)).astype(dtype).to(device) if zero else None
            yield lambda x=x, w=w, b=bias: md.linear(x, w, b)


def codes(kind: Any, device: Any, *shape: int, zero: int = 0) -> Any:
    numbers = np.arange(np.prod(shape)).reshape(shape) % 7
    return kind(numbers, scale=0.25, zero_point=zero).to(device)
