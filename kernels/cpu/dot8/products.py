"""How a CPU multiplies codes by weights, four of each to a sum of 32 bits.

A kernel takes its operands through the one product that fits the CPU:

    add         sums[i] += sum over j < 4 of codes[4i + j] * weights[4i + j]
    codes       uint8 codes, as `add` wants them
    codes_at    the same 4 codes in all lanes, by address
    weights     int8 weights, as `add` wants them
    pack        weights [.., 16, 4] as they lie in memory, `packed_bytes` for 4 of them
    packed_at   a vector of those

`add` may count every code less `offset`: then a sum starts at offset * sum(weights).
"""

import numpy as np
from llvmlite import ir

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.dot8 import emulated, instructions
from mdtensor.kernels.cpu.dot8.instructions import BYTES, LANES, WORDS
from mdtensor.kernels.cpu.vectors import (
    I8,
    I16,
    I32,
    I64,
    concat,
    load,
    slice_bytes,
    splat,
)

machine = emulated if isa.IS_EMULATED else instructions


# The product is an object that kernels take, so that four ISAs share one source
# (decision 0034).
class MixedBytes:
    """One instruction for uint8 by int8 in registers of `lanes` dwords.

    Args:
        dot: the instruction.
        lanes: 16, or less, where a vector takes several registers.
    """

    offset = 0
    packed_bytes = 4

    def __init__(self, dot, lanes):
        self._dot, self._lanes = dot, lanes

    def codes(self, b, x):
        return x

    def codes_at(self, b, address):
        return b.bitcast(splat(b, load(b, address, I32), LANES), BYTES)

    def weights(self, b, x):
        return x

    def pack(self, groups):
        return groups

    def packed_at(self, b, address):
        return load(b, address, BYTES)

    def add(self, b, sums, codes, weights):
        lanes = self._lanes
        parts = [
            self._dot(
                *(b, slice_bytes(b, sums, i, lanes)),
                *(slice_bytes(b, x, 4 * i, 4 * lanes) for x in (codes, weights)),
            )
            for i in range(0, LANES, lanes)
        ]
        return concat(b, *parts)


class SignedBytes(MixedBytes):
    """One instruction for int8 by int8: codes less 128, which flips their top bit."""

    offset = 128

    def codes(self, b, x):
        return b.xor(x, ir.Constant(BYTES, [I8(128)] * BYTES.count))

    def codes_at(self, b, address):
        # before the broadcast: LLVM for x86 hangs on xor of a broadcast vector
        codes = b.xor(load(b, address, I32), I32(0x80808080))
        return b.bitcast(splat(b, codes, LANES), BYTES)


class Words:
    """Two instructions for int16 by int16, of even and of odd bytes."""

    offset = 0
    packed_bytes = 8

    def codes(self, b, x):
        words = b.bitcast(x, WORDS)
        return b.and_(words, _each(0xFF)), b.lshr(words, _each(8))

    def codes_at(self, b, address):
        return self.codes(b, splat(b, load(b, address, I32), LANES))

    def weights(self, b, x):
        words = b.bitcast(x, WORDS)
        return b.ashr(b.shl(words, _each(8)), _each(8)), b.ashr(words, _each(8))

    def pack(self, groups):
        halves = [groups[..., first::2].astype(np.int16) for first in (0, 1)]
        return np.stack(halves, axis=-3)

    def packed_at(self, b, address):
        return load(b, address, WORDS), load(b, b.add(address, I64(64)), WORDS)

    def add(self, b, sums, codes, weights):
        for pair in zip(codes, weights, strict=True):
            sums = b.add(sums, machine.multiply_pairs(b, *pair))
        return sums


def _each(value):
    return ir.Constant(WORDS, [I16(value)] * WORDS.count)


def fitting(runway, features):
    """The product of a runway."""
    if runway == "vnni":
        return MixedBytes(machine.dpbusd, 16)
    if runway == "avx512":
        return Words()
    if runway == "avxvnni":
        return MixedBytes(machine.dpbusd, 8)
    if "i8mm" in features:
        return MixedBytes(machine.usdot, 4)
    return SignedBytes(machine.sdot, 4)


PRODUCT = fitting(isa.DOT_RUNWAY, isa.FEATURES)
