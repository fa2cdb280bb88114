"""AVX2 vectors for numba intrinsics: one short function per instruction.

AVX2 has sixteen registers of 8 dwords, without masks or an 8-bit dot product.
vpmaddubsw saturates at int16, so bytes are widened first, and vpmaddwd adds two
products exactly, unless the weights are known (`code_windows.py`).

Source: Intel Intrinsics Guide; LLVM `IntrinsicsX86.td`.
"""

from llvmlite import ir

from mdtensor.kernels.cpu import vectors
from mdtensor.kernels.cpu.vectors import F32, I8, I16, I32, I64

LANES = 8
S32 = ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(F32, LANES)
WORDS = ir.VectorType(I16, 2 * LANES)
BYTES = ir.VectorType(I8, 4 * LANES)


def multiply_pairs(b, x, y):
    """Return x[2i] * y[2i] + x[2i + 1] * y[2i + 1] in lane i; int16 to int32, exact."""
    return vectors.call(b, "llvm.x86.avx2.pmadd.wd", S32, x, y)


def multiply_bytes(b, codes, weights):
    """Return codes[2i] * weights[2i] + codes[2i + 1] * weights[2i + 1], as words.

    Codes are uint8, weights int8; the sums saturate at int16.
    """
    return vectors.call(b, "llvm.x86.avx2.pmadd.ub.sw", WORDS, codes, weights)


def load_broadcast(b, address):
    """Load the dword at `address` into every lane, as words."""
    return b.bitcast(vectors.splat(b, vectors.load(b, address, I32), LANES), WORDS)


def load_words(b, address, count):
    """Load the signed bytes at `address` as `count` vectors of words."""
    # Weights stay bytes in memory, because a network reads them from the third cache
    # (decision 0035).
    codes = ir.VectorType(I8, WORDS.count)
    places = [b.add(address, I64(codes.count * i)) for i in range(count)]
    return [b.sext(vectors.load(b, place, codes), WORDS) for place in places]


def multiply_add(b, x, y, z):
    """Return x * y + z per float32 lane, rounded once."""
    return vectors.call(b, "llvm.fma.v8f32", FLOATS, x, y, z)


def minimum(b, x, y):
    """Return the minimum per float32 lane."""
    return vectors.call(b, "llvm.x86.avx.min.ps.256", FLOATS, x, y)


def maximum(b, x, y):
    """Return the maximum per float32 lane."""
    return vectors.call(b, "llvm.x86.avx.max.ps.256", FLOATS, x, y)


def to_int(b, x):
    """Round float32 lanes half to even to int32; out of range becomes -2**31."""
    return vectors.call(b, "llvm.x86.avx.cvt.ps2dq.256", S32, x)


def pack_words(b, x, y):
    """Pack int32 lanes of x and y, saturated to int16, by 128-bit lanes in turn."""
    return vectors.call(b, "llvm.x86.avx2.packssdw", WORDS, x, y)


def high_halves(b, x, y):
    """Return the high halves of int32 lanes as words: x[0], y[0], x[1], y[1], .."""
    # A shift and a blend, instead of two shifts and a packing, which share two of the
    # four pipes (decision 0035).
    x = b.lshr(x, ir.Constant(S32, [16] * LANES))
    order = [i + WORDS.count * (i % 2) for i in range(WORDS.count)]
    halves = [b.bitcast(v, WORDS) for v in (x, y)]
    return b.shuffle_vector(*halves, vectors.constant(I32, order))


def low_halves(b, x, y):
    """Return the low halves of int32 lanes as words: x[0], y[0], x[1], y[1], .."""
    y = b.shl(y, ir.Constant(S32, [16] * LANES))
    order = [i + WORDS.count * (i % 2) for i in range(WORDS.count)]
    halves = [b.bitcast(v, WORDS) for v in (x, y)]
    return b.shuffle_vector(*halves, vectors.constant(I32, order))


def pack_bytes(b, x, y):
    """Pack int16 lanes of x and y, saturated to uint8, by 128-bit lanes in turn."""
    return vectors.call(b, "llvm.x86.avx2.packuswb", BYTES, x, y)


def smaller(b, x, y):
    """Return the minimum per unsigned integer lane."""
    kind = x.type
    name = f"llvm.umin.v{kind.count}i{kind.element.width}"
    return vectors.call(b, name, kind, x, y)


def larger(b, x, y):
    """Return the maximum per unsigned integer lane."""
    kind = x.type
    name = f"llvm.umax.v{kind.count}i{kind.element.width}"
    return vectors.call(b, name, kind, x, y)


def shuffle_bytes(b, x, order):
    """Return a vector whose byte i is byte order[i] % 16 of its 128-bit lane of x.

    All order[i] are below 128.
    """
    return vectors.call(b, "llvm.x86.avx2.pshuf.b", BYTES, x, order)


def choose_bytes(b, x, y, choice):
    """Return byte i of y if bit 7 of choice[i] is set, else byte i of x."""
    return vectors.call(b, "llvm.x86.avx2.pblendvb", BYTES, x, y, choice)
