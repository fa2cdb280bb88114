"""Quantized tensors: codes and grids that stay together."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
    quint8,
)

NAMES = ["qint4", "quint4", "qint8", "quint8", "qint16", "qint32"]


def test_codes_are_plain_integers_that_share_the_buffer():
    x = QInt8Tensor([1, -2], scale=0.5, zero_point=3)
    assert type(x.codes) is md.Int8Tensor
    assert x.codes.tolist() == [1, -2]
    assert x.codes.buffer is x.buffer


def test_a_grid_is_needed_and_must_be_of_the_type():
    with pytest.raises(md.GridError) as raised:
        QInt8Tensor([1])
    assert str(raised.value) == (
        "codes mean nothing without a grid. Pass qparams or scale."
    )
    with pytest.raises(md.GridError, match=r"needs a grid of qint8, got 0\.5"):
        QInt8Tensor([1], 0.5)
    with pytest.raises(md.GridError, match="needs a grid of qint8"):
        QInt8Tensor([1], QParams(0.5, dtype=quint8))


def test_codes_outside_the_range_are_refused():
    with pytest.raises(md.CastError, match="codes are from -128 to 127, given 128"):
        QInt8Tensor([128], scale=0.5)
    with pytest.raises(md.CastError) as caught:
        QUInt8Tensor(np.array([1, -1]), scale=0.5)
    assert str(caught.value) == (
        "codes are from 0 to 255, given -1 to 1. Use quantize, which saturates."
    )


@pytest.mark.parametrize("stored", [np.int8, np.int64, np.uint16, np.uint64])
@pytest.mark.parametrize("leaf", [*map(md.leaf, map(md.dtype, NAMES))])
def test_codes_of_any_integers_are_taken(leaf, stored):
    for codes in (np.array([[1, 7]], stored), md.asarray(np.array([[1, 7]], stored))):
        found = leaf(codes, scale=0.5)
        assert found.codes.tolist() == [[1, 7]]
        assert found.codes.buffer.dtype == leaf([[1, 7]], scale=0.5).codes.buffer.dtype
    with pytest.raises(md.CastError, match="given 1 to 4611686018427387904"):
        leaf(np.array([1, 2**62]), scale=0.5)
    assert leaf(np.empty((0, 2), stored), scale=0.5).shape == (0, 2)


def test_scales_must_fit_their_axis():
    with pytest.raises(md.ShapeError, match=r"does not fit codes of shape \(2, 2\)"):
        QInt8Tensor([[1, 2], [3, 4]], scale=[0.1, 0.2, 0.3], axis=1)


def test_leaves_are_final():
    with pytest.raises(md.RegistrationError, match="QInt8Tensor, which is final"):

        class Special(QInt8Tensor):
            pass


def test_pickle_and_deepcopy_keep_codes_and_grid():
    x = QInt8Tensor([[1, 2]], scale=[0.5], axis=0)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert type(y) is QInt8Tensor and y.qparams == x.qparams
        assert y.codes.tolist() == [[1, 2]] and y.buffer is not x.buffer


def test_no_way_leads_to_bare_numbers_silently():
    x = QInt8Tensor([1], scale=0.5)
    with pytest.raises(md.GridError, match="is not an array of numbers"):
        np.asarray(x)
    with pytest.raises(BufferError, match=r"Export x\.codes"):
        np.from_dlpack(x)


@pytest.mark.parametrize("name", ["qint4", "quint4", "qint8", "quint8"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("block_size", [None, 3])
def test_a_summary_shows_the_corners_of_all_elements(name, axis, block_size):
    dtype, shape = md.dtype(name), [29, 31]
    if axis is None:
        grid = QParams(0.1, dtype=dtype)
    else:
        sizes = [shape[axis]]
        if block_size:
            sizes = [*shape]
            sizes[axis] = -(-shape[axis] // block_size)
        scales = np.random.default_rng(0).uniform(0.1, 1, sizes)
        grid = QParams(scales, dtype=dtype, axis=axis, block_size=block_size)
    codes = np.arange(29 * 31).reshape(shape) % 8
    x = md.leaf(dtype)(codes, grid)
    options = {"separator": ", ", "threshold": 0, "edgeitems": 3}
    numbers = np.array2string(
        np.asarray(quant.dequantize(x)), prefix=" " * 4, **options
    )
    prefix = " " * len("    codes=")
    assert f"\n    {numbers},\n" in repr(x)
    wanted = np.array2string(np.asarray(x.codes), prefix=prefix, **options)
    assert f"codes={wanted},\n" in repr(x)


def test_a_summary_does_not_unpack_all_codes(monkeypatch):
    x = quant.QInt4Tensor(np.zeros((50, 50), np.int8), scale=1)
    monkeypatch.setattr(quant.tensor, "unpack_int4", None)
    assert repr(x).startswith("QInt4Tensor[50,50](")


@pytest.mark.parametrize("name", ["qint4", "qint8"])
def test_repr_of_as_many_axes_as_arrays_have(name):
    x = md.leaf(md.dtype(name))(np.zeros((200,) + (1,) * 63, np.int8), scale=1)
    assert "..." in repr(x)


def test_repr_states_shape_and_grid():
    assert repr(QInt8Tensor([[1]], scale=0.1)) == (
        "QInt8Tensor[1,1]([[0.1]], codes=[[1]], scale=0.1, zero_point=0)"
    )


def test_bytes_count_codes_and_scales():
    assert QInt8Tensor(np.zeros((4, 8), np.int8), scale=0.1).nbytes == 36
    per_axis = QInt8Tensor(np.zeros((4, 8), np.int8), scale=[0.1] * 4, axis=0)
    assert per_axis.nbytes == 48
    assert QInt32Tensor([1, 2], scale=0.1).nbytes == 16


def test_importing_mdtensor_loads_quant_on_first_use():
    assert md.quant is quant


@pytest.mark.parametrize("way", [float, int, bool, QInt8Tensor.tolist])
def test_codes_do_not_pass_for_a_number(way):
    with pytest.raises(md.GridError) as raised:
        way(QInt8Tensor([3], scale=0.5))
    assert str(raised.value) == (
        "QInt8Tensor[1](scale=0.5, zero_point=0, range=-64..63.5) holds codes, not "
        "floats. Use x.codes or quant.dequantize(x)."
    )


def test_eight_threads_compute_the_same(rng):
    x = QInt8Tensor(rng.integers(-128, 128, (1, 8, 6, 6)).astype(np.int8), scale=0.1)
    w = QInt8Tensor(rng.integers(-128, 128, (8, 8, 3, 3)).astype(np.int8), scale=0.01)

    def network(out):
        y = md.conv2d(x, w, padding=1, out=QParams(out, 3))
        y = md.add(md.sigmoid(y, out=QParams(0.01)), x, out=QParams(out))
        y = md.mul(y, md.max_pool2d(y, 3, stride=1, padding=1), out=QParams(out, -7))
        return md.global_avg_pool2d(y, out=QParams(out)).buffer.tobytes()

    scales = [0.05 + 0.01 * (i % 4) for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(network, scales))
    assert found == [network(scale) for scale in scales]


def test_codes_of_floats_are_their_bytes():
    kept, other = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    x = QFloat8E4M3Tensor(np.array([1.5, -2.0], kept), scale=2.0)
    assert quant.dequantize(x).tolist() == [3.0, -4.0]
    assert QFloat8E4M3Tensor([0x3C], scale=1.0).codes.tolist() == [0x3C]
    assert QFloat8E4M3Tensor([], scale=1.0).shape == (0,)
    with pytest.raises(md.CastError) as caught:
        QFloat8E4M3Tensor(np.array([1.0], other), scale=1.0)
    assert str(caught.value) == (
        "codes of qfloat8_e4m3 are bytes or float8_e4m3fn, not float8_e5m2. Use "
        "quantize(asarray(a), QParams(s, dtype='qfloat8_e4m3')) for real values, "
        "or an array of float8_e4m3fn for codes."
    )


@pytest.mark.parametrize("dtype", ["qint8", "qint4"])
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_knows_the_rule_of_its_codes(dtype, again):
    x = quant.quantize(md.ones((2, 3)), QParams(0.3, dtype=dtype), rounding="onnx")
    plain = quant.quantize(md.ones((2, 3)), QParams(0.3, dtype=dtype))
    assert (again(x).rounding, again(plain).rounding) == ("onnx", None)
    assert again(x).qparams.rounding is None
    assert again(x).codes.tolist() == x.codes.tolist()


@pytest.mark.parametrize(
    ("kind", "scale"), [(QInt8Tensor, 3e38), (QInt32Tensor, 1e308)]
)
def test_numbers_past_float32_are_shown_without_a_warning(kind, scale):
    assert "([inf,  0.], codes=[100,   0]" in str(kind([100, 0], scale=scale))


@pytest.mark.parametrize("numbers", [[1.0, 2.0], (1.0, 2.0), np.array([1.0, 2.0])])
def test_numbers_are_told_how_to_become_codes(numbers):
    with pytest.raises(md.CastError) as raised:
        QInt8Tensor(numbers, scale=0.5)
    assert str(raised.value) == (
        "codes are integers, given float64 values 1.0 to 2.0. "
        "Use quantize(asarray(a), QParams(s, dtype='qint8')) for real values."
    )


def test_a_grid_that_is_set_must_fit():
    q = QInt8Tensor([[1, 2], [3, 4]], scale=0.5)
    q.qparams = QParams([0.25, 0.5], axis=0)
    assert quant.dequantize(q).tolist() == [[0.25, 0.5], [1.5, 2.0]]
    for wrong in (3, QParams(0.25, dtype=quant.quint8)):
        with pytest.raises(md.GridError, match="QInt8Tensor needs a grid of qint8"):
            q.qparams = wrong
    with pytest.raises(md.ShapeError, match="does not fit codes of shape"):
        q.qparams = QParams([0.25] * 3, axis=0)
    q.qparams = QParams(0.5, rounding="onnx")
    assert (q.rounding, q.qparams.rounding) == ("onnx", None)


@pytest.mark.parametrize("kind", [quant.QInt4Tensor, quant.QUInt4Tensor])
def test_codes_of_4_bits_are_copies_and_read_only(kind):
    q = kind([1, 2, 3], scale=0.5)
    with pytest.raises(
        md.WriteError, match=r"if x is q.codes of a 4-bit tensor q, assign q\[key\]"
    ):
        q.codes[0] = 7
    q[0] = 3.5
    assert q.codes.tolist() == [7, 2, 3]


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda q: ~q, "Use x.codes."),
        (lambda q: q & q, "Use x1.codes."),
        (lambda q: md.where(q, q, q), "not LogicalTensor. Nearest"),
        (lambda q: md.fft.fft(q), "Use dequantize(x)."),
        (lambda q: md.linalg.inv(q), "Use dequantize(x)."),
    ],
)
def test_an_error_names_only_ways_that_lead_on(call, fix):
    with pytest.raises(md.NoMethodError) as raised:
        call(QInt8Tensor([[1, 0], [0, 1]], scale=0.5))
    assert fix in str(raised.value)


def test_an_error_calls_kinds_as_users_do():
    with pytest.raises(md.NoMethodError) as raised:
        quant.requantize(md.asarray([1.0]), out=QParams(1))
    assert "not a quantized tensor of at most 8 bits" in str(raised.value)
    assert "NarrowTensor" not in str(raised.value)


def test_the_hint_of_an_array_is_one_that_works():
    q = QInt8Tensor([1, 2], scale=0.5)
    with pytest.raises(AttributeError) as raised:
        q.numpy  # noqa: B018
    assert str(raised.value) == (
        "QInt8Tensor has no attribute 'numpy'. Use numpy.asarray(x.codes) or "
        "numpy.asarray(mdtensor.quant.dequantize(x))."
    )
