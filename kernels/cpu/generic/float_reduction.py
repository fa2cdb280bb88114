"""Sums and maxima of float32, 16 lanes at a time, with one order on every ISA.

Element i belongs to lane i modulo 16. The lanes are folded by halves: 8 with 8, 4 with
4, and so on. LLVM keeps the lanes in one, two or four registers.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import F32, I64

LANES = 16
VECTOR = ir.VectorType(F32, LANES)
ZERO, LEAST = np.float32(0), np.float32(-np.inf)


def fold_chunks(x, first, chunks, partial, adds):
    """Combine chunks of 16 elements from `first` on with `partial`; for plain Python.

    Args: adds: True for the sum, False for the maximum.
    """
    combine = np.add if adds else np.maximum
    last = int(first) + LANES * int(chunks)
    for row in x[int(first) : last].reshape(-1, LANES):
        partial[:] = combine(partial, row)
    half = LANES // 2
    while half:
        partial[:half] = combine(partial[:half], partial[half : 2 * half])
        half //= 2
    return partial[0]


# One loop of vectors: LLVM does not make one of a loop over `partial`.
@overload(fold_chunks, inline="always")
def _fold_chunks(x, first, chunks, partial, adds):
    def fold(x, first, chunks, partial, adds):
        places = vectors.address_of(x, first), vectors.address_of(partial, 0)
        found = _fold(places[0], np.int64(chunks), places[1], adds)
        vectors.keep((x, partial))
        return found

    return fold


@intrinsic
def _fold(typingctx, place, chunks, partial, adds):
    """Emit the loop of `fold_chunks` on addresses."""

    def emit(context, b, signature, arguments):
        place, chunks, partial, adds = arguments

        def combine(x, y):
            larger = b.select(b.fcmp_ordered(">", x, y), x, y)
            if isinstance(adds, ir.Constant):
                return b.fadd(x, y) if adds.constant else larger
            return b.select(adds, b.fadd(x, y), larger)

        def chunk(i, lanes):
            row = vectors.load(b, b.add(place, b.mul(i, I64(4 * LANES))), VECTOR)
            return [combine(row, lanes[0])]

        start = [vectors.load(b, partial, VECTOR)]
        (found,) = vectors.repeat(b, chunks, start, chunk)
        half = LANES // 2
        while half:
            low = vectors.permute(b, found, range(half))
            found = combine(low, vectors.permute(b, found, range(half, 2 * half)))
            half //= 2
        return b.extract_element(found, I64(0))

    integer = types.int64
    return types.float32(integer, integer, integer, types.boolean), emit


@kernel
def add_up(x, first, length, partial):
    """Return the sum of x[first], ..., x[first + length - 1].

    Args: first, length: unsigned; partial: float32 [16], overwritten.
    """
    lanes = np.uintp(LANES)
    chunks = length // lanes
    at, rest = first + chunks * lanes, length - chunks * lanes
    for j in range(lanes):
        partial[j] = x[at + j] if j < rest else ZERO
    return fold_chunks(x, first, chunks, partial, True)


@kernel
def largest(x, first, length, partial):
    """Return the largest of the elements that `add_up` adds, and any if one is NaN."""
    lanes = np.uintp(LANES)
    chunks = length // lanes
    at, rest = first + chunks * lanes, length - chunks * lanes
    for j in range(lanes):
        partial[j] = x[at + j] if j < rest else LEAST
    return fold_chunks(x, first, chunks, partial, False)
