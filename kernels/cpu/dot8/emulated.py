"""The functions of `instructions.py`, emulated by vectors that every CPU has.

They are slow and return the same bytes. They serve to test the kernels of this folder
on CPUs that lack the instructions.

Source: the operations of the Intel Intrinsics Guide and of the Arm manual.
"""

from llvmlite import ir

from mdtensor.kernels.cpu.dot8.instructions import BYTES, FLOATS, S32, WORDS
from mdtensor.kernels.cpu.dot8.plain import (
    larger_magnitude as larger_magnitude,
    load_lanes as load_lanes,
    maximum as maximum,
    minimum as minimum,
    multiply_pairs as multiply_pairs,
    round_even,
    rounding_error as rounding_error,
    store_lanes as store_lanes,
)
from mdtensor.kernels.cpu.vectors import I8, I32, I64, constant, permute

# Dwords of 128 bits.
LANE_DWORDS = 4
# Result of the conversion of a number outside int32.
UNFIT = -(2**31)


def _each(kind, value):
    """Return a vector of `kind` with `value` in every lane."""
    return ir.Constant(kind, [value] * kind.count)


def _part(b, x, j, extend):
    """Return byte j of every dword of x, extended to 32 bits."""
    kind = ir.VectorType(I32, x.type.count // 4)
    top = b.shl(b.bitcast(x, kind), _each(kind, 24 - 8 * j))
    return extend(top, _each(kind, 24))


def _dot(b, sums, x, y, extend):
    """Return sums[i] + sum over j < 4 of x[4i + j] * y[4i + j]; y is signed."""
    for j in range(4):
        product = b.mul(_part(b, x, j, extend), _part(b, y, j, b.ashr))
        sums = b.add(sums, product)
    return sums


def dpbusd(b, sums, unsigned, signed):
    """Return sums[i] + sum over j < 4 of unsigned[4i + j] * signed[4i + j]."""
    return _dot(b, sums, unsigned, signed, b.lshr)


def sdot(b, sums, x, y):
    """Return sums[i] + sum over j < 4 of x[4i + j] * y[4i + j], int8."""
    return _dot(b, sums, x, y, b.ashr)


def to_int(b, x):
    """Round float32 lanes half to even to int32; out of range becomes -2**31."""
    whole = round_even(b, x)
    fits = b.fcmp_ordered("<", whole, _each(FLOATS, 2.0**31))
    fits = b.and_(fits, b.fcmp_ordered(">=", whole, _each(FLOATS, -(2.0**31))))
    inside = b.select(fits, whole, _each(FLOATS, 0.0))
    return b.select(fits, b.fptosi(inside, S32), _each(S32, UNFIT))


def _saturate(b, x, low, high):
    """Clamp the lanes of x to low .. high."""
    kind = x.type
    x = b.select(b.icmp_signed("<", x, _each(kind, high)), x, _each(kind, high))
    return b.select(b.icmp_signed(">", x, _each(kind, low)), x, _each(kind, low))


def _pack(b, x, y, low, high, kind):
    """Saturate the lanes of x and y to half the bits, and pack them into one vector.

    The result takes 128 bits of x and 128 bits of y by turns.
    """
    halves = ir.VectorType(kind.element, x.type.count)
    x, y = (b.trunc(_saturate(b, z, low, high), halves) for z in (x, y))
    span = x.type.count // LANE_DWORDS
    order = [
        source * halves.count + span * lane + i
        for lane in range(LANE_DWORDS)
        for source in (0, 1)
        for i in range(span)
    ]
    return b.shuffle_vector(x, y, constant(I32, order))


def pack_words(b, x, y):
    """Pack int32 lanes of x and y, saturated to int16, by 128-bit lanes in turn."""
    return _pack(b, x, y, -(2**15), 2**15 - 1, WORDS)


def pack_bytes(b, x, y):
    """Pack int16 lanes of x and y, saturated to uint8, by 128-bit lanes in turn."""
    return _pack(b, x, y, 0, 255, BYTES)


def permute_pair(b, x, order, y):
    """Return a vector whose byte i is (x followed by y)[order[i] % 128]."""
    both = constant(I32, range(2 * BYTES.count))
    return _pick(b, b.shuffle_vector(x, y, both), order)


def _pick(b, x, order):
    """Return a vector whose byte i is x[order[i] % count]; `x` has `count` bytes.

    The bytes are read from a copy of `x` on the stack.
    """
    # LLVM shuffles by constants only, so variable orders go through memory.
    with b.goto_entry_block():
        place = b.alloca(x.type)
    b.store(x, place)
    first = b.bitcast(place, I8.as_pointer())
    result = ir.Constant(BYTES, ir.Undefined)
    for i in range(BYTES.count):
        index = b.zext(b.extract_element(order, I32(i)), I64)
        index = b.and_(index, I64(x.type.count - 1))
        byte = b.load(b.gep(first, [index]))
        result = b.insert_element(result, byte, I32(i))
    return result


def shuffle_bytes(b, x, order):
    """Return a vector whose byte i is byte number order[i] of its 128-bit lane of x.

    `order` is constant.
    """
    return permute(b, x, order)
