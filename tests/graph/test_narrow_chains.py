"""Loops of float16 and bfloat16 calls: each call rounds, as it does alone."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.graph.chained import Chained
from mdtensor.kernels.cpu.program import chain
from mdtensor.kernels.cpu.program.run_narrow_chain import PIECE
from mdtensor.kernels.numpy.threads import ThreadPool

TYPES = [md.float16, md.bfloat16]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def raw(x: Any) -> Any:
    numbers = np.asarray(md.astype(x, md.float32))
    # IEEE 754 leaves the bits of a NaN open.
    bits = np.where(np.isnan(numbers), np.float32(np.nan), numbers)
    return type(x), x.shape, bits.tobytes()


def every(dtype: Any) -> Any:
    """Return all numbers of a type."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    return md.from_numpy(bits.view(dtype.storage))


def normal(dtype: Any, *shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.astype(md.from_numpy(np.asarray(values)), dtype)


def repeat(function: Callable[..., Any], *given: Any) -> list[list[str]]:
    """Return the loops of a function whose bytes are those of its calls."""
    compiled = md.compile(function)
    wanted = raw(function(*given))
    for _ in range(3):
        assert raw(compiled(*given)) == wanted
    frozen = compiled.freeze(*given)
    assert raw(frozen(*given)) == wanted
    (trace,) = compiled.traces
    items = [x for x in trace.items() if isinstance(x, Chained)]
    return [[call.name for call in item.calls] for item in items]


JOINED: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "add a number": lambda x, y: x + 0.1,
    "sub a number": lambda x, y: x - 0.1,
    "sub from a number": lambda x, y: 0.1 - x,
    "mul by a number": lambda x, y: 0.1 * x,
    "div by a number": lambda x, y: x / 3,
    "div a number": lambda x, y: 0.3 / x,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: md.abs(x),
    "sqrt": lambda x, y: md.sqrt(x),
    "square": lambda x, y: md.square(x),
    "reciprocal": lambda x, y: md.reciprocal(x),
    "relu": lambda x, y: md.relu(x),
    "relu6": lambda x, y: md.relu6(x),
    "hardtanh": lambda x, y: md.hardtanh(x),
    "clip": lambda x, y: md.clip(x, -0.3, 0.7),
    "hardsigmoid": lambda x, y: md.hardsigmoid(x),
    "hardswish": lambda x, y: md.hardswish(x),
    "leaky_relu": lambda x, y: md.leaky_relu(x, negative_slope=0.01),
    "exp": lambda x, y: md.exp(x),
    "log": lambda x, y: md.log(x),
    "sin": lambda x, y: md.sin(x),
    "cos": lambda x, y: md.cos(x),
    "tanh": lambda x, y: md.tanh(x),
    "erf": lambda x, y: md.erf(x),
    "sigmoid": lambda x, y: md.sigmoid(x),
    "silu": lambda x, y: md.silu(x),
    "gelu": lambda x, y: md.gelu(x),
    "gelu by tanh": lambda x, y: md.gelu(x, approximate="tanh"),
    "softplus": lambda x, y: md.softplus(x, beta=0.7),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", JOINED)
def test_each_operation_has_the_bytes_of_its_call(name: str, dtype: Any) -> None:
    function, x = JOINED[name], every(dtype)
    y = md.from_numpy(np.random.default_rng(5).permutation(np.asarray(x)))
    assert len(repeat(lambda x, y: -function(x, y), x, y)) == 1


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_operations_that_stay_calls(dtype: Any) -> None:
    x = every(dtype)
    # Calls of these order -0 below 0.
    for function in (md.maximum, md.minimum):
        loops = repeat(lambda x, f=function: md.neg(md.abs(f(x, 0.25))), x)
        assert loops == [["abs", "neg"]]
    # Their loops would round between the sum and what follows.
    rows = normal(dtype, 6, 40)
    mean = {"axis": -1, "keepdims": True}
    assert repeat(lambda x: x - md.mean(x, **mean), rows) == []
    # Loops have one type.
    assert repeat(lambda x: md.astype(x * 2 + 1, md.float32) * 2, rows) == [
        ["mul", "add"]
    ]


def long_chain(x: Any, w: Any, b: Any) -> Any:
    y = x * w + b
    y = y * 0.5 + x
    return md.gelu((y + w) * (y - b)) * 0.25 + 2


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 700), (3, 700), (3, 700)],
        [(3, 700), (700,), (3, 1)],
        [(), (), ()],
        [(1,), (), (1,)],
        [(1,), (PIECE + 1,), (1,)],
        [(5, 3, 7), (3, 1), (5, 1, 1)],
        [(40, PIECE // 16 + 3), (PIECE // 16 + 3,), (40, 1)],
    ],
)
def test_operands_are_broadcast(dtype: Any, shapes: list[Any]) -> None:
    given = [normal(dtype, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    loops = repeat(long_chain, *given)
    assert sum(map(len, loops)) == 10 or shapes[0] != shapes[1]
    assert loops


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_few_calls_of_many_elements_stay_calls(dtype: Any) -> None:
    given = [normal(dtype, 70_000, seed=seed) for seed in range(3)]
    assert repeat(lambda x, w, b: md.hardswish(x * w + b), *given) == []
    assert list(map(len, repeat(long_chain, *given))) == [10]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_memory_orders(dtype: Any) -> None:
    wide = np.asarray(normal(dtype, 60, 40))
    fixed = wide.copy()
    fixed.flags.writeable = False
    x, y, z = (md.from_numpy(a) for a in (wide.T, wide[::2].T, fixed.T))
    assert len(repeat(lambda x, z: md.relu(x - z * 2), x, z)) == 1
    assert len(repeat(lambda y: md.relu(y * 2) - 1, y)) == 1
    # A row that does not begin at a multiple of 4 bytes.
    assert (
        len(repeat(lambda y: md.tanh(y * 2), md.from_numpy(wide.reshape(-1)[1:]))) == 1
    )


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_threads_give_the_same_bytes(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [(1025, 1024), (1024,), (1025, 1)]
    given = [normal(dtype, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    wanted = raw(long_chain(*given))
    compiled = md.compile(long_chain)
    for threads in (1, 2, 3):
        monkeypatch.setattr(chain, "POOL", ThreadPool(threads))
        for _ in range(2):
            assert raw(compiled(*given)) == wanted


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_products_and_generated_functions(dtype: Any) -> None:
    given = [
        normal(dtype, *shape, seed=seed)
        for seed, shape in enumerate([(9, 33), (33, 12), (12,)])
    ]
    names = repeat(lambda x, w, b: md.relu(x @ w + b), *given)
    assert names == [["matmul", "add", "relu"]]
    compiled = md.compile(lambda x, w, b: md.relu(x @ w + b), generate=True)
    for _ in range(3):
        assert raw(compiled(*given)) == raw(md.relu(given[0] @ given[1] + given[2]))
    assert compiled.kernels() == ()


UNARY: list[Callable[..., Any]] = [
    *(md.relu, md.abs, md.neg, md.square, md.hardswish, md.exp, md.tanh, md.gelu),
    *(md.sin, md.softplus, md.sqrt, lambda x: 1 - x, lambda x: x / 3),
    *(lambda x: md.reshape(x, (-1,)), lambda x: md.softmax(x, axis=-1)),
    *(lambda x: md.astype(x, md.float32), lambda x: md.astype(x, md.float16)),
]
BINARY: list[Callable[..., Any]] = [md.add, md.sub, md.mul, md.div, md.maximum]


@settings(max_examples=100, deadline=None)
@given(
    dtype=st.sampled_from(TYPES),
    shape=st.lists(st.sampled_from([1, 2, 3, 7, 40]), min_size=1, max_size=3),
    steps=st.lists(
        st.tuples(
            *(st.sampled_from(UNARY), st.sampled_from(BINARY)),
            *(st.integers(0, 9), st.integers(0, 9), st.booleans()),
        ),
        min_size=1,
        max_size=7,
    ),
)
def test_random_programs_have_one_result(
    dtype: Any, shape: list[int], steps: Any
) -> None:
    given = [normal(dtype, *shape, seed=1), normal(dtype, *shape[1:], seed=2)]

    def program(*given: Any) -> Any:
        values, results = [*given], []
        for unary, binary, place, other, leaves in steps:
            x, y = values[place % len(values)], values[other % len(values)]
            x = x if x.ndim == 0 else unary(x)
            if type(x) is type(y) and (x.shape == y.shape or y.shape == ()):
                x = binary(x, y)
            values.append(x)
            if leaves:
                results.append(x)
        return [*results, values[-1]]

    wanted = [*map(raw, program(*given))]
    compiled = md.compile(program)
    for _ in range(3):
        assert [*map(raw, compiled(*given))] == wanted
