"""Floats times quantized weights on a device, and 4-bit codes there."""

import copy
import ctypes
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import rendered_device
from support.cuda_text import empty, run

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DeviceError, ShapeError
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops.cuda import render
from mdtensor.kernels.loops.cuda_weights import WEIGHED
from mdtensor.kernels.loops.ir import Input, Loop, apply, load
from mdtensor.kernels.loops.weights import Weights, weight
from mdtensor.quant import QInt4Tensor, QParams, QUInt4Tensor, quantize_weights

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def floats(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def host(x: Any) -> Any:
    assert x.device is gpu
    return np.asarray(x.to("cpu"))


def on_grid(dtype: Any, shape: tuple[int, int], size: int | None) -> Any:
    """Weights with scales by rows, or by blocks of columns; unsigned with zeros."""
    w = floats(*shape)
    if dtype in (quant.qint4, quant.qint8):
        return quantize_weights(w, dtype=dtype, block_size=size).tensor
    blocks = 1 if size is None else -(-shape[1] // size)
    scale = np.random.default_rng(2).uniform(0.1, 0.4, (shape[0], blocks))
    zero = np.random.default_rng(3).integers(0, 15, scale.shape)
    scale = scale.astype(np.float32)
    if size is None:
        grid = QParams(scale[:, 0], zero[:, 0], dtype=dtype, axis=0)
    else:
        grid = QParams(scale, zero, dtype=dtype, axis=1, block_size=size)
    return quant.quantize(md.asarray(w), grid)


DTYPES = (quant.qint4, quant.quint4, quant.qint8, quant.quint8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_within_the_bound_of_sums(dtype: Any, order: str) -> None:
    gpu.order = order
    for shape, size in (((5, 64), 16), ((3, 63), None), ((4, 70), 32), ((2, 1), None)):
        w, b = on_grid(dtype, shape, size), floats(shape[0])
        x = floats(2, 3, shape[1])
        there = md.asarray(x).to(gpu), w.to(gpu)
        numbers = np.asarray(quant.dequantize(w)).astype(np.float64)
        wanted = x.astype(np.float64) @ numbers.T
        sizes = np.abs(x.astype(np.float64)) @ np.abs(numbers).T
        # A product and a sum for each code of a thread, and those of 128 threads.
        unit = 2.0**-24 * (1 + 32 + 5 + 3)
        assert (np.abs(host(md.linear(*there)) - wanted) <= unit * sizes).all()
        found = host(md.linear(*there, md.asarray(b).to(gpu)))
        assert (np.abs(found - wanted - b) <= unit * (sizes + np.abs(b))).all()


def sums_in_order(x: Any, numbers: Any, bits: int) -> Any:
    """Sums as `weights.cuh` says: C's `fmaf`, code by code, and halves of warps."""
    fmaf = ctypes.CDLL("libm.so.6").fmaf
    fmaf.restype, fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    (rows, count), piece = x.shape, 128 // bits
    lanes = np.zeros((rows, len(numbers), 128), np.float32)
    for row, column in np.ndindex(rows, len(numbers)):
        for k in range(count):
            at = row, column, k // piece % 128
            lanes[at] = fmaf(float(x[row, k]), float(numbers[column, k]), lanes[at])
    warps = lanes.reshape(rows, len(numbers), 4, 32)
    while warps.shape[-1] > 1:
        half = warps.shape[-1] // 2
        warps = warps[..., :half] + warps[..., half:]
    found = warps[:, :, 0, 0]
    for warp in (1, 2, 3):
        found = found + warps[:, :, warp, 0]
    return found


#: Columns, and the codes of a block: several turns of all threads, blocks that end
#: inside of 16 bytes, columns that 16 bytes do not divide, blocks of an odd length.
ROWS_OF_CODES = ((64, 16), (4128, 32), (64, 8), (70, 32), (66, 3), (33, None), (1, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_order_of_sums_of_weights(dtype: Any) -> None:
    """One order for each length: aligned or not, in any order of threads."""
    for columns, size in ROWS_OF_CODES:
        w = on_grid(dtype, (2, columns), size)
        numbers = np.asarray(quant.dequantize(w))
        for rows in (1, 5):
            x = floats(rows, columns)
            wanted = sums_in_order(x, numbers, dtype.bits)
            # The same numbers where no 16 bytes begin, and in turned columns.
            wide = md.asarray(np.pad(x, ((0, 0), (1, 0)))).to(gpu)
            turned = md.asarray(np.ascontiguousarray(x.T)).to(gpu)
            there = w.to(gpu)
            for order, given in zip(
                ORDERS, (md.asarray(x).to(gpu), wide[:, 1:], turned.T), strict=True
            ):
                gpu.order = order
                found = host(md.linear(given, there))
                assert found.tobytes() == wanted.tobytes(), (columns, size, order)


def test_weights_have_a_kernel_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One launch, which 16 bytes of codes and shuffles show; scales of no column."""
    seen: list[Any] = []
    issue = type(gpu).issue

    def record(self: Any, stream: Any, kernel: Any, launch: Any) -> None:
        seen.append((kernel.tile, launch.grid, launch.block))
        issue(self, stream, kernel, launch)

    w, x = on_grid(quant.qint4, (6, 64), 16).to(gpu), md.asarray(floats(9, 64)).to(gpu)
    monkeypatch.setattr(type(gpu), "issue", record)
    md.linear(x, w)
    # Four rows by one column.
    assert seen == [(WEIGHED, 3 * 6, 128)]
    empty = quant.QInt4Tensor(np.ones((3, 0), np.int8), scale=0.5).to(gpu)
    assert host(md.linear(md.zeros((2, 0)).to(gpu), empty)).tolist() == [[0] * 3] * 2
    assert host(md.linear(md.zeros((0, 64)).to(gpu), w)).shape == (0, 6)


def test_the_barrier_of_weights_is_needed() -> None:
    """Without it some order of threads reads sums that no warp has kept yet."""
    value = apply("mul", load(0, "float32"), weight(Weights(1, 2, None, 3, 4, True)))
    inputs = Input("float32"), Input("uint8"), Input("float32"), Input("int32", True)
    kernel = render(Loop(inputs, value, "dot", is_serial=True, tile=WEIGHED))
    wait = "__syncthreads();"
    assert kernel.text.count(wait) == 1
    # In a comment, since a kernel's text says whether it has barriers.
    text = kernel.text.replace(wait, f"/* {wait} */;").replace(kernel.name, "no_wait")
    codes = np.asarray(on_grid(quant.qint4, (3, 4128), None).buffer)[:, :1]
    given = floats(2, 1, 4128), codes, np.ones((3, 1), np.float32)
    number = np.array(4128, np.int32)

    def sums(one: Any, order: str) -> bytes:
        out = empty((2, 3), "float32")
        return run(one, *given, number, out=out, axes=(2,), order=order).tobytes()

    (wanted,) = {sums(kernel, order) for order in ORDERS}
    broken = replace(kernel, name="no_wait", text=text)
    assert {sums(broken, order) for order in ORDERS} != {wanted}


def test_what_is_no_product_with_weights() -> None:
    f32 = Input("float32")
    value = apply("mul", load(0, "float32"), load(1, "float32"))
    loop = Loop((f32, f32), value, "dot", is_serial=True, tile=WEIGHED)
    with pytest.raises(ValueError, match="is not a product with quantized weights"):
        render(loop)


def test_linear_of_other_floats() -> None:
    w, x = on_grid(quant.qint4, (4, 32), 8).to(gpu), floats(2, 32)
    numbers = np.asarray(quant.dequantize(w).to("cpu")).astype(np.float64)
    wanted = x.astype(np.float64) @ numbers.T
    wide = md.linear(md.asarray(x.astype(np.float64)).to(gpu), w)
    np.testing.assert_allclose(host(wide), wanted, rtol=1e-13)
    half = md.linear(md.asarray(x.astype(np.float16)).to(gpu), w)
    assert half.dtype is md.float16
    np.testing.assert_allclose(host(half), wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("dtype", [*DTYPES, quant.qint16])
@pytest.mark.parametrize("float_type", [md.float16, md.float32, md.float64])
def test_products_on_any_grid(dtype: Any, float_type: Any) -> None:
    """Those of the converted weights, rounded once: the bytes of products of floats."""
    x = md.asarray(floats(5, 6)).astype(float_type).to(gpu)
    image = md.asarray(floats(2, 4, 6, 5)).astype(float_type).to(gpu)
    bias = md.asarray(floats(6)).astype(float_type).to(gpu)
    wide = md.float64 if float_type is md.float64 else md.float32
    parts = [t.astype(wide) for t in (x, image, bias)]
    for axis in (None, 0, 1):
        scale = 0.25 if axis is None else np.linspace(0.1, 0.3, (6, 7)[axis])
        grid = QParams(scale, dtype=dtype, axis=axis)
        w = quant.quantize(md.asarray(floats(6, 7)), grid).to(gpu)
        number = quant.dequantize(w).astype(wide)
        wanted = md.matmul(parts[0], number).astype(float_type)
        assert host(md.matmul(x, w)).tobytes() == host(wanted).tobytes()
    grid = QParams(np.linspace(0.1, 0.3, 6), dtype=dtype, axis=0)
    filters = quant.quantize(md.asarray(floats(6, 4, 3, 3)), grid).to(gpu)
    number = quant.dequantize(filters).astype(wide)
    for b, bias_of in ((None, None), (bias, parts[2])):
        wanted = md.conv2d(parts[1], number, bias_of, padding=1).astype(float_type)
        found = md.conv2d(image, filters, b, padding=1)
        assert found.dtype is float_type
        assert host(found).tobytes() == host(wanted).tobytes()
    assert (filters.device, filters.nbytes) == (gpu, filters.to("cpu").nbytes)


def test_products_are_near_those_of_the_host() -> None:
    x, image = md.asarray(floats(5, 6)), md.asarray(floats(2, 4, 6, 5))
    for dtype in DTYPES:
        w = quant.quantize(md.asarray(floats(6, 7)), QParams(0.25, dtype=dtype))
        grid = QParams(np.linspace(0.1, 0.3, 6), dtype=dtype, axis=0)
        filters = quant.quantize(md.asarray(floats(6, 4, 3, 3)), grid)
        for call, given in (
            (md.matmul, (x, w)),
            (md.matmul, (w, md.asarray(floats(7, 2)))),
            (md.conv2d, (image, filters)),
        ):
            found, wanted = call(*(t.to(gpu) for t in given)), call(*given)
            assert found.dtype is wanted.dtype
            np.testing.assert_allclose(host(found), wanted, rtol=1e-5, atol=1e-5)


def test_every_code_of_4_bits() -> None:
    for kind, least in ((QInt4Tensor, -8), (QUInt4Tensor, 0)):
        codes = np.arange(least, least + 16).reshape(2, 8).astype(kind.dtype.storage)
        zero = least + 3
        for x in (
            kind(codes, scale=0.1, zero_point=zero),
            kind(codes[:, :7], scale=[0.1, 0.3], zero_point=[zero, zero + 1], axis=0),
            kind(codes, scale=floats(2, 4) ** 2 + 1, axis=1, block_size=2),
            kind(codes[0, 3], scale=0.1),
        ):
            there = x.to(gpu)
            assert there.shape == x.shape and there.nbytes == x.nbytes
            assert there.to("cpu").codes.tolist() == x.codes.tolist()
            found, wanted = quant.dequantize(there), quant.dequantize(x)
            assert host(found).tobytes() == np.asarray(wanted).tobytes()


def test_4_bit_codes_are_weights_alone() -> None:
    w = on_grid(quant.qint4, (4, 32), 8).to(gpu)
    for again in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert again.shape == w.shape and again.to("cpu").codes.tolist() == (
            w.to("cpu").codes.tolist()
        )
    with pytest.raises(DeviceError, match=r"4-bit codes .* Use x\.to\(\"cpu\"\)"):
        _ = w.codes
    narrow = QParams(1.0, dtype=quant.qint4)
    codes = quant.QInt8Tensor([1, 2], scale=1.0).to(gpu)
    for call in (
        lambda: md.reshape(w, (2, 64)),
        lambda: quant.requantize(codes, out=narrow),
        lambda: md.add(codes, codes, out=narrow),
    ):
        with pytest.raises(md.NoMethodError, match=f"no method for {gpu} yet"):
            call()
    columns = QInt4Tensor(np.ones((2, 6), np.int8), scale=np.ones(6), axis=1)
    x = md.ones((1, 6)).to(gpu)
    with pytest.raises(md.NoMethodError, match=f"no method for {gpu} yet"):
        md.linear(x, columns.to(gpu))
    with pytest.raises(ShapeError):
        md.linear(md.ones((1, 7)).to(gpu), w)
    with pytest.raises(DeviceError, match=f"operands are on cpu and {gpu}"):
        md.linear(md.ones((1, 32)), w)
