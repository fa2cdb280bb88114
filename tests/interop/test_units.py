"""Quantities of astropy, unyt and pint, masked arrays, and SciPy's functions."""

import operator
import warnings
from typing import Any

import numpy as np
import pytest

import mdtensor as md

units: Any = pytest.importorskip("astropy.units")
masked: Any = pytest.importorskip("astropy.utils.masked")
pint: Any = pytest.importorskip("pint")
unyt: Any = pytest.importorskip("unyt")
special: Any = pytest.importorskip("scipy.special")

pytestmark = pytest.mark.slow

VALUES = np.array([1.0, 2.0, 3.0])
X = md.asarray(VALUES)
METRE = pint.UnitRegistry().m
SYMBOLS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.matmul, operator.lt, operator.ge, divmod),
]
QUANTITIES = [
    VALUES * units.m,
    2.0 * units.m,
    unyt.unyt_array(VALUES, "m"),
    unyt.unyt_quantity(2.0, "m"),
    VALUES * METRE,
    2.0 * METRE,
]


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("quantity", QUANTITIES, ids=str)
def test_a_unit_is_kept_or_refused(symbol: Any, quantity: Any) -> None:
    for a, b in ((X, quantity), (quantity, X)):
        try:
            found = symbol(a, b)
        except Exception:  # the library's own errors name units
            continue
        # The other library computed, and its result keeps the unit; a comparison by
        # that library has none.
        is_answer = symbol in (operator.lt, operator.ge)
        for part in found if isinstance(found, tuple) else (found,):
            assert not isinstance(part, md.Tensor)
            assert is_answer or hasattr(part, "units") or hasattr(part, "unit")


def test_the_product_of_a_quantity_of_unyt_is_refused_by_us() -> None:
    """It makes its result by the type of the other operand, with a unit."""
    quantity = unyt.unyt_quantity(2.0, "m")
    for symbol in (operator.mul, operator.truediv, operator.pow, operator.floordiv):
        with pytest.raises(md.CastError, match="unit m, which a tensor does not keep"):
            symbol(quantity, X)


@pytest.mark.parametrize("quantity", QUANTITIES, ids=str)
def test_no_conversion_drops_a_unit(quantity: Any) -> None:
    with warnings.catch_warnings(action="error"):
        for call in (md.asarray, md.Float64Tensor, lambda q: md.full(3, q)):
            with pytest.raises(md.CastError, match="has a unit, which a tensor"):
                call(quantity)
        with pytest.raises((md.CastError, md.NoMethodError)):
            md.add(X, quantity)


def test_pint_wraps_tensors() -> None:
    found = X * METRE
    assert isinstance(found.magnitude, md.Tensor)
    assert str(found.units) == "meter"
    assert (found * 2).to("mm").magnitude.tolist() == [2000.0, 4000.0, 6000.0]


def test_masked_arrays_keep_their_mask() -> None:
    for array in (
        np.ma.array(VALUES, mask=[False, True, False]),  # type: ignore[no-untyped-call]
        masked.Masked(VALUES, mask=[False, True, False]),
    ):
        with pytest.raises(md.CastError, match="1 of 3 elements are masked"):
            X + array
        assert (array + X).mask.tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name", ["expit", "gamma", "digamma", "j0", "erfinv", "entr", "xlogy", "sici"]
)
def test_special_functions_compute_tensors(name: str, dtype: Any) -> None:
    function, array = getattr(special, name), np.array([0.25, 0.5, 0.75], dtype)
    x = md.asarray(array)
    given, plain = (x, x)[: function.nin], (array, array)[: function.nin]
    found, wanted = function(*given), function(*plain)
    several = function.nout > 1
    for ours, theirs in zip(
        found if several else (found,), wanted if several else (wanted,), strict=True
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(ours), theirs)
    if not several:
        out = np.zeros(3, dtype)
        assert function(*given, out=out) is out
        assert np.array_equal(out, wanted)
