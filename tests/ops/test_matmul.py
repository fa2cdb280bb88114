"""Products against Python integers, term by term."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.errors import (
    DispatchError,
    LinAlgError,
    OptionError,
    PromotionError,
    ShapeError,
)

Numbers = np.ndarray[Any, Any]
NUMBERS = [leaf.dtype for leaf in md.leaves()[1:15]]
INTEGERS = [dtype for dtype in NUMBERS if dtype.is_integer]


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


def tensor(values: Any, dtype: md.DType) -> md.Tensor:
    """Integers as `dtype` holds them, wrapped."""
    return md.from_numpy(np.asarray(values).astype(dtype.storage))


def held(values: Any, dtype: md.DType) -> Any:
    """Exact integers as `dtype` holds them: wrapped, or rounded once."""
    exact = np.asarray(values, object)
    if not dtype.is_integer:
        return exact.astype(np.complex128).real.astype(dtype.storage).tolist()
    low, count = int(dtype.minimum), 2**dtype.bits
    return np.asarray((exact - low) % count + low).tolist()


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
    found = md.matmul(*(tensor(v, dtype) for v in pair))
    assert found.dtype is dtype
    assert found.tolist() == held(naive(*pair), dtype)


@given(factors(), factors(), st.sampled_from([md.complex64, md.complex128]))
def test_products_of_complex_numbers(
    first: tuple[Numbers, Numbers], second: tuple[Numbers, Numbers], dtype: md.DType
) -> None:
    (a, b), (c, d) = first, second
    c, d = np.resize(c, a.shape), np.resize(d, b.shape)
    x, y = tensor(a + 1j * c, dtype), tensor(b + 1j * d, dtype)
    want = naive(a, b) - naive(c, d) + 1j * (naive(a, d) + naive(c, b))
    assert md.matmul(x, y).tolist() == want.tolist()
    if y.ndim == 2:
        assert md.linear(x, y.T).tolist() == want.tolist()


@given(factors(), st.sampled_from(NUMBERS), st.booleans())
def test_linear(
    pair: tuple[Numbers, Numbers], dtype: md.DType, with_bias: bool
) -> None:
    x, w = pair
    while w.ndim > 2:
        w = w[0]
    w = w.T
    b = np.arange(len(w))
    bias = tensor(b, dtype) if with_bias else None
    found = md.linear(tensor(x, dtype), tensor(w, dtype), bias)
    want = naive(x, w.T) + (b if with_bias else 0)
    assert found.dtype is dtype
    assert found.tolist() == held(want, dtype)


@given(factors(), st.sampled_from(NUMBERS))
def test_vecdot(pair: tuple[Numbers, Numbers], dtype: md.DType) -> None:
    a, b = pair
    b = b.swapaxes(-1, -2)[..., :1, :]  # [..., 1, k]
    if not b.size:
        return
    want = naive(a, b.swapaxes(-1, -2))[..., 0]
    x, y = tensor(a, dtype), tensor(b, dtype)
    assert md.vecdot(x, y).tolist() == held(want, dtype)
    moved = md.vecdot(x.mT, y.mT, axis=-2)
    assert (moved.dtype, moved.tolist()) == (dtype, held(want, dtype))


@given(factors(), st.sampled_from(NUMBERS))
def test_tensordot(pair: tuple[Numbers, Numbers], dtype: md.DType) -> None:
    a, b = pair
    x, y = tensor(a, dtype), tensor(b, dtype)
    found = md.tensordot(x, y, axes=([-1], [b.ndim - 2]))
    assert (found.dtype, found.shape[: a.ndim - 1]) == (dtype, a.shape[:-1])
    for left in np.ndindex(a.shape[:-2]):
        for right in np.ndindex(b.shape[:-2]):
            one = found[(*left, slice(None), *right)]
            assert one.tolist() == held(naive(a[left], b[right]), dtype)


@given(factors(), st.sampled_from(NUMBERS))
def test_tensordot_by_number(pair: tuple[Numbers, Numbers], dtype: md.DType) -> None:
    a, _ = pair
    x, axes = tensor(a, dtype), a.ndim
    squares = int((a.astype(object) ** 2).sum())
    assert md.tensordot(x, x, axes=axes).tolist() == held(squares, dtype)
    assert md.tensordot(x, tensor(2, dtype), axes=0).shape == a.shape


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_outer(dtype: md.DType) -> None:
    a, b = [1, 9, 100], [3, 100]
    found = md.linalg.outer(tensor(a, dtype), tensor(b, dtype))
    assert found.dtype is dtype
    assert found.tolist() == held([[p * q for q in b] for p in a], dtype)
    both = md.tensordot(tensor(a, dtype), tensor(b, dtype), axes=0)
    assert both.tolist() == found.tolist()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_cross(dtype: md.DType, rng: np.random.Generator) -> None:
    a, b = rng.integers(0, 9, (2, 4, 3)), rng.integers(0, 9, (5, 1, 4, 3))
    want = np.stack(
        [
            a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1],
            a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2],
            a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0],
        ],
        -1,
    )
    x, y = tensor(a, dtype), tensor(b, dtype)
    found = md.linalg.cross(x, y)
    assert (found.dtype, found.tolist()) == (dtype, held(want, dtype))
    moved = md.linalg.cross(x.mT, y.mT, axis=-2)
    assert moved.mT.tolist() == found.tolist()


@given(st.integers(0, 12), st.sampled_from(INTEGERS))
def test_powers_of_integers_wrap(n: int, dtype: md.DType) -> None:
    a = np.array([[3, 1], [2, 5]], object)
    want = np.eye(2, dtype=object)
    for _ in range(n):
        want = want @ a
    found = md.linalg.matrix_power(tensor(a, dtype), n)
    assert (found.dtype, found.tolist()) == (dtype, held(want.astype(object), dtype))


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if not d.is_integer], ids=str)
def test_powers_of_fractions(dtype: md.DType) -> None:
    x = tensor([[[2, 0], [2, 4]]], dtype)
    assert md.linalg.matrix_power(x, 3).tolist() == [[[8, 0], [56, 64]]]
    inverse = md.linalg.matrix_power(x, -2)
    assert inverse.tolist() == [[[0.25, 0], [-0.1875, 0.0625]]]
    assert inverse.dtype is dtype


@pytest.mark.parametrize("number", [np.int8, np.uint64, np.array, md.asarray])
def test_the_exponent_may_be_a_0d_tensor(number: Any) -> None:
    x = md.asarray([[1, 1], [1, 0]])
    assert md.linalg.matrix_power(x, number(10)).tolist() == [[89, 55], [55, 34]]
    with md.checked() as log:
        md.linalg.matrix_power(x, number(100))
    assert log.lost["wrapped"] == 4


def test_vecdot_conjugates_its_first_operand() -> None:
    x, y = md.asarray([1 + 2j, 3]), md.asarray([4j, 1 + 1j])
    assert md.vecdot(x, y).tolist() == (1 - 2j) * 4j + 3 * (1 + 1j)
    assert md.tensordot(x, y, axes=1).tolist() == (1 + 2j) * 4j + 3 * (1 + 1j)


def test_an_axis_counts_from_the_front_of_equal_ranks(
    rng: np.random.Generator,
) -> None:
    a, b = rng.integers(-9, 10, (2, 3, 4)), rng.integers(-9, 10, (3, 1))
    x, y = md.asarray(a), md.asarray(b)
    assert md.vecdot(x, x, axis=1).tolist() == (a * a).sum(1).tolist()
    assert md.vecdot(x, y, axis=-2).tolist() == (a * b).sum(-2).tolist()
    with pytest.raises(ShapeError) as caught:
        md.vecdot(x, y, axis=0)
    assert str(caught.value) == (
        "vecdot(Int64Tensor[2,3,4], Int64Tensor[3,1]): axis 0 is ambiguous for 3 "
        "and 2 dimensions. Count from the end: axes go from -2 to -1."
    )


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


def test_bfloat16_rounds_once() -> None:
    x = tensor([[256, 1, 1]], md.bfloat16)
    one = md.ones((3,), dtype=md.bfloat16)
    for found in (md.matmul(x, one), md.vecdot(x, one), md.tensordot(x, one, axes=1)):
        assert (found.dtype, found.tolist()) == (md.bfloat16, [258.0])
    bias = md.ones((1,), dtype=md.bfloat16)
    two = md.linear(x[:, :2], md.ones((1, 2), dtype=md.bfloat16), bias)
    assert two.tolist() == [[258.0]]
    # An integer becomes bfloat16 before it is multiplied, as in mul.
    n, tiny = md.asarray([257]), tensor([0.0078125], md.bfloat16)
    assert md.matmul(n, tiny).tolist() == md.sum(n * tiny).tolist() == 2.0


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


INT, FLOAT = md.ones((2, 3), dtype=md.int64), md.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "head", "text"),
    [
        (
            lambda: FLOAT @ INT,
            ShapeError,
            "matmul(Float32Tensor[2,3], Int64Tensor[2,3])",
            (
                "inner sizes differ, 3 and 2. "
                "Give the shapes [..., m, k] and [..., k, n]."
            ),
        ),
        (
            lambda: md.asarray(1.0) @ md.ones((1,)),
            ShapeError,
            "matmul(Float32Tensor[], Float32Tensor[1])",
            "an operand is 0-dimensional. Use mul.",
        ),
        (
            lambda: md.ones((2, 1, 1)) @ md.ones((3, 1, 1)),
            ShapeError,
            "matmul(Float32Tensor[2,1,1], Float32Tensor[3,1,1])",
            "shapes (2,) and (3,) do not broadcast. Make the sizes equal.",
        ),
        (
            lambda: md.linear(FLOAT, FLOAT[0]),
            ShapeError,
            "linear(Float32Tensor[2,3], Float32Tensor[3])",
            "weights have shape (3,). Give them shape [out, in].",
        ),
        (
            lambda: md.vecdot(FLOAT, FLOAT[:, :2]),
            ShapeError,
            "vecdot(Float32Tensor[2,3], Float32Tensor[2,2])",
            "axis -1 has size 3 in x1 and 2 in x2. Choose an axis of equal sizes.",
        ),
        (
            lambda: md.vecdot(FLOAT, md.ones(())),
            ShapeError,
            "vecdot(Float32Tensor[2,3], Float32Tensor[])",
            "an operand is 0-dimensional. Use mul.",
        ),
        (
            lambda: md.tensordot(FLOAT, INT, axes=1),
            ShapeError,
            "tensordot(Float32Tensor[2,3], Int64Tensor[2,3])",
            "paired axes have the sizes 3 and 2. Pair axes of equal sizes.",
        ),
        (
            lambda: md.tensordot(FLOAT, INT, axes=([0, 0], [0, 1])),
            ShapeError,
            "tensordot(Float32Tensor[2,3], Int64Tensor[2,3])",
            "axes ([0, 0], [0, 1]) repeat. Name each axis once.",
        ),
        (
            lambda: md.tensordot(FLOAT, INT, axes=([0, 1], [0])),
            ShapeError,
            "tensordot(Float32Tensor[2,3], Int64Tensor[2,3])",
            "2 axes cannot pair with 1. Name the same number of axes of x1 and x2.",
        ),
        (
            lambda: md.tensordot(FLOAT, INT, axes=-1),
            OptionError,
            "tensordot(Float32Tensor[2,3], Int64Tensor[2,3])",
            (
                "axes is -1. Give a number of axes, 0 or more, or the axes of each "
                "operand."
            ),
        ),
        (
            lambda: md.tensordot(FLOAT, md.ones((2, 3, 1)), axes=3),
            ShapeError,
            "tensordot(Float32Tensor[2,3], Float32Tensor[2,3,1])",
            "axes is 3, but an operand has 2 dimensions. Use fewer axes.",
        ),
        (
            lambda: md.tensordot(md.ones((2, 3, 1)), FLOAT, axes=3),
            ShapeError,
            "tensordot(Float32Tensor[2,3,1], Float32Tensor[2,3])",
            "axis 2 does not exist in 2 dimensions. Axes go from -2 to 1.",
        ),
        (
            lambda: md.linalg.outer(FLOAT, INT),
            ShapeError,
            "outer(Float32Tensor[2,3], Int64Tensor[2,3])",
            "operands have 2 and 2 dimensions, not 1. Use tensordot with axes=0.",
        ),
        (
            lambda: md.linalg.cross(INT.T, INT.T),
            ShapeError,
            "cross(Int64Tensor[3,2], Int64Tensor[3,2])",
            (
                "cross needs vectors of 3 elements, and axis -1 has size 2. Choose an "
                "axis of size 3, or pad vectors of 2 elements with a 0."
            ),
        ),
        (
            lambda: md.linalg.matrix_power(FLOAT, 2),
            ShapeError,
            "matrix_power(Float32Tensor[2,3], int)",
            ("matrices are 2 by 3, not square. Give the shape [..., n, n]."),
        ),
        (
            lambda: md.linalg.matrix_power(FLOAT[:, :2], True),
            OptionError,
            "matrix_power(Float32Tensor[2,2], bool)",
            "the exponent is True. Use an integer.",
        ),
        (
            lambda: md.linalg.matrix_power(FLOAT[:, :2], md.asarray([1, 2])),
            OptionError,
            "matrix_power(Float32Tensor[2,2], Int64Tensor[2])",
            (
                "the exponent has the shape (2,). Use an integer, or a 0-d tensor of "
                "integers."
            ),
        ),
        (
            lambda: md.linalg.matrix_power(INT[:, :2], md.asarray(-1)),
            PromotionError,
            "matrix_power(Int64Tensor[2,2], int)",
            "matrices of int64 do not have an inverse. Use astype(x, float32).",
        ),
        (
            lambda: md.linalg.matrix_power(INT[:, :2], -1),
            PromotionError,
            "matrix_power(Int64Tensor[2,2], int)",
            "matrices of int64 do not have an inverse. Use astype(x, float32).",
        ),
        (
            lambda: md.linalg.matrix_power(FLOAT[:, :2], -1),
            LinAlgError,
            "matrix_power(Float32Tensor[2,2], int)",
            "a matrix is singular. Use n ≥ 0, or pinv.",
        ),
    ],
)
def test_what_is_refused(
    call: Any, error: type[Exception], head: str, text: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == f"{head}: {text}"


def test_what_is_no_number_has_no_product() -> None:
    truth = md.asarray([True])
    for call in (lambda: md.matmul(FLOAT, 2.0), lambda: truth @ truth):
        with pytest.raises(DispatchError, match=r"^matmul\(.*no method: x[12] is"):
            call()


def test_no_product_without_a_common_type() -> None:
    unsigned, signed = md.ones((1,), dtype=md.uint64), md.ones((1,), dtype=md.int64)
    with pytest.raises(PromotionError, match=r"^matmul\(UInt64Tensor\[1\], Int64"):
        md.matmul(unsigned, signed)


@each("dtype", INTEGERS)
@each("magnitude", [2**4, 2**10, 2**11, 2**24, 2**25, 2**62])
@each("shape", [(16, 64, 16), (3, 1, 8, 64, 8), (64, 256)])
def test_large_products_of_integers(
    dtype: md.DType, magnitude: int, shape: tuple[int, ...]
) -> None:
    """Around 2**24 and 2**53, up to which floats hold sums exactly."""
    *left, k, n = shape if len(shape) > 2 else (*shape, 1)
    low, high = int(dtype.minimum), int(dtype.maximum)
    given = {max(low, -magnitude), max(low, 1 - magnitude), min(high, magnitude), 0}
    rng = np.random.default_rng(3)
    values = np.array(sorted(given), dtype.storage)
    a, b = rng.choice(values, (*left, k)), rng.choice(values, (k, n))
    a[..., 0, :], b[:, 0] = values[-1], values[-1]
    if len(shape) == 2:
        b = b[:, 0]
    found = md.matmul(md.asarray(a), md.asarray(b))
    assert np.array_equal(found.buffer, np.matmul(a, b))
    assert found.dtype is dtype


@pytest.mark.parametrize(("m", "n"), [(521, 521), (2**24 + 1, 2**23 + 2**21 + 1)])
def test_a_sum_that_floats_would_round(m: int, n: int) -> None:
    """63 · m · n is odd and beyond 2**24 or 2**53, 64 · m · n less than twice it."""
    a, b = np.full((16, 64), m), np.full((64, 16), n)
    a[:, 5] = 0
    found = md.matmul(md.asarray(a), md.asarray(b)).tolist()
    assert found == [[63 * m * n] * 16] * 16
