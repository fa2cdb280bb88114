"""All vector functions but products, for CPUs without AVX-512.

LLVM compiles them to registers of 128 or 256 bits.
"""

from llvmlite import ir

from mdtensor.kernels.cpu.dot8.instructions import BYTES, FLOATS, LANES, S32
from mdtensor.kernels.cpu.vectors import (
    I8,
    I32,
    I64,
    call,
    concat,
    load,
    permute,
    repeat,
    splat,
    store,
)


def minimum(b, x, y):
    """Return x < y ? x : y per float32 lane; if either is NaN, the result is y."""
    return b.select(b.fcmp_ordered("<", x, y), x, y)


def maximum(b, x, y):
    """Return x > y ? x : y per float32 lane; if either is NaN, the result is y."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def round_even(b, x):
    """Return round_half_even(x) per float32 lane."""
    return call(b, f"llvm.rint.v{LANES}f32", FLOATS, x)


def to_int(b, x):
    """Round float32 lanes half to even to int32, saturated."""
    name = f"llvm.fptosi.sat.v{LANES}i32.v{LANES}f32"
    return call(b, name, S32, round_even(b, x))


def rounding_error(b, x):
    """Return x - round_half_even(x) per float32 lane, exact."""
    return b.fsub(x, round_even(b, x))


def larger_magnitude(b, x, y):
    """Return max(|x|, |y|) per float32 lane."""
    x, y = (call(b, f"llvm.fabs.v{LANES}f32", FLOATS, z) for z in (x, y))
    return maximum(b, x, y)


def high_codes(b, quad):
    """Return 64 codes, the saturated high halves of 4 vectors of int32.

    Each 128 bits of the result hold 4 codes of each of the 4 vectors.
    """
    half = ir.Constant(S32, [16] * LANES)
    return saturate(b, [b.ashr(v, half) for v in quad])


def low_codes(b, quad):
    """Return 64 codes from the low halves, as `high_codes` does."""
    half = ir.Constant(S32, [16] * LANES)
    return saturate(b, [b.ashr(b.shl(v, half), half) for v in quad])


def saturate(b, quad):
    """Return 4 vectors of int32, saturated, as 64 codes ordered like `high_codes`."""
    low, high = ir.Constant(S32, None), ir.Constant(S32, [255] * LANES)
    quad = [call(b, "llvm.smax.v16i32", S32, v, low) for v in quad]
    quad = [call(b, "llvm.smin.v16i32", S32, v, high) for v in quad]
    part = ir.VectorType(I8, LANES)
    order = [16 * (i // 4 % 4) + 4 * (i // 16) + i % 4 for i in range(BYTES.count)]
    return permute(b, concat(b, *[b.trunc(v, part) for v in quad]), order)


def multiply_pairs(b, x, y):
    """Return x[2i] * y[2i] + x[2i + 1] * y[2i + 1] in lane i; int16 to int32, exact."""
    x, y = b.bitcast(x, S32), b.bitcast(y, S32)
    half = ir.Constant(S32, [16] * LANES)
    high = b.mul(b.ashr(x, half), b.ashr(y, half))
    low = [b.ashr(b.shl(z, half), half) for z in (x, y)]
    return b.add(b.mul(*low), high)


def narrow(b, quad, zero_point):
    """Add `zero_point` to 4 vectors of int32, and return the 64 sums as codes.

    All sums are in 0 .. 255.
    """
    moved = splat(b, b.trunc(zero_point, I32), LANES)
    part = ir.VectorType(I8, LANES)
    return concat(b, *[b.trunc(b.add(ints, moved), part) for ints in quad])


def load_lanes(b, address, kind, mask):
    """Load as many of the first lanes of `kind` as `mask` has bits; others are 0."""
    # These CPUs cannot load a part of a vector, so the last lanes are copied singly.
    with b.goto_entry_block():
        place = b.alloca(kind)
    with b.if_else(_is_all(b, mask), likely=True) as (all_lanes, some):
        with all_lanes:
            whole, after_whole = load(b, address, kind), b.block
        with some:
            b.store(ir.Constant(kind, None), place)
            _copy(b, kind.element, address, b.ptrtoint(place, I64), mask)
            part, after_part = b.load(place), b.block
    result = b.phi(kind)
    result.add_incoming(whole, after_whole)
    result.add_incoming(part, after_part)
    return result


def store_lanes(b, value, address, mask):
    """Write as many of the first lanes of `value` as `mask` has bits."""
    with b.goto_entry_block():
        place = b.alloca(value.type)
    with b.if_else(_is_all(b, mask), likely=True) as (all_lanes, some):
        with all_lanes:
            store(b, value, address)
        with some:
            b.store(value, place)
            _copy(b, value.type.element, b.ptrtoint(place, I64), address, mask)


def _is_all(b, mask):
    """Return whether `mask` has a bit for every lane."""
    return b.icmp_signed("==", mask, ir.Constant(mask.type, -1))


def _copy(b, element, source, target, mask):
    """Copy elements between addresses, one per bit of `mask`, lowest first."""
    count = b.ctpop(mask)
    count = count if count.type == I64 else b.zext(count, I64)

    def copy(i, nothing):
        offset = b.mul(i, I64(element.width // 8))
        value = load(b, b.add(source, offset), element)
        store(b, value, b.add(target, offset))
        return nothing

    repeat(b, count, [], copy)
