"""The instructions of AVX-512 that kernels name, one function each.

`emulated.py` has the same functions for CPUs that lack them.
Source: Intel Intrinsics Guide; LLVM `IntrinsicsX86.td`.
"""

from llvmlite import ir

from mdtensor.kernels.cpu.vectors import F32, I8, I16, I32, call

LANES = 16
S32 = ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(F32, LANES)
WORDS = ir.VectorType(I16, 2 * LANES)
BYTES = ir.VectorType(I8, 4 * LANES)
ALL_LANES = ir.Constant(I16, -1)
CURRENT_ROUNDING = ir.Constant(I32, 4)


def dpbusd(b, accumulator, unsigned, signed):
    """accumulator[i] += sum over j < 4 of unsigned[4i + j] * signed[4i + j]."""
    name = "llvm.x86.avx512.vpdpbusd.512"
    return call(b, name, S32, accumulator, unsigned, signed)


def minimum(b, x, y):
    """min per float32 lane."""
    return call(b, "llvm.x86.avx512.min.ps.512", FLOATS, x, y, CURRENT_ROUNDING)


def maximum(b, x, y):
    """max per float32 lane."""
    return call(b, "llvm.x86.avx512.max.ps.512", FLOATS, x, y, CURRENT_ROUNDING)


def to_int(b, x):
    """Round float32 lanes half to even to int32."""
    name = "llvm.x86.avx512.mask.cvtps2dq.512"
    return call(b, name, S32, x, ir.Constant(S32, None), ALL_LANES, CURRENT_ROUNDING)


def rounding_rest(b, x):
    """x - round_half_even(x) per float32 lane, exact."""
    name = "llvm.x86.avx512.mask.reduce.ps.512"
    zeros = ir.Constant(FLOATS, None)
    return call(b, name, FLOATS, x, I32(0), zeros, ALL_LANES, CURRENT_ROUNDING)


def larger_magnitude(b, x, y):
    """max(|x|, |y|) per float32 lane."""
    name = "llvm.x86.avx512.mask.range.ps.512"
    zeros = ir.Constant(FLOATS, None)
    return call(b, name, FLOATS, x, y, I32(0b1011), zeros, ALL_LANES, CURRENT_ROUNDING)


def pack_words(b, x, y):
    """int32 lanes of x and y, saturated to int16, interleaved by 128-bit lanes."""
    return call(b, "llvm.x86.avx512.packssdw.512", WORDS, x, y)


def pack_bytes(b, x, y):
    """int16 lanes of x and y, saturated to uint8, interleaved by 128-bit lanes."""
    return call(b, "llvm.x86.avx512.packuswb.512", BYTES, x, y)


def permute_bytes(b, x, order):
    """Byte i of the result = byte order[i] of x, `order` a vector (AVX512_VBMI)."""
    return call(b, "llvm.x86.avx512.permvar.qi.512", BYTES, x, order)


def permute_pair(b, x, order, y):
    """Byte i of the result = byte order[i] % 128 of x and y in a row (AVX512_VBMI)."""
    return call(b, "llvm.x86.avx512.vpermi2var.qi.512", BYTES, x, order, y)
