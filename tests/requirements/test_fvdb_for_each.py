"""fVDB's for_each, views and pools, row by row; upstream's cases with its numbers.

Rows F12 to F19 and F22 of the feature table; those of tables and tags stand in
`test_fvdb_tables.py`.
"""

import itertools
import math
import threading
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import mdtensor as md
from mdtensor.wide import Wide, exp, log1p

pytestmark = pytest.mark.usefixtures("registered_as_before")

FLOATS = ["float16", "bfloat16", "float32", "float64"]
each_float = pytest.mark.parametrize("name", FLOATS)
both = pytest.mark.parametrize("scheduling", ["uniform", "adaptive"])
compiled = pytest.mark.compiled
MANY = 100_000


@pytest.fixture(autouse=True)
def three() -> Any:
    """Three threads, however many cores there are."""
    before = md.get_num_threads()
    md.set_num_threads(3)
    yield
    md.set_num_threads(before)


@md.elementwise
def example_softplus(x, beta=1.0, threshold=20.0):
    """log(1 + exp(beta · x)) / beta, and x above the threshold."""
    z = Wide(beta) * x
    return x if z > threshold else float(log1p(exp(z)) / beta)


def oracle(x: Any, beta: float, threshold: float) -> Any:
    """The same in long double; beta and threshold as they are.

    It has 11 bits more than float64, too few for beta · x: that is a float64 and what
    it lacks, and exp(z + e) = exp(z) + exp(z) · expm1(e).
    """
    z = beta * x.astype(np.float64)
    z, error = z.astype(np.longdouble), lacking(beta, x, z)
    with np.errstate(all="ignore"):
        power = np.exp(z)
        soft = np.log1p(power + power * np.expm1(error)) / np.longdouble(beta)
    is_above = (z > threshold) | ((z == threshold) & (error > 0))
    return np.where(is_above, x.astype(np.longdouble), soft)


def lacking(beta: float, x: Any, z: Any) -> Any:
    """beta · x - z of numbers of 53 bits: both factors are halved, and meet exactly."""
    wide = x.astype(np.longdouble)
    upper = wide.astype(np.float32).astype(np.longdouble)
    high = np.longdouble(np.float32(beta))
    found = high * upper - z
    found += high * (wide - upper)
    found += (np.longdouble(beta) - high) * upper
    return found + (np.longdouble(beta) - high) * (wide - upper)


def exact(x: float, beta: float, threshold: float) -> Decimal:
    """The same in decimals of 60 digits."""
    with localcontext(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN):
        z = Decimal(beta) * Decimal(x)
        if z > Decimal(threshold):
            return Decimal(x)
        power = z.exp()
        is_tiny = power < Decimal("1e-30")
        return (power if is_tiny else (1 + power).ln()) / Decimal(beta)


def ulps(found: Any, want: Any, name: str) -> Any:
    """Distance in units of the last place of the element type, at `want`."""
    info = ml_dtypes.finfo(md.dtypes.dtype(name).storage)
    size = np.maximum(np.abs(want), np.longdouble(float(info.smallest_normal)))
    unit = np.exp2(np.floor(np.log2(size))) * np.longdouble(float(info.eps))
    return np.abs(found.astype(np.longdouble) - want) / unit


def numbers(name: str, shape: Any, seed: int = 0) -> Any:
    storage = md.dtypes.dtype(name).storage
    return (10 * np.random.default_rng(seed).standard_normal(shape)).astype(storage)


# --- F12: pools -----------------------------------------------------------------------


def count_up(i, seen):
    seen[i] += 1


@both
@pytest.mark.parametrize("count", [0, 1, MANY])
def test_f12_each_index_once(scheduling: str, count: int) -> None:
    """F12: an empty range, one element, 100,000 elements (upstream's three)."""
    seen = md.zeros(count + 1, dtype=md.int32)
    md.for_each(count, count_up, md.flat_out(seen), scheduling=scheduling, grain=1)
    assert seen.buffer.tolist() == [1] * count + [0]


