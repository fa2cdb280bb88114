"""LLVM vectors of any width for numba intrinsics; each ISA adds its instructions.

The first argument `b` is llvmlite's IR builder. Vectors are SSA values, so a tile of
accumulators is a Python list and an unrolled loop is a Python loop. Addresses are
integers (numba `int64`); every load and store is unaligned.

Loops carry `llvm.loop.unroll.disable`, because unrolled copies of a tile that fills the
registers would spill.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()


def call(b, name, result, *arguments):
    """Call the LLVM intrinsic `name`, declared at its first use in a module."""
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    return b.call(cgutils.get_or_insert_function(b.module, signature, name), arguments)


def prefetch(b, place):
    """Prefetch the cache line at `place` for writing; any address is allowed."""
    byte = ir.PointerType(I8)
    signature = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
    function = cgutils.get_or_insert_function(b.module, signature, "llvm.prefetch.p0i8")
    to_write, into_first_cache, data = I32(1), I32(3), I32(1)
    b.call(function, [b.inttoptr(place, byte), to_write, into_first_cache, data])


def constant(element, values):
    """Return a vector of constants."""
    return ir.Constant(ir.VectorType(element, len(values)), list(values))


def splat(b, scalar, lanes):
    """Return a vector with `scalar` in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    first = b.insert_element(ir.Constant(vector, ir.Undefined), scalar, I32(0))
    zeros = constant(I32, [0] * lanes)
    return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


def load(b, address, kind):
    """Load a value of type `kind` from an integer address."""
    return b.load(b.inttoptr(address, kind.as_pointer()), align=1)


def store(b, value, address):
    """Write `value` at an integer address."""
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=1)


def permute(b, x, order):
    """Return a vector whose element i is x[order[i]]."""
    return b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), constant(I32, order))


def concat(b, *vectors):
    """Concatenate the lanes of all vectors, whose number is a power of two."""
    vectors = list(vectors)
    while len(vectors) > 1:
        lanes = constant(I32, range(2 * vectors[0].type.count))
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [b.shuffle_vector(x, y, lanes) for x, y in pairs]
    return vectors[0]


def slice_bytes(b, x, start, count):
    """Return bytes start .. start + count of x."""
    if count == x.type.count:
        return x
    return permute(b, x, range(start, start + count))


def repeat(b, count, carried, body):
    """Emit the loop carried = body(i, carried) for i < count; return the last value.

    The loop is rolled. `carried` is a list of SSA values that stay in registers.
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


def advance(b, count, places, steps, body):
    """Emit a loop that calls body(*places) and then adds `steps` to `places`.

    The loop ends after `count` iterations, or when `body` returns 1 instead of 0 (an
    i64).

    Returns: 2 * iterations + the last value of `body`.
    """
    before = b.block
    inside = b.append_basic_block("advance")
    after = b.append_basic_block("advance.end")
    b.branch(inside)
    b.position_at_end(inside)
    phis = [b.phi(I64) for _ in (count, *places)]
    for phi, value in zip(phis, [I64(0), *places], strict=True):
        phi.add_incoming(value, before)
    flag = body(*phis[1:])
    moved = [b.add(*pair) for pair in zip(phis, [I64(1), *steps], strict=True)]
    for phi, value in zip(phis, moved, strict=True):
        phi.add_incoming(value, b.block)
    is_last = b.icmp_signed(">=", moved[0], count)
    is_done = b.or_(is_last, b.icmp_unsigned("!=", flag, I64(0)))
    _forbid_unrolling(b.cbranch(is_done, after, inside))
    b.position_at_end(after)
    return b.add(b.mul(moved[0], I64(2)), flag)


def _forbid_unrolling(branch):
    """Mark the loop of `branch` so that LLVM does not unroll it."""
    module = branch.parent.module if hasattr(branch.parent, "module") else None
    module = module or branch.parent.function.module
    disable = module.add_metadata(["llvm.loop.unroll.disable"])
    # LLVM wants a loop identifier whose first operand is the node itself.
    node = module.add_metadata([disable, I64(len(module.metadata))])
    node.operands = (node, disable)
    branch.set_metadata("llvm.loop", node)


def literals(*arguments):
    """Return the values of literal integer types, or None if one is not literal."""
    if not all(isinstance(argument, types.IntegerLiteral) for argument in arguments):
        return None
    return [argument.literal_value for argument in arguments]


@intrinsic
def address_of(typingctx, array, index):
    """Return the address of element `index` of a contiguous array, an int64.

    The address does not keep `array` alive: use the array after the last use of the
    address. It is signed, because numba makes a float of unsigned plus signed.
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


@intrinsic
def keep(typingctx, arrays):
    """Keep a tuple of arrays alive up to here, for addresses used before."""

    def emit(context, b, signature, arguments):
        return context.get_dummy_value()

    return types.void(arrays), emit


@intrinsic
def trailing_zeros(typingctx, bits):
    """Return the index of the lowest set bit of an int64 that is not 0."""

    def emit(context, b, signature, arguments):
        return b.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), emit
