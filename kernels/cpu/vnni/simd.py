"""AVX-512 vectors for numba intrinsics.

They join the functions of `cpu/vectors.py`, which fit every width, and those of
`instructions.py`; on a CPU that lacks these, `emulated.py`, so that every machine can
test this runway. Invariant: a broadcast vector is never the operand of `xor` (LLVM
hangs on it).
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa, vectors
from mdtensor.kernels.cpu.vectors import (
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
from mdtensor.kernels.cpu.vnni import emulated, instructions
from mdtensor.kernels.cpu.vnni.instructions import (
    BYTES as BYTES,
    FLOATS as FLOATS,
    LANES as LANES,
    S32 as S32,
    WORDS as WORDS,
)

IS_EMULATED = bool(isa.lacking("vnni", isa.FEATURES))
HAS_BYTE_PERMUTE = IS_EMULATED or "avx512vbmi" in isa.FEATURES

_machine = emulated if IS_EMULATED else instructions
dpbusd = _machine.dpbusd
minimum = _machine.minimum
maximum = _machine.maximum
to_int = _machine.to_int
rounding_rest = _machine.rounding_rest
larger_magnitude = _machine.larger_magnitude
pack_words = _machine.pack_words
pack_bytes = _machine.pack_bytes
permute_bytes = _machine.permute_bytes
permute_pair = _machine.permute_pair


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


def permute_dwords(b, x, order):
    """Dword i of the result = dword order[i] of x."""
    return permute(b, b.bitcast(x, S32), order)


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
