"""AVX-512 vectors for numba intrinsics: one short function per instruction.

They join the functions of `cpu/vectors.py`, which fit every width. Invariant: a
broadcast vector is never the operand of `xor` (LLVM hangs on it).
Source: Intel Intrinsics Guide; LLVM `IntrinsicsX86.td`.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa, vectors
from mdtensor.kernels.cpu.vectors import (
    F32 as F32,
    I1 as I1,
    I8 as I8,
    I16 as I16,
    I32 as I32,
    I64 as I64,
    address_of as address_of,
    call as call,
    concat as concat,
    constant as constant,
    literals as literals,
    load as load,
    permute as permute,
    repeat as repeat,
    slice_bytes as slice_bytes,
    store as store,
)

HAS_BYTE_PERMUTE = "avx512vbmi" in isa.FEATURES
LANES = 16
S32 = ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(F32, LANES)
WORDS = ir.VectorType(I16, 2 * LANES)
BYTES = ir.VectorType(I8, 4 * LANES)
ALL_LANES = ir.Constant(I16, -1)
CURRENT_ROUNDING = ir.Constant(I32, 4)


def splat(b, scalar, lanes=LANES):
    """Every lane = scalar."""
    return vectors.splat(b, scalar, lanes)


def load_masked(b, address, kind, mask):
    """Lanes of `kind` at `address` whose bit in `mask` is set, else 0; never faults."""
    bits = ir.VectorType(I1, kind.count)
    pointer = b.inttoptr(address, kind.as_pointer())
    name = f"llvm.masked.load.v{kind.count}i{kind.element.width}.p0"
    zeros = ir.Constant(kind, None)
    return call(b, name, kind, pointer, b.bitcast(mask, bits), zeros)


def store_masked(b, value, address, mask):
    """Write the lanes of `value` whose bit in `mask` is set; never faults."""
    kind = value.type
    bits = ir.VectorType(I1, kind.count)
    pointer = b.inttoptr(address, kind.as_pointer())
    name = f"llvm.masked.store.v{kind.count}i{kind.element.width}.p0"
    call(b, name, ir.VoidType(), value, pointer, b.bitcast(mask, bits))


def load_broadcast(b, address):
    """The dword at `address` in every lane, as bytes."""
    return b.bitcast(splat(b, load(b, address, I32)), BYTES)


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


def permute_dwords(b, x, order):
    """Dword i of the result = dword order[i] of x."""
    return permute(b, b.bitcast(x, S32), order)


def permute_bytes(b, x, order):
    """Byte i of the result = byte order[i] of x, `order` a vector (AVX512_VBMI)."""
    return call(b, "llvm.x86.avx512.permvar.qi.512", BYTES, x, order)


def permute_pair(b, x, order, y):
    """Byte i of the result = byte order[i] % 128 of x and y in a row (AVX512_VBMI)."""
    return call(b, "llvm.x86.avx512.vpermi2var.qi.512", BYTES, x, order, y)


def any_lane(b, bits):
    """i1: is a lane of a <16 x i1> set?"""
    return b.icmp_unsigned("!=", b.bitcast(bits, I16), I16(0))


@intrinsic(prefer_literal=True)
def copy_bytes(typingctx, width, source, target, mask):
    """Copy those of `width` (a literal) bytes whose bit in `mask` is set."""
    shape = literals(width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        _, source, target, mask = arguments
        if shape[0] < 64:
            mask = b.trunc(mask, ir.IntType(shape[0]))
        line = load_masked(b, source, ir.VectorType(I8, shape[0]), mask)
        store_masked(b, line, target, mask)
        return context.get_dummy_value()

    return types.void(width, *[types.int64] * 3), emit
