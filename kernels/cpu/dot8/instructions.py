"""The instructions that the kernels of this folder use by name, one function each.

`emulated.py` has the same functions for CPUs that lack the instructions. The width of a
vector comes from its type; instructions without a width in their names are of AVX-512.

Source: Intel Intrinsics Guide; Arm Neon Intrinsics; LLVM `IntrinsicsX86.td` and
`IntrinsicsAArch64.td`.
"""

from llvmlite import ir

from mdtensor.kernels.cpu.vectors import F32, I1, I8, I16, I32, call, constant

LANES = 16
S32 = ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(F32, LANES)
WORDS = ir.VectorType(I16, 2 * LANES)
BYTES = ir.VectorType(I8, 4 * LANES)
ALL_LANES = ir.Constant(I16, -1)
CURRENT_ROUNDING = ir.Constant(I32, 4)


def dpbusd(b, sums, unsigned, signed):
    """Return sums[i] + sum over j < 4 of unsigned[4i + j] * signed[4i + j] (VNNI)."""
    name = f"llvm.x86.avx512.vpdpbusd.{32 * sums.type.count}"
    return call(b, name, sums.type, sums, unsigned, signed)


def multiply_pairs(b, x, y):
    """Return x[2i] * y[2i] + x[2i + 1] * y[2i + 1] in lane i; int16 to int32, exact."""
    return call(b, "llvm.x86.avx512.pmaddw.d.512", S32, x, y)


def sdot(b, sums, x, y):
    """Return sums[i] + sum over j < 4 of x[4i + j] * y[4i + j], int8 (NEON)."""
    return call(b, "llvm.aarch64.neon.sdot.v4i32.v16i8", sums.type, sums, x, y)


def load_lanes(b, address, kind, mask):
    """Load the lanes of `kind` whose bit in `mask` is set; the other lanes are 0.

    Addresses of the other lanes are not accessed.
    """
    bits = ir.VectorType(I1, kind.count)
    pointer = b.inttoptr(address, kind.as_pointer())
    name = f"llvm.masked.load.v{kind.count}i{kind.element.width}.p0"
    zeros = ir.Constant(kind, None)
    return call(b, name, kind, pointer, b.bitcast(mask, bits), zeros)


def store_lanes(b, value, address, mask):
    """Write the lanes of `value` whose bit in `mask` is set.

    Addresses of the other lanes are not accessed.
    """
    kind = value.type
    bits = ir.VectorType(I1, kind.count)
    pointer = b.inttoptr(address, kind.as_pointer())
    name = f"llvm.masked.store.v{kind.count}i{kind.element.width}.p0"
    call(b, name, ir.VoidType(), value, pointer, b.bitcast(mask, bits))


def minimum(b, x, y):
    """Return the minimum per float32 lane."""
    return call(b, "llvm.x86.avx512.min.ps.512", FLOATS, x, y, CURRENT_ROUNDING)


def maximum(b, x, y):
    """Return the maximum per float32 lane."""
    return call(b, "llvm.x86.avx512.max.ps.512", FLOATS, x, y, CURRENT_ROUNDING)


def to_int(b, x):
    """Round float32 lanes half to even to int32."""
    name = "llvm.x86.avx512.mask.cvtps2dq.512"
    return call(b, name, S32, x, ir.Constant(S32, None), ALL_LANES, CURRENT_ROUNDING)


def rounding_error(b, x):
    """Return x - round_half_even(x) per float32 lane, exact."""
    name = "llvm.x86.avx512.mask.reduce.ps.512"
    zeros = ir.Constant(FLOATS, None)
    return call(b, name, FLOATS, x, I32(0), zeros, ALL_LANES, CURRENT_ROUNDING)


def larger_magnitude(b, x, y):
    """Return max(|x|, |y|) per float32 lane."""
    name = "llvm.x86.avx512.mask.range.ps.512"
    zeros = ir.Constant(FLOATS, None)
    return call(b, name, FLOATS, x, y, I32(0b1011), zeros, ALL_LANES, CURRENT_ROUNDING)


def pack_words(b, x, y):
    """Pack int32 lanes of x and y, saturated to int16, by 128-bit lanes in turn."""
    return call(b, "llvm.x86.avx512.packssdw.512", WORDS, x, y)


def pack_bytes(b, x, y):
    """Pack int16 lanes of x and y, saturated to uint8, by 128-bit lanes in turn."""
    return call(b, "llvm.x86.avx512.packuswb.512", BYTES, x, y)


def permute_pair(b, x, order, y):
    """Return a vector whose byte i is (x followed by y)[order[i] % 128].

    This is an instruction of AVX512_VBMI.
    """
    return call(b, "llvm.x86.avx512.vpermi2var.qi.512", BYTES, x, order, y)


def shuffle_bytes(b, x, order):
    """Return a vector whose byte i is byte number order[i] of its 128-bit lane of x.

    `order` is constant.
    """
    order = constant(I8, order)
    return call(b, "llvm.x86.avx512.pshuf.b.512", BYTES, x, order)
