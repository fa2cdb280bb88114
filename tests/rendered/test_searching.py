"""Searches, distinct elements, updates and products of bytes: the host's results."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device
from support.on_device import gpu, same_bytes, there

import mdtensor as md
from mdtensor.errors import BoundsError, MdtensorError, NoMethodError, OptionError

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
REAL = [md.int8, md.uint16, md.int64, md.uint64, md.float16, md.float32, md.float64]


def numbers(dtype: Any, *shape: int, seed: int = 0) -> Any:
    """Few different numbers; of floats also NaN, infinity and both zeros."""
    rng = np.random.default_rng((seed, *shape))
    found = rng.integers(0, 6, shape).astype(dtype.storage)
    if dtype.is_floating:
        for value in (np.nan, -0.0, 0.0, np.inf, -np.inf, 0.5):
            found[rng.random(shape) < 0.1] = value
    return md.asarray(found)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_searches(dtype: Any, side: str) -> None:
    line = md.sort(numbers(dtype, 37))
    for size in (0, 1, 2, 31, 37):
        for other in (dtype, md.float32, md.int64):
            wanted = numbers(other, 4, 5, seed=size)
            same_bytes(
                lambda a, b: md.searchsorted(a, b.T, side=side), line[:size], wanted
            )
    same_bytes(lambda a: md.searchsorted(a, 3, side=side), line)
    same_bytes(lambda a: md.searchsorted(a[::2], 2, side=side), line)
    mixed = numbers(dtype, 21, seed=3)
    order = md.argsort(mixed)
    same_bytes(lambda a, b: md.searchsorted(a, 2, side=side, sorter=b), mixed, order)


def test_a_sorter_with_an_index_outside() -> None:
    x, order = there(md.asarray([1, 2])), there(md.asarray([0, -1]))
    with pytest.raises(OptionError, match="sorter has an index out of bounds for 2"):
        md.searchsorted(x, x, sorter=order)


def test_numbers_that_rounding_would_make_equal() -> None:
    big = 2**53
    line = md.asarray([big - 1, big, big + 1, big + 2])
    same_bytes(md.searchsorted, line, md.asarray([float(big), big + 2.0]))


@pytest.mark.parametrize("dtype", [md.bool, *REAL], ids=str)
@pytest.mark.parametrize("shape", [(0,), (1,), (4, 9), ()], ids=str)
def test_distinct_elements(dtype: Any, shape: Any) -> None:
    x = numbers(dtype, *shape)
    for name in ("values", "counts", "inverse", "all"):
        call = getattr(md, f"unique_{name}")
        same_bytes(call, x)
        assert type(call(there(x))) is (
            type(there(x)) if name == "values" else type(call(x))
        )


@settings(max_examples=40)
@given(
    st.sampled_from([md.int8, md.int64, md.float32, md.float64]),
    st.sampled_from(["none", "add", "mul", "max", "min"]),
    st.sampled_from([0, 1]),
    st.tuples(st.integers(0, 4), st.integers(0, 5)),
    st.integers(0, 9),
)
def test_updates(
    dtype: Any, reduction: str, axis: int, size: tuple[int, int], seed: int
) -> None:
    x = numbers(dtype, 4, 5, seed=seed)
    shape = (7, size[1]) if axis == 0 else (size[0], 7)
    length = x.shape[axis]
    at = np.random.default_rng(seed).integers(-length, length, shape)
    updates = numbers(dtype, *shape, seed=seed + 1)
    options = {"axis": axis, "reduction": reduction}
    given = x, md.asarray(at.astype(np.int32)), updates
    same_bytes(lambda *a: md.scatter(*a, **options), *given)
    same_bytes(lambda x, *a: md.scatter(x[::-1, ::-1], *a, **options), *given)


def test_updates_that_are_refused() -> None:
    x, at = there(md.asarray([1.0, 2.0])), there(md.asarray([0, 2]))
    with pytest.raises(BoundsError, match="scatter"):
        md.scatter(x, at, x)
    half = x.astype(md.float16)
    ones = there(md.asarray([0, 1]))
    with pytest.raises(NoMethodError, match=r'scatter.*to\("cpu"\)'):
        md.scatter(half, ones, half, reduction="add")
    assert md.scatter(half, ones, half * 2).tolist() == [2.0, 4.0]


def test_picks_from_an_axis_without_elements() -> None:
    """They once raised an error of NumPy."""
    empty, none = md.zeros((0, 3)), md.zeros((0,), dtype=md.int64)
    same_bytes(lambda x, i: md.take(x, i, axis=0), empty, none)
    same_bytes(lambda x, i: md.take(x, i, axis=1), empty, md.asarray([1, -1]))
    same_bytes(lambda i, x: md.embedding(i, x), none, empty)
    for call in (lambda x, i: md.take(x, i, axis=0), lambda x, i: md.embedding(i, x)):
        for at in (lambda x: x, there):
            with pytest.raises(BoundsError):
                call(at(empty), at(md.asarray([0])))


BYTES = [md.int8, md.uint8]


@pytest.mark.parametrize("left", BYTES, ids=str)
@pytest.mark.parametrize("right", BYTES, ids=str)
def test_products_of_bytes(left: Any, right: Any) -> None:
    def codes(dtype: Any, *shape: int) -> Any:
        low, high = (-128, 128) if dtype is md.int8 else (0, 256)
        found = np.random.default_rng(shape).integers(low, high, shape)
        return md.asarray(found.astype(dtype.storage))

    a, b = codes(left, 2, 3, 5), codes(right, 5, 4)
    x, w = codes(left, 2, 4, 6, 7), codes(right, 4, 2, 3, 2)
    options = {"padding": 1, "stride": 2, "groups": 2}
    for zeros in ((None, None), (codes(left), codes(right, 1)),
                  (codes(left, 1), codes(right, 4))):  # fmt: skip
        same_bytes(md.matmul_integer, a, b, *zeros)
        same_bytes(lambda *y: md.conv2d_integer(*y, **options), x, w, *zeros)
    same_bytes(lambda a, b: md.matmul_integer(a[..., :0], b[:0]), a, b)
    with pytest.raises(MdtensorError, match="int8 and uint8"):
        md.matmul_integer(there(a).astype(md.int16), there(b))
