"""What kernels do beside products, on AVX-512."""

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.dot import emulated, instructions
from mdtensor.kernels.cpu.dot.instructions import BYTES, LANES, S32
from mdtensor.kernels.cpu.vectors import I16, concat, load, permute, splat

# vpackssdw and vpackuswb leave the dwords of 4 vectors transposed; this undoes it.
UNPACKED = tuple(4 * (i % 4) + i // 4 for i in range(LANES))
HAS_BYTE_PERMUTE = isa.DOT_RUNWAY == "vnni" and (
    isa.IS_EMULATED or "avx512vbmi" in isa.FEATURES
)

machine = emulated if isa.IS_EMULATED else instructions
minimum = machine.minimum
maximum = machine.maximum
to_int = machine.to_int
rounding_rest = machine.rounding_rest
larger_magnitude = machine.larger_magnitude
permute_pair = machine.permute_pair
load_masked = machine.load_masked
store_masked = machine.store_masked


def narrowed(b, quad, zero_point):
    """Four vectors of int32 plus `zero_point`, saturated, as 64 codes."""
    moved = splat(b, b.trunc(zero_point, I16), 2 * LANES)
    words = [machine.pack_words(b, *quad[i : i + 2]) for i in (0, 2)]
    packed = machine.pack_bytes(b, *[b.add(pair, moved) for pair in words])
    return b.bitcast(permute(b, b.bitcast(packed, S32), UNPACKED), BYTES)


def interleaved(b, pixels, order):
    """[16][4]: byte c of each of 4 pixels, for every c.

    `order`: the address of 64 bytes, 16 * (i % 4) + i // 4 for all i, for CPUs with
    byte permutes (VBMI). LLVM would split an order that it knows into 11 shuffles.
    """
    whole = concat(b, *pixels)
    if HAS_BYTE_PERMUTE:
        return machine.permute_bytes(b, whole, load(b, order, BYTES))
    quarters = permute(b, b.bitcast(whole, S32), UNPACKED)
    within = [16 * (i // 16) + 4 * (i % 4) + i // 4 % 4 for i in range(BYTES.count)]
    return machine.shuffle_bytes(b, b.bitcast(quarters, BYTES), within)
