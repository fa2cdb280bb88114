"""Products and pools of rendered loops: one order of sums, in each order of threads.

The oracle adds exact products one after the other and rounds each sum once. The host's
own products come from BLAS, whose order is another one; so do those of floats on a
device with a library, whose sums are within the bound of any order.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device

import mdtensor as md
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.rescale import float32_of

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def floats(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape).astype(np.float32)


def both(call: Any, *arrays: Any) -> tuple[Any, Any]:
    """The results of the device, on the host, and of the host."""
    here = [md.asarray(array) for array in arrays]
    found = call(*(x.to(gpu) for x in here))
    wanted = call(*here)
    assert found.device is gpu and type(found).dtype is type(wanted).dtype
    assert found.shape == wanted.shape
    return np.asarray(found.to("cpu")), np.asarray(wanted)


def serial(pairs: Any, start: float) -> np.float32:
    """The sum from `start` on: each product is added exactly, and rounded once."""
    total = np.float32(start)
    for a, b in pairs:
        total = float32_of(
            Fraction(float(a)) * Fraction(float(b)) + Fraction(float(total))
        )
    return total


def is_sum(found: Any, pairs: Any, start: float = 0.0, type: Any = np.float32) -> bool:
    """Whether a sum has the bytes of the serial one, or those of some order."""
    pairs = [*pairs]
    wanted = serial(pairs, start)
    if not gpu.multiplies_floats:
        return bool(type(found) == type(wanted))
    large = sum(abs(float(a) * float(b)) for a, b in pairs) + abs(start)
    # Each of k sums is rounded once (Higham, Accuracy and Stability, 3.1).
    bound = (len(pairs) + 2) * np.finfo(np.float32).eps * large
    rounded = (
        float(np.finfo(type).eps) * abs(float(wanted)) if type is np.float16 else 0
    )
    return abs(float(found) - float(wanted)) <= bound + rounded


def are_sums(
    found: Any, rows: Any, columns: Any, start: Any = None, **how: Any
) -> bool:
    """Whether elements of a product are sums of rows times columns."""
    starts = np.zeros(len(columns)) if start is None else start
    return all(
        is_sum(found[i, j], zip(row, column, strict=True), float(starts[j]), **how)
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    )


@pytest.mark.parametrize("order", ORDERS)
def test_matmul_and_linear_add_in_one_order(order: str) -> None:
    gpu.order = order
    x, w, b = floats(3, 23), floats(5, 23), floats(5)
    assert are_sums(both(md.linear, x, w, b)[0], x, w, b)
    assert are_sums(both(md.matmul, x, w.T)[0], x, w)


SHAPES = [
    ((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 1, 3, 5), (4, 5, 2)), ((3, 5), (5,)),
    ((5,), (2, 5, 3)), ((5,), (5,)), ((3, 0), (0, 4)), ((0, 5), (5, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul_of_all_shapes(shapes: Any) -> None:
    found, wanted = both(md.matmul, *(floats(*shape) for shape in shapes))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-6)
    wrapped = both(md.matmul, *(integers(shape, np.int8) for shape in shapes))
    assert wrapped[0].tobytes() == wrapped[1].tobytes()


def integers(shape: Any, storage: Any) -> Any:
    info = np.iinfo(storage)
    rng = np.random.default_rng(shape)
    return rng.integers(info.min, info.max, shape, storage, endpoint=True)


def test_products_of_two_types_and_of_halves() -> None:
    i, f = integers((3, 7), np.int32), floats(7, 2)
    found, wanted = both(md.matmul, i % 50, f)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    half = f.astype(np.float16)
    found, _ = both(md.matmul, half.T, half)
    assert are_sums(found, half.T, half.T, type=np.float16)
    for call in (md.linalg.vecdot, md.linalg.outer):
        found, wanted = both(call, f[:, 0], f[:, 1])
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@settings(max_examples=12)
@given(
    kernel=st.sampled_from([(1, 1), (3, 3), (1, 3)]),
    stride=st.sampled_from([1, 2]),
    padding=st.sampled_from([0, 1, (0, 1, 2, 0)]),
    groups=st.sampled_from([1, 2, 4]),
    order=st.sampled_from(ORDERS),
)
def test_conv2d(
    kernel: Any, stride: int, padding: Any, groups: int, order: str
) -> None:
    """k counts rows of the window, then columns, then channels."""
    gpu.order = order
    x, w, b = floats(2, 4, 6, 5), floats(8, 4 // groups, *kernel), floats(8)
    found, wanted = both(
        lambda x, w, b: md.conv2d(
            x, w, b, stride=stride, padding=padding, groups=groups
        ),
        *(x, w, b),
    )
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    top, left, bottom, right = padding if isinstance(padding, tuple) else (padding,) * 4
    image = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    out, at = 7, (1, 7, found.shape[2] - 1, 0)
    first = out // (8 // groups) * (4 // groups)
    rows = slice(at[2] * stride, at[2] * stride + kernel[0])
    window = image[1, first : first + 4 // groups, rows, : kernel[1]]
    pairs = zip(*(a.transpose(1, 2, 0).ravel() for a in (window, w[out])), strict=True)
    assert is_sum(found[at], pairs, float(b[out]))


def test_conv1d_and_integers() -> None:
    found, wanted = both(
        lambda x, w: md.conv1d(x, w, stride=2, padding=1, dilation=2),
        *(floats(2, 3, 11), floats(4, 3, 3)),
    )
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    pair = integers((1, 3, 5, 5), np.int32), integers((2, 3, 3, 3), np.int32)
    found, wanted = both(lambda x, w: md.conv2d(x, w, padding=1), *pair)
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_pools_have_the_bytes_of_the_host(padding: int, ceil_mode: bool) -> None:
    options = {"kernel_size": 3, "stride": 2, "padding": padding}
    options |= {"ceil_mode": ceil_mode}
    x = floats(2, 3, 8, 7)
    x[0, 1, 2, 3] = np.nan
    calls = [(lambda x: md.max_pool2d(x, **options), x)]
    calls += [(lambda x: md.max_pool1d(x, **options), integers((2, 3, 9), np.int8))]
    for count in (False, True):
        more = {**options, "count_include_pad": count}
        calls += [(lambda x, more=more: md.avg_pool2d(x, **more), x)]
        half = floats(2, 3, 9).astype(np.float16)
        calls += [(lambda x, more=more: md.avg_pool1d(x, **more), half)]
    for call, array in calls:
        found, wanted = both(call, array)
        assert found.tobytes() == wanted.tobytes()
    found, wanted = both(md.global_avg_pool2d, floats(2, 3, 4, 5))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7)


def test_wrong_calls_raise_as_on_the_host() -> None:
    x = md.asarray(floats(2, 3)).to(gpu)
    with pytest.raises(md.ShapeError, match="inner sizes differ, 3 and 2"):
        md.matmul(x, x)
    with pytest.raises(md.errors.DeviceError, match=f"operands are on {gpu} and cpu"):
        md.linear(x, md.asarray(floats(4, 3)))
    z = md.astype(x, md.complex64)
    with pytest.raises(md.NoMethodError, match=f"no method for {gpu} yet"):
        md.matmul(z, z.T)
