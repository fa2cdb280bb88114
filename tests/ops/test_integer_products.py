"""Exact products of 8-bit integers, against int64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import PromotionError, ShapeError

TYPES = st.sampled_from([np.int8, np.uint8])
RNG = np.random.default_rng(2)


def whole(dtype: Any, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def product(*arrays: Any) -> Any:
    """The product in int64, of integers minus zero points."""
    a, w, za, zw = (None if x is None else x.astype(np.int64) for x in arrays)
    return (a - (0 if za is None else za)) @ (w - (0 if zw is None else zw))


SIZES = st.tuples(*[st.integers(0, 40)] * 3)
ZEROS = st.sampled_from([None, (), (1,), "columns"])


@given(TYPES, TYPES, SIZES, ZEROS, ZEROS, st.booleans())
def test_against_int64(
    left: Any, right: Any, sizes: Any, first: Any, second: Any, is_batch: bool
) -> None:
    m, k, n = sizes
    a = whole(left, (2, m, k) if is_batch else (m, k))
    za = None if first is None else whole(left, () if first == "columns" else first)
    zw = (
        None
        if second is None
        else whole(right, (n,) if second == "columns" else second)
    )
    w = whole(right, (k, n))
    given_ = [None if x is None else md.asarray(x) for x in (a, w, za, zw)]
    found = md.matmul_integer(*given_)
    assert found.dtype is md.int32
    assert found.tolist() == product(a, w, za, zw).tolist()


def test_extremes_and_views() -> None:
    for left, right in ((0, -128), (255, 127), (255, -128)):
        a = np.full((2, 700), left, np.uint8)
        w = np.full((700, 3), right, np.int8)
        zero = np.uint8(255 - left)
        found = md.matmul_integer(md.asarray(a), md.asarray(w), md.asarray(zero))
        assert found.tolist() == product(a, w, zero, None).tolist()
    a, w = whole(np.uint8, (6, 9)), whole(np.int8, (5, 9))
    found = md.matmul_integer(md.from_numpy(a[::2]), md.from_numpy(w.T))
    assert found.tolist() == product(a[::2], w.T, None, None).tolist()


def test_a_plan_packs_constants_and_reads_inputs() -> None:
    """What a caller changes in place counts; what is constant is packed."""
    w = md.asarray(whole(np.int8, (9, 4)))

    def act(x: Any, zero: Any) -> Any:
        return md.matmul_integer(x, w, zero)

    compiled = md.compile(act)
    x, zero = md.asarray(whole(np.uint8, (3, 9))), md.asarray(np.uint8(7))
    for at in range(4):
        x[0, at] = at
        found = compiled(x, zero).tolist()
        assert found == product(x.buffer, w.buffer, zero.buffer, None).tolist()
        other = md.matmul_integer(x, md.asarray(w.buffer + np.int8(at)))
        wanted = product(x.buffer, w.buffer + np.int8(at), None, None)
        assert other.tolist() == wanted.tolist()


def test_what_does_not_fit_is_refused() -> None:
    a, w = md.zeros((2, 3), dtype=md.uint8), md.zeros((3, 4), dtype=md.int8)
    with pytest.raises(ShapeError, match=r"zero1 has shape \(2,\)"):
        md.matmul_integer(a, w, md.zeros((2,), dtype=md.uint8))
    with pytest.raises(ShapeError, match=r"Give it shape \(\), \(1,\) or \(4,\)"):
        md.matmul_integer(a, w, None, md.zeros((3,), dtype=md.int8))
    with pytest.raises(ShapeError, match="inner sizes differ, 3 and 2"):
        md.matmul_integer(a, w[:2])
    with pytest.raises(ShapeError, match="x1 has 1 axes, x2 has 2"):
        md.matmul_integer(a[0], w)
    with pytest.raises(PromotionError, match="take int8 and uint8, not int16"):
        md.matmul_integer(a, md.astype(w, md.int16))
    wide = md.zeros((1, 33_026), dtype=md.uint8)
    with pytest.raises(ShapeError, match="a sum of 33,026 products could leave int32"):
        md.matmul_integer(wide, md.zeros((33_026, 1), dtype=md.uint8))
