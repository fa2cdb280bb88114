"""What the compiler says, in our words."""

from typing import Any

import pytest

import mdtensor as md
from mdtensor.ops.for_each import WORDS, explain

SAID = {
    "Untyped global name 'f': Cannot determine Numba type of <class 'function'>": (
        "f is a function that is not compiled. Decorate f with numba.njit."
    ),
    "Untyped global name 't': Cannot determine Numba type of <class 'torch.Tensor'>": (
        "t is Tensor, which compiled functions do not take. Give it as an argument: "
        "numbers, and views of tensors."
    ),
    "Unknown attribute 'sin' of type Module(<module 'torch' from '/torch.py'>)": (
        "torch.sin is not a function of numbers that can be compiled. Use arithmetic, "
        "math, or NumPy's functions of numbers."
    ),
    "Unknown attribute 'foo' of type float32": "float32 has no attribute 'foo'.",
    "OptionalType(float32) is written to elements of float32": (
        "one path returns nothing, another one a number. Let every path return a "
        "number."
    ),
    "Cannot unify Literal[int](1) and Literal[str](s) for 'y.2', defined at f.py (4)": (
        "y is int in one place and str in another. Use one name for each."
    ),
    "The 'with' construct is not supported.. Raised from None": (
        "The 'with' construct is not supported."
    ),
    "the function writes to a read-only view": (
        "the function writes to a read-only view. Use flat_out(x) or ranked_out(x)."
    ),
    "nothing is written to elements of float32": (
        "nothing is written to elements of float32. Let every path return a number."
    ),
    "NameError: name 'q' is not defined": (
        "NameError: name 'q' is not defined. Define it before the call."
    ),
    "uint64 is combined with a signed integer by //": (
        "uint64 is combined with a signed integer by //. Write np.uint64(n) for the "
        "signed integer."
    ),
    "float64 is written to elements of uint8": (
        "float64 is written to elements of uint8. Use astype(x, float32), or "
        "elementwise(dtype=float32)."
    ),
    "unicode_type is written to elements of float32": (
        "str is written to elements of float32."
    ),
    "there is no add(float32, array)": "there is no add(float32, array).",
}


@pytest.mark.parametrize("reason", SAID)
def test_the_words(reason: str) -> None:
    assert str(md.CompileError(*explain(reason))) == SAID[reason]


def test_all_words_are_shown_above() -> None:
    assert len(SAID) >= len(WORDS)


def helper(x):
    return x


def by_helper(x):
    return helper(x)


def at_times(x):
    if x > 0:
        return x


def both(x):
    y = 1
    if x > 0:
        y = "s"
    return y


def foreign(x):
    return md.sin(x)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (by_helper, "helper is a function that is not compiled"),
        (at_times, "one path returns nothing, another one a number"),
        (both, "y is int in one place and str in another"),
        (foreign, "mdtensor.sin is not a function of numbers that can be compiled"),
    ],
)
def test_the_compiler_still_says_so(function: Any, problem: str) -> None:
    with md.registry.restored(), pytest.raises(md.CompileError) as caught:
        md.elementwise(function)(md.asarray([1.0]))
    assert caught.value.problem.endswith(f" cannot be compiled: {problem}")
