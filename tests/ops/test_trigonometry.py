"""Circular and hyperbolic functions against Python's math and NumPy's loops."""

import cmath
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each
from support.elements import COMPLEX, FLOATS, as_numpy, edges, near, same

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError

UFUNCS = {
    md.sin: np.sin,
    md.cos: np.cos,
    md.tan: np.tan,
    md.asin: np.arcsin,
    md.acos: np.arccos,
    md.atan: np.arctan,
    md.sinh: np.sinh,
    md.cosh: np.cosh,
    md.tanh: np.tanh,
    md.asinh: np.arcsinh,
    md.acosh: np.arccosh,
    md.atanh: np.arctanh,
}
#: The most ulps of functions of our own.
COMPILED = {md.sin: 1.6, md.cos: 1.6, md.tanh: 2.0}
#: Those that are computed in float64 and rounded once.
ONCE = {f: 0.501 for f in UFUNCS if f not in COMPILED}
COMPILED |= ONCE
TWO = {md.atan2: np.arctan2, md.hypot: np.hypot}
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


@pytest.mark.parametrize("operation", UFUNCS, **named)
@given(st.floats(-1, 1), st.floats(-300, 300))
def test_as_python_computes(operation: Any, inside: float, outside: float) -> None:
    inverse = operation.__name__.startswith("a") and operation is not md.atan
    value = inside if inverse else outside
    if operation is md.acosh:
        value = 1 + abs(outside)
    if operation is md.atanh and abs(value) == 1:
        return
    found = operation(md.asarray(value, dtype=md.float64)).tolist()
    want = getattr(math, operation.__name__)(value)
    assert math.isclose(found, want, rel_tol=2e-15)


@each("operation", UFUNCS)
@each("dtype", FLOATS)
def test_every_float(operation: Any, dtype: md.DType) -> None:
    x = edges(dtype)
    found = operation(md.from_numpy(x))
    assert found.dtype is dtype
    if dtype is md.float32 and operation in COMPILED:  # not NumPy's
        with np.errstate(all="ignore"):
            wanted = UFUNCS[operation](x.astype(float))
            assert near(found.buffer, wanted, COMPILED[operation])
    else:
        assert same(found.buffer, as_numpy(UFUNCS[operation], dtype, x))


@pytest.mark.parametrize("operation", UFUNCS, **named)
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers(operation: Any, dtype: md.DType) -> None:
    z = md.from_numpy(edges(dtype))
    if operation in (md.tan, md.tanh):  # at infinity the zeros have another sign
        z = z[md.isfinite(z)]
    found = operation(z)
    assert found.dtype is dtype
    assert same(found.buffer, as_numpy(UFUNCS[operation], dtype, z.buffer))
    points = [0.3 + 0.4j, -1.5 + 2j, 2 - 0.5j, -0.25 - 3j]
    want = [getattr(cmath, operation.__name__)(p) for p in points]
    eps = 1e-6 if dtype is md.complex64 else 1e-14
    assert np.allclose(operation(md.asarray(points, dtype=dtype)).tolist(), want, eps)


def test_outside_of_the_domain_there_is_no_number() -> None:
    outside = {md.asin: 1.5, md.acos: -1.5, md.acosh: 0.5, md.atanh: 2.0}
    outside |= dict.fromkeys([md.sin, md.cos, md.tan], math.inf)
    for operation, value in outside.items():
        for dtype in FLOATS:
            assert math.isnan(operation(md.asarray(value, dtype=dtype)).tolist())
        with_branch = operation(md.asarray(complex(value))).tolist()
        assert cmath.isfinite(with_branch) == math.isfinite(value)
    assert md.atanh(md.asarray([1.0, -1.0])).tolist() == [math.inf, -math.inf]


@pytest.mark.parametrize("operation", TWO, **named)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_pair_of_floats(operation: Any, dtype: md.DType) -> None:
    x, y = edges(dtype)[:, None], edges(dtype)[None, :]
    found = operation(md.from_numpy(x), md.from_numpy(y))
    # float32 angles are computed in float64 and rounded once.
    kind = md.float64 if operation is md.atan2 and dtype is md.float32 else dtype
    wanted = as_numpy(TWO[operation], kind, x.astype(kind.storage), y)
    assert same(found.buffer, wanted.astype(dtype.storage))
    with np.errstate(all="ignore"):
        python = np.frompyfunc(getattr(math, operation.__name__), 2, 1)
        wide = python(x.astype(float), y.astype(float)).astype(dtype.storage)
    room = 2**-7 if dtype.bits == 16 else 3e-7
    pair = (np.float64(v) for v in (found, wide))
    assert np.allclose(*pair, rtol=room, equal_nan=True)


def test_signs_of_zeros_choose_the_quadrant() -> None:
    zeros = md.asarray([0.0, 0.0, -0.0, -0.0])
    found = md.atan2(zeros, md.asarray([1.0, -1.0, 1.0, -1.0])).tolist()
    pi = float(np.float32(math.pi))
    assert found == [0.0, pi, -0.0, -pi]
    assert math.copysign(1, found[2]) == -1


def test_the_promoted_type_is_floating() -> None:
    x = md.asarray([3], dtype=md.int8)
    for operation in TWO:
        assert type(operation(x, 4.0)) is md.Float32Tensor
        half = md.asarray([4.0], dtype=md.float16)
        assert type(operation(half, x)) is md.Float16Tensor
        with pytest.raises(PromotionError):
            operation(x, 4)
        with pytest.raises(DispatchError, match=r"Use real\(x\)"):
            operation(md.asarray([1j]), 1.0)
    assert md.hypot(x, 4.0).tolist() == [5.0]
    for operation in UFUNCS:
        with pytest.raises(DispatchError, match=r"Use astype\(x, float32\)"):
            operation(x)
