"""Codes as int16, the left operand of a product."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2.simd import WORDS
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I8, I64, address_of

PART = 16  # codes that are widened at once


# Rows are widened once per block, since every tile of the block reads them (decision
# 0023).
@intrinsic
def widen(typingctx, job):
    """block[r, i] = a[r, i] as int16; a multiple of 16 in each row, in order.

    Args:
        job: a, lda, rows, parts (of 16 in a row), block, pitch; arrays by address,
            lda and pitch in bytes.
    """

    def emit(context, b, signature, arguments):
        a, lda, rows, parts, block, pitch = cgutils.unpack_tuple(b, arguments[0])
        codes = ir.VectorType(I8, PART)

        def row(_, places):
            a, block = places

            def part(i, nothing):
                source = vectors.load(b, b.add(a, b.mul(i, I64(PART))), codes)
                place = b.add(block, b.mul(i, I64(2 * PART)))
                vectors.store(b, b.zext(source, WORDS), place)
                return nothing

            vectors.repeat(b, parts, [], part)
            return [b.add(a, lda), b.add(block, pitch)]

        vectors.repeat(b, rows, [a, block], row)
        return context.get_dummy_value()

    return types.void(types.UniTuple(types.int64, 6)), emit


@kernel
def widen_rows(a, lda, first, count, k, pitch, block):
    """block[r, i] = a[first + r, i] as int16; a row of the block has `pitch`.

    What lies behind the k values of a row is not defined: its weights are 0. Up to 15
    codes behind the last row are read, and as many values of the block written.
    """
    source = address_of(a, first * lda)
    if lda == pitch:  # rows without gaps are one row
        k, count = count * pitch, 1
    parts = (k + PART - 1) // PART
    widen((source, lda, count, parts, address_of(block, 0), 2 * pitch))
