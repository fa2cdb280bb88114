"""The functions of `instructions.py` in vectors that every CPU has: slow, same bytes.

So the kernels of this runway can be tested where its instructions are absent.
Source: the operations of the Intel Intrinsics Guide.
"""

from llvmlite import ir

from mdtensor.kernels.cpu.vectors import I8, I32, I64, call, constant
from mdtensor.kernels.cpu.vnni.instructions import BYTES, FLOATS, LANES, S32, WORDS

LANE_DWORDS = 4  # of 128 bits
UNFIT = -(2**31)  # what the conversion gives for a number that int32 lacks


def _each(kind, value):
    return ir.Constant(kind, [value] * kind.count)


def dpbusd(b, accumulator, unsigned, signed):
    """accumulator[i] += sum over j < 4 of unsigned[4i + j] * signed[4i + j]."""
    x, y = b.bitcast(unsigned, S32), b.bitcast(signed, S32)
    for j in range(4):
        code = b.and_(b.lshr(x, _each(S32, 8 * j)), _each(S32, 255))
        weight = b.ashr(b.shl(y, _each(S32, 24 - 8 * j)), _each(S32, 24))
        accumulator = b.add(accumulator, b.mul(code, weight))
    return accumulator


def minimum(b, x, y):
    """x < y ? x : y per float32 lane, so y where one is NaN."""
    return b.select(b.fcmp_ordered("<", x, y), x, y)


def maximum(b, x, y):
    """x > y ? x : y per float32 lane, so y where one is NaN."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def _rounded(b, x):
    return call(b, f"llvm.rint.v{LANES}f32", FLOATS, x)


def to_int(b, x):
    """Round float32 lanes half to even to int32; what does not fit is -2**31."""
    whole = _rounded(b, x)
    fits = b.fcmp_ordered("<", whole, _each(FLOATS, 2.0**31))
    fits = b.and_(fits, b.fcmp_ordered(">=", whole, _each(FLOATS, -(2.0**31))))
    inside = b.select(fits, whole, _each(FLOATS, 0.0))
    return b.select(fits, b.fptosi(inside, S32), _each(S32, UNFIT))


def rounding_rest(b, x):
    """x - round_half_even(x) per float32 lane, exact."""
    return b.fsub(x, _rounded(b, x))


def larger_magnitude(b, x, y):
    """max(|x|, |y|) per float32 lane."""
    x, y = (call(b, f"llvm.fabs.v{LANES}f32", FLOATS, z) for z in (x, y))
    return maximum(b, x, y)


def _saturated(b, x, low, high):
    kind = x.type
    x = b.select(b.icmp_signed("<", x, _each(kind, high)), x, _each(kind, high))
    return b.select(b.icmp_signed(">", x, _each(kind, low)), x, _each(kind, low))


def _packed(b, x, y, low, high, kind):
    """Lanes of x and y, saturated, then cut to half; 128 bits of each in turn."""
    halves = ir.VectorType(kind.element, x.type.count)
    x, y = (b.trunc(_saturated(b, z, low, high), halves) for z in (x, y))
    span = x.type.count // LANE_DWORDS
    order = [
        source * halves.count + span * lane + i
        for lane in range(LANE_DWORDS)
        for source in (0, 1)
        for i in range(span)
    ]
    return b.shuffle_vector(x, y, constant(I32, order))


def pack_words(b, x, y):
    """int32 lanes of x and y, saturated to int16, interleaved by 128-bit lanes."""
    return _packed(b, x, y, -(2**15), 2**15 - 1, WORDS)


def pack_bytes(b, x, y):
    """int16 lanes of x and y, saturated to uint8, interleaved by 128-bit lanes."""
    return _packed(b, x, y, 0, 255, BYTES)


def permute_bytes(b, x, order):
    """Byte i of the result = byte order[i] % 64 of x."""
    return _picked(b, x, order)


def permute_pair(b, x, order, y):
    """Byte i of the result = byte order[i] % 128 of x and y in a row."""
    both = constant(I32, range(2 * BYTES.count))
    return _picked(b, b.shuffle_vector(x, y, both), order)


def _picked(b, x, order):
    """Byte i of the result = byte order[i] % count of x, through memory."""
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