@both
def test_f12_nested_calls_finish(scheduling: str) -> None:
    """F12: 100 calls of 100 indices each from within pieces (upstream's numbers)."""
    from mdtensor.kernels.numpy import threads as schedule

    seen = md.zeros((100, 100), dtype=md.int32)

    def outer(start: int, stop: int) -> None:
        for row in range(start, stop):
            view = md.flat_out(seen[row])
            md.for_each(100, count_up, view, scheduling=scheduling, grain=1)

    schedule.run(outer, 100, scheduling, 1)
    assert (seen.buffer == 1).all()


def fail_at_zero(i, seen):
    if i == 0:
        raise ValueError("the first index")
    seen[i] += 1


@both
def test_f12_an_exception_reaches_the_caller(scheduling: str) -> None:
    """F12: raised in one chunk of 100,000; the pool goes on."""
    seen = md.zeros(MANY, dtype=md.int32)
    for _ in range(3):
        with pytest.raises(ValueError, match="the first index"):
            md.for_each(MANY, fail_at_zero, md.flat_out(seen), scheduling=scheduling)
        test_f12_each_index_once(scheduling, MANY)


@both
def test_f12_four_threads_submit(scheduling: str) -> None:
    """F12: upstream deadlocks where submissions of several threads nest."""
    tensors = [md.zeros(MANY, dtype=md.int32) for _ in range(4)]

    def call(seen: md.Tensor) -> None:
        for _ in range(5):
            md.for_each(MANY, count_up, md.flat_out(seen), scheduling=scheduling)

    threads = [threading.Thread(target=call, args=(seen,)) for seen in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((seen.buffer == 5).all() for seen in tensors)


# --- F13: for_each --------------------------------------------------------------------


def put_index(i, out):
    out[i] = i + 1


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_f13_increment(count: int) -> None:
    """F13: out[i] = i + 1 for 10,000 elements; count 0 does nothing."""
    out = md.zeros(count)
    md.for_each(count, put_index, md.flat_out(out))
    assert out.tolist() == list(range(1, count + 1))


def test_f13_increment_strided() -> None:
    """F13: every other of 200 elements; those between stay 0."""
    full = np.zeros(200, np.float32)
    md.for_each(100, put_index, md.flat_out(md.from_numpy(full[::2])))
    assert full[::2].tolist() == list(range(1, 101))
    assert not full[1::2].any()


@compiled
def test_f13_compiled_and_in_python() -> None:
    """F13: one function lowered twice gives one result."""
    from mdtensor.kernels.cpu.user import for_each as fast
    from mdtensor.kernels.reference import for_each as slow

    x = np.arange(MANY, dtype=np.int64)
    for count in (0, 1, MANY):
        found = []
        for kernels in (fast, slow):
            out = md.zeros(MANY, dtype=md.int64)
            views = [md.flat_in(md.from_numpy(x)), md.flat_out(out)]
            work = kernels.indexed(square_up, [view.operand for view in views])
            work(0, count)
            found.append(out.tolist())
        assert found[0] == found[1]
        assert found[0] == [n * n + n if n < count else 0 for n in range(MANY)]


def square_up(i, x, y):
    y[i] = x[i] * x[i] + i


# --- F14: vectorization ---------------------------------------------------------------


@compiled
def test_f14_contiguous_loops_are_vectorized(monkeypatch: pytest.MonkeyPatch) -> None:
    """F14: upstream does not vectorize; LLVM does here, bounds checked or not."""
    from mdtensor.kernels.cpu import isa, jit
    from mdtensor.kernels.cpu.user import for_each as kernels

    if "avx2" not in isa.FEATURES:
        pytest.skip("other wide registers")
    # numba does not show the code of a loop that it has read from a cache.
    monkeypatch.setattr(jit, "read_folders", tuple)
    view = md.flat_in(md.zeros(100)), md.flat_out(md.zeros(100))
    kernels.indexed(doubled, [x.operand for x in view])(0, 100)
    loop = next(reversed(kernels._LOOPS.values()))
    text = next(iter(loop.inspect_asm().values()))
    assert text.count("ymm") + text.count("zmm") > 10


def doubled(i, x, y):
    y[i] = x[i] + x[i]


# --- F15: flat views ------------------------------------------------------------------


def grid() -> Any:
    """[4, 3], row · 10 + column."""
    return (10 * np.arange(4)[:, None] + np.arange(3)).astype(np.float32)


FLAT: dict[str, tuple[Any, dict[int, float]]] = {
    "rank 1": (np.arange(10, dtype=np.float32), {i: i for i in range(10)}),
    "rank 1, strided": (
        np.arange(20, dtype=np.float32)[::2],
        {i: 2 * i for i in range(10)},
    ),
    "rank 2": (grid(), {0: 0, 1: 1, 2: 2, 3: 10, 11: 32}),
    "rank 2, transposed": (grid().T, {0: 0, 1: 10, 4: 1, 5: 11, 11: 32}),
    "rank 2, broadcast": (
        np.broadcast_to(np.array([10, 20, 30], np.float32), (4, 3)),
        {0: 10, 1: 20, 2: 30, 3: 10, 4: 20, 5: 30, 9: 10, 11: 30},
    ),
    "rank 3": (
        np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        {i: i for i in range(24)},
    ),
    "rank 0": (np.array(7, np.float32), {0: 7}),
}


def copy(i, x, y):
    y[i] = x[i]


@pytest.mark.parametrize(("array", "expected"), FLAT.values(), ids=FLAT)
def test_f15_flat_views(array: Any, expected: dict[int, float]) -> None:
    """F15: upstream's flat views, in a loop and one element at a time."""
    view = md.flat_in(md.from_numpy(array))
    out = md.zeros(array.size)
    md.for_each(view.size, copy, view, md.flat_out(out))
    for i, value in expected.items():
        assert view[i] == value == out.buffer[i]


def test_f15_flat_out_transposed() -> None:
    """F15: written in the order of [3, 4], read as [4, 3]."""
    t = np.zeros((4, 3), np.float32)
    md.for_each(12, put_index, md.flat_out(md.from_numpy(t.T)))
    places = [(0, 0), (1, 0), (0, 1), (1, 1), (3, 2)]
    assert [t[place] - 1 for place in places] == [0, 1, 4, 5, 11]


def test_f15_every_rank() -> None:
    """F15: upstream ends at rank 12, and has no strided rank 0."""
    for rank in range(14):
        x = np.arange(2**rank, dtype=np.float32).reshape((2,) * rank)
        y = md.zeros((2,) * rank)
        md.for_each(x.size, copy, md.flat_in(md.from_numpy(x.T)), md.flat_out(y))
        assert np.array_equal(y.buffer, x.T)


# --- F16: ranked views ----------------------------------------------------------------

RANKED = {
    "rows": grid(),
    "transposed": grid().T,
    "broadcast": np.broadcast_to(np.array([10, 20, 30], np.float32), (4, 3)),
}


def transpose(i, x, y):
    for j in range(x.shape[1]):
        y[j, i] = x[i, j]


@pytest.mark.parametrize("array", RANKED.values(), ids=RANKED)
def test_f16_ranked_views(array: Any) -> None:
    """F16: view[row, column] of contiguous, transposed and broadcast tensors."""
    view = md.ranked_in(md.from_numpy(array))
    out = md.zeros(array.shape[::-1])
    md.for_each(len(array), transpose, view, md.ranked_out(out), grain=1)
    assert np.array_equal(out.buffer, array.T)
    assert view.shape == array.shape
    assert all(view[place] == array[place] for place in np.ndindex(array.shape))


def morton(n, ijk, out):
    code = 0
    for bit in range(10):
        for axis in range(3):
            code |= ((int(ijk[n, axis]) >> bit) & 1) << (3 * bit + axis)
    out[n] = code


@pytest.mark.parametrize("order", ["C", "F"])
def test_f16_morton_codes(order: Any) -> None:
    """F16: 100 triples (i, i + 1, i + 2), bits interleaved (upstream's example)."""
    ijk = np.arange(100, dtype=np.int32)[:, None] + np.arange(3, dtype=np.int32)
    out = md.zeros(100, dtype=md.int64)
    view = md.ranked_in(md.from_numpy(ijk.copy(order)))
    md.for_each(100, morton, view, md.ranked_out(out))
    for triple, found in zip(ijk.tolist(), out.tolist(), strict=True):
        bits = [
            "".join(b) for b in zip(*(f"{v:010b}" for v in triple[::-1]), strict=True)
        ]
        assert found == int("".join(bits), 2)


@compiled
def test_f16_the_number_of_indices_is_checked_when_compiled() -> None:
    """F16: upstream's static_assert, as a sentence."""
    with pytest.raises(
        md.CompileError, match="expected 2 indices of a view, got 1"
    ) as found:
        md.for_each(2, copy, md.ranked_in(md.zeros((2, 2))), md.flat_out(md.zeros(2)))
    assert "numba" not in str(found.value)
    with pytest.raises(md.DispatchError, match="a 0-d tensor does not have an index"):
        md.ranked_in(md.asarray(1.0))


# --- F17: contiguity is decided once --------------------------------------------------


@compiled
def test_f17_two_kernels_for_three_operands(monkeypatch: Any) -> None:
    """F17: all eight layouts of a ternary operation, two loops."""
    from mdtensor.kernels.cpu.user import for_each as kernels

    monkeypatch.setattr(kernels, "_LOOPS", {})
    for flags in itertools.product((False, True), repeat=3):
        arrays = [np.full((4, 3), n, np.float32) for n in (2, 3, 4)]
        picked = [
            np.repeat(x, 2, 1)[:, ::2] if flag else x
            for x, flag in zip(arrays, flags, strict=True)
        ]
        found = affine(*map(md.from_numpy, picked))
        assert (found.buffer == 10).all()
    assert len(kernels._LOOPS) == 2


@md.elementwise
def affine(a, x, b):
    """a · x + b."""
    return a * x + b


# --- F18: broadcasting ----------------------------------------------------------------


@md.elementwise
def channel_scale(x, scale):
    """x · scale."""
    return x * scale


def test_f18_channel_scale() -> None:
    """F18: [4, 3] by [3]; the caller expands nothing, and nothing is copied."""
    x, scale = grid(), np.array([10, 20, 30], np.float32)
    found = channel_scale(md.from_numpy(x), md.from_numpy(scale))
    assert np.array_equal(found.buffer, x * scale)
    view = md.flat_in(md.broadcast_to(md.from_numpy(scale), (4, 3)))
    assert np.shares_memory(view.operand.array, scale)
    assert view.operand.array.strides == (0, 4)


# --- F19: compute types ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_f19_sixteen_bits_are_computed_in_float32(name: str) -> None:
    """F19: (x + 1) - x is 1 where x + 1 is no 16-bit number; the result is 16 bits."""
    x = md.astype(md.asarray([2048.0]), name, casting="wrap")

    @md.elementwise
    def back(x):
        return (x + 1.0) - x

    assert back(x).tolist() == [1.0]
    assert back(x).dtype == x.dtype
    assert ((x + 1.0) - x).tolist() == [0.0]


def test_f19_scalars_are_not_rounded_to_the_storage_type() -> None:
    """F19: upstream rounds beta 0.1 to bfloat16 first, 0.10009765625."""
    x = numbers("bfloat16", 2000)
    want = oracle(x, 0.1, 20.0)
    found = example_softplus(md.from_numpy(x), 0.1, 20.0).buffer
    assert ulps(found, want, "bfloat16").max() <= 0.51
    rounded = float(np.array(0.1).astype(ml_dtypes.bfloat16))
    assert rounded == 0.10009765625
    upstream = oracle(x, rounded, 20.0).astype(np.float32).astype(ml_dtypes.bfloat16)
    assert (upstream != found).sum() > 10


# --- F22: softplus --------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose().copy().transpose(),
    "steps": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: np.flip(np.flip(x).copy()),
}
RANKS = [(2000,), (40, 50), (8, 25, 10), (2,) * 11]


