"""Tables of 256 bytes, 32 codes at a time; the other kernels are the generic ones.

Each of 16 shuffles finds the entry for the low four bits of a code in a sixteenth of
the table; the high four bits choose among them, one bit after the other.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.avx2 import simd
from mdtensor.kernels.cpu.avx2.epilogue import load_vectors
from mdtensor.kernels.cpu.avx2.simd import BYTES, WORDS
from mdtensor.kernels.cpu.elementwise import (
    add_u8u8u8 as add_u8u8u8,
    mul_u8u8u8 as mul_u8u8u8,
    quantize_f32u8 as quantize_f32u8,
    quantize_nchw_f32u8 as quantize_nchw_f32u8,
)
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.vectors import I64

CHUNK = 32
PARTS = 16  # of the table, each of 16 entries
LEAST = 1024  # codes that pay for laying out the table


def _shifted(b, codes, bits):
    """Bit 7 - `bits` of every byte moved to bit 7."""
    words = b.shl(b.bitcast(codes, WORDS), ir.Constant(WORDS, [bits] * 16))
    return b.bitcast(words, BYTES)


def _looked_up(b, codes, tables):
    """Entries of the 16 parts of a table, each part twice in a vector."""
    low = b.and_(codes, ir.Constant(BYTES, [0x7F] * CHUNK))
    found = [simd.shuffle_bytes(b, table, low) for table in tables]
    for bits in (3, 2, 1, 0):
        choice = _shifted(b, codes, bits)
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [simd.choose_bytes(b, *pair, choice) for pair in pairs]
    return found[0]


@intrinsic
def look_up_chunks(typingctx, x, tables, out, count):
    """`count` chunks of 32 codes; tables uint8 [16][2][16], all by address."""

    def emit(context, b, signature, arguments):
        x, tables, out, count = arguments
        parts = load_vectors(b, tables, PARTS, BYTES)

        def step(i, carried):
            offset = b.mul(i, I64(CHUNK))
            codes = vectors.load(b, b.add(x, offset), BYTES)
            vectors.store(b, _looked_up(b, codes, parts), b.add(out, offset))
            return carried

        vectors.repeat(b, count, [], step)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@kernel
def lookup_u8(x, table, out):
    """out[i] = table[x[i]]; x, out uint8 1-D of one length, table uint8 [256]."""
    chunks = len(out) // CHUNK if len(out) >= LEAST else 0
    if chunks > 0:
        tables = np.empty(PARTS * CHUNK, np.uint8)
        for i in range(np.uintp(PARTS * CHUNK)):
            tables[i] = table[i // np.uintp(CHUNK) * np.uintp(16) + i % np.uintp(16)]
        place = vectors.address_of(tables, 0)
        look_up_chunks(
            vectors.address_of(x, 0), place, vectors.address_of(out, 0), chunks
        )
        tables[0] = 0  # a use, so that the tables live on
    for i in range(np.uintp(chunks * CHUNK), np.uintp(len(out))):
        out[i] = table[np.uintp(x[i])]
