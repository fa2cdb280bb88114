"""Exact products of 8-bit integers, against int64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import OptionError, PromotionError, ShapeError

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


@given(
    TYPES,
    TYPES,
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(1, 6)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    ZEROS,
    ZEROS,
    st.sampled_from([0, 1, (0, 2, 1, 3)]),
    st.sampled_from([1, (2, 1)]),
)
def test_convolutions_against_int64(
    left: Any,
    right: Any,
    sizes: Any,
    image: Any,
    kernel: Any,
    first: Any,
    second: Any,
    padding: Any,
    stride: Any,
) -> None:
    """A convolution of float64 is exact for such short sums."""
    n, groups, each = sizes
    x = whole(
        left, (n, 2 * groups, *(a + b for a, b in zip(image, kernel, strict=True)))
    )
    w = whole(right, (groups * each, 2, *kernel))
    zx = None if first is None else whole(left, () if first == "columns" else first)
    zw = None
    if second is not None:
        zw = whole(right, (len(w),) if second == "columns" else second)
    options: Any = {"padding": padding, "stride": stride, "groups": groups}
    given_ = [None if one is None else md.asarray(one) for one in (x, w, zx, zw)]
    found = md.conv2d_integer(*given_, **options)
    start = 0.0 if zx is None else float(zx.reshape(()))
    shift = 0.0 if zw is None else zw.astype(np.float64).reshape(-1, 1, 1, 1)
    numbers = md.asarray(x.astype(np.float64) - start), md.asarray(w - shift)
    wanted = md.conv2d(*numbers, **options)
    assert found.dtype is md.int32
    assert found.tolist() == wanted.tolist()


def test_dynamic_grids() -> None:
    """Codes cover x and 0, and products are those of what the codes stand for."""
    for shift in (-9, 0, 9):
        x = (RNG.standard_normal((7, 12)) + shift).astype(np.float32)
        codes, scale, zero = (
            np.asarray(md.dynamic_quantize(md.asarray(x), part=part)).astype(np.float64)
            for part in ("codes", "scale", "zero_point")
        )
        real = (codes - zero) * scale
        assert np.abs(real - x).max() <= scale * 0.5001
        w, bias = whole(np.uint8, (12, 5)), RNG.standard_normal(5).astype(np.float32)
        factor, start = np.float32([1, 2, 3, 4, 5]) / 64, whole(np.uint8, (5,))
        given_ = [md.asarray(one) for one in (x, w, factor, start, bias)]
        wanted = real @ ((w.astype(np.float64) - start) * factor) + bias
        np.testing.assert_allclose(
            np.asarray(md.dynamic_matmul(*given_)), wanted, rtol=2e-6, atol=2e-4
        )


def test_grids_of_odd_elements() -> None:
    def parts(x: Any) -> Any:
        names = ("codes", "scale", "zero_point")
        return [md.dynamic_quantize(md.asarray(x), part=n).tolist() for n in names]

    assert parts(np.zeros(2, np.float32)) == [[0, 0], 1.0, 0]
    assert parts(np.zeros((0,), np.float32)) == [[], 1.0, 0]
    for odd in (np.nan, np.inf):
        codes, scale, zero = parts(np.float32([1, odd]))
        assert (codes, zero) == ([0, 0], 0)
        assert not np.isfinite(scale)
        x, w = md.asarray(np.float32([[1, odd]])), md.asarray([[1], [2]], dtype=md.int8)
        found = md.dynamic_matmul(x, w, md.asarray(np.float32(1)))
        assert np.isnan(np.asarray(found)).all()


def test_what_dynamic_products_refuse() -> None:
    x, w = md.zeros((2, 3), dtype=md.float32), md.zeros((3, 4), dtype=md.int8)
    scale = md.ones((4,), dtype=md.float32)
    with pytest.raises(PromotionError, match="x is float64"):
        md.dynamic_matmul(md.astype(x, md.float64), w, scale)
    with pytest.raises(ShapeError, match=r"the scale has shape \(3,\)"):
        md.dynamic_matmul(x, w, scale[:3])
    with pytest.raises(ShapeError, match=r"the bias has shape \(1,\)"):
        md.dynamic_matmul(x, w, scale, None, scale[:1])
    with pytest.raises(OptionError, match="part"):
        md.dynamic_quantize(x, part="zero")
    with pytest.raises(ShapeError, match="33,027 products could leave int32"):
        image = md.zeros((1, 33_027, 1, 1), dtype=md.uint8)
        md.conv2d_integer(image, md.zeros((1, 33_027, 1, 1), dtype=md.int8))
