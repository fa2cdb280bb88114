"""Attention against its formula in float64; embedding and one-hot coding by index."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, MdtensorError, ShapeError

FLOATS = [md.bfloat16, md.float16, md.float32, md.float64]
ROOM = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 1e-5, "float64": 1e-13}
attention = md.scaled_dot_product_attention


def formula(q: Any, k: Any, v: Any, added: Any = 0.0, scale: Any = None) -> Any:
    """Query by query in float64; `added` is -inf where nothing is seen."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = np.einsum("...le,...se->...ls", q, k) * scale + added
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(weights / weights.sum(-1, keepdims=True))
    return np.einsum("...ls,...sv->...lv", weights, v)


def tensors(dtype: md.DType, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng([len(shapes), *shapes[0]])
    return [rng.standard_normal(shape).astype(dtype.storage) for shape in shapes]


def agrees(found: Any, want: np.ndarray, dtype: md.DType) -> None:
    room = ROOM[dtype.name]
    assert (found.dtype, found.shape) == (dtype, want.shape)
    assert found.buffer.dtype == dtype.storage
    assert np.allclose(found.buffer.astype(np.float64), want, rtol=room, atol=room)


@given(
    st.tuples(*[st.integers(1, 5)] * 4),
    st.sampled_from([(), (2,), (2, 3)]),
    st.sampled_from(FLOATS),
    st.sampled_from([None, 0.3]),
)
def test_against_the_formula(sizes: Any, batch: Any, dtype: Any, scale: Any) -> None:
    n, s, e, v = sizes
    q, k, v = tensors(dtype, (*batch, n, e), (*batch, s, e), (*batch[1:], s, v))
    given_ = [md.from_numpy(x) for x in (q, k, v)]
    agrees(attention(*given_, scale=scale), formula(q, k, v, scale=scale), dtype)
    ahead = np.triu(np.full((n, s), -np.inf), 1)
    agrees(attention(*given_, is_causal=True), formula(q, k, v, ahead), dtype)
    rng = np.random.default_rng(sizes)
    seen = rng.random((n, s)) < 0.6
    hidden = np.where(seen, 0.0, -np.inf)
    found = attention(*given_, attn_mask=md.from_numpy(seen))
    agrees(found, formula(q, k, v, hidden), dtype)
    bias = rng.integers(-2, 3, (*batch, 1, s)).astype(dtype.storage)
    found = attention(*given_, attn_mask=md.from_numpy(bias))
    agrees(found, formula(q, k, v, bias.astype(np.float64)), dtype)


def test_a_query_that_sees_nothing_gets_nothing() -> None:
    x = md.ones((2, 3))
    mask = md.asarray([[True, True], [False, False]])
    assert attention(x, x, x, attn_mask=mask).tolist() == [[1.0] * 3, [0.0] * 3]
    low = md.full((2, 2), -float("inf"))
    assert attention(x, x, x, attn_mask=low).tolist() == [[0.0] * 3] * 2
    assert attention(x, md.ones((0, 3)), md.ones((0, 3))).tolist() == [[0.0] * 3] * 2


def test_large_scores_do_not_overflow() -> None:
    x = md.full((2, 4), 1e18)
    assert attention(x, x, md.asarray([[1.0], [3.0]])).tolist() == [[2.0], [2.0]]


def test_types_promote_and_nothing_is_written(rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal((3, 4), np.float32) for _ in range(3)]
    arrays.append(rng.standard_normal((3, 3), np.float32))
    before = [x.copy() for x in arrays]
    q, k, v, mask = map(md.from_numpy, arrays)
    half = md.astype(q, md.float16, casting="saturate")
    assert attention(half, k, v, attn_mask=mask).dtype is md.float32
    attention(q, k, v, attn_mask=mask)
    assert all(np.array_equal(x, y) for x, y in zip(arrays, before, strict=True))


@given(st.data())
def test_embedding(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    rng = np.random.default_rng(len(shape))
    dtype = data.draw(st.sampled_from([np.int8, np.uint64, np.int64]))
    indices = rng.integers(0, 5, shape).astype(dtype)
    for table in (rng.standard_normal((5, 3)), np.arange(10, dtype=np.int8)[:, None]):
        found = md.embedding(md.from_numpy(indices), md.from_numpy(table))
        assert found.shape == (*shape, table.shape[1])
        for at in np.ndindex(shape):
            assert found.buffer[at].tolist() == table[int(indices[at])].tolist()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 3))
