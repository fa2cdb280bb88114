"""Every function of the standard against array_api_strict, on arrays drawn at random.

A case draws the arguments of one function inside the domain that the standard defines;
both libraries compute, and agree in types, shapes and values, or both refuse.
"""

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from standard.cases import CASES, FFT, LINALG

import mdtensor as md
from mdtensor.errors import MdtensorError

#: Undefined contents, memory of another library, or no arrays: tested where they live.
ELSEWHERE = {"empty", "empty_like", "from_dlpack", "finfo", "iinfo"}
SPACES = {
    "main": (strict, md, CASES),
    "linalg": (strict.linalg, md.linalg, LINALG),
    "fft": (strict.fft, md.fft, FFT),
}
ALL = [(space, name) for space, (*_, cases) in SPACES.items() for name in sorted(cases)]


def test_every_function_has_a_case() -> None:
    for theirs, _, cases in SPACES.values():
        functions = {
            name
            for name in theirs.__all__
            if callable(getattr(theirs, name))
            and not isinstance(getattr(theirs, name), type | type(strict.float32))
            and "array_api_strict_flags" not in name
            and not name.startswith("__")
        }
        assert functions - set(cases) - ELSEWHERE == set()


@pytest.mark.parametrize(("space", "name"), ALL, ids=str)
@settings(max_examples=10)
@given(data=st.data())
def test_as_array_api_strict(space: str, name: str, data: st.DataObject) -> None:
    theirs, ours, cases = SPACES[space]
    arguments, options = cases[name](data.draw)
    # NumPy makes a real operand complex; the standard does not, see `ops/test_complex`.
    kinds = {x.dtype.is_complex for x in arguments if isinstance(x, md.Tensor)}
    assume(name not in MIXED or len(kinds) < 2)
    # What the standard defines is the same by default; can_cast says more.
    rules = ("array_api",) if name == "can_cast" else ("array_api", "default")
    chosen = data.draw(st.sampled_from(rules))
    with np.errstate(all="ignore"), md.promotion_rules(chosen):
        try:
            wanted = getattr(theirs, name)(*foreign(arguments), **foreign(options))
        except (ValueError, TypeError, IndexError, np.linalg.LinAlgError):
            with pytest.raises(MdtensorError):
                getattr(ours, name)(*arguments, **options)
            return
        same(name, getattr(ours, name)(*arguments, **options), wanted)


def foreign(found: Any) -> Any:
    """The same for array_api_strict."""
    if isinstance(found, md.Tensor):
        return strict.asarray(np.asarray(found).copy())
    if isinstance(found, md.DType):
        return getattr(strict, found.name)
    if isinstance(found, dict):
        return {name: foreign(value) for name, value in found.items()}
    if isinstance(found, tuple | list):
        return type(found)(foreign(value) for value in found)
    return found


def same(name: str, ours: Any, theirs: Any) -> None:
    if isinstance(ours, tuple) and ours and isinstance(ours[0], md.Tensor):
        assert len(ours) == len(theirs)
        assert getattr(ours, "_fields", ()) == getattr(theirs, "_fields", ())
        for mine, other in zip(ours, theirs, strict=True):
            same(name, mine, other)
    elif isinstance(ours, md.Tensor):
        assert getattr(strict, ours.dtype.name) == theirs.dtype
        assert ours.shape == theirs.shape
        close(name, np.asarray(ours), np.asarray(theirs))
    elif isinstance(ours, md.DType):
        assert getattr(strict, ours.name) == theirs
    else:
        assert ours == theirs


#: Arithmetic of a complex and a real operand, which the standard defines by parts.
MIXED = {"add", "subtract", "multiply", "divide"}
#: Rounding differs by the order of operations; all others agree to the last bit.
ROUNDED = {*LINALG, *FFT, "sum", "prod", "mean", "std", "var", "linspace"}
ROUNDED |= {"cumulative_sum", "cumulative_prod", "log1p"}


#: Functions of float32 with kernels of our own: they are within 2 ulp (see the page
#: docs/reference/float-functions.md), and NumPy's vector code within 2 more.
OWN = {"exp", "log", "tanh"}


def close(name: str, ours: Any, theirs: Any) -> None:
    if name in ROUNDED and ours.dtype.kind in "fc":
        tolerance = 2e-4 if ours.real.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    elif name in OWN and ours.dtype == np.float32:
        np.testing.assert_allclose(ours, theirs, rtol=4 * 2.0**-23, atol=2.0**-149)
    elif name == "reciprocal" and ours.dtype.kind == "c":
        # 1 is real here and complex there, so the quotient may round otherwise.
        few_ulps = 8 * float(np.finfo(ours.dtype).eps)
        np.testing.assert_allclose(ours, theirs, rtol=few_ulps, atol=0)
    else:
        np.testing.assert_array_equal(ours, theirs)