@each_float
@pytest.mark.parametrize("beta", [1.0, 0.1, 3.3])
def test_f22_softplus(name: str, beta: float) -> None:
    """F22: one function, four types, four layouts, of input and output; 0.51 ulp."""
    for seed, shape in enumerate(RANKS):
        x = numbers(name, shape, seed)
        want = oracle(x, beta, 20.0)
        for source, target in itertools.product(LAYOUTS.values(), repeat=2):
            out = md.from_numpy(target(np.zeros_like(x)))
            given = md.from_numpy(source(x))
            assert example_softplus(given, beta, 20.0, out=out) is out
            assert (ulps(out.buffer, want, name) <= 0.51).all()
            assert (
                example_softplus(given, beta, 20.0).buffer.tobytes()
                == out.buffer.tobytes()
            )


BETAS = [3.3, 0.1, 1e-3, 50.0]


@each_float
@pytest.mark.parametrize("beta", BETAS)
def test_f22_softplus_far_below_zero(name: str, beta: float) -> None:
    """F22: beta · x from -760 to 21: results normal, subnormal and 0."""
    with np.errstate(over="ignore"):
        x = (np.linspace(-760.0, 21.0, 20_011) / beta).astype(numbers(name, ()).dtype)
    x = x[np.isfinite(x)]
    want = oracle(x, beta, 20.0)
    found = example_softplus(md.from_numpy(x), beta, 20.0).buffer
    assert ulps(found, want, name).max() <= 0.51
    for x_i, want_i in zip(x[::199].tolist(), want[::199], strict=True):
        precise = np.longdouble(str(exact(x_i, beta, 20.0)))
        assert ulps(np.asarray(want_i), precise, "float64") <= 2.0**-8


