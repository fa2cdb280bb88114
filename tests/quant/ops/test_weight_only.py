"""Floats beside quantized weights: the bytes of the dequantized weights."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import ShapeError
from mdtensor.kernels.cpu import layers
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
from mdtensor.quant.ops.weight_only import linear_layer

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
