"""What is packed once is never stale, whoever wrote into the weights, and how."""

import copy
import ctypes
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QInt4Tensor,
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
    quint8,
)
from mdtensor.quant.ops.kernels import MOST, reuse_or_make

RANDOM = np.random.default_rng(71)
OUT = QParams(0.5, 100, dtype=quint8)
IMAGE = QUInt8Tensor(
    RANDOM.integers(0, 256, (1, 16, 5, 5), np.uint8), scale=0.02, zero_point=128
)
ROWS = QInt8Tensor(RANDOM.integers(-128, 128, (3, 16), np.int8), scale=0.02)
NUMBERS = md.asarray(RANDOM.standard_normal((3, 16), np.float32))


def weights(*shape):
    return QInt8Tensor(RANDOM.integers(-128, 128, shape, np.int8), scale=0.01)


def convolved(w):
    return md.conv2d(IMAGE, w, None, padding=1, out=OUT)


#: Products by their name: (of weights, their shape).
PRODUCTS = {
    "conv2d": (convolved, (16, 16, 3, 3)),
    "conv2d sums": (lambda w: md.conv2d(IMAGE, w), (16, 16, 3, 3)),
    "depthwise": (lambda w: md.conv2d(IMAGE, w, groups=16, out=OUT), (16, 1, 3, 3)),
    "linear": (lambda w: md.linear(ROWS, w, out=OUT), (16, 16)),
    "linear sums": (lambda w: md.linear(ROWS, w), (16, 16)),
    "matmul": (lambda w: md.matmul(ROWS, w, out=OUT), (16, 16)),
    "weight-only linear": (lambda w: md.linear(NUMBERS, w), (16, 16)),
    "weight-only matmul": (lambda w: md.matmul(NUMBERS, w), (16, 16)),
}


def by_view(w):
    w.buffer[...] = -w.buffer // 2


def by_codes(w):
    w.codes[0] = 5


def by_dlpack(w):
    np.from_dlpack(w.codes)[1:] += 1


def by_memory(w):
    memoryview(w.buffer).cast("B")[:32] = bytes(range(32))


def by_address(w):
    ctypes.memset(w.buffer.ctypes.data, 9, 8)


def by_buffer(w):
    w.buffer = np.ascontiguousarray(w.buffer[::-1])


def by_layout(w):
    """The same bytes in memory; another order of the axes."""
    w.buffer = w.buffer.swapaxes(0, 1) if w.shape[1] > 1 else w.buffer[::-1]


def by_grid(w):
    w.qparams = QParams(0.25)


WAYS = (
    *(by_view, by_codes, by_dlpack, by_memory, by_address, by_buffer, by_layout),
    by_grid,
)


def shown(x):
    found = x.codes if hasattr(x, "codes") else x
    return type(x), found.shape, found.buffer.tobytes(), getattr(x, "qparams", None)


def is_kept(w):
    return any(entry.copies is not None for entry in w.kept)


@each("way", WAYS)
@each("name", PRODUCTS)
def test_a_result_is_that_of_the_weights_as_they_are(name, way):
    product, shape = PRODUCTS[name]
    w = weights(*shape)
    before = [shown(product(w)) for _ in range(3)]
    assert is_kept(w) and before[0] == before[1] == before[2]
    way(w)
    wanted = shown(product(copy.deepcopy(w)))
    assert wanted != before[0], "the way writes nothing"
    assert [shown(product(w)) for _ in range(3)] == [wanted] * 3


def test_a_grid_cannot_be_written_into():
    grid = QParams([0.5, 0.25], [1, 2], axis=0)
    for values in (grid.scale, grid.zero_point):
        with pytest.raises(ValueError, match="WRITEABLE"):
            values.flags.writeable = True


def test_a_turned_view_is_compared_as_it_lies():
    w = weights(24, 16).T
    before = [shown(md.matmul(NUMBERS, w)) for _ in range(3)]
    assert is_kept(w) and before[0] == before[2]
    assert w.kept[-1].copies[0].buffer.strides == w.buffer.strides == (1, 16)
    w.buffer[3, 5] ^= 1
    wanted = shown(md.matmul(NUMBERS, copy.deepcopy(w)))
    assert shown(md.matmul(NUMBERS, w)) == wanted != before[0]


