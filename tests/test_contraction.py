"""`einsum` against NumPy, for random equations and for every kind of tensor."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError, OptionError, ShapeError

LETTERS = "abcd"


@st.composite
def equations(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    """A valid equation and the shapes of its operands."""
    sizes = {x: draw(st.integers(1, 3)) for x in LETTERS}
    terms = draw(st.lists(st.text(LETTERS, max_size=3), min_size=1, max_size=3))
    ellipsis = draw(st.lists(st.integers(1, 3), max_size=2))
    shapes = []
    for i, term in enumerate(terms):
        more: list[int] = []
        if draw(st.booleans()) and ellipsis:
            more = ellipsis[draw(st.integers(0, len(ellipsis))) :]
            more = [draw(st.sampled_from([n, 1])) for n in more]
            at = draw(st.integers(0, len(term)))
            terms[i] = f"{term[:at]}...{term[at:]}"
            term_sizes = [sizes[x] for x in term]
            shapes.append((*term_sizes[:at], *more, *term_sizes[at:]))
        else:
            shapes.append(tuple(sizes[x] for x in term))
    text = ",".join(terms)
    if draw(st.booleans()):
        known = sorted({x for x in text if x.isalpha()})
        chosen = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
        dots = "..." if "..." in text else ""
        text += f"->{dots}{''.join(chosen)}"
    return text, shapes


@given(equations(), st.sampled_from([np.int64, np.int8, np.float64, np.complex64]))
@settings(max_examples=300)
def test_random_equations_against_numpy(case: Any, dtype: Any) -> None:
    text, shapes = case
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    wanted = np.einsum(text, *arrays)
    found = md.einsum(text, *map(md.from_numpy, arrays))
    assert np.asarray(found).dtype == dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_codes_give_accumulators() -> None:
    rng = np.random.default_rng(4)
    x, y = (
        quant.QInt8Tensor(rng.integers(-9, 9, s), scale=0.5) for s in ((2, 3), (4, 3))
    )
    found = md.einsum("ij,kj->ik", x, y)
    assert type(found) is quant.QInt32Tensor
    wanted = np.asarray(x.codes, np.int64) @ np.asarray(y.codes, np.int64).T
    np.testing.assert_array_equal(np.asarray(found.codes), wanted)
    sums = md.einsum("ij->j", x)
    np.testing.assert_array_equal(
        np.asarray(quant.dequantize(sums)), np.asarray(quant.dequantize(x)).sum(0)
    )


def test_lazy_traced_and_shadow_tensors() -> None:
    x = md.asarray(np.arange(6.0).reshape(2, 3))
    wanted = np.einsum("ij,kj->ik", *2 * [np.asarray(x)])
    lazy = md.einsum("ij,kj->ik", x.to("lazy"), x)
    assert type(lazy).__name__ == "LazyFloat64Tensor"
    np.testing.assert_array_equal(np.asarray(lazy), wanted)
    shadow = md.einsum("ij,kj->ik", quant.shadow(x), x)
    np.testing.assert_array_equal(np.asarray(shadow.reference), wanted)
    trace = md.trace(lambda a: md.einsum("ii->", a), md.TensorSpec(type(x), (3, 3)))
    assert float(trace(md.asarray(np.eye(3)))) == 3.0


def test_numpy_arrays_and_an_ellipsis_that_broadcasts() -> None:
    x, y = np.ones((5, 1, 2, 3)), np.ones((4, 3))
    assert (
        md.einsum("...ij,...j->...i", x, y).shape
        == np.einsum("...ij,...j->...i", x, y).shape
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ij", "has 1 terms for 2 operands"),
        ("ij,jk,kl", "has 3 terms for 2 operands"),
        ("ij,j", "the term 'j' does not fit a value of 2 axes"),
        ("ij,jk->iz", "repeats a label, or has a label of no operand"),
        ("ij,jk->ii", "repeats a label, or has a label of no operand"),
        ("i1,jk", "the term 'i1' does not fit"),
        ("ij,jk->i-k", "does not fit"),
        ("éj,jk", "does not fit"),
    ],
)
def test_wrong_equations(text: str, message: str) -> None:
    x = md.ones((2, 2))
    with pytest.raises(OptionError, match="^einsum.*" + message):
        md.einsum(text, x, x)


def test_wrong_arguments() -> None:
    x = md.ones((2, 3))
    with pytest.raises(ShapeError, match="axis 'j' has the sizes 3 and 2"):
        md.einsum("ij,jk", x, x)
    with pytest.raises(ShapeError, match="ellipsis has the sizes 3 and 2"):
        md.einsum("...,...", x, md.ones((2, 2)))
    with pytest.raises(OptionError, match="the equation is 3, not a text"):
        md.einsum(3, x)  # type: ignore[arg-type]
    with pytest.raises(DispatchError, match=r"\[1\.0\] is not a tensor"):
        md.einsum("i", [1.0])
