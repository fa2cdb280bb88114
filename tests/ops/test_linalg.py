"""Matrices: factors multiply back, norms and sums against NumPy in 64 bits."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.errors import (
    CastError,
    DispatchError,
    LinAlgError,
    OptionError,
    PromotionError,
    ShapeError,
)
from mdtensor.promotion import RULE_SETS

linalg = md.linalg
Numbers = np.ndarray[Any, Any]
LEAVES = md.leaves()[:15]
#: What LAPACK computes, and the error that is allowed relative to the largest element.
SOLVED = {md.float32: 1e-5, md.float64: 1e-13, md.complex64: 1e-5, md.complex128: 1e-13}
INEXACT = [leaf.dtype for leaf in LEAVES[1:] if not leaf.dtype.is_integer]
REAL = {md.complex64: md.float32, md.complex128: md.float64}
EPSILON = {md.float16: 2**-11, md.bfloat16: 2**-8, md.float32: 1e-6, md.float64: 1e-14}
STACKS = st.sampled_from([(), (3,), (0,), (2, 1)])
SIZES = st.integers(0, 5)
inf = float("inf")

every_dtype = pytest.mark.parametrize("dtype", SOLVED, ids=str)


def numbers(shape: tuple[int, ...], dtype: md.DType, seed: int = 1) -> md.Tensor:
    """Normal numbers: matrices of them are far from singular."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    part = values if dtype.is_complex else values.real
    return md.from_numpy(part.astype(dtype.storage))


def regular(shape: tuple[int, ...], dtype: md.DType, seed: int = 1) -> md.Tensor:
    """Square matrices whose eigenvalues keep away from 0."""
    x = numbers(shape, dtype, seed).buffer
    return md.from_numpy((x + 4 * np.eye(shape[-1])).astype(dtype.storage))


def hermitian(shape: tuple[int, ...], dtype: md.DType, seed: int = 1) -> md.Tensor:
    """Positive definite."""
    x = regular(shape, dtype, seed).buffer
    return md.from_numpy(x @ x.swapaxes(-1, -2).conj())


def wide(x: Any) -> Numbers:
    return np.asarray(x.buffer, np.complex128)


def adjoint(x: Any) -> Numbers:
    return wide(x).swapaxes(-1, -2).conj()


def near(found: Any, want: Any, dtype: md.DType) -> None:
    bound = SOLVED[dtype] * max(1, np.abs(want).max(initial=0))
    assert np.shape(found) == np.shape(want)
    assert np.abs(found - want).max(initial=0) <= bound


@given(STACKS, SIZES, SIZES, st.sampled_from(list(SOLVED)), st.booleans())
def test_qr(stack: Any, m: int, n: int, dtype: md.DType, complete: bool) -> None:
    x = numbers((*stack, m, n), dtype)
    Q, R = result = linalg.qr(x, mode="complete" if complete else "reduced")
    k = m if complete else min(m, n)
    assert (result.Q is Q, result.R is R) == (True, True)
    assert (Q.shape, R.shape) == ((*stack, m, k), (*stack, k, n))
    assert Q.dtype is R.dtype is dtype
    near(wide(Q) @ wide(R), wide(x), dtype)
    near(adjoint(Q) @ wide(Q), np.broadcast_to(np.eye(k), (*stack, k, k)), dtype)
    assert not np.tril(R.buffer, -1).any()


@given(STACKS, SIZES, SIZES, st.sampled_from(list(SOLVED)), st.booleans())
def test_svd(stack: Any, m: int, n: int, dtype: md.DType, full: bool) -> None:
    x, k = numbers((*stack, m, n), dtype), min(m, n)
    U, S, Vh = linalg.svd(x, full_matrices=full)
    left, right = (m, n) if full else (k, k)
    assert (U.shape, S.shape) == ((*stack, m, left), (*stack, k))
    assert Vh.shape == (*stack, right, n)
    assert (U.dtype, S.dtype, Vh.dtype) == (dtype, REAL.get(dtype, dtype), dtype)
    near(
        wide(U)[..., :k] * wide(S)[..., None, :] @ wide(Vh)[..., :k, :], wide(x), dtype
    )
    near(
        adjoint(U) @ wide(U), np.broadcast_to(np.eye(left), (*stack, left, left)), dtype
    )
    assert (np.diff(S.buffer) <= 0).all() and (S.buffer >= 0).all()
    near(linalg.svdvals(x).buffer, S.buffer, dtype)


