"""All vector functions but products, on AVX-512."""

from llvmlite import ir

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.dot8 import emulated, instructions
from mdtensor.kernels.cpu.dot8.instructions import BYTES, LANES, S32, WORDS
from mdtensor.kernels.cpu.vectors import (
    I16,
    I32,
    constant,
    permute,
    splat,
)

# vpackssdw and vpackuswb leave the dwords of 4 vectors transposed. This undoes it.
UNPACKED = tuple(4 * (i % 4) + i // 4 for i in range(LANES))
HAS_BYTE_PERMUTE = isa.DOT_ISA == "vnni" and (
    isa.IS_EMULATED or "avx512vbmi" in isa.FEATURES
)

machine = emulated if isa.IS_EMULATED else instructions
minimum = machine.minimum
maximum = machine.maximum
to_int = machine.to_int
rounding_error = machine.rounding_error
larger_magnitude = machine.larger_magnitude
permute_pair = machine.permute_pair
load_lanes = machine.load_lanes
store_lanes = machine.store_lanes
multiply_pairs = machine.multiply_pairs


def high_codes(b, quad):
    """Return 64 codes, the saturated high halves of 4 vectors of int32.

    Each 128 bits of the result hold 4 codes of each of the 4 vectors.
    """
    # A shift and a blend of two vectors, as on AVX2 (decision 0035).
    half = ir.Constant(S32, [16] * LANES)
    words = [_alternating(b, b.lshr(quad[i], half), quad[i + 1]) for i in (0, 2)]
    return _pair_words(b, words)


def low_codes(b, quad):
    """Return 64 codes from the low halves, as `high_codes` does."""
    half = ir.Constant(S32, [16] * LANES)
    words = [_alternating(b, quad[i], b.shl(quad[i + 1], half)) for i in (0, 2)]
    return _pair_words(b, words)


def saturate(b, quad):
    """Return 4 vectors of int32, saturated, as 64 codes ordered like `high_codes`."""
    words = [machine.pack_words(b, *quad[i : i + 2]) for i in (0, 2)]
    return machine.pack_bytes(b, *words)


def _alternating(b, x, y):
    """Return the even words of x and the odd words of y."""
    order = [i + WORDS.count * (i % 2) for i in range(WORDS.count)]
    halves = [b.bitcast(v, WORDS) for v in (x, y)]
    return b.shuffle_vector(*halves, constant(I32, order))


def _pair_words(b, words):
    """Return 64 codes from two vectors of words."""
    packed = machine.pack_bytes(b, *words)
    places = [i // 16 * 16 + i // 8 % 2 * 8 + i % 4 * 2 + i // 4 % 2 for i in range(64)]
    return machine.shuffle_bytes(b, packed, places)


def narrow(b, quad, zero_point):
    """Add `zero_point` to 4 vectors of int32, and return the saturated 64 codes."""
    moved = splat(b, b.trunc(zero_point, I16), 2 * LANES)
    words = [machine.pack_words(b, *quad[i : i + 2]) for i in (0, 2)]
    packed = machine.pack_bytes(b, *[b.add(pair, moved) for pair in words])
    return b.bitcast(permute(b, b.bitcast(packed, S32), UNPACKED), BYTES)
