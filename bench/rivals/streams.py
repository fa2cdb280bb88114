"""The bytes of an operation moved, and nothing else done: no operation is faster."""

import timeit
from collections.abc import Callable
from functools import cache
from math import gcd
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from bench.rivals import peaks
from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.program.step import aligned_bytes

#: Vectors of each stream that one step moves, and their bytes.
UNROLLED = 4
STEP = peaks.WIDTH * UNROLLED
WORDS = ir.VectorType(vectors.I64, peaks.WIDTH // 8)


@intrinsic
def _move(typing, reads, writes, is_streaming, source, target, steps):
    """`steps` of `reads` streams in a row at `source`, `writes` of them at `target`.

    What is read is combined, and written to each; streaming stores go past the caches.
    Returns a word of all that was read, where nothing is written: else it would be
    left out.
    """
    shape = vectors.literals(reads, writes, is_streaming)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        steps = arguments[-1]
        starts = [ir.Constant(WORDS, None)] * UNROLLED

        def step(i, words):
            return [
                _move_vector(b, shape, arguments[3:], i, part, word)
                for part, word in enumerate(words)
            ]

        first, *rest = vectors.repeat(b, steps, starts, step)
        for word in rest:
            first = b.xor(first, word)
        return b.extract_element(first, vectors.I32(0))

    return types.int64(reads, writes, is_streaming, *[types.int64] * 3), emit


def _move_vector(b: Any, shape: Any, places: Any, i: Any, part: int, word: Any) -> Any:
    """One vector of each stream; `word` collects what is read and not written."""
    reads, writes, is_streaming = shape
    source, target, steps = places
    offset = b.add(b.mul(i, vectors.I64(STEP)), vectors.I64(part * peaks.WIDTH))
    length = b.mul(steps, vectors.I64(STEP))

    def place(start: Any, stream: int) -> Any:
        return b.add(b.add(start, offset), b.mul(length, vectors.I64(stream)))

    if writes:
        word = ir.Constant(WORDS, None)
    for stream in range(reads):
        word = b.xor(word, vectors.load(b, place(source, stream), WORDS))
    for stream in range(writes):
        _store(b, word, place(target, stream), is_streaming)
    return word


def _store(b: Any, value: Any, address: Any, is_streaming: int) -> None:
    place = b.inttoptr(address, value.type.as_pointer())
    done = b.store(value, place, align=peaks.WIDTH if is_streaming else 1)
    if is_streaming:
        done.set_metadata("nontemporal", b.module.add_metadata([vectors.I32(1)]))


@cache
def mover(reads: int, writes: int, is_streaming: int) -> Callable[..., int]:
    """move(source, target, steps) of bytes, so many streams in each."""

    @numba.njit(nogil=True)
    def move(source, target, steps):
        x, y = vectors.address_of(source, 0), vectors.address_of(target, 0)
        return _move(reads, writes, is_streaming, x, y, steps)

    compiled: Callable[..., int] = move
    return compiled


def moved(read: int, written: int) -> Callable[[], None]:
    """A call that reads and writes so many bytes, in the faster of two ways.

    Args:
        read: bytes; what is written is a fraction or a multiple of it, or nothing.
        written: bytes.
    """
    unit = gcd(read, written)
    reads, writes = read // unit, written // unit
    source, target = aligned_bytes(read), aligned_bytes(written)
    source[:], target[:] = 1, 1

    def call(is_streaming: int) -> Callable[[], None]:
        move, steps = mover(reads, writes, is_streaming), unit // STEP

        def run() -> None:
            move(source, target, steps)

        return run

    ways = [call(is_streaming) for is_streaming in range(1 + bool(written))]
    return min(ways, key=lambda way: min(timeit.repeat(way, repeat=4, number=2)))