@given(STACKS, SIZES, st.sampled_from(list(SOLVED)), st.booleans())
def test_cholesky(stack: Any, m: int, dtype: md.DType, upper: bool) -> None:
    x = hermitian((*stack, m, m), dtype)
    found = linalg.cholesky(x, upper=upper)
    assert (found.dtype, found.shape) == (dtype, x.shape)
    first, second = wide(found), adjoint(found)
    near(second @ first if upper else first @ second, wide(x), dtype)
    assert not (np.tril(found.buffer, -1) if upper else np.triu(found.buffer, 1)).any()


@given(STACKS, SIZES, st.sampled_from(list(SOLVED)))
def test_eigh(stack: Any, m: int, dtype: md.DType) -> None:
    x = hermitian((*stack, m, m), dtype)
    values, vectors = result = linalg.eigh(x)
    assert result.eigenvalues is values
    assert result.eigenvectors is vectors
    assert (values.shape, vectors.shape) == ((*stack, m), x.shape)
    assert (values.dtype, vectors.dtype) == (REAL.get(dtype, dtype), dtype)
    near(wide(x) @ wide(vectors), wide(vectors) * wide(values)[..., None, :], dtype)
    assert (np.diff(values.buffer) >= 0).all()
    near(linalg.eigvalsh(x).buffer, values.buffer, dtype)


@given(STACKS, SIZES, st.sampled_from(list(SOLVED)))
def test_inverse_and_determinant(stack: Any, m: int, dtype: md.DType) -> None:
    x = regular((*stack, m, m), dtype)
    inverse = linalg.inv(x)
    assert inverse.dtype is dtype
    near(wide(inverse) @ wide(x), np.broadcast_to(np.eye(m), x.shape), dtype)
    near(linalg.pinv(x).buffer, inverse.buffer, dtype)
    near(linalg.matrix_power(x, -1).buffer, inverse.buffer, dtype)
    det, (sign, logabsdet) = linalg.det(x), linalg.slogdet(x)
    assert (det.dtype, sign.dtype) == (dtype, dtype)
    assert logabsdet.dtype is REAL.get(dtype, dtype)
    near(det.buffer, np.linalg.det(wide(x)), dtype)
    near(wide(sign) * np.exp(wide(logabsdet)), wide(det), dtype)


@every_dtype
def test_determinants_of_integers(dtype: md.DType, rng: np.random.Generator) -> None:
    rows = rng.integers(-3, 4, (4, 4))
    found = linalg.det(md.from_numpy(rows.astype(dtype.storage)))
    near(found.buffer, float(exact_determinant(rows.tolist())), dtype)


def exact_determinant(rows: list[list[int]]) -> Fraction:
    """By cofactors."""
    if not rows:
        return Fraction(1)
    minors = ([row[:at] + row[at + 1 :] for row in rows[1:]] for at in range(len(rows)))
    terms = zip(rows[0], minors, strict=True)
    return sum(
        ((-1) ** at * Fraction(x) * exact_determinant(minor))
        for at, (x, minor) in enumerate(terms)
    )


#: The stack of the matrices, and the shape of the right side.
SYSTEMS = [
    *[((), (3,)), ((), (3, 2)), ((), (2, 3, 1)), ((), (3, 0))],
    *[((2,), (3,)), ((2,), (3, 2)), ((2,), (2, 3, 1)), ((2,), (4, 1, 3, 2))],
    *[((0,), (3,)), ((0,), (3, 2))],
]


@pytest.mark.parametrize("rules", RULE_SETS)
def test_eigenvalues_are_complex_under_any_promotion_rules(rules: str) -> None:
    x = md.asarray([[0.0, 1.0], [-1.0, 0.0]])
    with md.promotion_rules(rules):
        assert linalg.eig(x).eigenvectors.dtype is md.complex64
        assert linalg.eigvals(md.astype(x, md.float64)).dtype is md.complex128


@each("stack, right", SYSTEMS)
@every_dtype
def test_solve(stack: Any, right: Any, dtype: md.DType) -> None:
    x, y = regular((*stack, 3, 3), dtype), numbers(right, dtype, seed=2)
    found = linalg.solve(x, y)
    assert found.dtype is dtype
    if len(right) == 1:
        assert found.shape == (*stack, 3)
        product = (wide(x) @ wide(found)[..., None])[..., 0]
    else:
        product = wide(x) @ wide(found)
    near(product, np.broadcast_to(wide(y), product.shape), dtype)


