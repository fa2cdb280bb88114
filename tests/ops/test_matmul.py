"""Products against Python integers, term by term."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, PromotionError, ShapeError

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]

Numbers = np.ndarray[Any, Any]
NUMBERS = [leaf.dtype for leaf in DENSE[1:]]


def naive(a: Numbers, b: Numbers) -> Numbers:
    """[..., m, k] by [..., k, n] in Python integers."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, batch + a.shape[-2:])
    b = np.broadcast_to(b, batch + b.shape[-2:])
    y = np.zeros((*batch, a.shape[-2], b.shape[-1]), object)
    for at in np.ndindex(y.shape):
        *outer, i, j = at
        row, column = a[(*outer, i)], b[(*outer, slice(None), j)]
        y[at] = sum(int(p) * int(q) for p, q in zip(row, column, strict=True))
    return y


def held(values: Numbers, dtype: md.DType) -> Any:
    """Exact integers as `dtype` holds them: wrapped, or as they are."""
    if dtype.is_floating:
        return values.tolist()
    low, count = int(dtype.minimum), 2**dtype.bits
    return ((values - low) % count + low).tolist()


@st.composite
def factors(draw: Callable[..., Any]) -> tuple[Numbers, Numbers]:
    m, k, n = (draw(st.integers(0, 5)) for _ in range(3))
    left, right = draw(
        st.sampled_from([((), ()), ((2,), ()), ((), (3,)), ((2, 1), (3,))])
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low, high = draw(st.sampled_from([(-9, 10), (0, 15)]))
    return rng.integers(low, high, (*left, m, k)), rng.integers(
        low, high, (*right, k, n)
    )


@given(factors(), st.sampled_from(NUMBERS))
def test_matmul(pair: tuple[Numbers, Numbers], dtype: md.DType) -> None:
    a, b = (md.astype(md.asarray(v), dtype, casting="wrap") for v in pair)
    found = md.matmul(a, b)
    assert found.dtype is dtype
    assert found.tolist() == held(naive(a.buffer, b.buffer), dtype)


@given(factors(), st.sampled_from(NUMBERS), st.booleans())
def test_linear(
    pair: tuple[Numbers, Numbers], dtype: md.DType, with_bias: bool
) -> None:
    x, w = pair
    while w.ndim > 2:
        w = w[0]
    w = w.T
    x, w = (md.astype(md.asarray(v), dtype, casting="wrap") for v in (x, w))
    b = md.astype(md.arange(len(w)), dtype)
    found = md.linear(x, w, b if with_bias else None)
    want = naive(x.buffer, w.buffer.T) + (np.arange(len(w)) if with_bias else 0)
    assert found.dtype is dtype
    assert found.tolist() == held(want, dtype)


def test_vectors() -> None:
    v, m = md.asarray([1, 2]), md.asarray([[1, 10], [100, 1000]])
    assert md.matmul(v, v).tolist() == 5
    assert md.matmul(v, m).tolist() == [201, 2010]
    assert md.matmul(m, v).tolist() == [21, 2100]
    assert md.linear(v, m).tolist() == [21, 2100]


def test_mixed_types_promote() -> None:
    x, n = md.asarray([[0.5]]), md.asarray([[3]], dtype=md.int8)
    for a, b in ((x, n), (n, x)):
        assert type(md.matmul(a, b)) is md.Float32Tensor
        assert md.matmul(a, b).tolist() == [[1.5]]
    u = md.asarray([[200]], dtype=md.uint8)
    assert type(md.matmul(n, u)) is md.Int16Tensor
    assert md.matmul(n, u).tolist() == [[600]]
    wide = md.linear(x, n, md.ones((1,), dtype=md.float64))
    assert (type(wide), wide.tolist()) == (md.Float64Tensor, [[2.5]])


def test_wide_integers_are_exact() -> None:
    big = md.asarray([[2**62 + 1]])
    assert md.matmul(big, md.asarray([[1]])).tolist() == [[2**62 + 1]]
    assert md.matmul(big, md.asarray([[4]])).tolist() == [[4]]


def test_float16_rounds_once() -> None:
    a = md.asarray(np.array([[2048, 1, 1]], np.float16))
    one = md.ones((3, 1), dtype=md.float16)
    assert md.matmul(a, one).tolist() == [[2050.0]]
    bias = md.ones((1,), dtype=md.float16)
    row = md.asarray(np.array([[2048, 1]], np.float16))
    assert md.linear(row, md.ones((1, 2), dtype=md.float16), bias).tolist() == [
        [2050.0]
    ]
    huge = md.full((1, 1), 60000.0, dtype=md.float16)
    assert md.matmul(huge, huge).tolist() == [[float("inf")]]


def test_transposed_and_strided_operands(rng: np.random.Generator) -> None:
    a, b = rng.integers(-9, 10, (6, 4)), rng.integers(-9, 10, (8, 6))
    for dtype in (md.float32, md.int32):
        x, y = (md.astype(md.asarray(v), dtype) for v in (a, b))
        assert md.matmul(x.T, y.T).tolist() == naive(a.T, b.T).tolist()
        assert md.matmul(x[::2].T, y[:, ::2].T).tolist() == (
            naive(a[::2].T, b[:, ::2].T).tolist()
        )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: md.ones((2, 3)) @ md.ones((2, 3)), ShapeError, "inner sizes differ"),
        (lambda: md.asarray(1.0) @ md.ones((1,)), ShapeError, "has no inner axis"),
        (lambda: md.ones((2, 1, 1)) @ md.ones((3, 1, 1)), ShapeError, "broadcast"),
        (lambda: md.linear(md.ones((3,)), md.ones((3,))), ShapeError, "weights have"),
        (lambda: md.matmul(md.ones((1,)), 2.0), DispatchError, "x2 is float"),
        (lambda: md.asarray([True]) @ md.asarray([True]), DispatchError, "BoolTensor"),
        (
            lambda: md.ones((1,), dtype=md.uint64) @ md.ones((1,), dtype=md.int64),
            PromotionError,
            "uint64 and int64 have no common type",
        ),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=rf"^(matmul|linear)\(.*{text}"):
        call()
