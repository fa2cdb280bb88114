"""float16 to float32 and back by the CPU's instructions, eight numbers at a time.

LLVM calls a library where a CPU has none, so `available` is asked first. The same
results as `float16.widen_bits` and `narrow_bits`, NaN included.

Source: LLVM `fpext`, `fptrunc`; Intel Intrinsics Guide, vcvtph2ps and vcvtps2ph.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa

available = "f16c" in isa.FEATURES and not isa.IS_JIT_DISABLED
HALF, WORD, FLOAT = ir.HalfType(), ir.IntType(16), ir.FloatType()


@intrinsic
def widen(typing_context, h):
    """float32 of the bits of a float16."""

    def build(context, b, signature, arguments):
        return b.fpext(b.bitcast(arguments[0], HALF), FLOAT)

    return types.float32(types.uint16), build


@intrinsic
def narrow(typing_context, x):
    """The bits of the float16 nearest to a float32, half to even."""

    def build(context, b, signature, arguments):
        return b.bitcast(b.fptrunc(arguments[0], HALF), WORD)

    return types.uint16(types.float32), build
