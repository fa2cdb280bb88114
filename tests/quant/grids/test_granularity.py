"""Grids per tensor, per axis and per block: the same numbers, one scale or many."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.grids import EVERY, grids, tensors

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import (
    QInt8Tensor,
    QParams,
    QUInt8Tensor,
    qint32,
    quint8,
)


def given_codes(x):
    """Codes as numbers; those of floats as the floats that they are."""
    is_float = isinstance(x, quant.ScaledFloatTensor)
    return x.buffer.astype(float) if is_float else np.asarray(x.codes)


def float32_of(value):
    """The float32 nearest to a Fraction, of two the even one."""
    near = np.float32(float(value))
    around = [near, *(np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))]
    return min(
        around, key=lambda f: (abs(Fraction(float(f)) - value), f.view(np.uint32) & 1)
    )


def test_blocks_have_the_shape_of_the_tensor():
    grid = QParams([[0.5, 0.25], [1, 2]], axis=1, block_size=4)
    fitting = [(2, 8), (2, 7), (2, 5), (-1, 6), (2, -1)]
    assert all(grid.fits(shape) for shape in fitting)
    assert not any(grid.fits(shape) for shape in [(2, 9), (2, 4), (3, 8), (8,), ()])
    x = QInt8Tensor(np.full((2, 6), 4, np.int8), grid)
    assert quant.dequantize(x).tolist() == [[2, 2, 2, 2, 1, 1], [4, 4, 4, 4, 8, 8]]
    assert repr(x).endswith("    4 scales=0.25..2.0, axis=1, block_size=4)")


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(md.ShapeError) as raised:
        QInt8Tensor([[1] * 9], scale=[[1, 2]], axis=1, block_size=4)
    assert str(raised.value) == (
        "QInt8Tensor: (2 scales=1.0..2.0, axis=1, block_size=4) does not fit codes of "
        "shape (1, 9). Give one scale for each block of the axis."
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"block_size": 4}, "QParams: block_size=4 without an axis. Pass the axis"),
        ({"axis": 0, "block_size": 0}, "QParams: block_size is 0. Use an integer"),
        ({"axis": 0, "block_size": 2.0}, "QParams: block_size is 2.0. Use an integer"),
        ({"axis": 0, "block_size": True}, "QParams: block_size is True. Use an"),
        ({"axis": 1, "block_size": 4}, "QParams: scales of shape (2,) with axis=1,"),
        ({"axis": 0, "narrow_range": 1}, "QParams: narrow_range is 1. Use True or"),
        (
            {"axis": 0, "narrow_range": True, "dtype": qint32},
            "QParams: qint32 does not have a narrow range. Use narrow_range=True with",
        ),
    ],
)
def test_what_makes_no_grid_is_refused(options, text):
    with pytest.raises(md.GridError) as raised:
        QParams([1, 2], **options)
    assert str(raised.value).startswith(text)


def test_a_narrow_range_leaves_out_the_smallest_code():
    grid = QParams(0.5, narrow_range=True)
    assert (grid.minimum, grid.maximum, grid.range) == (-127, 127, (-63.5, 63.5))
    assert grid.is_symmetric and grid != QParams(0.5)
    assert "narrow_range=True" in repr(grid)
    low = quant.quantize(md.asarray([-1e9, 1e9]), grid)
    assert low.codes.tolist() == [-127, 127]
    with pytest.raises(md.CastError) as raised:
        QInt8Tensor([-128, 3], grid)
    assert str(raised.value) == (
        "(scale=0.5, zero_point=0, narrow_range=True) has codes from -127 to 127, "
        "given -128 to 3. Use quantize, which saturates."
    )
    with pytest.raises(md.GridError, match="Use integers from 1 to 255"):
        QParams(0.5, 0, dtype=quint8, narrow_range=True)


def test_what_rounds_to_a_narrow_range_stays_in_it(exact):
    out = QParams(0.25, narrow_range=True)
    x = QInt8Tensor(np.arange(-127, 128).astype(np.int8), QParams(0.5, 3))
    wanted = exact.codes(exact.reals(x), out)
    assert np.array_equal(quant.requantize(x, out=out).buffer, wanted)
    doubled = exact.codes(exact.reals(x) * 2, out)
    assert np.array_equal(md.add(x, x, out=out).buffer, doubled)
    narrow = quant.requantize(x, out=out)
    assert np.array_equal(
        exact.reals(md.relu(narrow)), np.maximum(exact.reals(narrow), 0)
    )
    assert np.array_equal(exact.reals(-narrow), -exact.reals(narrow))
    assert (-narrow).qparams == out


def test_symmetry_is_asked():
    assert QParams(0.5).is_symmetric and QParams(0.5, dtype=qint32).is_symmetric
    assert not QParams(0.5, 1).is_symmetric
    assert not QParams(0.5, dtype=quint8).is_symmetric
    assert not QParams([1, 2], [0, 1], axis=0).is_symmetric


@given(x=tensors(dtypes=EVERY))
def test_grids_survive_pickle_copy_and_replace(x):
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.qparams == x.qparams and type(other) is type(x)
        assert np.array_equal(other.buffer, x.buffer)
    assert x.qparams.replace() == x.qparams
    assert hash(x.qparams.replace()) == hash(x.qparams)


@given(x=tensors(dtypes=EVERY))
def test_numbers_leave_every_grid_rounded_once(x, exact):
    wanted = [float32_of(real) for real in exact.reals(x).ravel()]
    got = np.asarray(quant.dequantize(x)).ravel()
    assert np.array_equal(got, np.array(wanted, np.float32))


@given(x=tensors(), data=st.data())
def test_numbers_come_to_every_grid_rounded_once(x, data, exact):
    numbers = quant.dequantize(x)
    grid = data.draw(grids(x.shape, EVERY))
    got = quant.quantize(numbers, grid)
    assert got.qparams == grid
    reals = np.vectorize(lambda v: Fraction(float(v)), otypes=[object])
    wanted = exact.codes(reals(np.asarray(numbers)), grid)
    assert np.array_equal(given_codes(got), wanted)


@given(x=tensors(dtypes=EVERY), data=st.data())
def test_codes_move_between_all_grids_rounded_once(x, data, exact):
    grid = data.draw(grids(x.shape, EVERY))
    got = quant.requantize(x, out=grid)
    assert got.qparams == grid
    assert np.array_equal(given_codes(got), exact.codes(exact.reals(x), grid))


@given(x=tensors())
def test_sums_on_equal_grids_are_exact(x, exact):
    got = md.add(x, x)
    assert np.array_equal(exact.reals(got), 2 * exact.reals(x))


def test_blocks_are_those_of_onnx():
    """Against the reference implementation of the onnx package, short blocks too."""
    op = pytest.importorskip("onnx.reference.ops.op_quantize_linear")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 10)).astype(np.float32)
    scale = rng.uniform(0.01, 0.1, (4, 3)).astype(np.float32)
    zero = rng.integers(0, 256, (4, 3)).astype(np.uint8)
    wanted = op.QuantizeLinear_21.eval(x, scale, zero, axis=1, block_size=4)
    grid = QParams(scale, zero, dtype=quint8, axis=1, block_size=4)
    got = quant.quantize(md.asarray(x), grid)
    assert np.array_equal(got.buffer, wanted)
    assert type(got) is QUInt8Tensor


def test_products_refuse_blocks():
    x = QInt8Tensor(np.ones((2, 4), np.int8), scale=0.5)
    scales = np.ones((3, 2))
    w = QInt8Tensor(np.ones((3, 4), np.int8), QParams(scales, axis=1, block_size=2))
    with pytest.raises(md.GridError) as raised:
        md.linear(x, w, None)
    assert str(raised.value) == (
        "linear(QInt8Tensor[2,4], QInt8Tensor[3,4]): weights have scales along axis 1 "
        "in blocks of 2. Pass out=QParams(...), or give them one scale for each output "
        "channel: axis=0."
    )
    with pytest.raises(md.GridError, match="axis 0 in blocks of 2 differ inside a sum"):
        md.matmul(x, QInt8Tensor(w.buffer.T, QParams(scales.T, axis=0, block_size=2)))
    image, kernel = md.reshape(x, (1, 4, 1, 2)), md.reshape(w[:, :2], (3, 2, 1, 1))
    with pytest.raises(md.GridError) as raised:
        md.conv2d(image[:, :2], kernel)
    assert str(raised.value) == (
        "conv2d(QInt8Tensor[1,2,1,2], QInt8Tensor[3,2,1,1]): weights have scales "
        "along axis 1 in blocks of 2. Pass out=QParams(...), or give them one scale "
        "for each output channel: axis=0."
    )


@pytest.mark.parametrize("rule", ["tflite_ref", "tflite_opt", "xnnpack_x86"])
def test_rules_of_one_scale_refuse_several(rule):
    x = QInt8Tensor([1, 2], scale=1)
    for source, out in [
        (x, QParams([0.5, 0.25], axis=0)),
        (QInt8Tensor([1, 2], scale=[1, 2], axis=0), QParams(0.5)),
    ]:
        with pytest.raises(md.OptionError) as raised:
            quant.requantize(source, out=out, rounding=rule)
        assert str(raised.value) == (
            f"requantize: rounding={rule!r}: it takes only one scale for a whole "
            "tensor. Use rounding='exact' here."
        )
    moved = quant.requantize(x, out=QParams([0.5, 0.25], axis=0), rounding="onnx")
    assert moved.codes.tolist() == [2, 8]


def test_what_saturates_is_counted_on_every_grid():
    grid = QParams([[0.01, 1.0]], axis=1, block_size=2)
    with md.checked() as log:
        quant.requantize(QInt8Tensor([[5, 5, 5]], scale=1), out=grid)
        quant.quantize(md.asarray([[5.0, 5, 5]]), grid.replace(narrow_range=True))
    assert log.lost["saturated"] == 4


@pytest.mark.parametrize("rule", ["exact", "onnx"])
def test_nothing_by_nothing_is_refused_by_every_rule(rule):
    x = QInt8Tensor([0, 1], scale=1)
    with pytest.raises(md.CastError, match="0 / 0 is undefined"):
        md.div(x, x, out=QParams(0.5), rounding=rule)
