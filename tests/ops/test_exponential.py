"""Exponentials, logarithms and roots against Python's math and NumPy's loops."""

import cmath
import math
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.elements import COMPLEX, FLOATS, as_numpy, edges, near, same

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError

FUNCTIONS = {
    md.exp: (math.exp, np.exp),
    md.expm1: (math.expm1, np.expm1),
    md.log: (math.log, np.log),
    md.log1p: (math.log1p, np.log1p),
    md.log2: (math.log2, np.log2),
    md.log10: (math.log10, np.log10),
    md.sqrt: (math.sqrt, np.sqrt),
}
#: The most ulps of functions of our own, not NumPy's, of float32.
COMPILED = {md.exp: 1.1, md.log: 1.1}
COMPILED |= dict.fromkeys((md.expm1, md.log1p, md.log2, md.log10), 0.501)
named = {"ids": lambda f: getattr(f, "__name__", str(f))}


@pytest.mark.parametrize("operation", FUNCTIONS, **named)
@given(st.floats(1e-300, 1e300) | st.floats(1e-3, 600))
def test_as_python_computes(operation: Any, value: float) -> None:
    if operation in (md.exp, md.expm1) and value > 700:
        return
    found = operation(md.asarray(value, dtype=md.float64)).tolist()
    assert math.isclose(found, FUNCTIONS[operation][0](value), rel_tol=4e-16)


@pytest.mark.parametrize("operation", FUNCTIONS, **named)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_float(operation: Any, dtype: md.DType) -> None:
    x = edges(dtype)
    found = operation(md.from_numpy(x))
    assert found.dtype is dtype
    if dtype is md.float32 and operation in COMPILED:
        with np.errstate(all="ignore"):
            wanted = FUNCTIONS[operation][1](x.astype(float))
            assert near(found.buffer, wanted, COMPILED[operation])
    else:
        assert same(found.buffer, as_numpy(FUNCTIONS[operation][1], dtype, x))


@pytest.mark.parametrize("operation", FUNCTIONS, **named)
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_numbers(operation: Any, dtype: md.DType) -> None:
    z = edges(dtype)
    z = z[np.isfinite(z) & (np.abs(z) < 50) & (np.abs(z) > 1e-5)]
    found = operation(md.from_numpy(z))
    formulas = {
        md.expm1: lambda v: cmath.exp(v) - 1,
        md.log1p: lambda v: cmath.log(complex(1 + v.real, v.imag)),
        md.log2: lambda v: cmath.log(v) / math.log(2),
    }
    python = getattr(cmath, operation.__name__, None) or formulas[operation]
    inside = [v for v in z.tolist() if v != -1 or operation is not md.log1p]
    kept = np.array([v in inside for v in z.tolist()])
    want = np.array([python(v) for v in inside])
    eps = 4e-7 if dtype is md.complex64 else 1e-15
    assert found.dtype is dtype
    assert np.allclose(found.buffer[kept], want, rtol=eps, atol=eps)


def test_the_ends_of_logarithms() -> None:
    for operation in (md.log, md.log2, md.log10, md.log1p):
        shift = -1.0 if operation is md.log1p else 0.0
        x = md.asarray([shift, shift - 1, math.inf, 1 + shift])
        want = [-math.inf, math.nan, math.inf, 0.0]
        assert np.array_equal(operation(x).tolist(), want, True)
    assert math.isnan(md.sqrt(md.asarray(-1.0)).tolist())
    assert md.sqrt(md.asarray(-1 + 0j)).tolist() == 1j
    assert math.copysign(1, md.sqrt(md.asarray(-0.0)).tolist()) == -1


TINY = st.floats(-0.3, 0.3).filter(lambda v: abs(v) > 1e-150 or v == 0)


@given(TINY, TINY)
def test_complex_log1p_does_not_cancel(a: float, b: float) -> None:
    """log|1 + z| = log1p(2a + a² + b²) / 2, the argument rounded once."""
    getcontext().prec = 400
    square = 2 * Decimal(a) + Decimal(a) ** 2 + Decimal(b) ** 2
    found = md.log1p(md.asarray(complex(a, b), dtype=md.complex128)).tolist()
    size = abs(complex(a, b))
    assert math.isclose(
        found.real, math.log1p(float(square)) / 2, rel_tol=1e-15, abs_tol=2e-16 * size
    )
    assert math.isclose(found.imag, math.atan2(b, 1 + a), rel_tol=1e-15)


def test_logaddexp_neither_overflows_nor_underflows() -> None:
    inf = math.inf
    x = md.asarray([1000.0, -1000.0, inf, -inf, inf, 0.0])
    y = md.asarray([1000.0, -1000.0, 1.0, -inf, -inf, math.nan])
    found = md.logaddexp(x, y).tolist()
    two = np.float32(math.log(2))
    want = [float(np.float32(1000) + two), float(two - np.float32(1000))]
    assert np.array_equal(found, [*want, inf, -inf, inf, math.nan], True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logaddexp_of_every_float(dtype: md.DType) -> None:
    x, y = edges(dtype)[:, None], edges(dtype)[None, :]
    found = md.logaddexp(md.from_numpy(x), md.from_numpy(y))
    # float32 is computed in float64 and rounded once.
    kind = md.float64 if dtype is md.float32 else dtype
    wanted = as_numpy(np.logaddexp, kind, x.astype(kind.storage), y)
    with np.errstate(all="ignore"):
        assert same(found.buffer, wanted.astype(dtype.storage))


@pytest.mark.parametrize("operation", FUNCTIONS, **named)
def test_integers_have_no_fractions(operation: Any) -> None:
    with pytest.raises(DispatchError) as caught:
        operation(md.asarray([1]))
    name = operation.__name__
    assert str(caught.value).startswith(
        f"{name}(Int64Tensor): no method: x is Int64Tensor, not FloatingTensor"
    )
    assert ". Use astype(x, float32), lossy beyond 2**24. Nearest: " in str(
        caught.value
    )
    with pytest.raises(PromotionError):
        md.logaddexp(md.asarray([1]), 2)
