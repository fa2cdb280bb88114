"""Elementwise calls of compiled functions that run as one loop, with equal bytes."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.graph.chained import Chained
from mdtensor.kernels import numpy as kernels
from mdtensor.kernels.cpu.program import chain
from mdtensor.kernels.numpy.threads import ThreadPool

#: Numbers at which formulas differ, and others of any size.
SPECIAL = np.concatenate(
    [
        np.array([0, 1, 3, 6, 0.5, 1e-45, 1e-38, 1.2e-38, 3.4e38, np.inf], np.float32),
        np.random.default_rng(1).integers(0, 2**31, 90, np.int32).view(np.float32),
    ]
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def raw(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return [*map(raw, x)]
    bits = np.asarray(x)
    # IEEE 754 leaves the bits of a NaN open; those of NumPy depend on its place.
    bits = np.where(np.isnan(bits), np.float32(np.nan), bits)
    return type(x), x.shape, bits.tobytes()


def normal(shape: tuple[int, ...], seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


def repeat(function: Callable[..., Any], *given: Any) -> md.graph.Trace:
    """Call a compiled function three times; its bytes are those of eager calls."""
    compiled = md.compile(function)
    wanted = raw(function(*given))
    for _ in range(3):
        assert raw(compiled(*given)) == wanted
    (trace,) = compiled.traces
    return trace


def loops(trace: md.graph.Trace) -> list[list[str]]:
    items = [x for x in trace.items() if isinstance(x, Chained)]
    return [[call.name for call in item.calls] for item in items]


EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": md.maximum,
    "minimum": md.minimum,
    "add a number": lambda x, y: x + 0.1,
    "sub a number": lambda x, y: x - 0.1,
    "sub from a number": lambda x, y: 0.1 - x,
    "mul by a number": lambda x, y: 0.1 * x,
    "div by a number": lambda x, y: x / 3,
    "div a number": lambda x, y: 3 / x,
    "maximum of a number": lambda x, y: md.maximum(x, 0.25),
    "minimum of a number": lambda x, y: md.minimum(-0.25, x),
    "neg": lambda x, y: -x,
    "abs": lambda x, y: md.abs(x),
    "sqrt": lambda x, y: md.sqrt(x),
    "square": lambda x, y: md.square(x),
    "reciprocal": lambda x, y: md.reciprocal(x),
    "relu": lambda x, y: md.relu(x),
    "relu6": lambda x, y: md.relu6(x),
    "clip": lambda x, y: md.clip(x, -0.3, 0.7),
    "hardtanh": lambda x, y: md.hardtanh(x),
    "hardsigmoid": lambda x, y: md.hardsigmoid(x),
    "hardswish": lambda x, y: md.hardswish(x),
    "leaky_relu": lambda x, y: md.leaky_relu(x, negative_slope=0.01),
    "exp": lambda x, y: md.exp(x),
    "log": lambda x, y: md.log(x),
    "tanh": lambda x, y: md.tanh(x),
    "erf": lambda x, y: md.erf(x),
    "sigmoid": lambda x, y: md.sigmoid(x),
    "sin": lambda x, y: md.sin(x),
    "cos": lambda x, y: md.cos(x),
    "softplus": lambda x, y: md.softplus(x),
    "softplus of other numbers": lambda x, y: md.softplus(x, beta=0.3, threshold=5),
    "silu": lambda x, y: md.silu(x),
    "gelu": lambda x, y: md.gelu(x),
    "gelu by tanh": lambda x, y: md.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("name", EXACT)
def test_each_operation_has_the_bytes_of_its_call(name: str) -> None:
    act = EXACT[name]
    x, y = (md.from_numpy(a.reshape(-1)) for a in np.meshgrid(SPECIAL, SPECIAL))
    trace = repeat(lambda x, y: act(x, y) * 1.0, x, y)
    assert len(loops(trace)) == 1 and len(loops(trace)[0]) == 2


@pytest.mark.compiled
@pytest.mark.parametrize("name", EXACT)
def test_large_results_have_the_bytes_of_calls(name: str) -> None:
    act = EXACT[name]
    count = (1 << 20) + 77
    x, y = (md.from_numpy(np.resize(np.roll(SPECIAL, i), count)) for i in (0, 5))
    assert len(loops(repeat(lambda x, y: act(x, y) * 1.0, x, y))) == 1


def long_chain(x: Any, w: Any, b: Any) -> Any:
    y = x * w + b
    y = y * 0.5 + x
    y = (y - 1) * y
    return (y + w) * (y - b) * 0.25 + 2


def test_a_long_chain_is_one_loop() -> None:
    given = [normal((3, 700), seed) for seed in range(3)]
    (names,) = loops(repeat(long_chain, *given))
    assert len(names) == 11


# The rows of zyx: how many kernels a function is.


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    centered = x - md.mean(x, **ROWS)
    spread = md.sqrt(md.mean(centered * centered, **ROWS) + 1e-5)
    return centered / spread * w + b


def softmax(x: Any) -> Any:
    powers = md.exp(x - md.max(x, **ROWS))
    return powers / md.sum(powers, **ROWS)


def log_softmax(x: Any) -> Any:
    below = x - md.max(x, **ROWS)
    return below - md.log(md.sum(md.exp(below), **ROWS))


ROWS: Any = {"axis": -1, "keepdims": True}
#: Functions of x, w and b, of which each is one kernel.
ONE_KERNEL: dict[str, tuple[Callable[..., Any], int]] = {
    "chain of 10": (lambda x, w, b: long_chain(x, w, b), 11),
    "softmax": (lambda x, w, b: softmax(x), 5),
    "log softmax": (lambda x, w, b: log_softmax(x), 6),
    "layer norm": (layer_norm, 9),
    "RMS norm": (
        lambda x, w, b: x / md.sqrt(md.mean(md.square(x), **ROWS) + 1e-6) * w,
        6,
    ),
    "hardswish of a product": (lambda x, w, b: md.hardswish(x * w + b), 3),
    "softmax of scores": (lambda x, w, b: softmax(x * 0.125 + b), 7),
    "shared subexpression": (lambda x, w, b: md.exp(x * w) + md.exp(x * w), 3),
    "limits of rows": (
        lambda x, w, b: (x - md.min(x, **ROWS)) / (md.max(x, axis=1, keepdims=True)),
        4,
    ),
}


@pytest.mark.parametrize("shape", [(7, 250), (5, 3), (2, 1), (1, 1300)])
@pytest.mark.parametrize("name", ONE_KERNEL)
def test_functions_that_are_one_kernel(name: str, shape: tuple[int, int]) -> None:
    function, calls = ONE_KERNEL[name]
    given = [normal(shape), normal(shape[1:], 1), normal(shape[1:], 2)]
    (names,) = loops(trace := repeat(function, *given))
    assert len(names) == calls and len(trace.items()) == 1


@pytest.mark.parametrize(
    "function",
    [
        md.softmax,
        md.log_softmax,
        lambda x, axis: md.layer_norm(x, normalized_shape=(9,)),
    ],
)
def test_operations_that_are_one_kernel(function: Any) -> None:
    trace = repeat(lambda x: function(x, axis=-1), normal((4, 9)))
    assert len(trace.items()) == 1


@pytest.mark.parametrize("function", [softmax, lambda x: md.max(x, **ROWS) - x])
def test_rows_of_special_numbers(function: Callable[..., Any]) -> None:
    zeros = np.float32([0.0, -0.0])[np.random.default_rng(2).integers(0, 2, (40, 5))]
    repeat(function, md.from_numpy(zeros))
    repeat(function, md.from_numpy(SPECIAL.reshape(20, -1)))
    repeat(function, md.from_numpy(SPECIAL.reshape(-1, 2)))


def test_sums_of_rows_of_every_length() -> None:
    for length in (*range(1, 40), 127, 128, 129, 300, 1000, 5001):
        x = md.from_numpy(np.random.default_rng(length).normal(size=(3, length)) * 9)
        x = md.astype(x, md.float32)
        trace = repeat(lambda x: x + md.sum(x, **ROWS), x)
        assert len(trace.items()) == 1


def test_reductions_that_stay_calls() -> None:
    x = normal((6, 4))
    for function in (
        lambda x: x - md.sum(x, axis=0, keepdims=True),
        lambda x: x - md.sum(x, axis=-1, dtype=md.float64, keepdims=True),
        lambda x: md.mean(md.square(x), **ROWS),
        lambda x: md.sum(x) + x,
        lambda x: x - md.max(x, axis=(0, 1), keepdims=True),
    ):
        assert not loops(repeat(function, x))
    wide = normal((1, 20_000))
    assert not loops(repeat(lambda x: x - md.sum(x, **ROWS), wide))


def test_rows_of_transposed_arrays() -> None:
    x = md.from_numpy(np.asarray(normal((300, 6))).T)
    assert len(repeat(softmax, x).items()) == 1
    assert len(repeat(lambda x: softmax(x * 2 + 1), x).items()) == 1


def test_operands_are_broadcast() -> None:
    shapes = [(2, 3, 700), (700,), (3, 1), ()]
    given = [normal(shape, seed) for seed, shape in enumerate(shapes)]
    trace = repeat(lambda x, a, b, c: md.relu((x * a + b) / c), *given)
    assert loops(trace) == [["mul", "add", "div", "relu"]]
    narrow = repeat(lambda x, a: md.relu(a * 2 + 1) * x, *given[:2])
    assert loops(narrow) == [["mul", "add", "relu"]]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (1, 1, 1), (5, 1, 2, 1, 3)])
def test_small_results(shape: tuple[int, ...]) -> None:
    trace = repeat(lambda x: md.maximum(x * 2 + 1, 0.5), normal(shape))
    assert len(loops(trace)) == (0 not in shape)


def test_five_inputs_are_two_loops() -> None:
    given = [normal((40,), seed) for seed in range(6)]
    trace = repeat(lambda a, b, c, d, e, f: a + b + c + d + e + f, *given)
    assert loops(trace) == [["add", "add"], ["add", "add", "add"]]


def test_a_chain_ends_at_functions_of_numpy_and_at_results() -> None:
    def function(x: Any) -> Any:
        y = md.expm1(x * 2 + 1)
        z = md.relu(y - 1)
        return z, z * z + y

    trace = repeat(function, normal((50,)))
    assert loops(trace) == [["mul", "add"], ["sub", "relu"], ["mul", "add"]]


def test_a_loop_reads_what_a_call_before_it_reads() -> None:
    def function(x: Any) -> Any:
        y = md.expm1(x)
        z = y * 2
        other = md.expm1(y)
        return z + other

    # The product runs after the last call that read y.
    trace = repeat(function, normal((9,)))
    assert loops(trace) == [["mul", "add"]]


def test_powers_stay_calls() -> None:
    x = md.abs(normal((100,)))
    assert not loops(repeat(lambda x: x**2 + x**0.5, x))


def test_memory_orders_and_readers() -> None:
    wide = np.random.default_rng(3).normal(size=(60, 40)).astype(np.float32)
    fixed = wide.copy()
    fixed.flags.writeable = False
    given = [md.from_numpy(a) for a in (wide.T, wide[::2].T.copy(), fixed.T)]
    x, _, z = given
    trace = repeat(lambda x, z: md.relu(x - z * 2), x, z)
    assert loops(trace) == [["mul", "sub", "relu"]]
    assert loops(repeat(lambda x: x * 2 + x, md.from_numpy(fixed))) == [["mul", "add"]]


def test_a_write_into_a_constant_is_seen() -> None:
    w, x = normal((30,), 1), normal((30,), 2)
    function = md.compile(lambda x: md.relu(x * w + w))
    for _ in range(2):
        for _ in range(3):
            assert raw(function(x)) == raw(md.relu(x * w + w))
        w[:] = 0.5


def test_other_settings_and_audits_run_the_calls() -> None:
    x = normal((30,))
    function = md.compile(lambda x: x * 2 + 1)
    wanted = [raw(function(x)) for _ in range(3)]
    with md.checked() as log:
        assert [raw(function(x)) for _ in range(3)] == wanted
    assert sum(entry.calls for entry in log) == 6
    with md.traced() as calls:
        assert raw(function(x)) == wanted[0]
    assert len(calls) == 2


def test_explain_shows_the_loop() -> None:
    trace = md.trace(lambda x: md.expm1(x * 2 + 1), normal((8,)))
    first, second = trace.explain().splitlines()
    assert first.startswith("mul, add  one compiled call  elementwise_f32 on ")
    assert second.startswith("expm1 ")


@pytest.mark.compiled
def test_threads_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(1025, 1024), (1024,), (1025, 1)]
    given = [normal(shape, seed) for seed, shape in enumerate(shapes)]
    compiled = md.compile(long_chain)
    wanted = raw(long_chain(*given))
    for threads in (1, 2, 3):
        monkeypatch.setattr(chain, "POOL", ThreadPool(threads))
        for _ in range(3):
            assert raw(compiled(*given)) == wanted


@pytest.mark.compiled
def test_a_chain_allocates_its_result_only() -> None:
    import tracemalloc

    given = [normal((1 << 20,), seed) for seed in range(3)]
    compiled = md.compile(long_chain)
    earlier = [compiled(*given) for _ in range(3)]
    kernels._FREE.clear()
    tracemalloc.start()
    try:
        result = compiled(*given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.nbytes == earlier[0].nbytes <= peak < 1.02 * result.nbytes


# Random programs: eager, lazy, traced and compiled bytes are equal.

NEED_ROWS: list[Callable[..., Any]] = [
    *(softmax, lambda x: x - md.mean(x, **ROWS), lambda x: md.sum(x, **ROWS)),
    *(lambda x: md.softmax(x, axis=-1), lambda x: md.max(x, **ROWS)),
]
UNARY: list[Callable[..., Any]] = [
    *(md.relu, md.relu6, md.abs, md.neg, md.square, md.hardswish, md.hardsigmoid),
    *(md.exp, md.tanh, md.sigmoid, md.silu, md.gelu, md.erf, md.log, md.sin),
    *(md.cos, md.softplus, md.expm1),
    *(lambda x: md.clip(x, -1, 2), lambda x: 1 - x, lambda x: x / 3),
    *(lambda x: md.reshape(x, (-1,)), *NEED_ROWS),
]
BINARY: list[Callable[..., Any]] = [md.add, md.sub, md.mul, md.div, md.maximum]


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 7, 40]), min_size=0, max_size=3),
    steps=st.lists(
        st.tuples(
            *(st.sampled_from(UNARY), st.sampled_from(BINARY)),
            *(st.integers(0, 9), st.integers(0, 9), st.booleans()),
        ),
        min_size=1,
        max_size=7,
    ),
)
def test_random_programs_have_one_result(shape: list[int], steps: Any) -> None:
    given = [normal(tuple(shape), 1), normal(tuple(shape[1:]), 2)]

    def program(*given: Any) -> Any:
        values, results = [*given], []
        for unary, binary, place, other, leaves in steps:
            x, y = values[place % len(values)], values[other % len(values)]
            x = x if x.ndim == 0 and unary in NEED_ROWS else unary(x)
            if x.shape == y.shape or y.shape == ():
                x = binary(x, y)
            values.append(x)
            if leaves:
                results.append(x)
        return [*results, values[-1]]

    wanted = raw(program(*given))
    specs = [md.TensorSpec(type(x), x.shape) for x in given]
    trace = md.trace(program, *specs)
    assert [raw(trace(*given)) for _ in range(3)] == [wanted] * 3
    lazy = md.realize(*program(*(x.to("lazy") for x in given)))
    assert raw(lazy if isinstance(lazy, (tuple, list)) else [lazy]) == wanted
    compiled = md.compile(program)
    assert [raw(compiled(*given)) for _ in range(3)] == [wanted] * 3


@pytest.mark.compiled
def test_large_results_take_the_memory_of_earlier_ones() -> None:
    x = normal((1 << 18,))
    compiled = md.compile(lambda x: md.relu(x * 2))
    wanted = np.maximum(np.asarray(x) * np.float32(2), 0)
    kept = [compiled(x) for _ in range(4)]
    places = {y.buffer.ctypes.data for y in kept}
    assert len(places) == 4
    del kept[2:]
    again = compiled(x)
    assert again.buffer.ctypes.data in places and again.buffer.base is not None
    assert compiled(x[:100]).buffer.base is None
    assert all(np.array_equal(np.asarray(y), wanted) for y in kept)
