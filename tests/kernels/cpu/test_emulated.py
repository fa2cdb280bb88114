"""Emulated instructions do what a CPU's do, and products are what they say.

Those of AVX-512 that work on every 128 bits alone are two of AVX2, so a CPU with AVX2
is asked. The rest is compared with its formula.
"""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.avx2 import simd as avx2
from mdtensor.kernels.cpu.dot8 import emulated, products
from mdtensor.kernels.cpu.vectors import concat, slice_bytes

#: numba starts LLVM only where it compiles.
pytestmark = pytest.mark.compiled

ELEMENTS = {"i1": ir.IntType(8), "i2": ir.IntType(16), "i4": ir.IntType(32)}
ELEMENTS |= {"u1": ir.IntType(8), "f4": ir.FloatType()}
VOID, WORD = ir.VoidType(), ir.IntType(64)


def applied(emit, dtype, *arrays):
    """emit(builder, *vectors) for arrays [count, lanes], one row at a time."""
    module = ir.Module()
    module.triple = llvm.get_process_triple()
    pointers = [WORD] * (len(arrays) + 1)
    function = ir.Function(module, ir.FunctionType(VOID, pointers), "run")
    b = ir.IRBuilder(function.append_basic_block())
    vectors = [
        b.load(b.inttoptr(place, kind_of(array).as_pointer()), align=1)
        for place, array in zip(function.args[1:], arrays, strict=True)
    ]
    result = emit(b, *vectors)
    b.store(result, b.inttoptr(function.args[0], result.type.as_pointer()), align=1)
    b.ret_void()
    out = np.zeros((len(arrays[0]), result.type.count), dtype)
    # numba does this, but only when a kernel is compiled.
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    with llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target) as engine:
        address = engine.get_function_address("run")
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(pointers))(address)
        for row in range(len(out)):
            call(*[x.ctypes.data + row * x.strides[0] for x in (out, *arrays)])
    return out


def kind_of(array):
    return ir.VectorType(ELEMENTS[array.dtype.str[1:]], array.shape[1])


def halves(instruction):
    """An instruction of 256 bits on both halves of its vectors."""

    def emit(b, *vectors):
        parts = []
        for i in (0, 1):
            counts = [x.type.count // 2 for x in vectors]
            pairs = zip(vectors, counts, strict=True)
            parts.append(
                instruction(b, *[slice_bytes(b, x, n * i, n) for x, n in pairs])
            )
        return concat(b, *parts)

    return emit


def integers(rng, dtype, lanes):
    """Any values, ends of the range among them, and small ones."""
    ends = np.iinfo(dtype)
    size = (200, lanes)
    values = rng.integers(ends.min, ends.max, size, dtype, endpoint=True)
    small = rng.integers(-400, 400, size).astype(dtype)
    edge = rng.choice(np.array([ends.min, ends.max, 0], dtype), size)
    return np.choose(rng.integers(0, 3, size), [values, small, edge])


def floats(rng):
    """Any numbers, ties, and what is not a usual number."""
    values = rng.standard_normal((200, 16)) * 10.0 ** rng.integers(-3, 12, (200, 16))
    ties = rng.integers(-300, 300, (200, 16)) + 0.5
    odd = [np.nan, np.inf, -np.inf, -0.0, 2.0**31, -(2.0**31), 2147483520.0]
    strange = rng.choice(odd, (200, 16))
    mixed = np.choose(rng.integers(0, 3, (200, 16)), [values, ties, strange])
    return mixed.astype(np.float32)


@pytest.mark.skipif("avx2" not in isa.FEATURES, reason="the oracle is AVX2")
@pytest.mark.parametrize(
    ("name", "given", "result"),
    [
        ("minimum", "f4", "f4"),
        ("maximum", "f4", "f4"),
        ("pack_words", "i4", "i2"),
        ("pack_bytes", "i2", "u1"),
        ("multiply_pairs", "i2", "i4"),
    ],
)
def test_pairs_of_vectors(name, given, result, rng):
    lanes = 64 // np.dtype(given).itemsize
    x, y = (
        floats(rng) if given == "f4" else integers(rng, np.dtype(given), lanes)
        for _ in range(2)
    )
    found = applied(getattr(emulated, name), result, x, y)
    want = applied(halves(getattr(avx2, name)), result, x, y)
    assert found.tobytes() == want.tobytes()


@pytest.mark.skipif("avx2" not in isa.FEATURES, reason="the oracle is AVX2")
def test_conversion(rng):
    x = floats(rng)
    found = applied(emulated.to_int, "i4", x)
    assert np.array_equal(found, applied(halves(avx2.to_int), "i4", x))


@pytest.mark.skipif("avx2" not in isa.FEATURES, reason="the oracle is AVX2")
def test_shuffle(rng):
    x = integers(rng, np.dtype("u1"), 64)
    order = np.concatenate([rng.permutation(16) + 16 * lane for lane in range(4)])
    found = applied(lambda b, x: emulated.shuffle_bytes(b, x, order), "u1", x)
    orders = np.tile(order.astype(np.uint8), (len(x), 1))
    assert np.array_equal(found, applied(halves(avx2.shuffle_bytes), "u1", x, orders))


def test_rests_and_magnitudes(rng):
    x, y = (np.nan_to_num(floats(rng), posinf=9, neginf=-9) for _ in range(2))
    rests = applied(emulated.rounding_error, "f4", x)
    assert np.array_equal(rests, x - np.rint(x))
    larger = applied(emulated.larger_magnitude, "f4", x, y)
    assert np.array_equal(larger, np.maximum(abs(x), abs(y)))


PRODUCTS = {
    "vnni": products.MixedBytes(emulated.dpbusd, 16),
    "avxvnni": products.MixedBytes(emulated.dpbusd, 8),
    "neon": products.SignedBytes(emulated.sdot, 4),
    "avx512": products.Words(),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_sums_of_four(name, rng):
    product = PRODUCTS[name]

    def emit(b, sums, codes, weights):
        operands = product.codes(b, codes), product.weights(b, weights)
        return product.add(b, sums, *operands)

    codes, weights = (
        integers(rng, np.dtype("u1"), 64),
        integers(rng, np.dtype("i1"), 64),
    )
    codes[0], weights[0], codes[1], weights[1] = 255, -128, 255, 127
    sums = rng.integers(-(2**30), 2**30, (200, 16)).astype(np.int32)
    found = applied(emit, "i4", sums, codes, weights)
    fours = (codes.astype(np.int64) - product.offset) * weights
    assert np.array_equal(found, sums + fours.reshape(200, 16, 4).sum(2))


@pytest.mark.parametrize("name", PRODUCTS)
def test_packed_weights_and_codes_by_address(name, rng):
    product = PRODUCTS[name]
    codes = integers(rng, np.dtype("u1"), 4)
    weights = rng.integers(-128, 128, (16, 4)).astype(np.int8)
    packed = np.ascontiguousarray(product.pack(weights))
    assert packed.nbytes == 16 * product.packed_bytes

    def emit(b, code, sums):
        with b.goto_entry_block():
            place = b.alloca(code.type)
        b.store(code, place)
        there = product.codes_at(b, b.ptrtoint(place, WORD))
        stay = ir.Constant(WORD, packed.ctypes.data)
        return product.add(b, sums, there, product.load_weights(b, stay))

    found = applied(emit, "i4", codes, np.zeros((200, 16), np.int32))
    shifted = codes.astype(np.int64) - product.offset
    assert np.array_equal(found, shifted @ weights.T.astype(np.int64))
