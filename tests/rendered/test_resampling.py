"""Resized images, uneven pools, transposed convolutions: the bytes of the host."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device
from support.on_device import agree, gpu, same_bytes, there

import mdtensor as md
from mdtensor.kernels.emulated.launcher import ORDERS

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
FLOATS = [md.float16, md.bfloat16, md.float32, md.float64]
MODES = ["nearest", "nearest-exact", "bilinear", "bicubic"]


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def image(dtype: Any, *shape: int, seed: int = 0) -> Any:
    """Normal numbers, or small whole ones of an integer type."""
    rng = np.random.default_rng((seed, *shape))
    if dtype.is_integer:
        return md.asarray(rng.integers(-9, 9, shape).astype(dtype.storage))
    return md.asarray(rng.standard_normal(shape).astype(dtype.storage))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_resized_images(dtype: Any, mode: str) -> None:
    x = image(dtype, 2, 4, 5, 7)
    same_bytes(lambda x: md.interpolate(x, size=(9, 4), mode=mode), x)
    same_bytes(lambda x: md.interpolate(x, size=1, mode=mode), x)
    part = {"scale_factor": (1.7, 0.6), "mode": mode}
    same_bytes(lambda x: md.interpolate(x[:, ::2, ::-1], **part), x)
    same_bytes(lambda x: md.interpolate(x[:0], **part), x)
    if mode.startswith("bi"):
        corners = {"size": (3, 9), "mode": mode, "align_corners": True}
        same_bytes(lambda x: md.interpolate(x, **corners), x)
        same_bytes(lambda x: md.interpolate(x, **corners), md.full_like(x, -0.0))


def test_tables_are_copied_once() -> None:
    x = there(image(md.float32, 1, 2, 3, 3, seed=7))
    md.interpolate(x, size=(11, 13), mode="bilinear")
    with md.no_transfer(), md.no_sync():
        md.interpolate(x + 1, size=(11, 13), mode="bilinear")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [md.int8, md.int64, *FLOATS], ids=str)
def test_pools_of_uneven_windows(dtype: Any, order: str) -> None:
    gpu.order = order
    x = image(dtype, 2, 3, 5, 7)
    for size in ((3, 4), (5, 7), (4, 3), (7, 9), (1, 2)):
        same_bytes(lambda x, s=size: md.adaptive_max_pool2d(x, output_size=s), x)
        if dtype.is_floating:
            near = 2 * 2.0**-dtype.digits
            agree(lambda x, s=size: md.adaptive_avg_pool2d(x, output_size=s), x,
                  near=near)  # fmt: skip
    if dtype.is_floating:
        y = md.asarray(np.where(np.arange(35) == 17, np.nan, 1.0).reshape(1, 1, 5, 7))
        agree(
            lambda x: md.adaptive_max_pool2d(x, output_size=(3, 4)), md.astype(y, dtype)
        )


@settings(max_examples=30)
@given(
    st.sampled_from([1, 2]),
    st.tuples(*[st.integers(1, 3)] * 4),
    st.tuples(*[st.integers(0, 2)] * 2),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.booleans(),
)
def test_transposed_convolutions(
    groups: int, how: Any, padding: Any, size: Any, has_bias: bool
) -> None:
    """Integers, so that each order of a sum is exact."""
    stride, dilation = how[:2], how[2:]
    x, w = image(md.int32, 2, 4, *size), image(md.int32, 4, 3, 3, 2, seed=1)
    given: Any = {"stride": stride, "dilation": dilation, "padding": padding}
    b = image(md.int32, 3 * groups, seed=2) if has_bias else None
    try:
        wanted = md.conv_transpose2d(x, w, b, groups=groups, **given)
    except md.MdtensorError as error:
        with pytest.raises(type(error)):
            md.conv_transpose2d(*map(there, (x, w, b)), groups=groups, **given)
        return
    found = md.conv_transpose2d(*map(there, (x, w, b)), groups=groups, **given)
    assert found.to("cpu").tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_transposed_convolutions_of_floats(dtype: Any) -> None:
    x, w = image(dtype, 2, 4, 5, 6), image(dtype, 4, 3, 3, 2, seed=1)
    b = image(dtype, 6, seed=2)
    options = {"stride": 2, "output_padding": 1, "groups": 2}
    near = 32 * 2.0**-dtype.digits
    agree(lambda *a: md.conv_transpose2d(*a, **options), x[..., ::2], w, b, near=near)


def test_an_infinite_weight_meets_no_zeros_between_pixels() -> None:
    x = md.ones((1, 1, 3, 3))
    w = md.asarray(np.array([[[[np.inf, 1], [1, 1]]]], np.float32))
    same_bytes(lambda x, w: md.conv_transpose2d(x, w, stride=2, padding=1), x, w)