def test_weights_of_other_types_are_watched_too():
    for leaf in (QInt4Tensor, QFloat8E4M3Tensor):
        w = md.quant.quantize(md.asarray(NUMBERS), QParams(0.5, dtype=leaf.dtype))
        before = [shown(md.linear(NUMBERS, w)) for _ in range(3)]
        assert is_kept(w) and before[0] == before[2]
        w.buffer.view(np.uint8)[0, 0] ^= 1
        wanted = shown(md.linear(NUMBERS, copy.deepcopy(w)))
        assert shown(md.linear(NUMBERS, w)) == wanted != before[0]


def test_a_bias_is_watched_to_the_sign_of_zero():
    w, numbers = weights(4, 16), np.zeros(4, np.float32)
    zero, x = md.asarray(numbers), md.asarray(np.full((1, 16), -0.0, np.float32))
    w.buffer[...] = 1
    found = [md.linear(x, w, zero).buffer.tobytes() for _ in range(3)]
    assert is_kept(w)
    numbers[...] = -0.0
    found.append(md.linear(x, w, zero).buffer.tobytes())
    assert found[0] == found[2] != found[3]
    bias = QInt32Tensor(np.zeros(4, np.int32), scale=float(np.float32(0.02)) * 0.01)
    w = weights(4, 16).with_qparams(QParams(0.01))
    bias = bias.with_qparams(md.linear(ROWS, w).qparams)
    before = [shown(md.linear(ROWS, w, bias)) for _ in range(3)]
    bias.buffer[2] = 1000
    assert shown(md.linear(ROWS, w, bias)) != before[2]
    assert shown(md.linear(ROWS, w)) == before[2]


def test_options_are_kept_by_value():
    w, stride = weights(16, 16, 3, 3), [1, 1]
    for _ in range(3):
        assert md.conv2d(IMAGE, w, stride=stride).shape == (1, 16, 3, 3)
    stride[:] = 2, 2
    assert md.conv2d(IMAGE, w, stride=stride).shape == (1, 16, 2, 2)


def test_other_grids_of_arguments_give_other_results():
    w, wide = weights(16, 16), ROWS.with_qparams(QParams(1.0))
    for out in (OUT, OUT.replace(zero_point=3), None):
        for x in (ROWS, wide, ROWS.with_qparams(QParams(0.02, 7))):
            for _ in range(3):
                fresh = copy.deepcopy(w)
                assert shown(md.linear(x, w, out=out)) == shown(
                    md.linear(x, fresh, out=out)
                )


def test_the_second_call_keeps_and_the_third_makes_nothing():
    w, made = weights(4, 4), []

    def make(given):
        made.append(given is w)
        return len(made)

    assert [reuse_or_make(make, ("a",), w) for _ in range(4)] == [1, 2, 2, 2]
    assert made == [True, False], "it packs the bytes that it compares with"
    w.buffer[0, 0] ^= 1
    assert [reuse_or_make(make, ("a",), w) for _ in range(3)] == [3, 4, 4]


def test_little_is_kept_and_it_goes_with_the_weights():
    w = weights(16, 16)
    for scale in (0.5, 0.25, 0.125, 1.0):
        for _ in range(2):
            md.linear(ROWS, w, out=QParams(scale))
    assert len(w.kept) == MOST
    step = weakref.ref(w.kept[-1].made)
    gc.disable()
    try:
        del w
        assert step() is None
    finally:
        gc.enable()


def test_copies_and_files_have_nothing_kept():
    w = weights(16, 16)
    plain = pickle.dumps(w)
    for _ in range(2):
        md.linear(ROWS, w)
    assert is_kept(w) and pickle.dumps(w) == plain
    for twin in (copy.copy(w), copy.deepcopy(w), pickle.loads(plain), w.T.T):
        assert twin.kept == () and shown(twin) == shown(w)
    assert w.nbytes == 16 * 16 + 4


def test_little_is_kept_of_calls_with_many_shapes():
    w = weights(4, 16)
    for rows in range(1, 9):
        x = QInt8Tensor(np.ones((rows, 16), np.int8), scale=0.5)
        for _ in range(3):
            assert md.linear(x, w).shape == (rows, 4)
    assert is_kept(w) and len(w.kept) <= MOST


def test_threads_that_share_weights_get_right_results():
    w, outs = weights(16, 16), [QParams(s) for s in (0.5, 0.25, 0.125, 1.0)]
    wanted = [shown(md.linear(ROWS, copy.deepcopy(w), out=out)) for out in outs]

    def work(i):
        return shown(md.linear(ROWS, w, out=outs[i % 4])) == wanted[i % 4]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))
    assert len(w.kept) <= MOST
