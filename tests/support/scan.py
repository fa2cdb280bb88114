"""The running sum with five algorithms, as in docs/how-to/dispatch-tables.md.

Its second device is the one for tests, so that all five run here.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.tables import (
    Axes,
    Axis,
    Contiguity,
    Contiguous,
    Cpu,
    Determinism,
    DeviceType,
    Float32,
    Float64,
    Floating,
    InPlace,
    Int32,
    Int64,
    Integer,
    NotRequired,
    OutOfPlace,
    Placement,
    Required,
    Tag,
)


class Shelf(DeviceType, value="shelf"):
    """The device of support/shelf.py."""


SPACE = Axes(
    Axis(Cpu, Shelf),
    Axis(Float32, Float64, Int32, Int64),
    Axis.full(Contiguity),
    Axis.full(Placement),
    Axis.full(Determinism),
)
COVERAGE = (
    Tag[Cpu, Floating],
    Tag[Cpu, Integer, Required],
    Tag[Shelf, Floating, Contiguous, OutOfPlace, NotRequired],
    Tag[Shelf, Integer, Contiguous, OutOfPlace, Required],
)


def serial(x: Any, out: Any) -> None:
    """out[i] = x[0] + ... + x[i], each sum rounded once."""
    np.add.accumulate(x, dtype=x.dtype, out=out)


def parallel(x: Any, out: Any, threads: int) -> None:
    """A piece for each thread, then to each piece the sum of those before it."""
    pieces = list(
        zip(np.array_split(x, threads), np.array_split(out, threads), strict=True)
    )
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(serial, *zip(*pieces, strict=True)))
        sums = np.array([piece[-1] for _, piece in pieces if len(piece)], x.dtype)
        before = np.add.accumulate(sums, dtype=x.dtype)
        rest = zip((piece for _, piece in pieces[1:]), before, strict=False)
        list(pool.map(lambda job: np.add(*job, out=job[0]), rest))


def serial_out_of_place(
    tag: Tag[Cpu, OutOfPlace], x: md.Tensor, out: md.Tensor, /
) -> None:
    serial(x.buffer, out.buffer)


def serial_in_place(tag: Tag[Cpu, InPlace], x: md.Tensor, out: md.Tensor, /) -> None:
    serial(x.buffer, x.buffer)


def parallel_integer(
    tag: Tag[Cpu, Integer, OutOfPlace, Required], x: md.Tensor, out: md.Tensor, /
) -> None:
    parallel(x.buffer, out.buffer, md.get_num_threads())


def parallel_floating(
    tag: Tag[Cpu, Floating, OutOfPlace, NotRequired], x: md.Tensor, out: md.Tensor, /
) -> None:
    parallel(x.buffer, out.buffer, md.get_num_threads())


def of_the_device(
    tag: Tag[Shelf, Contiguous, OutOfPlace], x: md.Tensor, out: md.Tensor, /
) -> None:
    x.device.launch(serial, x.buffer, out.buffer)


METHODS = (
    serial_out_of_place,
    serial_in_place,
    parallel_integer,
    parallel_floating,
    of_the_device,
)


def declare(methods: Iterable[Callable[..., Any]] = METHODS) -> Any:
    """The operation with these methods, added in this order."""

    @md.generic
    def inclusive_scan(tag: Any, x: Any, out: Any, /) -> Any:
        """out[i] = x[0] + ... + x[i]"""

    for one in methods:
        md.method(inclusive_scan)(one)
    return inclusive_scan


def branching(tag: Any, x: md.Tensor, out: md.Tensor) -> None:
    """The same choice in one function, by questions to its tag."""
    if tag.has(Shelf):
        of_the_device(tag, x, out)
    elif tag.has(InPlace):
        serial_in_place(tag, x, out)
    elif tag.has(Integer) or tag.has(NotRequired):
        parallel(x.buffer, out.buffer, md.get_num_threads())
    else:
        serial_out_of_place(tag, x, out)