def test_a_right_side_of_two_axes_is_a_matrix() -> None:
    """Even where its rank is one below: NumPy 1 took it for a stack of vectors."""
    x = regular((2, 2, 2), md.float64)
    y = md.from_numpy(np.eye(2))
    near(linalg.solve(x, y).buffer, linalg.inv(x).buffer, md.float64)


def test_solve_promotes() -> None:
    x = md.asarray([[2, 0], [0, 4]])
    assert type(linalg.solve(x, md.asarray([1.0, 2.0]))) is md.Float32Tensor
    found = linalg.solve(md.astype(x, md.float64), md.asarray([2j, 4]))
    assert (type(found), found.tolist()) == (md.Complex128Tensor, [1j, 1])


@every_dtype
def test_pseudo_inverse_of_low_rank(dtype: md.DType) -> None:
    left, right = numbers((2, 5, 2), dtype), numbers((2, 2, 4), dtype, seed=2)
    x = left @ right
    plus = linalg.pinv(x)
    assert (plus.dtype, plus.shape) == (dtype, (2, 4, 5))
    near(wide(x) @ wide(plus) @ wide(x), wide(x), dtype)
    near(wide(plus) @ wide(x) @ wide(plus), wide(plus), dtype)
    assert linalg.matrix_rank(x).tolist() == [2, 2]
    assert type(linalg.matrix_rank(x)) is md.Int64Tensor


def test_tolerance() -> None:
    x = md.from_numpy(np.diag([4.0, 2.0, 1.0]) * np.ones((2, 1, 1)))
    assert linalg.matrix_rank(x, rtol=0.3).tolist() == [2, 2]
    assert linalg.matrix_rank(x, rtol=md.asarray([0.3, 0.6])).tolist() == [2, 1]
    # A singular value at the bound counts as 0.
    assert linalg.matrix_rank(x, rtol=0.5).tolist() == [1, 1]
    plus = linalg.pinv(x, rtol=md.asarray(0.3, dtype=md.float16))
    assert plus.tolist() == [np.diag([0.25, 0.5, 0.0]).tolist()] * 2
    nothing = md.zeros((2, 0, 3))
    assert linalg.matrix_rank(nothing).tolist() == [0, 0]
    assert linalg.pinv(nothing).shape == (2, 3, 0)


@each("order", [2, 1, 0, inf, -inf, -1, 3, 2.5])
@each("dtype", INEXACT)
def test_vector_norms(dtype: md.DType, order: Any) -> None:
    x = numbers((2, 3, 4), dtype)
    whole = np.abs(wide(x))
    real = REAL.get(dtype, dtype)
    for axis, axes in ((None, (0, 1, 2)), (1, (1,)), ((-1, 0), (0, 2)), ((), ())):
        for keep in (False, True):
            found = linalg.vector_norm(x, axis=axis, keepdims=keep, ord=order)
            want = summed(whole, axes, keep, order)
            assert (found.dtype, found.shape) == (real, want.shape)
            assert np.allclose(found.buffer.astype(float), want, rtol=2 * EPSILON[real])


def summed(x: Numbers, axes: tuple[int, ...], keepdims: bool, order: float) -> Numbers:
    """The definition, in 64 bits."""
    options: Any = {"axis": axes, "keepdims": keepdims}
    if order in (inf, -inf):
        return np.asarray(x.max(**options) if order > 0 else x.min(**options))
    if order == 0:
        return np.asarray(np.count_nonzero(x, **options) if axes else (x != 0) * 1)
    return np.asarray((x**order).sum(**options) ** (1 / order))


ORDERS = ["fro", "nuc", 1, -1, 2, -2, inf, -inf, None]


@each("order", ORDERS)
@each("dtype", INEXACT)
def test_matrix_norms(dtype: md.DType, order: Any) -> None:
    x, real = numbers((2, 3, 4), dtype), REAL.get(dtype, dtype)
    want = [np.linalg.norm(matrix, order) for matrix in wide(x)]
    found = linalg.matrix_norm(x, ord=order)
    assert (found.dtype, found.shape) == (real, (2,))
    assert np.allclose(found.buffer.astype(float), want, rtol=2 * EPSILON[real])
    kept = linalg.matrix_norm(x, ord=order, keepdims=True)
    assert kept.tolist() == [[[norm]] for norm in found.tolist()]


