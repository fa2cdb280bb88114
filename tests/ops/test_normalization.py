"""Normalization against fractions, and against the formula in float64."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import DispatchError, ShapeError

FLOATS = [md.float16, md.float32, md.float64]
STATISTICS = ([3.0, -1.0], [4.0, 0.25], [2.0, 0.5], [1.0, -8.0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm(dtype: md.DType) -> None:
    """Roots of squares, so that fractions give the exact result."""
    x = np.arange(-6.0, 6.0).reshape(2, 2, 3)
    m, v, w, b = STATISTICS
    want = np.zeros(x.shape)
    for n, c, i in product(range(2), range(2), range(3)):
        scale = Fraction(w[c]) / Fraction(v[c] ** 0.5)
        want[n, c, i] = float(
            (Fraction(x[n, c, i]) - Fraction(m[c])) * scale + Fraction(b[c])
        )
    tensors = [md.asarray(s, dtype=dtype) for s in STATISTICS]
    found = md.batch_norm(md.asarray(x.tolist(), dtype=dtype), *tensors, eps=0.0)
    assert found.dtype is dtype
    assert found.tolist() == want.tolist()


def test_batch_norm_adds_eps_to_the_variance() -> None:
    x, zero, one = md.ones((1, 1)), md.zeros((1,)), md.ones((1,))
    assert md.batch_norm(x, zero, one, one, zero, eps=3.0).tolist() == [[0.5]]
    default = md.batch_norm(md.ones((1, 1), dtype=md.float64), zero, one, one, zero)
    assert default.tolist() == [[1 / (1 + 1e-5) ** 0.5]]


def test_statistics_keep_their_digits() -> None:
    """Doubles all the way, in the order of the formula."""
    m, v, w, b = 0.1, 0.7, 1 / 3, 0.9
    s = w / (v + 1e-5) ** 0.5
    one = [md.asarray([n], dtype=md.float64) for n in (m, v, w, b)]
    x = md.full((1, 1), 0.3, dtype=md.float64)
    assert md.batch_norm(x, *one).tolist() == [[(0.3 - m) * s + b]]
    filters, shift = md.fold_batch_norm(x, x[0], *one)
    assert filters.tolist() == [[0.3 * s]]
    assert shift.tolist() == [(0.3 - m) * s + b]


def test_batch_norm_keeps_the_type_of_x() -> None:
    statistics = [md.ones((2,), dtype=md.float64)] * 4
    assert type(md.batch_norm(md.ones((1, 2, 3)), *statistics)) is md.Float32Tensor


def test_batch_norm_refuses() -> None:
    one = md.ones((2,))
    with pytest.raises(DispatchError):
        md.batch_norm(md.ones((1, 2), dtype=md.int8), one, one, one, one)
    with pytest.raises(ShapeError, match="no axis of channels"):
        md.batch_norm(md.ones((2,)), one, one, one, one)


@pytest.mark.parametrize("with_bias", [True, False])
def test_folding_equals_the_two_steps(
    with_bias: bool, rng: np.random.Generator
) -> None:
    x, w = rng.standard_normal((2, 3, 6, 6)), rng.standard_normal((4, 3, 3, 3))
    x, w, b = md.asarray(x), md.asarray(w), md.asarray(rng.standard_normal(4))
    b = b if with_bias else None
    rest = [md.asarray(rng.uniform(0.5, 2, 4)) for _ in range(4)]
    steps = md.batch_norm(md.conv2d(x, w, b), *rest, eps=0.1)
    w2, b2 = md.fold_batch_norm(w, b, *rest, eps=0.1)
    assert np.allclose(md.conv2d(x, w2, b2), steps, rtol=1e-12, atol=1e-12)


def test_folding_is_exact_and_rounds_once() -> None:
    m, v, s, t = (md.asarray(x) for x in STATISTICS)
    w = md.ones((2, 1, 1, 1), dtype=md.float16)
    b = md.asarray([5.0, 7.0])
    w2, b2 = md.fold_batch_norm(w, b, m, v, s, t, eps=0.0)
    assert (type(w2), type(b2)) == (md.Float16Tensor, md.Float16Tensor)
    assert (w2.buffer.ravel().tolist(), b2.tolist()) == ([1.0, 1.0], [3.0, 0.0])
    with pytest.raises(ShapeError):
        md.fold_batch_norm(w, md.ones((3,)), m, v, s, t)
