"""Floats beside quantized weights: the bytes of the dequantized weights."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import ShapeError
from mdtensor.kernels.cpu.program import layers
from mdtensor.quant import (
    QParams,
    dequantize,
    qfloat8_e4m3,
    qint4,
    qint8,
    quantize,
    quint4,
    quint8,
)
from mdtensor.quant.ops.weight_only import conv_layer, linear_layer
from mdtensor.spec.windows import conv_window

N, K = 21, 34
GRIDS = {
    "tensor": ((), {}),
    "rows": ((N,), {"axis": 0}),
    "columns": ((K,), {"axis": 1}),
    "blocks": ((N, 5), {"axis": 1, "block_size": 8}),
    "odd blocks": ((N, 12), {"axis": 1, "block_size": 3}),
    "blocks of rows": ((6, K), {"axis": 0, "block_size": 4}),
}


def weights(rng, dtype, kind):
    """Quantized [N, K] on a grid of this kind, with zero points where there are any."""
    shape, where = GRIDS[kind]
    scales = rng.uniform(0.05, 0.2, shape)
    zeros = 0
    if dtype is not qfloat8_e4m3:
        zeros = rng.integers(int(dtype.minimum), int(dtype.maximum) + 1, shape)
    grid = QParams(scales, zeros, dtype=dtype, **where)
    return quantize(md.asarray(rng.standard_normal((N, K))), qparams=grid)


def same(got, want):
    return got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("dtype", [qint8, quint8, qint4, quint4, qfloat8_e4m3], ids=str)
def test_codes_have_the_bytes_of_their_numbers(rng, dtype, kind):
    w = weights(rng, dtype, kind)
    x, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, K), N))
    numbers = dequantize(w).buffer
    want = layers.Linear(numbers, b)(x)
    assert same(md.linear(md.asarray(x), w, md.asarray(b)).buffer, want)
    bare = layers.Linear(numbers)(x)
    assert same(md.linear(md.asarray(x), w).buffer, bare)
    assert same(md.matmul(md.asarray(x), w.T).buffer, bare)
    assert np.allclose(want, x @ numbers.T + b, atol=1e-5)


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("dtype", [qint8, quint8, qint4, quint4], ids=str)
def test_codes_stay_codes_where_a_kernel_takes_their_grid(rng, dtype, kind):
    layer = linear_layer(weights(rng, dtype, kind))
    if kind in ("columns", "blocks of rows"):
        assert layer.kernel == "gemm_f32f32f32"
    elif kind == "odd blocks" or dtype in (qint8, quint8):
        assert layer.kernel == "gemm_f32s8f32"
    else:
        assert layer.kernel == "gemm_f32u4f32"
        assert layer.bytes <= 32 * (K // 2 + 8 * 5)


@pytest.mark.parametrize("shape", [(K,), (0, K), (1, K), (2, 0, K), (5, 2, K)])
def test_leading_axes(rng, shape):
    w = weights(rng, qint4, "blocks")
    x = md.asarray(rng.standard_normal(shape).astype(np.float32))
    got = md.linear(x, w)
    assert got.shape == (*shape[:-1], N)
    assert same(got.buffer, layers.Linear(dequantize(w).buffer)(x.buffer))
    assert md.matmul(x, w.T).shape == got.shape


def test_operands_of_any_strides(rng):
    w = weights(rng, qint8, "rows")
    x = md.asarray(rng.standard_normal((K, 4, 3)).astype(np.float32))
    turned = md.permute_dims(x, (2, 1, 0))
    want = md.linear(md.asarray(turned.buffer.copy()), w)
    assert same(md.linear(turned, w).buffer, want.buffer)
    row = md.broadcast_to(turned[:1], (3, 4, K))
    assert same(md.linear(row, w).buffer[2], want.buffer[0])
    back = w[::-2]
    want = md.linear(turned, w).buffer[..., ::-2]
    assert same(md.linear(turned, back).buffer, want)


def test_nan_and_infinity_reach_their_row_only(rng):
    w = weights(rng, qint8, "rows")
    x = rng.standard_normal((3, K)).astype(np.float32)
    clean = md.linear(md.asarray(x), w).buffer
    x[0, 3], x[1, 5] = np.nan, np.inf
    found = md.linear(md.asarray(x), w).buffer
    assert np.isnan(found[0]).all()
    steps = dequantize(w).buffer[:, 5]
    assert np.array_equal(found[1][steps != 0], np.inf * np.sign(steps[steps != 0]))
    assert same(found[2], clean[2])


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16])
def test_narrow_floats_are_rounded_once(rng, dtype):
    w = weights(rng, qint8, "rows")
    x = md.astype(md.asarray(rng.standard_normal((3, K))), dtype)
    wide = md.linear(md.astype(x, md.float32), w)
    assert same(md.linear(x, w).buffer, md.astype(wide, dtype).buffer)
    bias = md.zeros(N)
    assert md.linear(x, w, bias).dtype is md.float32


def test_shapes_that_do_not_fit(rng):
    w = weights(rng, qint8, "rows")
    with pytest.raises(ShapeError) as error:
        md.linear(md.zeros((2, 3)), w)
    assert str(error.value).startswith("linear(Float32Tensor[2,3], QInt8Tensor[21,34])")
    with pytest.raises(ShapeError) as error:
        md.matmul(md.zeros((2, 3)), w)
    assert str(error.value).startswith("matmul(Float32Tensor[2,3], QInt8Tensor[21,34])")


CONV_GRIDS = {
    "tensor": ((), {}),
    "rows": ((6,), {"axis": 0}),
    "channels": ((4,), {"axis": 1}),
    "blocks": ((6, 2, 3, 2), {"axis": 1, "block_size": 2}),
    "odd blocks": ((6, 2, 3, 2), {"axis": 1, "block_size": 3}),
}


def conv_weights(rng, dtype, kind, shape=(6, 4, 3, 2)):
    scales, where = CONV_GRIDS[kind]
    zeros = rng.integers(int(dtype.minimum), int(dtype.maximum) + 1, scales)
    grid = QParams(rng.uniform(0.05, 0.2, scales), zeros, dtype=dtype, **where)
    return quantize(md.asarray(rng.standard_normal(shape)), qparams=grid)


def seen_by_window(x, kernel, stride, padding, dilation):
    """[n, oh, ow, kh · kw · c], index by index."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    oh, ow = (
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    )
    found = np.empty((len(x), oh, ow, *kernel, x.shape[1]), np.float32)
    for i, j, p, q in np.ndindex(oh, ow, *kernel):
        at = i * stride[0] + p * dilation[0], j * stride[1] + q * dilation[1]
        found[:, i, j, p, q] = x[:, :, at[0], at[1]]
    return found.reshape(len(x), oh, ow, -1)