def test_norms_of_nothing_are_0() -> None:
    nothing = md.zeros((2, 0, 3))
    for order in (2, 1, 0, inf, 3):
        assert linalg.vector_norm(nothing, axis=1, ord=order).tolist() == [[0] * 3] * 2
    for order in ("fro", "nuc", 1, 2, inf):
        assert linalg.matrix_norm(nothing, ord=order).tolist() == [0, 0]
        assert linalg.matrix_norm(nothing.mT, ord=order).tolist() == [0, 0]


def test_norms_are_quiet_about_what_is_too_large() -> None:
    huge = md.asarray([[1e200, 0.0], [0.0, 1e200]], dtype=md.float64)
    assert linalg.vector_norm(huge).tolist() == inf
    assert linalg.det(huge).tolist() == inf
    assert linalg.slogdet(huge).logabsdet.tolist() == 2 * np.log(1e200)
    assert linalg.vector_norm(md.zeros((2,)), ord=-1).tolist() == 0.0


@given(st.integers(0, 4), st.integers(0, 4), st.integers(-5, 5))
def test_diagonals(m: int, n: int, offset: int) -> None:
    x = md.reshape(md.arange(2 * m * n), (2, m, n))
    want = [
        [row[at + offset] for at, row in enumerate(matrix) if 0 <= at + offset < n]
        for matrix in x.tolist()
    ]
    found = linalg.diagonal(x, offset=offset)
    assert found.tolist() == want
    assert np.shares_memory(found.buffer, x.buffer) or not found.size
    assert linalg.trace(x, offset=offset).tolist() == list(map(sum, want))
    assert md.matrix_transpose(x).tolist() == x.buffer.swapaxes(1, 2).tolist()


@pytest.mark.parametrize("leaf", LEAVES[1:])
def test_trace_is_held_as_sum_holds_it(leaf: Any) -> None:
    x = md.from_numpy((np.eye(3) * 100).astype(leaf.dtype.storage))
    total = md.sum(linalg.diagonal(x))
    assert linalg.trace(x).tolist() == total.tolist() == 300
    assert type(linalg.trace(x)) is type(total)
    if leaf.dtype.is_integer:
        narrow = linalg.trace(x, dtype=md.int8)
        assert (type(narrow), narrow.tolist()) == (md.Int8Tensor, 300 - 256)


def test_views_and_read_only_operands() -> None:
    buffer = regular((4, 3, 3), md.float64).buffer
    buffer.setflags(write=False)
    x = md.from_numpy(buffer[::2])
    near(linalg.inv(x.mT).buffer, linalg.inv(x).mT.buffer, md.float64)
    same = md.from_numpy(np.broadcast_to(buffer[0], (2, 3, 3)))
    near(linalg.det(same).buffer, np.linalg.det(buffer[[0, 0]]), md.float64)
    assert linalg.qr(same).R.shape == (2, 3, 3)


@every_dtype
def test_one_triangle_is_read(dtype: md.DType) -> None:
    x = hermitian((3, 3), dtype)
    lower = md.from_numpy(np.where(np.tri(3), x.buffer, np.nan).astype(x.buffer.dtype))
    upper = md.from_numpy(
        np.where(np.tri(3).T, x.buffer, np.nan).astype(x.buffer.dtype)
    )
    assert linalg.cholesky(lower).tolist() == linalg.cholesky(x).tolist()
    want = linalg.cholesky(x, upper=True)
    assert linalg.cholesky(upper, upper=True).tolist() == want.tolist()
    assert linalg.eigvalsh(lower).tolist() == linalg.eigvalsh(x).tolist()
    assert linalg.eigh(lower).eigenvectors.tolist() == (
        linalg.eigh(x).eigenvectors.tolist()
    )


def test_one_singular_matrix_fails_its_stack() -> None:
    x = md.from_numpy(np.stack([np.eye(2), np.zeros((2, 2))]))
    with pytest.raises(LinAlgError, match=r"^inv\(Float64Tensor\[2,2,2\]\)"):
        linalg.inv(x)
    assert linalg.det(x).tolist() == [1, 0]
    assert linalg.slogdet(x).logabsdet.tolist() == [0, -inf]
    assert linalg.slogdet(x).sign.tolist() == [1, 0]


