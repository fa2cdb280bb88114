"""AVX-512 vectors for numba intrinsics: one short function per instruction.

The first argument `b` is llvmlite's IR builder; vectors are SSA values, so a tile of
accumulators is a Python list and an unrolled loop is a Python loop. Addresses are
integers (numba `int64`); every load and store is unaligned.

Invariants that keep LLVM fast: loops carry `llvm.loop.unroll.disable` (unrolled copies
of a register-filling tile spill), and a broadcast vector is never the operand of `xor`
(LLVM hangs on it).
Source: Intel Intrinsics Guide; LLVM `IntrinsicsX86.td`.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa

HAS_BYTE_PERMUTE = "avx512vbmi" in isa.FEATURES
LANES = 16
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
S32 = ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(F32, LANES)
WORDS = ir.VectorType(I16, 2 * LANES)
BYTES = ir.VectorType(I8, 4 * LANES)
ALL_LANES = ir.Constant(I16, -1)
CURRENT_ROUNDING = ir.Constant(I32, 4)


def call(b, name, result, *arguments):
    """The LLVM intrinsic `name`, declared at its first use in a module."""
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    return b.call(cgutils.get_or_insert_function(b.module, signature, name), arguments)


def constant(element, values):
    """A vector of constants."""
    return ir.Constant(ir.VectorType(element, len(values)), list(values))


def splat(b, scalar, lanes=LANES):
    """Every lane = scalar."""
    vector = ir.VectorType(scalar.type, lanes)
    first = b.insert_element(ir.Constant(vector, ir.Undefined), scalar, I32(0))
    zeros = constant(I32, [0] * lanes)
    return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def load(b, address, kind):
    """The value of type `kind` at an integer address."""
    return b.load(b.inttoptr(address, kind.as_pointer()), align=1)


def store(b, value, address):
    """Write `value` at an integer address."""
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=1)


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


def permute(b, x, order):
    """Element i of the result = element order[i] of x."""
    return b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), constant(I32, order))


def permute_dwords(b, x, order):
    """Dword i of the result = dword order[i] of x."""
    return permute(b, b.bitcast(x, S32), order)


def permute_bytes(b, x, order):
    """Byte i of the result = byte order[i] of x, `order` a vector (AVX512_VBMI)."""
    return call(b, "llvm.x86.avx512.permvar.qi.512", BYTES, x, order)


def permute_pair(b, x, order, y):
    """Byte i of the result = byte order[i] % 128 of x and y in a row (AVX512_VBMI)."""
    return call(b, "llvm.x86.avx512.vpermi2var.qi.512", BYTES, x, order, y)


def concat(b, *vectors):
    """The lanes of all vectors (a power of two of them), one after the other."""
    vectors = list(vectors)
    while len(vectors) > 1:
        lanes = constant(I32, range(2 * vectors[0].type.count))
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [b.shuffle_vector(x, y, lanes) for x, y in pairs]
    return vectors[0]


def slice_bytes(b, x, start, count):
    """Bytes start .. start + count of x."""
    if count == x.type.count:
        return x
    return permute(b, x, range(start, start + count))


def any_lane(b, bits):
    """i1: is a lane of a <16 x i1> set?"""
    return b.icmp_unsigned("!=", b.bitcast(bits, I16), I16(0))


def repeat(b, count, carried, body):
    """carried = body(i, carried) for i in 0 .. count - 1; returns the last `carried`.

    A rolled loop over SSA values: `carried` is a list of values, kept in registers.
    """
    before = b.block
    head = b.append_basic_block("repeat")
    inside = b.append_basic_block("repeat.body")
    after = b.append_basic_block("repeat.end")
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add_incoming(I64(0), before)
    phis = [b.phi(value.type) for value in carried]
    for phi, value in zip(phis, carried, strict=True):
        phi.add_incoming(value, before)
    b.cbranch(b.icmp_signed("<", i, count), inside, after)
    b.position_at_end(inside)
    results = body(i, phis)
    i.add_incoming(b.add(i, I64(1)), b.block)
    for phi, value in zip(phis, results, strict=True):
        phi.add_incoming(value, b.block)
    _forbid_unrolling(b.branch(head))
    b.position_at_end(after)
    return phis


def _forbid_unrolling(branch):
    module = branch.parent.module if hasattr(branch.parent, "module") else None
    module = module or branch.parent.function.module
    disable = module.add_metadata(["llvm.loop.unroll.disable"])
    # a loop identifier is a node that names itself first
    node = module.add_metadata([disable, I64(len(module.metadata))])
    node.operands = (node, disable)
    branch.set_metadata("llvm.loop", node)


def literals(*arguments):
    """The values of literal integer types, or None where one is not literal."""
    if not all(isinstance(argument, types.IntegerLiteral) for argument in arguments):
        return None
    return [argument.literal_value for argument in arguments]


@intrinsic
def address_of(typingctx, array, index):
    """Address of element `index` of a contiguous array, an int64.

    It does not keep `array` alive: use the array after the last use of the address.
    Signed, because numba makes a float of an unsigned plus a signed integer.
    """
    if not isinstance(array, types.Array):
        return None

    def emit(context, b, signature, arguments):
        kind = signature.args[0]
        struct = context.make_array(kind)(context, b, arguments[0])
        step = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        base = b.ptrtoint(struct.data, I64)
        return b.add(base, b.mul(arguments[1], I64(step)))

    return types.int64(array, types.int64), emit


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
