"""Reductions, comparisons and choices as steps, against NumPy in float64."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program import floats, reductions, steps
from mdtensor.kernels.cpu.program.program import HasNaN, Program
from mdtensor.kernels.cpu.program.steps import F32, U8

HAS_AVX2 = not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES))
ISAS = ["generic", *["avx2"] * HAS_AVX2]
SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3.0, 2.5])
SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)
Instruction = floats.Instruction


def run(make: Any, *arrays: Any) -> Any:
    """Return the result of a step in a program of its own."""
    program, step = Program(), make()
    slots = [program.input(x.shape, x.dtype) for x in arrays]
    (found,) = program.build([program.append(step, *slots)])(*arrays)
    return found


def on_each(make: Any, *arrays: Any) -> Any:
    """Return the result, which is the same on every ISA."""
    found = [
        kernel_set.make_on(kernel_set.kernels(name), run, make, *arrays)
        for name in ISAS
    ]
    for other in found[1:]:
        assert same(found[0], other)
    return found[0]


def same(x: Any, y: Any) -> bool:
    """Return whether both have the same bytes; NaNs are equal."""
    both = np.isnan(x) & np.isnan(y)
    return bool((both | (x.view(np.uint32) == y.view(np.uint32))).all())


def numbers(shape: Any, seed: int, share: float = 0.1) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape).astype(np.float32)
    where = rng.random(shape) < share
    x[where] = rng.choice(SPECIAL, where.sum())
    return x


@given(SHAPES, st.data(), st.sampled_from(["sum", "mean", "max", "min"]), st.booleans())
def test_reductions(shape: Any, data: Any, name: str, keepdims: bool) -> None:
    first = data.draw(st.integers(0, len(shape) - 1))
    last = data.draw(st.integers(first + 1, len(shape)))
    x = numbers(shape, data.draw(st.integers(0, 99)))
    with np.errstate(all="ignore"):
        found = on_each(lambda: reductions.Reduce(name, first, last, keepdims), x)
        axes = tuple(range(first, last))
        want = getattr(np, name)(x.astype(np.float64), axis=axes, keepdims=keepdims)
    assert found.shape == want.shape
    if name in ("max", "min"):
        assert np.array_equal(found, want.astype(np.float32), equal_nan=True)
    else:
        # Rounding is at most 6e-8 of the terms for each of a thousand additions.
        terms = np.abs(x.astype(np.float64)).sum(axis=axes, keepdims=keepdims)
        with np.errstate(all="ignore"):
            close = np.abs(found - want) <= 1e-6 * terms
            close |= (found == want.astype(np.float32)) | (np.abs(want) > 3e38)
        assert (close | np.isnan(want)).all()
        assert (np.isnan(found) == np.isnan(want))[np.isfinite(terms)].all()


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 1000])
def test_extremes_of_long_rows(name: str, length: int) -> None:
    x = numbers((6, length), length, 0.0)
    x[1], x[2], x[3, -1], x[4, 0] = -np.abs(x[1]), np.abs(x[2]), np.nan, -np.nan
    x[5, -1] = np.inf
    found = on_each(lambda: reductions.Reduce(name, 1, 2, False), x)
    assert np.array_equal(found, getattr(np, name)(x, axis=1), equal_nan=True)
    assert np.isnan(found[3]) and np.isnan(found[4])


@given(SHAPES, st.data())
def test_log_softmax(shape: Any, data: Any) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = 9 * numbers(shape, data.draw(st.integers(0, 99)), 0.0)
    found = on_each(lambda: reductions.LogSoftmax(axis), x)
    wide = x.astype(np.float64)
    most = wide.max(axis=axis, keepdims=True)
    want = wide - most
    want -= np.log(np.exp(want).sum(axis=axis, keepdims=True))
    assert np.allclose(found, want, rtol=1e-6, atol=2e-6)


COMPARISONS = {
    ops.EQUAL: np.equal,
    ops.NOT_EQUAL: np.not_equal,
    ops.LESS: np.less,
    ops.LESS_EQUAL: np.less_equal,
}
ROUNDINGS = {
    ops.FLOOR: np.floor,
    ops.CEIL: np.ceil,
    ops.TRUNC: np.trunc,
    ops.ROUND: np.rint,
}


@pytest.mark.parametrize("operation", COMPARISONS)
def test_comparisons(operation: int) -> None:
    x = np.repeat(SPECIAL, len(SPECIAL))
    y = np.tile(SPECIAL, len(SPECIAL))
    made = Instruction(operation, 0, 1)
    found = on_each(lambda: floats.Elementwise(made), x, y)
    assert np.array_equal(found, COMPARISONS[operation](x, y).astype(np.float32))


@pytest.mark.parametrize("operation", ROUNDINGS)
def test_whole_numbers(operation: int) -> None:
    x = np.concatenate([SPECIAL, np.arange(-9, 9, 0.25, np.float32)])
    found = on_each(lambda: floats.Elementwise(Instruction(operation, 0)), x)
    assert same(found, ROUNDINGS[operation](x))


@given(st.integers(0, 99))
def test_a_choice_keeps_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = numbers((3, 1, 5), seed, 0.5), numbers((4, 5), seed + 1, 0.5)
    condition = rng.integers(0, 2, (3, 4, 1)).astype(np.float32)
    found = on_each(floats.Where, condition, x, y)
    assert same(found, np.where(condition != 0, x, y))


@given(SHAPES, st.data(), st.booleans())
def test_means_of_codes(shape: Any, data: Any, keepdims: bool) -> None:
    first = data.draw(st.integers(0, len(shape) - 1))
    last = data.draw(st.integers(first + 1, len(shape)))
    seed = data.draw(st.integers(0, 99))
    x = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    ratio = Fraction(data.draw(st.integers(1, 9)), 4)
    made = reductions.MeanOfCodes(ratio, (100, 7), first, last, keepdims)
    found = run(lambda: made, x)
    axes = tuple(range(first, last))
    total = (x.astype(int) - 100).sum(axis=axes, keepdims=keepdims)
    count = x.size // max(total.size, 1)
    want = [min(max(round(ratio * int(t) / count) + 7, 0), 255) for t in total.flat]
    assert found.shape == total.shape
    assert found.reshape(-1).tolist() == want


def test_differences_of_codes() -> None:
    x, y = (a.astype(np.uint8).reshape(-1) for a in np.mgrid[:256, :256])
    ratios = Fraction(1, 3), Fraction(1, 2)
    found = run(lambda: steps.Sub(ratios, (3, 200), 100), x, y)
    exact = 2 * (x.astype(int) - 3) - 3 * (y.astype(int) - 200)
    # Sixths, rounded to the nearest, halves to the even one.
    whole, rest = np.divmod(exact, 6)
    up = (rest > 3) | ((rest == 3) & (whole % 2 == 1))
    assert np.array_equal(found, np.clip(whole + up + 100, 0, 255))


def rounding() -> Any:
    """Return a program that rounds its input, and the negative of it, to codes."""
    program = Program()
    x = program.input((4,), F32)
    minus = program.append(floats.Elementwise(Instruction(ops.NEGATIVE, 0)), x)
    root = program.append(floats.Elementwise(Instruction(ops.SQRT, 0)), minus)
    codes = [program.append(steps.Quantize(0.5, 9), one) for one in (x, root)]
    return program.build(codes, [x, root])


@pytest.mark.compiled
def test_a_computed_nan_is_not_rounded() -> None:
    executable = rounding()
    first, second = executable(np.float32([-1, -4, -9, 0]))
    assert first.dtype == U8 and second.tolist() == [11, 13, 15, 9]
    with pytest.raises(HasNaN) as error:
        executable(np.float32([-1, -4, 9, 0]))
    assert error.value.args == (1,)
    with pytest.raises(HasNaN) as error:
        executable(np.float32([-1, np.nan, 9, 0]))
    assert error.value.args == (0,)
    again = executable(np.float32([-1, -4, -9, 0]))
    assert [x.tolist() for x in again] == [first.tolist(), second.tolist()]
