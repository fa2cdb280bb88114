"""Vectors of 16 lanes for numba intrinsics, on the CPU of this process.

This module joins the functions of `cpu/vectors.py`, which fit every width, and the
functions of `avx512.py` or `plain.py`.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.dot8 import avx512, plain
from mdtensor.kernels.cpu.dot8.instructions import (
    BYTES as BYTES,
    FLOATS as FLOATS,
    LANES as LANES,
    S32 as S32,
    WORDS as WORDS,
)
from mdtensor.kernels.cpu.dot8.packing import IS_WIDE as IS_WIDE
from mdtensor.kernels.cpu.dot8.products import PRODUCT as PRODUCT
from mdtensor.kernels.cpu.vectors import (
    I1 as I1,
    I8 as I8,
    I16 as I16,
    I32 as I32,
    I64 as I64,
    address_of as address_of,
    advance as advance,
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

_family = avx512 if IS_WIDE else plain
minimum = _family.minimum
maximum = _family.maximum
to_int = _family.to_int
rounding_error = _family.rounding_error
larger_magnitude = _family.larger_magnitude
narrow = _family.narrow
high_codes = _family.high_codes
low_codes = _family.low_codes
load_lanes = _family.load_lanes
store_lanes = _family.store_lanes
multiply_pairs = _family.multiply_pairs
saturate = _family.saturate


def splat(b, scalar, lanes=LANES):
    """Return a vector with `scalar` in every lane."""
    return vectors.splat(b, scalar, lanes)


def multiply_add(b, x, y, z):
    """Return x * y + z per float32 lane, rounded once."""
    return call(b, f"llvm.fma.v{LANES}f32", FLOATS, x, y, z)


def smaller(b, x, y):
    """Return the minimum per unsigned integer lane."""
    kind = x.type
    return call(b, f"llvm.umin.v{kind.count}i{kind.element.width}", kind, x, y)


def larger(b, x, y):
    """Return the maximum per unsigned integer lane."""
    kind = x.type
    return call(b, f"llvm.umax.v{kind.count}i{kind.element.width}", kind, x, y)


def unpack(b, x, y, half):
    """Interleave elements of x and y from one half, 0 or 1, of every 128 bits."""
    count, size = x.type.count, 64 // x.type.element.width
    places = [i for i in range(count) if i // size % 2 == half]
    order = [place for i in places for place in (i, count + i)]
    return b.shuffle_vector(x, y, constant(I32, order))


def align_stack(b):
    """Align the stack, so that spilled vectors do not cross cache lines.

    LLVM aligns the stack of a function only where a variable asks for it in advance.
    """
    with b.goto_entry_block():
        variable = b.alloca(BYTES)
        variable.align = 64
    kind = ir.FunctionType(ir.VoidType(), [variable.type])
    b.asm(kind, "", "r", [variable], True)


def in_order(b, codes):
    """Return 64 codes of 4 vectors, vector by vector, from `high_codes`."""
    order = [4 * (i % 4) + i // 4 for i in range(LANES)]
    return b.bitcast(permute(b, b.bitcast(codes, S32), order), BYTES)


@intrinsic(prefer_literal=True)
def copy_bytes(typingctx, width, source, target, mask):
    """Copy the bytes whose bit in `mask` is set, of `width` (a literal) bytes."""
    shape = literals(width)
    if shape is None:
        return None

    def emit(context, b, signature, arguments):
        _, source, target, mask = arguments
        if shape[0] < 64:
            mask = b.trunc(mask, ir.IntType(shape[0]))
        line = load_lanes(b, source, ir.VectorType(I8, shape[0]), mask)
        store_lanes(b, line, target, mask)
        return context.get_dummy_value()

    return types.void(width, *[types.int64] * 3), emit
