"""Compiled loops over indices and elements, against the same in Python."""

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdtensor.kernels.cpu import isa, jit
from mdtensor.kernels.cpu.generic import float16
from mdtensor.kernels.cpu.user import for_each, views
from mdtensor.kernels.numpy.layout import FunctionError, Operand
from mdtensor.kernels.reference import for_each as oracle

pytestmark = pytest.mark.compiled

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES = [np.dtype(name) for name in ("i1", "i8", "f2", "f4", "c16")]
#: Each type compiles loops of its own, which takes 3 s: int64 goes as int8 does, and
#: float32 is tested with every rank below.
SLOW = ("i8", "f4")
each_type = pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(t, marks=pytest.mark.slow if t.str[1:] in SLOW else ())
        for t in [*TYPES, BFLOAT16]
    ],
    ids=str,
)


def operand(array: Any, writes: bool = False, ranked: bool = False) -> Operand:
    return Operand(array, array.dtype.name, writes, ranked)


def some(dtype: Any, rng: Any, shape: Any = (6, 10)) -> Any:
    return (8 * rng.standard_normal(shape)).astype(dtype)


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.copy().T.copy().T,
    "steps": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "records": lambda x: np.rec.fromarrays([np.zeros(x.shape, "i1"), x])["f1"],
}


def affine(x: Any, y: Any, a: Any) -> Any:
    return x * y + a * x


@each_type
@pytest.mark.parametrize("target", LAYOUTS)
def test_elementwise_equals_the_oracle(dtype: Any, target: str, rng: Any) -> None:
    a = 3 if dtype.kind in "iu" else 0.75
    x, y = some(dtype, rng), some(dtype, rng)
    for layout in LAYOUTS.values():
        given = [operand(layout(x)), operand(y), a]
        found, want = (LAYOUTS[target](np.zeros_like(x)) for _ in range(2))
        for_each.elementwise(affine, operand(found, True), given)(0, x.size)
        oracle.elementwise(affine, operand(want, True), given)(0, x.size)
        if dtype.itemsize == 4 and dtype.kind == "f":  # x * y is rounded to float32
            assert np.allclose(found, want, rtol=1e-6, atol=1e-5)
        else:
            assert found.tobytes() == want.tobytes()


def moved(i: Any, x: Any, y: Any, a: Any) -> None:
    y[i] = x[(i * 7) % x.size] * a


def crossed(i: Any, x: Any, y: Any, a: Any) -> None:
    for j in range(x.shape[1]):
        y[i, j] = x[i, x.shape[1] - 1 - j] * a


@each_type
@pytest.mark.parametrize(
    ("function", "ranked"), [(moved, False), (crossed, True)], ids=["flat", "ranked"]
)
def test_indexed_equals_the_oracle(
    dtype: Any, function: Any, ranked: bool, rng: Any
) -> None:
    a = 3 if dtype.kind in "iu" else 0.75
    x = some(dtype, rng)
    for layout in LAYOUTS.values():
        found, want = (layout(np.zeros_like(x)) for _ in range(2))
        count = len(x) if ranked else x.size
        for work, out in ((for_each, found), (oracle, want)):
            given = [operand(layout(x), ranked=ranked), operand(out, True, ranked), a]
            work.indexed(function, given)(0, count)
        assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize("rank", range(14))
def test_any_rank(rank: int, rng: Any) -> None:
    x = some(np.dtype("f4"), rng, (2,) * rank)
    for given in (x, x.T, np.broadcast_to(x.flat[0], x.shape), x[::-1] if rank else x):
        y, z = np.zeros_like(x), np.zeros((2,) * rank, "f4").T
        for_each.elementwise(affine, operand(y, True), [operand(given)] * 2 + [1.0])(
            0, x.size
        )
        for_each.indexed(moved, [operand(given), operand(z, True), 2.0])(0, x.size)
        wide = given.astype("f8")
        assert np.allclose(y, wide * wide + wide, rtol=1e-5, atol=1e-4)
        picked = given.reshape(-1)[(7 * np.arange(x.size)) % x.size]
        assert np.array_equal(z.reshape(-1), 2 * picked)


def test_two_loops_for_any_number_of_operands(monkeypatch: Any) -> None:
    monkeypatch.setattr(for_each, "_LOOPS", {})
    x = np.ones((4, 6), "f4")
    for flags in np.ndindex(2, 2, 2, 2):
        arrays = [np.ones((6, 4), "f4").T if flag else x.copy() for flag in flags]
        given = [operand(array) for array in arrays[1:]]
        work = for_each.elementwise(
            lambda a, b, c: a * b + c, operand(arrays[0], True), given
        )
        work(0, x.size)
        assert (arrays[0] == 2).all()
    assert len(for_each._LOOPS) == 2


def test_a_function_is_compiled_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(for_each, "_LOOPS", {})

    def filling(a: Any) -> Any:
        def fill(i: Any, y: Any) -> None:
            y[i] = a

        return fill

    y = np.ones(3)
    for value in (1, 1, 1.0, -0.0, 0.0):
        for_each.indexed(filling(value), [operand(y, True)])(0, 3)
        assert (y == value).all() and (np.signbit(y) == (str(value) == "-0.0")).all()
    assert len(for_each._LOOPS) == 4