@pytest.mark.compiled
@given(
    st.floats(-1e4, 1e4),
    st.floats(-1e3, 1e3).filter(lambda beta: abs(beta) > 1e-3),
    st.floats(-100, 100) | st.just(2.0**19),
)
@example(-211.3, 3.3, 20.0)
@example(0.3, 10.0, 3.0)  # the product is 3 in float64, and a little less
def test_f22_softplus_of_any_numbers(x: float, beta: float, threshold: float) -> None:
    """F22: float64, where beta, x and the threshold have all their bits."""
    y = md.asarray([x], dtype=md.float64)
    found = example_softplus(y, beta, threshold).buffer
    want = exact(x, beta, threshold)
    unit = Decimal(math.ulp(float(want)))
    assert abs(Decimal(found.item()) - want) <= unit * Decimal("0.51")


@each_float
def test_f22_softplus_of_every_rank_and_of_nothing(name: str) -> None:
    """F22: rank 0 to 13, stride 0, no elements."""
    lone = numbers(name, ())
    want = oracle(lone, 0.7, 20.0)
    for rank in range(14):
        wide = np.broadcast_to(lone, (2,) * rank)
        found = example_softplus(md.from_numpy(wide), 0.7).buffer
        assert found.shape == wide.shape
        assert (ulps(found, want, name) <= 0.51).all()
        hollow = example_softplus(
            md.from_numpy(np.zeros((2,) * rank + (0,), lone.dtype))
        )
        assert hollow.shape == (2,) * rank + (0,)


@each_float
def test_f22_above_the_threshold_x_is_returned_as_it_is(name: str) -> None:
    """F22: above 20 the result is x; upstream's 1e-5 would not see it."""
    x = md.astype(md.asarray([20.0, 20.5, 1000.0]), name, casting="wrap")
    assert example_softplus(x).tolist()[1:] == x.tolist()[1:]
    assert example_softplus(x, 1.0, 10.0).tolist() == x.tolist()
    assert example_softplus(x, 0.5, 1000.0).tolist()[2] in (1000.0, float("inf"))


@each_float
def test_f22_infinities_and_nan(name: str) -> None:
    x = md.astype(md.asarray([float("-inf"), float("inf"), float("nan")]), name)
    low, high, none = example_softplus(x).tolist()
    assert (low, high) == (0.0, float("inf"))
    assert none != none
