"""Functions of float32 in steps: a stated number of ulps from float64."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program.elementwise import Elementwise, Instruction

INF, NAN = np.inf, np.nan
#: Below it, results are subnormal, and an error is one of their last place.
SMALLEST = 2.0**-126
#: Bits of float32 from one sample to the next; uncompiled code takes fewer.
STRIDE = 2_000_003 if isa.IS_JIT_DISABLED else 9_973
CHUNK = 1 << 24


def wide(function: Any) -> Any:
    """Return a function of Python's floats as one of arrays."""
    each = np.frompyfunc(function, 1, 1)
    return lambda x: each(x).astype(np.float64)


def normal_share(x: float) -> float:
    return 0.5 * math.erfc(-x / 2**0.5)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def silu(x: Any) -> Any:
    return np.where(x < 0, x * np.exp(x), x) / (1 + np.exp(-abs(x)))


def softplus(x: Any) -> Any:
    return np.where(x > 20, x, np.logaddexp(0, x))


def gelu_tanh(x: Any) -> Any:
    return x * sigmoid(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3))


#: The function in float64, and the most ulps of a normal result.
FUNCTIONS: dict[int, tuple[Any, float]] = {
    ops.EXP: (np.exp, 1.1),
    ops.SIGMOID: (sigmoid, 3.0),
    ops.ERF: (wide(math.erf), 1.1),
    ops.TANH: (np.tanh, 2.0),
    ops.LOG: (np.log, 1.0),
    ops.GELU: (lambda x: x * wide(normal_share)(x), 7.0),
    ops.SILU: (silu, 4.0),
    ops.ROOT: (np.sqrt, 0.5),
    ops.SIN: (np.sin, 1.6),
    ops.COS: (np.cos, 1.6),
    ops.SOFTPLUS: (softplus, 2.0),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def run(operation: int, x: Any) -> Any:
    # The numbers of softplus; others read none.
    return Elementwise(Instruction(operation, low=1.0, high=20.0))(x)


def errors(found: Any, wanted: Any) -> Any:
    """Return errors in units of the last place of float32; 0 where both overflow."""
    near = wanted.astype(np.float32)
    unit = np.spacing(np.maximum(np.abs(near), np.float32(SMALLEST)))
    off = np.abs(found.astype(np.float64) - wanted) / unit
    return np.where((found == near) | (np.isnan(found) & np.isnan(near)), 0, off)


def bits(first: int, last: int, stride: int) -> Any:
    return np.arange(first, last, stride, dtype=np.int64).astype(np.uint32).view("f4")


@pytest.mark.parametrize("operation", FUNCTIONS)
def test_functions_are_near_float64(operation: int) -> None:
    function, most = FUNCTIONS[operation]
    dense = np.linspace(-20, 20, 400_000 // (1 + 99 * isa.IS_JIT_DISABLED))
    x = np.concatenate([bits(0, 1 << 32, STRIDE), dense.astype(np.float32)])
    x = x[~(np.isinf(x) & (x < 0))]
    assert errors(run(operation, x), function(x.astype(np.float64))).max() <= most


#: Where functions in Python are tested for every float32: up to 16, from 2 ** -16.
SLOW = {ops.ERF, ops.GELU}
RANGES = [
    (np.float32(s * x).view(np.uint32).item(), 1 << 23)
    for s in (1, -1)
    for x in 2.0 ** np.arange(-16, 4)
]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("operation", FUNCTIONS)
def test_functions_are_near_float64_everywhere(operation: int) -> None:
    function, most = FUNCTIONS[operation]
    every = [(first, CHUNK) for first in range(0, 1 << 32, CHUNK)]
    for first, count in RANGES if operation in SLOW else every:
        x = bits(first, first + count, 1)
        x = x[~(np.isinf(x) & (x < 0))]
        found = errors(run(operation, x), function(x.astype(np.float64)))
        assert found.max(initial=0) <= most, x[found.argmax()]


def test_gelu_of_tanh_is_near_float64() -> None:
    count = 4_000 if isa.IS_JIT_DISABLED else 400_000
    x = np.linspace(-12, 12, count, dtype=np.float32)
    found, wanted = run(ops.GELU_TANH, x), gelu_tanh(x.astype(np.float64))
    # The exponent of the sigmoid is rounded, so a small result has a larger error.
    bound = np.maximum(4.0, 3 * np.abs(1.6 * x + 0.0714 * x**3))
    assert (errors(found, wanted) <= bound).all()


ENDS: dict[int, list[tuple[float, float]]] = {
    ops.ERF: [(INF, 1), (-INF, -1), (-0.0, -0.0), (5, 1)],
    ops.TANH: [(INF, 1), (-INF, -1), (-0.0, -0.0), (50, 1)],
    ops.LOG: [(INF, INF), (0.0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (1, 0.0)],
    ops.GELU: [(INF, INF), (-INF, -0.0), (0.0, 0.0), (-0.0, -0.0), (-200, -0.0)],
    ops.GELU_TANH: [(INF, INF), (-INF, -0.0), (0.0, 0.0), (-0.0, -0.0), (-200, -0.0)],
    ops.SILU: [(INF, INF), (-INF, -0.0), (0.0, 0.0), (-0.0, -0.0), (-200, -0.0)],
    ops.SIN: [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45)],
    ops.COS: [(INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0), (1e-45, 1.0)],
    ops.SOFTPLUS: [(INF, INF), (-INF, 0.0), (-200, 0.0), (200, 200), (3e38, 3e38)],
    ops.ROOT: [(INF, INF), (-INF, INF), (-0.0, 0.0), (-4, NAN), (9, 3)],
}


@pytest.mark.parametrize("operation", ENDS)
def test_ends_and_nan(operation: int) -> None:
    x, wanted = np.float32([*ENDS[operation], (NAN, NAN)]).T.copy()
    found = run(operation, x)
    assert np.array_equal(found, wanted, equal_nan=True)
    known = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


def hardswish(x: Any) -> Any:
    part = (x + np.float32(3)).clip(0, 6)
    return np.maximum(x, np.float32(-3)) * (part / np.float32(6))


def assert_divides(x: Any) -> None:
    found, wanted = run(ops.HARDSWISH, x), hardswish(x)
    is_equal = found.view(np.uint32) == wanted.view(np.uint32)
    assert (is_equal | (np.isnan(found) & np.isnan(wanted))).all()


def test_the_quotient_of_hardswish_is_rounded_correctly() -> None:
    dense = np.linspace(-3.1, 3.1, 2_000_000 // (1 + 999 * isa.IS_JIT_DISABLED))
    assert_divides(np.concatenate([bits(0, 1 << 32, STRIDE), dense.astype(np.float32)]))


@pytest.mark.slow
@pytest.mark.compiled
def test_every_quotient_of_hardswish_is_rounded_correctly() -> None:
    for first in range(0, 1 << 32, CHUNK):
        assert_divides(bits(first, first + CHUNK, 1))


def test_large_angles_have_the_digits_of_pi() -> None:
    # Multiples of π/2 in float32 whose sine or cosine is small, and powers of 2.
    k = np.arange(1, 20_000, 1 + 98 * isa.IS_JIT_DISABLED, dtype=np.float64)
    far = np.ldexp(1.0, np.arange(10, 128)) * np.array([[1.0], [1.7]])
    x = np.concatenate([k * (np.pi / 2), k * k * (np.pi / 2), far.reshape(-1)])
    x = np.concatenate([x, -x]).astype(np.float32)
    for operation, function in ((ops.SIN, np.sin), (ops.COS, np.cos)):
        wanted = function(x.astype(np.float64))
        assert errors(run(operation, x), wanted).max() <= 1.6


def test_softplus_takes_other_numbers() -> None:
    x = np.linspace(-90, 90, 4_000, dtype=np.float32)
    for beta, threshold in ((0.5, 8.0), (4.0, 20.0), (-2.0, 3.0)):
        found = Elementwise(Instruction(ops.SOFTPLUS, low=beta, high=threshold))(x)
        wide = x.astype(np.float64)
        wanted = np.logaddexp(0, wide * beta) / beta
        wanted = np.where(wide * beta > threshold, wide, wanted)
        assert errors(found, wanted).max() <= 2.0