def test_constants_of_the_module_may_change() -> None:
    """As in a notebook: the cell before, or the cell itself, runs again."""
    text = "def fill(i, y):\n    y[i] = FACTOR * float(helper(i))"
    module = {"FACTOR": 2.0, "helper": for_each.numba.njit(lambda i: i)}
    exec(text, module)
    y = np.zeros(3)

    def run() -> list[float]:
        for_each.indexed(module["fill"], [operand(y, True)])(0, 3)
        return y.tolist()

    assert run() == [0.0, 2.0, 4.0]
    module["FACTOR"] = 3.0
    assert run() == [0.0, 3.0, 6.0]
    module["helper"] = for_each.numba.njit(lambda i: -i)
    exec(text, module)
    assert run() == [0.0, -3.0, -6.0]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_float64_is_rounded_once_to_16_bits(name: str, rng: Any) -> None:
    """Beside every tie there is a number that float32 would round to the tie."""
    dtype = np.dtype(np.float16) if name == "float16" else BFLOAT16
    h = np.arange(0, 1 << 16, 37, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # of signaling NaNs
        h = h[np.isfinite(h.view(dtype).astype(float))]
    exact = h.view(dtype).astype(float)
    above = (h + np.uint16(1)).view(dtype).astype(float)
    tie = (exact + above) / 2
    for x in (tie, np.nextafter(tie, np.inf), np.nextafter(tie, -np.inf), exact * 1.3):
        found = np.zeros(len(x), dtype)
        for_each.elementwise(lambda x: x, operand(found, True), [operand(x)])(0, len(x))
        want = np.zeros(len(x), dtype)
        oracle.elementwise(lambda x: x, operand(want, True), [operand(x)])(0, len(x))
        assert found.tobytes() == want.tobytes()
        inside = np.isfinite(above) & np.isfinite(x)
        rows = zip(x[inside], exact[inside], above[inside], found[inside], strict=True)
        for value, low, high, got in rows:
            if min(low, high) <= value <= max(low, high):
                assert float(got) == nearest(value, low, high, dtype)


def nearest(value: float, low: float, high: float, dtype: Any) -> float:
    """The nearer of two neighbours, the even one of a tie."""
    left, right = (abs(Fraction(value) - Fraction(x)) for x in (low, high))
    if left == right:
        is_even = np.array(low).astype(dtype).view(np.uint16) % 2 == 0
        return low if is_even else high
    return low if left < right else high


@pytest.mark.parametrize(
    ("value", "name", "problem"),
    [
        (1.5, "int8", "float64 is written to elements of int8"),
        (1j, "float32", "complex128 is written to elements of float32"),
        (1, "bool", "int64 is written to elements of bool"),
        (None, "float32", "nothing is written to elements of float32"),
        ("a", "float32", "unicode_type is written to elements of float32"),
    ],
)
def test_nothing_becomes_less_than_it_is(value: Any, name: str, problem: str) -> None:
    out = operand(np.zeros(3, name), True)
    with pytest.raises(FunctionError) as caught:
        for_each.elementwise(lambda x: value, out, [operand(np.zeros(3))])
    assert caught.value.reason == problem


def test_integers_wrap_and_truth_values_are_numbers() -> None:
    x = np.array([-129, 127, 128, 255, 256], "i8")
    out = np.zeros(5, "i1")
    for_each.elementwise(lambda x: x, operand(out, True), [operand(x)])(0, 5)
    assert out.tolist() == [127, 127, -128, -1, 0]
    for_each.elementwise(lambda x: x > 200, operand(out, True), [operand(x)])(0, 5)
    assert out.tolist() == [0, 0, 0, 1, 1]


def test_rounding_to_odd_is_exact_or_odd(rng: Any) -> None:
    x = rng.standard_normal(500) * 10.0 ** rng.integers(-50, 45, 500)
    x = np.concatenate([x, [0.0, -0.0, 1e300, -1e300, 5e-324, math.inf, 1.5]])
    for value in x.tolist():
        found = views.to_odd(value)
        if float(found) != value:
            assert np.float32(found).view(np.uint32) % 2 == 1
            infinity = np.float32(np.inf)
            with np.errstate(over="ignore"):
                edges = [np.nextafter(found, x) for x in (-infinity, infinity)]
            assert float(edges[0]) < value < float(edges[1])


@pytest.mark.skipif("avx2" not in isa.FEATURES, reason="other wide registers")
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int32"])
def test_contiguous_loops_are_vectorized(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every index is checked, and LLVM uses wide registers all the same."""
    # numba does not show the code of a loop that it has read from a cache.
    monkeypatch.setattr(jit, "read_folders", tuple)
    if name == "float16" and not float16.HAS_F16C:
        pytest.skip("no conversion of eight numbers at a time")

    def squared(i: Any, x: Any, y: Any) -> None:
        y[i] = x[i] * x[i]

    given = [operand(np.ones(999, name)), operand(np.zeros(999, name), True)]
    for_each.indexed(squared, given)(0, 999)
    loop = next(reversed(for_each._LOOPS.values()))
    text = next(iter(loop.inspect_asm().values()))
    assert text.count("ymm") + text.count("zmm") > 10
