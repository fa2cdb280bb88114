"""Products of floats, and of floats with codes, have the bytes of exact arithmetic."""

import ctypes.util

import numba
import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic import float_matmul, float_packing
from mdtensor.kernels.cpu.generic.float_packing import pack_rows, pad_rows
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.kernel_set import families
from mdtensor.kernels.cpu.program import layers
from mdtensor.kernels.reference import (
    matmul as of_codes,
    matmul as oracle,
    round_to_float32,
)

RUNWAYS = ["generic"]
if not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES)):
    RUNWAYS.append("avx2")
GAP = np.float32(7)
EDGES = (0.0, -0.0, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, np.inf, np.nan)
EDGES += (1.0, -1.0, 16777217.0, 0.1)


@pytest.fixture(params=RUNWAYS)
def runway(request):
    return families(request.param)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def product(gemm, a, packed, n, bias, *grid, pitch=None):
    """`gemm` from rows and to rows with gaps, which stay as they are."""
    m, k = a.shape
    lda, ldc = k + 3, n + 2
    rows = np.full((m, lda), np.nan, np.float32)
    rows[:, :k] = a
    out = np.full((m + 5, ldc), GAP, np.float32)
    bias = pad_rows(np.asarray(bias, np.float32))
    gemm(rows.reshape(-1), lda, m, k, packed, n, *grid, bias, out.reshape(-1), ldc)
    assert (out[:, n:] == GAP).all() and (out[m:] == GAP).all()
    return out[:m, :n]


def same(got, want):
    """Equal bytes, but that a NaN is a NaN."""
    are_nan = np.isnan(got) & np.isnan(want)
    return bool((are_nan | (got.view(np.int32) == want.view(np.int32))).all())


SHAPES = [
    *((1, 1, 1), (1, 9, 16), (2, 5, 33), (3, 1, 17), (4, 3, 48), (5, 7, 5)),
    *((6, 4, 16), (7, 27, 18), (13, 2, 31), (9, 3, 70)),
    # One row, and tiles of four panels.
    *((1, 6, 64), (1, 7, 79), (1, 4, 200)),
]
NOTHING = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)]


@pytest.mark.parametrize(("m", "k", "n"), [*SHAPES, *NOTHING])
def test_sums_are_rounded_in_the_order_of_k(runway, rng, m, k, n):
    a, w, bias = floats(rng, m, k), floats(rng, n, k), floats(rng, n)
    family = runway.float_matmul
    got = product(family.gemm_f32f32f32, a, float_packing.pack_f32(w), n, bias)
    assert same(got, oracle.gemm_f32f32f32(a, w, bias))


# Whole panels have no rest of columns; two rows have tiles of their own.
@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize(("m", "k", "n"), [*SHAPES, *NOTHING, (2, 3, 48), (11, 2, 32)])
def test_sums_begin_at_rows_of_numbers(runway, rng, m, k, n, repeats):
    a, w = floats(rng, m, k), floats(rng, n, k)
    pitch = 0 if repeats else n + 4
    start = np.full((1 if repeats else m, n + 4), np.nan, np.float32)
    start[:, :n] = floats(rng, len(start), n)

    def gemm(rows, lda, m, k, packed, n, bias, out, ldc):
        family = runway.float_matmul
        first = start.reshape(-1)[: max(start.size - 4, 0)]
        family.gemm_from_f32(rows, lda, m, k, packed, n, first, pitch, out, ldc)

    got = product(gemm, a, float_packing.pack_f32(w), n, start[:0, 0])
    want = [
        oracle.gemm_f32f32f32(a[i : i + 1], w, start[0 if repeats else i])
        for i in range(m)
    ]
    assert same(got, np.concatenate([*want, got[:0]]))


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        *((1, 2100, 40), (7, 513, 16), (200, 70, 50), (389, 520, 20)),
        *((15, 2060, 230), (523, 2060, 20)),
    ],
)
def test_blocks_of_rows_and_of_k_change_no_byte(runway, rng, m, k, n):
    a, w, bias = floats(rng, m, k), floats(rng, n, k), floats(rng, n)
    packed = float_packing.pack_f32(w)
    got = product(runway.float_matmul.gemm_f32f32f32, a, packed, n, bias)
    want = np.tile(bias, (m, 1))
    for i in range(k):
        want = fused(a[:, i : i + 1], w[:, i], want)
    assert same(got, want)


def fused(x, y, z):
    """The C library's fmaf of arrays."""
    return FMAF(*np.broadcast_arrays(x, y, z))


def _fmaf():
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.fmaf.restype = ctypes.c_float
    library.fmaf.argtypes = [ctypes.c_float] * 3
    call = library.fmaf

    @numba.njit
    def every(x, y, z, out):
        for i in range(out.size):
            out[i] = call(x[i], y[i], z[i])

    def of_arrays(x, y, z):
        out = np.empty(x.shape, np.float32)
        flat = [np.ascontiguousarray(v).reshape(-1) for v in (x, y, z)]
        every(*flat, out.reshape(-1))
        return out

    return of_arrays


FMAF = _fmaf()


@pytest.mark.parametrize("spot", ["a", "w", "bias"])
@pytest.mark.parametrize("value", EDGES)
def test_what_is_no_usual_number_goes_through(runway, rng, spot, value):
    m, k, n = 7, 3, 18
    arrays = {"a": floats(rng, m, k), "w": floats(rng, n, k), "bias": floats(rng, n)}
    arrays[spot][..., 1::2] = value
    arrays["a"][2], arrays["w"][5] = 0, np.inf
    a, w, bias = arrays.values()
    family = runway.float_matmul
    got = product(family.gemm_f32f32f32, a, float_packing.pack_f32(w), n, bias)
    assert same(got, oracle.gemm_f32f32f32(a, w, bias))