SINGULAR, NAN = md.ones((2, 2)), md.full((2, 2), float("nan"))
INFINITE = md.full((2, 2), float("-inf"))
WIDE, HALF = md.ones((2, 3)), md.ones((2, 2), dtype=md.float16)
VECTOR = md.ones((2,))


@pytest.mark.parametrize(
    ("call", "error", "head", "text"),
    [
        (
            lambda: linalg.inv(SINGULAR),
            LinAlgError,
            "inv(Float32Tensor[2,2])",
            "a matrix is singular. Use pinv.",
        ),
        (
            lambda: linalg.solve(SINGULAR, VECTOR),
            LinAlgError,
            "solve(Float32Tensor[2,2], Float32Tensor[2])",
            "a matrix is singular. Use pinv(x1) @ x2.",
        ),
        (
            lambda: linalg.cholesky(-SINGULAR),
            LinAlgError,
            "cholesky(Float32Tensor[2,2])",
            ("a matrix is not positive definite. Use eigvalsh to see its eigenvalues."),
        ),
        (
            lambda: linalg.svd(NAN),
            LinAlgError,
            "svd(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.svdvals(NAN),
            LinAlgError,
            "svdvals(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.pinv(NAN),
            LinAlgError,
            "pinv(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.matrix_rank(NAN),
            LinAlgError,
            "matrix_rank(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.svdvals(INFINITE),
            LinAlgError,
            "svdvals(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.matrix_rank(INFINITE),
            LinAlgError,
            "matrix_rank(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.pinv(INFINITE),
            LinAlgError,
            "pinv(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.matrix_norm(NAN, ord=2),
            LinAlgError,
            "matrix_norm(Float32Tensor[2,2])",
            "the iteration does not converge. Replace NaN and infinities first.",
        ),
        (
            lambda: linalg.inv(HALF),
            PromotionError,
            "inv(Float16Tensor[2,2])",
            (
                "linear algebra takes float32, float64 or complex, not float16. "
                "Use astype(x, float32)."
            ),
        ),
        (
            lambda: linalg.qr(HALF),
            PromotionError,
            "qr(Float16Tensor[2,2])",
            (
                "linear algebra takes float32, float64 or complex, not float16. "
                "Use astype(x, float32)."
            ),
        ),
        (
            lambda: linalg.solve(md.asarray([[1]]), md.asarray([1])),
            PromotionError,
            "solve(Int64Tensor[1,1], Int64Tensor[1])",
            (
                "linear algebra takes float32, float64 or complex, not int64. "
                "Use astype(x, float32)."
            ),
        ),
        (
            lambda: linalg.det(WIDE),
            ShapeError,
            "det(Float32Tensor[2,3])",
            ("matrices are 2 by 3, not square. Give the shape [..., n, n]."),
        ),
        (
            lambda: linalg.svd(VECTOR),
            ShapeError,
            "svd(Float32Tensor[2])",
            (
                "a matrix must have at least 2 axes, but has 1. "
                "Give the shape [..., m, n]."
            ),
        ),
        (
            lambda: linalg.solve(SINGULAR, WIDE.T),
            ShapeError,
            "solve(Float32Tensor[2,2], Float32Tensor[3,2])",
            (
                "2 by 2 matrices need a right side of 2 rows, got 3. "
                "Give x2 the shape (2,) or (..., 2, k)."
            ),
        ),
        (
            lambda: linalg.solve(SINGULAR, md.asarray(1.0)),
            ShapeError,
            "solve(Float32Tensor[2,2], Float32Tensor[])",
            "the right side is 0-dimensional. Give it shape [m].",
        ),
        (
            lambda: linalg.qr(WIDE, mode="r"),
            OptionError,
            "qr(Float32Tensor[2,3])",
            "mode is 'r'. Use one of 'reduced', 'complete'.",
        ),
        (
            lambda: linalg.cholesky(SINGULAR, upper=1),
            OptionError,
            "cholesky(Float32Tensor[2,2])",
            "upper is 1. Use True or False.",
        ),
        (
            lambda: linalg.matrix_norm(WIDE, ord=3),
            OptionError,
            "matrix_norm(Float32Tensor[2,3])",
            "ord is 3. Use one of fro, nuc, 1, -1, 2, -2, inf, -inf.",
        ),
        (
            lambda: linalg.matrix_norm(WIDE[:, :0], ord=-1),
            ShapeError,
            "matrix_norm(Float32Tensor[2,0])",
            (
                "cannot take the minimum of no elements: matrices of shape (2, 0). "
                "Use another ord, or matrices with elements."
            ),
        ),
        (
            lambda: linalg.vector_norm(VECTOR[:0], ord=-inf),
            ShapeError,
            "vector_norm(Float32Tensor[0])",
            (
                "cannot take the minimum of no elements: shape (0,), axis None. "
                "Use another ord, or axes with elements."
            ),
        ),
        (
            lambda: linalg.vector_norm(VECTOR, ord="fro"),
            OptionError,
            "vector_norm(Float32Tensor[2])",
            (
                "ord must be a real number, but is 'fro'. Give a number, not a str or "
                "bool."
            ),
        ),
        (
            lambda: linalg.vector_norm(VECTOR, ord=float("nan")),
            OptionError,
            "vector_norm(Float32Tensor[2])",
            "ord is nan. Use a number, or an infinity.",
        ),
        (
            lambda: linalg.pinv(WIDE, rtol=[0.1]),
            OptionError,
            "pinv(Float32Tensor[2,3])",
            "rtol is of type list. Give a number or a tensor of floats.",
        ),
        (
            lambda: linalg.pinv(WIDE, rtol=md.asarray([0.1])),
            ShapeError,
            "pinv(Float32Tensor[2,3])",
            (
                "rtol of shape (1,) does not broadcast to the stack (). "
                "Give one number, or one for each matrix of the stack."
            ),
        ),
        (
            lambda: linalg.diagonal(WIDE, offset=0.5),
            OptionError,
            "diagonal(Float32Tensor[2,3])",
            "offset is 0.5. Use an integer.",
        ),
        (
            lambda: linalg.trace(WIDE + 1j, dtype=md.int8),
            CastError,
            "trace(Complex64Tensor[2,3])",
            (
                "int8 cannot represent the result for complex64 elements. "
                "Use real(x) or abs(x) first."
            ),
        ),
        (
            lambda: md.matrix_transpose(VECTOR),
            ShapeError,
            "matrix_transpose(Float32Tensor[2])",
            (
                "a matrix must have at least 2 axes, but has 1. "
                "Give the shape [..., m, n]."
            ),
        ),
    ],
)
def test_what_is_refused(
    call: Any, error: type[Exception], head: str, text: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == f"{head}: {text}"


def test_integers_have_no_inverse_matrices() -> None:
    with pytest.raises(DispatchError, match=r"^inv\(Int64Tensor\): no method: x is"):
        linalg.inv(md.asarray([[1]]))


def test_the_namespace_is_that_of_the_standard() -> None:
    names = """cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul
        matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr slogdet
        solve svd svdvals tensordot trace vecdot vector_norm"""
    operations = [
        n
        for n, f in vars(linalg).items()
        if hasattr(f, "operation") and not isinstance(f, type)
    ]
    assert sorted(operations) == names.split()
    for name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
        assert getattr(linalg, name) is getattr(md, name)


def test_options_of_any_size() -> None:
    x = md.asarray([[3.0, 0.0], [0.0, 4.0]])
    assert linalg.matrix_rank(x, rtol=10**400).item() == 0
    assert linalg.pinv(x, rtol=1e300).tolist() == [[0, 0], [0, 0]]
    assert linalg.vector_norm(x[0], ord=-(10**400)).item() == 0
    assert md.isnan(md.std(x, correction=10**400)).item()
    with pytest.raises(OptionError, match="ord is ndarray"):
        linalg.matrix_norm(x, ord=np.array([1, 2]))


@pytest.mark.parametrize("dtype", [md.float32, md.float64, md.complex64])
def test_matrices_with_nan_have_nan_everywhere(dtype: md.DType) -> None:
    fine = [[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 1.0]]
    for row, column in itertools.product(range(3), repeat=2):
        bad = [[*line] for line in fine]
        bad[row][column] = float("nan")
        x = md.asarray([fine, bad, fine], dtype=dtype)
        results = [linalg.det(x), *linalg.slogdet(x), linalg.inv(x)]
        if row >= column:  # the upper triangle is not read
            results += [linalg.eigvalsh(x), *linalg.eigh(x)]
        for found in results:
            assert np.isnan(found.buffer[1]).all()
            assert np.isfinite(found.buffer[::2]).all()
