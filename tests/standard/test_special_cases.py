"""What becomes of 0, infinities and NaN is what the standard says."""

import math
import operator
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from standard.special_cases import (
    ABOUT,
    ARGUMENTS,
    BINARY,
    COMPLEX,
    EXACT,
    REAL,
    TURNED,
)
from support.each import each

import mdtensor as md

FLOATING = [md.float16, md.bfloat16, md.float32, md.float64]
COMPLEXES = [md.complex64, md.complex128]
OPERATORS = {
    "add": (operator.add, operator.iadd),
    "divide": (operator.truediv, operator.itruediv),
    "floor_divide": (operator.floordiv, operator.ifloordiv),
    "multiply": (operator.mul, operator.imul),
    "pow": (operator.pow, operator.ipow),
    "remainder": (operator.mod, operator.imod),
}
SPECIAL = [0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan]


def fits(found: float, wanted: str) -> bool:
    """Whether a result is what a word says, which see `special_cases`."""
    word = wanted.removeprefix("~")
    if word == "nan":
        return math.isnan(found)
    value = ABOUT[word] if word in ABOUT else EXACT.get(word, EXACT.get(f"+{word}"))
    assert value is not None
    if word != wanted:
        found = math.copysign(found, value)
    if word in ABOUT:
        return math.isclose(found, value, rel_tol=1e-2)
    return same(found, value)


def same(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def arguments(*words: str) -> Iterator[tuple[float, ...]]:
    return product(*(ARGUMENTS[word] for word in words))


@each("name", REAL)
@each("dtype", FLOATING)
def test_real(dtype: Any, name: str) -> None:
    for case in REAL[name]:
        given, wanted = case.split()
        for (x,) in arguments(given):
            for found in both(getattr(md, name), x, dtype):
                assert fits(float(found), wanted), (case, x)


def both(function: Any, x: complex, dtype: Any) -> Iterator[Any]:
    """function(x), alone and in a row."""
    yield function(md.asarray(x, dtype=dtype))
    yield function(md.asarray([x] * 9, dtype=dtype))[4]


@each("name", BINARY)
@each("dtype", FLOATING)
def test_binary(dtype: Any, name: str) -> None:
    function = getattr(md, name)
    for case in BINARY[name]:
        *given, wanted = case.split()
        for a, b in arguments(*given):
            x, y = (md.asarray(value, dtype=dtype) for value in (a, b))
            row, other = (md.asarray([value] * 9, dtype=dtype) for value in (a, b))
            results = [function(x, y), function(x, b), function(a, y)]
            results += [found[4] for found in (function(row, y), function(x, other))]
            for spelling in OPERATORS.get(name, ()):
                results.append(spelling(md.asarray(a, dtype=dtype), y))
            assert all(found.dtype is dtype for found in results)
            assert all(fits(float(found), wanted) for found in results), (case, a, b)


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("dtype", COMPLEXES, ids=str)
def test_complex(dtype: Any, name: str) -> None:
    for case in COMPLEX[name]:
        *given, real, imag = case.split()
        for a, b in arguments(*given):
            for found in map(complex, both(getattr(md, name), complex(a, b), dtype)):
                assert fits(found.real, real), (case, a, b, found)
                assert fits(found.imag, imag), (case, a, b, found)


@pytest.mark.parametrize("name", [name for name in COMPLEX if name != "sign"])
def test_the_conjugate_gives_the_conjugate(name: str) -> None:
    function = getattr(md, name)
    for case in COMPLEX[name]:
        *given, real, imag = case.split()
        for a, b in arguments(*given):
            found = complex(function(md.asarray(complex(a, b))))
            other = complex(function(md.asarray(complex(a, -b)))).conjugate()
            assert "~" in real or same(found.real, other.real), (case, a, b)
            assert "~" in imag or same(found.imag, other.imag), (case, a, b)


@pytest.mark.parametrize("name", sorted(TURNED))
def test_turned_by_a_right_angle(name: str) -> None:
    for a, b in product(SPECIAL, SPECIAL):
        found = complex(getattr(md, name)(md.asarray(complex(a, b))))
        other = complex(getattr(md, TURNED[name])(md.asarray(complex(-b, a))))
        assert close(found.real, other.imag), (a, b)
        assert close(found.imag, -other.real), (a, b)
    for a, b in product(SPECIAL, SPECIAL):
        found = complex(md.cos(md.asarray(complex(a, b))))
        other = complex(md.cosh(md.asarray(complex(-b, a))))
        assert close(found.real, other.real) and close(found.imag, other.imag), (a, b)


def close(a: float, b: float) -> bool:
    # The sign of an infinity beside a NaN is open.
    return same(a, b) or math.isclose(a, b, rel_tol=1e-6) or a == -b == math.inf


def test_complex_as_by_other_functions() -> None:
    for a, b in product(SPECIAL, SPECIAL):
        x = md.asarray(complex(a, b))
        for found, other in ((md.reciprocal(x), 1.0 / x), (md.square(x), x * x)):
            assert same(complex(found).real, complex(other).real), (a, b)
            assert same(complex(found).imag, complex(other).imag), (a, b)
        assert bool(md.isnan(x)) == (math.isnan(a) or math.isnan(b))
        assert bool(md.isinf(x)) == (math.isinf(a) or math.isinf(b))
        assert bool(md.isfinite(x)) == (math.isfinite(a) and math.isfinite(b))
        if not (math.isnan(a) or math.isnan(b)):
            assert math.isclose(float(md.abs(x)), math.hypot(a, b), rel_tol=1e-6)


@pytest.mark.parametrize("name", ["max", "min", "mean", "sum", "prod", "std", "var"])
def test_statistics_of_nan_and_of_nothing(name: str) -> None:
    function = getattr(md, name)
    assert math.isnan(function(md.asarray([1.0, math.nan, 3.0])))
    wanted = {"sum": 0.0, "prod": 1.0}.get(name, math.nan)
    if name not in ("max", "min"):
        assert same(float(function(md.zeros(0))), wanted)


def test_clip_and_copysign_at_nan() -> None:
    for x, low, high in product((1.0, math.nan), repeat=3):
        found = float(md.clip(md.asarray(x), low, md.asarray(high)))
        assert math.isnan(found) == any(map(math.isnan, (x, low, high)))
    for x, y in product(SPECIAL, [*SPECIAL, math.copysign(math.nan, -1)]):
        found = float(md.copysign(md.asarray(x), md.asarray(y)))
        assert math.copysign(1, found) == math.copysign(1, y)
        assert bool(md.signbit(md.asarray(y))) == (math.copysign(1, y) < 0)