bits = st.integers(0, 2**32 - 1)


@given(bits, bits, bits)
def test_a_fused_product_is_rounded_once(x, y, z):
    numbers = np.array([x, y, z], np.uint32).view(np.float32)
    want = oracle.multiply_add(*numbers)
    for found in (float_matmul.multiply_add(*numbers), compiled_multiply_add(*numbers)):
        assert same(np.float32(found), want)


@given(st.integers(2**23, 2**24), st.integers(2**23, 2**24), st.integers(-40, 40))
def test_so_is_one_near_a_tie(x, y, shift):
    product = np.float64(x) * np.float64(y)
    ulp = np.spacing(np.float32(product), dtype=np.float32)
    for part in (0.5, -0.5, 0.49999997):
        z = np.float32(np.float64(np.float32(product)) + part * ulp - product)
        for tiny in (z, np.nextafter(z, np.float32(np.inf)), np.float32(2.0**shift)):
            want = oracle.multiply_add(np.float32(x), np.float32(y), tiny)
            found = float_matmul.multiply_add(np.float32(x), np.float32(y), tiny)
            assert same(np.float32(found), want)


@kernel
def compiled_multiply_add(x, y, z):
    return float_matmul.multiply_add(x, y, z)


@pytest.mark.parametrize("value", [1e-46, 2.0**-150, 3e-45, 1 + 2.0**-24, 3.5e38])
def test_the_oracle_rounds_as_numpy_does(value):
    with np.errstate(over="ignore"):
        assert round_to_float32(value) == np.float32(value)
        assert round_to_float32(-value) == np.float32(-value)


# --- codes of weights -----------------------------------------------------------------

GRIDS = [(1, 9, 33, 9), (2, 8, 16, 4), (3, 11, 40, 6), (5, 7, 17, 2), (8, 20, 36, 64)]
LEAST = {8: -128, 4: 0}


def coded(rng, bits, n, k, size):
    """(codes, what kernels take of them, scales, zeros)."""
    blocks = -(-k // size)
    least = LEAST[bits]
    codes = rng.integers(least, least + 2**bits, (n, k))
    scales = rng.uniform(0.001, 0.1, (n, blocks)).astype(np.float32)
    zeros = rng.integers(least, least + 2**bits, (n, blocks))
    if bits == 8:
        return codes, codes.astype(np.int8), scales, zeros
    pairs = np.zeros((n, (k + 1) // 2), np.uint8)
    pairs |= codes[:, ::2].astype(np.uint8)
    pairs[:, : k // 2] |= (codes[:, 1::2] << 4).astype(np.uint8)
    return codes, pairs, scales, zeros


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("m", "k", "n", "size"), [*GRIDS, (3, 0, 5, 2), (0, 3, 5, 2)])
def test_codes_are_the_numbers_they_stand_for(runway, rng, bits, m, k, n, size):
    codes, rows, scales, zeros = coded(rng, bits, n, k, size)
    family = runway.weight_only
    gemm = family.gemm_f32s8f32 if bits == 8 else family.gemm_f32u4f32
    grid = float_packing.pack_grid(scales), float_packing.pack_grid(zeros), size
    a, bias = floats(rng, m, k), floats(rng, n)
    got = product(gemm, a, float_packing.pack_rows(rows), n, bias, *grid)
    want = of_codes.gemm_f32s8f32(a, codes, scales, zeros, size, bias)
    assert same(got, want)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33])
@pytest.mark.parametrize("width", [0, 1, 2, 16, 31])
def test_rows_that_lie_as_columns_are_packed_alike(rng, n, width):
    rows = rng.integers(-128, 128, (n, width), np.int8)
    columns = pack_rows(np.asfortranarray(rows))
    assert columns.dtype == np.int8 and np.array_equal(columns, pack_rows(rows))


@pytest.mark.compiled
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 200])
def test_codes_and_their_numbers_give_the_same_bytes(rng, bits, m):
    n, k, size = 150, 2087, 32
    codes, rows, scales, zeros = coded(rng, bits, n, k, size)
    x, bias = floats(rng, m, k), floats(rng, n)
    steps = codes - np.repeat(zeros, size, 1)[:, :k]
    numbers = steps.astype(np.float32) * np.repeat(scales, size, 1)[:, :k]
    want = layers.Linear(numbers, bias)(x)
    if bits == 8:
        layer = layers.LinearS8(rows, scales, zeros, size, bias)
    else:
        layer = layers.LinearU4(rows, k, scales, zeros, size, bias)
    assert same(layer(x), want)
    assert layer.bytes < 0.6 * numbers.nbytes
    assert np.abs(want - (x @ numbers.T + bias)).max() < 1e-4 * np.abs(want).max()


def test_layers_take_any_strides(rng):
    w, x = floats(rng, 7, 5), floats(rng, 5, 4, 3)
    layer = layers.Linear(w[::-1], None)
    want = layers.Linear(w[::-1].copy(), None)(x.transpose(2, 1, 0).copy())
    assert same(layer(x.transpose(2, 1, 0)), want)
    assert want.shape == (3, 4, 7)
    assert layer.macs((3, 4, 5)) == 3 * 4 * 5 * 7
    assert layer.kernel == "gemm_f32f32f32" and layer.runway in isa.ISAS
