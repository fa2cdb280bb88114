"""Steps on grids of each call: bytes of the plain kernels, equal on every ISA."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.plain import overflows

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import recurrent
from mdtensor.kernels.cpu.program.dynamic import DynamicLinear
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import F32
from mdtensor.kernels.numpy import dynamic as plain

HAS_AVX2 = not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES))
ISAS = ["generic", *["avx2"] * HAS_AVX2]
FUNCTIONS = (("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0))


def run(step: Any, x: Any) -> Any:
    """The result in a program, where other values lie next to it."""
    program = Program()
    (found,) = program.build([program.append(step, program.input(x.shape, F32))])(x)
    return found


def product(x: Any, w: Any, scale: Any, bias: Any = None) -> Any:
    own, zero = plain.grid(x)
    steps = plain.codes(x, own, zero).astype(np.int64) - int(zero)
    with np.errstate(all="ignore"):
        found = (steps @ w.T.astype(np.int64)).astype(np.float32) * (own * scale)
        return found if bias is None else found + bias


def linear(w: Any, scale: Any, bias: Any, x: Any) -> Any:
    return run(DynamicLinear(w, scale, bias), x)


def on(name: str, function: Any, *arguments: Any) -> Any:
    return kernel_set.make_on(kernel_set.kernels(name), function, *arguments)


@settings(max_examples=20 if isa.IS_JIT_DISABLED else 100)
@given(
    st.sampled_from([1, 2, 5, 13, 40]),
    st.sampled_from([1, 3, 8, 33]),
    st.sampled_from([1, 7, 16, 50]),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(0, 99),
)
def test_products(m: int, k: int, n: int, has: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.integers(-128, 128, (n, k)).astype(np.int8)
    scale = rng.uniform(1e-3, 1, n if has[0] else ()).astype(np.float32)
    bias = rng.normal(size=n).astype(np.float32) if has[1] else None
    x = rng.normal(rng.normal(), 2, (m, k)).astype(np.float32)
    wanted = product(x, w, scale, bias)
    for name in ISAS:
        assert on(name, linear, w, scale, bias, x).tobytes() == wanted.tobytes()


# More sums than stay in a cache are computed some rows at a time.
@pytest.mark.compiled
def test_many_rows() -> None:
    rng = np.random.default_rng(1)
    w = rng.integers(-128, 128, (1100, 20)).astype(np.int8)
    x = rng.normal(size=(2, 35, 20)).astype(np.float32)
    scale = np.float32(0.01)
    wanted = product(x.reshape(-1, 20), w, scale)
    for name in ISAS:
        assert on(name, linear, w, scale, None, x).tobytes() == wanted.tobytes()


ODD = [
    [0.0, 0.0, -0.0],
    [5.0, 6.0, 7.0],
    [-5.0, -6.0, -7.0],
    [1.0, np.nan, 2.0],
    [1.0, -np.nan, 2.0],
    [np.inf, 1.0, 2.0],
    [-np.inf, 1.0, 0.0],
    [3e38, -3e38, 1.0],
    [1e-45, 0.0, 0.0],
    [0.5, 1.5, 255.0],
]


@overflows
@pytest.mark.parametrize("row", ODD, ids=str)
def test_odd_grids(row: Any) -> None:
    w = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    x = np.float32([row])
    wanted = product(x, w, np.float32(0.5))
    for name in ISAS:
        found = on(name, linear, w, np.float32(0.5), None, x)
        np.testing.assert_array_equal(found, wanted)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(arrays: Any, scales: Any, states: Any, x: Any) -> Any:
    options: Any = {"functions": FUNCTIONS, "scales": scales}
    return run(recurrent.Recurrent("lstm", *arrays, None, states, **options), x)


@settings(max_examples=10 if isa.IS_JIT_DISABLED else 50)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.integers(0, 99))
def test_lstms(t: int, n: int, k: int, seed: int) -> None:
    """Each step of the sequence has a grid of its own, which all samples share."""
    rng = np.random.default_rng(seed)
    w, r = (rng.integers(-128, 128, (4 * k, m)).astype(np.int8) for m in (5, k))
    scales = np.float32(0.003), rng.uniform(1e-3, 4e-3, 4 * k).astype(np.float32)
    b = rng.normal(size=(2, 4 * k)).astype(np.float32)
    states = rng.uniform(-1, 1, (2, n, k)).astype(np.float32)
    x = rng.normal(size=(t, n, 5)).astype(np.float32)
    found = [on(name, lstm, (w, r, b), scales, states, x) for name in ISAS]
    assert all(one.tobytes() == found[0].tobytes() for one in found)
    parts = product(x.reshape(-1, 5), w, scales[0]).reshape(t, n, -1) + b.sum(axis=0)
    before = states[0]
    for step, part in enumerate(parts):
        z = product(before, r, scales[1]) + part
        i, o, f, g = np.split(z.astype(np.float64), 4, axis=1)
        if step == 0:
            cell = states[1]
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        np.testing.assert_allclose(found[0][step], hidden, atol=1e-5)
        # The next grid is that of these bytes.
        before = found[0][step]


def test_macs_and_bytes() -> None:
    step = DynamicLinear(np.ones((12, 5), np.int8), np.float32(1))
    assert step.macs((7, 2, 5)) == 7 * 2 * 12 * 5
    assert step.bytes >= 12 * 5
    with pytest.raises(AssertionError, match="only an LSTM"):
        weights = np.ones((6, 2), np.int8)
        recurrent.Recurrent("gru", weights, weights, functions=(), scales=(1, 1))