def test_one_hot(values: list[int], extra: int) -> None:
    count = max(values) + 1 + extra
    want = [[int(v == i) for i in range(count)] for v in values]
    for dtype in (md.int8, md.uint64, md.int64):
        x = md.asarray(values, dtype=dtype)
        found = md.one_hot(x, count)
        assert (found.dtype, found.tolist()) == (md.int64, want)
        assert md.one_hot(x).shape == (len(values), max(values) + 1)
    assert md.one_hot(md.asarray([], dtype=md.int8), 3).shape == (0, 3)
    assert md.one_hot(md.asarray(1), 3).tolist() == [0, 1, 0]


X = md.ones((2, 3))
REFUSED: dict[str, Callable[[], Any]] = {
    "scaled_dot_product_attention(Float32Tensor[2,3], Float32Tensor[2,4], "
    "Float32Tensor[2,3]): widths of query and key differ, 3 and 4. "
    "Give query [..., l, e], key [..., s, e] and value [..., s, v].": (
        lambda: attention(X, md.ones((2, 4)), X)
    ),
    "scaled_dot_product_attention(Float32Tensor[2,3], Float32Tensor[2,3], "
    "Float32Tensor[3,3]): lengths of key and value differ, 2 and 3. "
    "Give query [..., l, e], key [..., s, e] and value [..., s, v].": (
        lambda: attention(X, X, md.ones((3, 3)))
    ),
    "scaled_dot_product_attention(Float32Tensor[2,3], Float32Tensor[2,3], "
    "Float32Tensor[2,3]): attn_mask is of int64. "
    "Use a tensor of bools or floats.": (
        lambda: attention(X, X, X, attn_mask=md.asarray([1, 0]))
    ),
    "scaled_dot_product_attention(Float32Tensor[2,3], Float32Tensor[2,3], "
    "Float32Tensor[2,3]): attn_mask is of ndarray. "
    "Use a tensor of bools or floats.": (
        lambda: attention(X, X, X, attn_mask=np.ones((2, 2)))
    ),
    "scaled_dot_product_attention(Float32Tensor[2,3], Float32Tensor[2,3], "
    "Float32Tensor[2,3]): attn_mask and is_causal are both given. Pass one.": (
        lambda: attention(X, X, X, attn_mask=md.ones((2, 2)), is_causal=True)
    ),
    "scaled_dot_product_attention(Float32Tensor[2,3], Float32Tensor[2,3], "
    "Float32Tensor[2,3]): a mask of shape (4, 2, 2) does not broadcast to (2, 2). "
    "Give attn_mask the shape (2, 2).": (
        lambda: attention(X, X, X, attn_mask=md.ones((4, 2, 2)))
    ),
    "embedding(Int64Tensor[2], Float32Tensor[2,3]): an index is outside a table of 2 "
    "rows. Use integers of 0 or more.": lambda: md.embedding(md.asarray([0, 2]), X),
    "embedding(Int8Tensor[1], Float32Tensor[2,3]): an index is outside a table of 2 "
    "rows. Use integers of 0 or more.": (
        lambda: md.embedding(md.asarray([-1], dtype=md.int8), X)
    ),
    "embedding(Int64Tensor[1], Float32Tensor[2]): weight must have 2 axes, but has 1. "
    "Give the shape [rows, e].": (lambda: md.embedding(md.asarray([0]), X[0, :2])),
    "one_hot(Int64Tensor[2]): an element is outside of 2 classes. "
    "Use integers of 0 or more, or a larger num_classes.": (
        lambda: md.one_hot(md.asarray([0, 2]), 2)
    ),
    "one_hot(Int64Tensor[0]): cannot find the number of classes of an empty tensor. "
    "Pass num_classes.": lambda: md.one_hot(md.asarray([], dtype=md.int64)),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(MdtensorError) as caught:
        REFUSED[text]()
    assert str(caught.value) == text


def test_floats_are_no_indices() -> None:
    with pytest.raises(DispatchError):
        md.embedding(md.asarray([0.0]), X)
    with pytest.raises(DispatchError):
        attention(md.ones((2, 3), dtype=md.int8), X, X)


def test_more_classes_than_memory_holds() -> None:
    with pytest.raises(ShapeError) as caught:
        md.one_hot(md.asarray([2**62]))
    assert str(caught.value) == (
        "one_hot(Int64Tensor[1]): the result does not fit into memory. "
        "Ask for fewer elements."
    )