@pytest.mark.parametrize("kind", CONV_GRIDS)
@pytest.mark.parametrize("dtype", [qint8, quint8, qint4, quint4], ids=str)
def test_a_convolution_is_the_product_with_what_its_window_sees(rng, dtype, kind):
    w = conv_weights(rng, dtype, kind)
    b = rng.standard_normal(6).astype(np.float32)
    x = rng.standard_normal((2, 8, 7, 6)).astype(np.float32)
    place = {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)}
    got = md.conv2d(md.asarray(x), w, md.asarray(b), **place, groups=2)
    numbers = dequantize(w).buffer
    for group in range(2):
        rows = numbers[3 * group :][:3].transpose(0, 2, 3, 1).reshape(3, -1)
        part = seen_by_window(x[:, 4 * group :][:, :4], (3, 2), *place.values())
        want = layers.Linear(rows, b[3 * group :][:3])(part)
        assert same(got.buffer[:, 3 * group :][:, :3].transpose(0, 2, 3, 1), want)
    wide = [md.astype(md.asarray(a), md.float64) for a in (x, numbers, b)]
    assert np.allclose(
        got.buffer, md.conv2d(*wide, **place, groups=2).buffer, atol=1e-5
    )


@pytest.mark.parametrize("kind", CONV_GRIDS)
@pytest.mark.parametrize("dtype", [qint8, qint4], ids=str)
def test_codes_of_a_convolution_stay_codes_where_a_kernel_takes_their_grid(
    rng, dtype, kind
):
    window = conv_window((6, 4, 3, 2), 1, 0, 1)
    layer = conv_layer(conv_weights(rng, dtype, kind), None, window, 1)
    kernels = {qint8: "gemm_f32s8f32", qint4: "gemm_f32u4f32"}
    is_number = kind in ("channels", "odd blocks")
    assert layer.kernel == ("gemm_f32f32f32" if is_number else kernels[dtype])
    assert layer.macs((5, 4, 3, 4)) == 5 * 3 * 24 * 6


def test_blocks_of_any_size_stay_codes_in_one_by_one_convolutions(rng):
    grid = QParams(np.full((6, 2, 1, 1), 0.1), dtype=qint4, axis=1, block_size=4)
    w = quantize(md.asarray(rng.standard_normal((6, 7, 1, 1))), qparams=grid)
    assert conv_layer(w, None, conv_window(w.shape, 1, 0, 1), 1).kernel == (
        "gemm_f32u4f32"
    )
    x = md.asarray(rng.standard_normal((2, 7, 3, 3)).astype(np.float32))
    rows = md.permute_dims(x, (0, 2, 3, 1))
    want = md.linear(rows, md.reshape(dequantize(w), (6, 7)))
    assert np.allclose(md.conv2d(x, w).buffer.transpose(0, 2, 3, 1), want.buffer)


@pytest.mark.parametrize(
    ("image", "shape", "groups"),
    [
        ((0, 4, 3, 3), (6, 4, 3, 2), 1),  # no images
        ((1, 0, 3, 3), (6, 0, 3, 2), 1),  # no channels
        ((1, 6, 3, 3), (6, 1, 3, 2), 6),  # one channel a group: numbers
        ((1, 1, 3, 3), (6, 1, 3, 2), 1),
    ],
)
def test_convolutions_at_the_ends(rng, image, shape, groups):
    w = quantize(
        md.asarray(rng.standard_normal(shape)), qparams=QParams(0.03, 3, dtype=qint8)
    )
    x = md.asarray(rng.standard_normal(image).astype(np.float32))
    got = md.conv2d(x, w, groups=groups)
    want = md.conv2d(x, dequantize(w), groups=groups)
    assert got.shape == want.shape
    assert np.allclose(got.buffer, want.buffer, atol=1e-5)


def test_a_convolution_reads_the_codes_as_they_are_now(rng):
    w = conv_weights(rng, qint8, "rows")
    x = md.asarray(rng.standard_normal((1, 4, 5, 5)).astype(np.float32))
    first = [md.conv2d(x, w).buffer for _ in range(3)]
    assert same(first[0], first[2])
    w.codes.buffer[:] += 1
    assert not np.allclose(md.conv2d(x, w).buffer, first[0])
    strided = md.conv2d(
        md.permute_dims(md.permute_dims(x, (3, 2, 1, 0)), (3, 2, 1, 0)), w
    )
    assert same(strided.buffer, md.conv2d(x, w).buffer)
