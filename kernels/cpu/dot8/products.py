"""Dot products of four codes with four weights, added to 32-bit sums.

`choose_product` returns the product object that fits the CPU. A kernel prepares its
operands by the methods of this object:

    add           sums[i] += sum over j < 4 of codes[4i + j] * weights[4i + j]
    codes         converts uint8 codes for `add`
    codes_at      loads 4 codes into all lanes
    weights       converts int8 weights for `add`
    pack          packs weights [.., 16, 4] for memory; 4 weights take `packed_bytes`
    load_weights  loads a vector of packed weights

If `offset` is not 0, `add` multiplies codes minus `offset`. To get the sum of the
codes' own products, a sum starts at offset * sum(weights).
"""

from llvmlite import ir

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.dot8 import emulated, instructions
from mdtensor.kernels.cpu.dot8.instructions import BYTES, LANES, WORDS
from mdtensor.kernels.cpu.dot8.packing import split_bytes
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
    """The product of uint8 by int8 in one instruction, in registers of `lanes` dwords.

    Args:
        dot: the instruction.
        lanes: 16, or less if a vector takes several registers.
    """

    offset = 0
    packed_bytes = 4

    def __init__(self, dot, lanes):
        self._dot, self._lanes = dot, lanes

    def codes(self, b, x):
        """Return a vector of uint8 codes, which `add` multiplies as they are."""
        return x

    def codes_at(self, b, address):
        """Load 4 codes from an address into all lanes."""
        return b.bitcast(splat(b, load(b, address, I32), LANES), BYTES)

    def weights(self, b, x):
        """Return a vector of int8 weights, which `add` multiplies as they are."""
        return x

    def pack(self, groups):
        """Pack weights [.., 16, 4] for memory."""
        return groups

    def load_weights(self, b, address):
        """Load a vector of packed weights."""
        return load(b, address, BYTES)

    def add(self, b, sums, codes, weights):
        """Return sums plus the products of codes and weights."""
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
    """The product of int8 by int8 in one instruction, on codes minus 128."""

    # `sdot` takes signed codes, so sums start at 128 times the weights (decision 0034).
    offset = 128

    def codes(self, b, x):
        """Return a vector of uint8 codes minus 128, as int8."""
        # Modulo 256, subtracting 128 flips the top bit.
        return b.xor(x, ir.Constant(BYTES, [I8(128)] * BYTES.count))

    def codes_at(self, b, address):
        """Load 4 codes, minus 128, from an address into all lanes."""
        # The xor comes before the broadcast, because LLVM for x86 hangs on the reverse.
        codes = b.xor(load(b, address, I32), I32(0x80808080))
        return b.bitcast(splat(b, codes, LANES), BYTES)


# `vpmaddubsw` would take bytes, but it saturates the sums of pairs (decision 0023).
class Words:
    """The product of int16 by int16 in two instructions, for even and odd bytes."""

    offset = 0
    packed_bytes = 8

    def codes(self, b, x):
        """Return uint8 codes as two vectors of int16: the even and the odd codes."""
        words = b.bitcast(x, WORDS)
        return b.and_(words, _each(0xFF)), b.lshr(words, _each(8))

    def codes_at(self, b, address):
        """Load 4 codes from an address into all lanes, as words."""
        return self.codes(b, splat(b, load(b, address, I32), LANES))

    def weights(self, b, x):
        """Return int8 weights as two vectors of int16: even and odd weights."""
        words = b.bitcast(x, WORDS)
        return b.ashr(b.shl(words, _each(8)), _each(8)), b.ashr(words, _each(8))

    def pack(self, groups):
        """Pack weights [.., 16, 4] for memory."""
        return split_bytes(groups)

    def load_weights(self, b, address):
        """Load a vector of packed weights."""
        return load(b, address, WORDS), load(b, b.add(address, I64(64)), WORDS)

    def add(self, b, sums, codes, weights):
        """Return sums plus the products of codes and weights."""
        for pair in zip(codes, weights, strict=True):
            sums = b.add(sums, machine.multiply_pairs(b, *pair))
        return sums


def _each(value):
    """Return a vector of words with `value` in each."""
    return ir.Constant(WORDS, [I16(value)] * WORDS.count)


def choose_product(isa_name):
    """Return the product for an ISA."""
    if isa_name == "vnni":
        return MixedBytes(machine.dpbusd, 16)
    if isa_name == "avx512":
        return Words()
    if isa_name == "avxvnni":
        return MixedBytes(machine.dpbusd, 8)
    return SignedBytes(machine.sdot, 4)


PRODUCT = choose_product(isa.DOT_ISA)
