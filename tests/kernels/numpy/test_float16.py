"""Floats of 16 bits: all 65,536 of them, every kernel, every way to call it."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic import bfloat16, float16
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.numpy import float16 as half, ufunc

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
TYPES = {"float16": (FLOAT16, float16), "bfloat16": (BFLOAT16, bfloat16)}
ARITHMETIC = [np.add, np.subtract, np.multiply, np.divide, np.minimum, np.maximum]
COMPARISONS = sorted(half.COMPARISONS, key=str)
both = pytest.mark.parametrize(("dtype", "kernels"), TYPES.values(), ids=TYPES)
#: As plain Python these take a minute; the others show that it gives the same.
compiled = pytest.mark.compiled
named = {"ids": lambda f: f.__name__}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def every(dtype: np.dtype[Any]) -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def same(found: Any, want: Any) -> bool:
    """Equal bits; of NaN, only that it is one."""
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    is_nan = want != want
    assert np.array_equal(found != found, is_nan)
    return found[~is_nan].tobytes() == want[~is_nan].tobytes()


def awkward(dtype: np.dtype[Any], rng: Any) -> tuple[Any, Any]:
    """Pairs: every number beside a random one, and random ones beside the edges."""
    x = np.concatenate([every(dtype), rng.permutation(every(dtype))])
    edges = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0, -1e-38, 3e38]
    edge = np.array(edges).astype(dtype)
    y = np.concatenate([rng.permutation(every(dtype)), np.resize(edge, 1 << 16)])
    return x, y


@both
def test_every_number_widens_exactly(dtype: Any, kernels: Any) -> None:
    x, out = every(dtype), np.empty(1 << 16, np.float32)
    kernels.to_float32(x.view(np.uint16), out)
    assert same(out, x.astype(np.float32))


@compiled
@both
def test_floats_narrow_to_the_nearest_even(dtype: Any, kernels: Any, rng: Any) -> None:
    exact = every(dtype).astype(np.float32)
    above = np.nextafter(exact, np.float32(np.inf))
    middle = ((exact.astype(float) + exact[::-1]) / 2).astype(np.float32)
    ties = (exact.view(np.uint32) + (0x1000 if dtype == FLOAT16 else 0x8000)).view("f4")
    bits = rng.integers(0, 1 << 32, 1 << 16, np.uint64).astype(np.uint32)
    for x in (exact, above, middle, ties, bits.view(np.float32)):
        out = np.empty(len(x), np.uint16)
        kernels.from_float32(x, out)
        assert same(out.view(dtype), x.astype(dtype))


@kernel
def widen_bits(x: Any, out: Any) -> None:
    for i in range(len(x)):
        out[i] = float16.widen_bits(x[i])


@kernel
def narrow_bits(x: Any, out: Any) -> None:
    for i in range(len(x)):
        out[i] = float16.narrow_bits(x[i])


@compiled
def test_cpus_without_the_instruction_do_the_same(rng: Any) -> None:
    bits = every(FLOAT16).view(np.uint16)
    wide, found = np.empty(1 << 16, np.float32), np.empty(1 << 16, np.uint16)
    widen_bits(bits, wide)
    assert same(wide, every(FLOAT16).astype(np.float32))
    random = rng.integers(0, 1 << 32, 1 << 16, np.uint64).astype(np.uint32)
    for x in (wide, np.nextafter(wide, np.float32(0)), random.view(np.float32)):
        narrow_bits(x, found)
        assert same(found.view(FLOAT16), x.astype(FLOAT16))


@pytest.mark.skipif(not float16.HAS_F16C, reason="the CPU has no instruction for it")
def test_both_ways_make_the_same_nan() -> None:
    bits = np.arange(0x7C00, 0x8000, dtype=np.uint16)
    wide, other = np.empty((2, len(bits)), np.float32)
    narrow, again = np.empty((2, len(bits)), np.uint16)
    widen_bits(bits, wide)
    float16.to_float32(bits, other)
    assert wide.tobytes() == other.tobytes()
    narrow_bits(wide, narrow)
    float16.from_float32(wide, again)
    assert narrow.tobytes() == again.tobytes()


def test_nan_keeps_its_sign_and_becomes_quiet() -> None:
    for kernels, nan, quiet_bit in ((float16, 0xFC01, 0x200), (bfloat16, 0xFF81, 0x40)):
        out, back = np.empty(1, np.float32), np.empty(1, np.uint16)
        kernels.to_float32(np.array([nan], np.uint16), out)
        kernels.from_float32(out, back)
        assert back[0] == nan | quiet_bit


@compiled
@both
@pytest.mark.parametrize("operation", ARITHMETIC, **named)
def test_arithmetic_rounds_once(
    operation: Any, dtype: Any, kernels: Any, rng: Any
) -> None:
    x, y = awkward(dtype, rng)
    wide = operation(x.astype(np.float32), y.astype(np.float32))
    found = half.binary(operation, x, y)
    want = wide.astype(dtype)
    if operation in (np.minimum, np.maximum):  # -0 is less than 0
        zeros = (x == 0) & (y == 0)
        signs = np.signbit(x), np.signbit(y)
        is_below = operation(*(-s.astype(int) for s in signs)) < 0
        want[zeros] = np.where(is_below[zeros], -0.0, 0.0).astype(dtype)
    assert same(found, want)


@compiled
@both
@pytest.mark.parametrize("operation", COMPARISONS, **named)
def test_comparisons(operation: Any, dtype: Any, kernels: Any, rng: Any) -> None:
    x, y = awkward(dtype, rng)
    want = operation(x.astype(np.float32), y.astype(np.float32))
    assert same(half.binary(operation, x, y), want)


@both
def test_tables_hold_what_float32_gives(dtype: Any, kernels: Any) -> None:
    x = every(dtype)
    rows = x.reshape(-1, 4096)
    for function in (np.exp, np.tanh, np.floor, np.sqrt, np.negative, np.isnan):
        found = half.unary(function, x)
        want = function(x.astype(np.float32))
        want = want if want.dtype == bool else want.astype(dtype)
        assert same(found, want), function
        pieces = [half.unary(function, row) for row in rows]
        assert same(found, np.concatenate(pieces)), function


@both
def test_small_and_large_arrays_give_the_same(
    dtype: Any, kernels: Any, rng: Any
) -> None:
    x = rng.standard_normal(half.LARGE + 5).astype(dtype)
    y = rng.standard_normal(half.LARGE + 5).astype(dtype)
    for operation in (*ARITHMETIC, *COMPARISONS, np.hypot):
        small = [half.binary(operation, x[i::8], y[i::8]) for i in range(8)]
        large = half.binary(operation, x, y)
        assert all(same(large[i::8], small[i]) for i in range(8)), operation


@compiled
@both
def test_layouts(dtype: Any, kernels: Any, rng: Any) -> None:
    """Strided, transposed, broadcast, read-only, lone, empty."""
    wide = rng.standard_normal((128, 160)).astype(dtype)
    other = rng.standard_normal((128, 80)).astype(dtype)
    wide.flags.writeable = False
    operands = [wide[:, ::2], other.T.copy().T, other[:1], other[:, :1], other[3, 3]]
    operands.append(np.broadcast_to(other[0], (128, 80)))
    for x in operands:
        for y in operands[:2]:
            for operation in (np.subtract, np.less):
                a, b = x.astype(np.float32), y.astype(np.float32)
                want = operation(a, b)
                want = want if want.dtype == bool else want.astype(dtype)
                assert same(half.binary(operation, x, y), want)
                assert same(
                    half.binary(operation, y, x),
                    operation(b, a).astype(want.dtype),
                )
        assert same(half.widen(x), x.astype(np.float32))
        assert same(half.round_to(half.widen(x), dtype), x.copy())
        assert same(half.unary(np.exp, x), np.exp(x.astype(np.float32)).astype(dtype))
    nothing = wide[:0]
    assert half.binary(np.add, nothing, nothing).shape == (0, 160)
    assert half.unary(np.exp, nothing).shape == (0, 160)


@compiled
@both
def test_a_long_row_meets_a_lone_number(dtype: Any, kernels: Any, rng: Any) -> None:
    """More than one block, and a last one that is not full."""
    x = np.resize(every(dtype), half.BLOCK + 77)
    for y in (dtype.type(1.5), np.array([[2.5]], dtype)):
        for a, b in ((x, np.asarray(y)), (np.asarray(y), x)):
            want = np.subtract(a.astype(np.float32), b.astype(np.float32))
            assert same(half.binary(np.subtract, a, b), want.astype(dtype))


@compiled
@both
def test_casts_of_tensors(dtype: Any, kernels: Any) -> None:
    x = md.from_numpy(every(dtype))
    for target in (md.float32, md.float64, md.float16, md.bfloat16):
        found = md.astype(x, target, casting="wrap").buffer
        want = every(dtype).astype(np.float32).astype(target.storage)
        assert same(found, want)


def test_functions_that_are_no_ufuncs_get_no_table() -> None:
    x = every(FLOAT16)
    tables = half._table.cache_info().currsize
    for step in (1.0, 2.0):
        found = ufunc.unary(lambda y, step=step: y + np.float32(step), x)
        assert same(found, (x.astype(np.float32) + np.float32(step)).astype(FLOAT16))
    assert half._table.cache_info().currsize == tables


def test_the_instruction_is_asked_for() -> None:
    has = "f16c" in isa.FEATURES and not isa.IS_JIT_DISABLED
    assert float16.HAS_F16C is has
    assert (float16.widen is float16.widen_bits) is not has


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("count", [half.LARGE, half.LARGE + 1])
@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16], ids=str)
def test_rows_of_any_start_and_length(dtype: Any, count: int, start: int) -> None:
    bits = np.arange(5, 5 + 7 * (count + start), 7).astype(np.uint16)
    x = bits.view(dtype.storage)[start:]
    few = slice(0, half.LARGE - 1)
    for function in (np.floor, np.rint, np.negative, np.absolute, np.tanh):
        found = half.unary(function, x)
        want = [half.unary(function, x[few]), half.unary(function, x[-9:])]
        assert same(found[few], want[0])
        assert same(found[-9:], want[1])
    for function in (np.add, np.less, np.not_equal, np.minimum):
        found = half.binary(function, x, x[::-1])
        last = half.binary(function, x[-9:], x[8::-1])
        assert same(found[-9:], last)
