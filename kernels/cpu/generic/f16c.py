"""Casts between float16 and float32 by CPU instructions, eight numbers at a time.

The results equal the results of `float16.widen_bits` and `narrow_bits`, also for NaN.

Source: LLVM `fpext`, `fptrunc`; Intel Intrinsics Guide, vcvtph2ps and vcvtps2ph.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa

# LLVM calls a library function for each number if the CPU lacks the instructions.
available = "f16c" in isa.FEATURES and not isa.IS_JIT_DISABLED
HALF, WORD, FLOAT = ir.HalfType(), ir.IntType(16), ir.FloatType()


@intrinsic
def widen(typing_context, h):
    """Return the float32 that equals the bits of a float16."""

    def build(context, b, signature, arguments):
        return b.fpext(b.bitcast(arguments[0], HALF), FLOAT)

    return types.float32(types.uint16), build


@intrinsic
def narrow(typing_context, x):
    """Return the bits of the float16 nearest to a float32, half to even."""

    def build(context, b, signature, arguments):
        return b.bitcast(b.fptrunc(arguments[0], HALF), WORD)

    return types.uint16(types.float32), build
