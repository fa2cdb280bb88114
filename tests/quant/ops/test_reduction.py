"""Sums, means and extremes of codes against rational numbers."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.quant import (
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
    qint8,
    qint32,
    quint8,
)
from mdtensor.quant.lookup import build

GRIDS = [QParams(0.1, 3), QParams(0.25, 131, dtype=quint8), QParams(1e-3, dtype=qint32)]
OUTS = [QParams(0.05, -3), QParams(0.25, 7, dtype=quint8), QParams(1e-4, dtype=qint32)]
AXES = [None, 0, -1, (0, 2), (), (1, -3)]


@given(
    st.sampled_from(GRIDS),
    st.sampled_from(OUTS),
    st.sampled_from(AXES),
    st.booleans(),
    st.tuples(*[st.integers(1, 4)] * 3),
)
def test_sums_and_means_are_exact(exact, tensor, grid, out, axis, keepdims, shape):
    rng = np.random.default_rng(sum(shape))
    x = tensor(rng.integers(max(grid.minimum, -5000), 200, shape), grid)
    options = {"axis": axis, "keepdims": keepdims}
    total = np.asarray(exact.reals(x).sum(**options), object)
    got = md.sum(x, **options)
    assert type(got) is QInt32Tensor and got.shape == total.shape
    assert np.array_equal(exact.reals(got), total)
    count = x.size // max(total.size, 1)
    mean = md.mean(x, **options, out=out)
    wanted = np.asarray(total / count, object)
    assert np.array_equal(mean.buffer, exact.codes(wanted, out))


@given(st.sampled_from(GRIDS), st.sampled_from(AXES), st.booleans())
def test_extremes_keep_the_grid(tensor, grid, axis, keepdims):
    x = tensor(np.random.default_rng(0).integers(0, 127, (3, 4, 5)), grid)
    for name in ("max", "min"):
        got = getattr(md, name)(x, axis=axis, keepdims=keepdims)
        wanted = getattr(x.buffer, name)(axis=axis, keepdims=keepdims)
        assert got.qparams == grid and isinstance(got.buffer, np.ndarray)
        assert np.array_equal(got.buffer, wanted)


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("search", [md.argmax, md.argmin])
def test_places_are_those_of_codes(search, axis, keepdims, random_codes):
    x = random_codes((3, 4, 5), GRIDS[0])
    got = search(x, axis=axis, keepdims=keepdims)
    wanted = search(x.codes, axis=axis, keepdims=keepdims)
    assert type(got) is md.Int64Tensor and got.shape == wanted.shape
    assert np.array_equal(got.buffer, wanted.buffer)


def test_the_first_of_equal_codes_wins(tensor):
    assert int(md.argmax(tensor([3, 7, 7], GRIDS[0]))) == 1
    assert int(md.argmin(tensor([7, 3, 3], GRIDS[0]))) == 1


@pytest.mark.parametrize("reduce", [md.sum, md.max, md.min, md.argmax, md.argmin])
def test_layout_does_not_matter(reduce, random_codes, layout):
    x = random_codes((3, 4), GRIDS[0])
    wanted = reduce(x, axis=1).buffer
    assert np.array_equal(reduce(layout(x), axis=1).buffer, wanted)


def test_scalars_reduce(tensor):
    x = tensor(5, GRIDS[0])
    for got in (md.sum(x), md.max(x), md.mean(x, out=OUTS[0])):
        assert isinstance(got.buffer, np.ndarray) and got.shape == ()
    assert int(md.argmax(x)) == 0


def test_sums_that_leave_32_bits_are_refused():
    x = QInt32Tensor([2**31 - 1, 1], scale=0.5)
    with pytest.raises(md.GridError) as raised:
        md.sum(x)
    assert str(raised.value) == (
        "sum(QInt32Tensor[2]): a result would have the code 2147483648, beyond "
        "2**31 - 1. "
        "Pass out=QParams(...), or requantize the arguments first."
    )
    assert md.mean(x, out=QParams(2.0**24)).codes.tolist() == 32
    assert md.sum(x, out=QParams(2.0**24)).codes.tolist() == 64
    low = QInt32Tensor([-(2**31), -1], scale=0.5)
    assert md.sum(low[:1]).codes.tolist() == -(2**31)
    with pytest.raises(
        md.GridError, match=r"have the code -2147483649, beyond -2\*\*31"
    ):
        md.sum(low)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_a_sum_is_rounded_once(axis, tensor, rng):
    for source in GRIDS:
        codes = rng.integers(source.minimum, source.maximum + 1, (7, 5))
        x = tensor(codes, source)
        exact = (codes - source.zero).sum(axis=axis)
        for out in OUTS:
            found = md.sum(x, axis=axis, out=out)
            ends = out.minimum, out.maximum
            ratio = source.fraction / out.fraction
            want = [
                min(max(round(int(n) * ratio) + out.zero, ends[0]), ends[1])
                for n in np.ravel(exact)
            ]
            assert np.ravel(found.codes.tolist()).tolist() == want
            assert found.qparams == out


def test_a_sum_along_the_other_axis_of_scales_is_rounded_by_each():
    x = QInt8Tensor([[1, 2], [3, 5]], scale=[0.5, 0.25], axis=1)
    found = md.sum(x, axis=0, out=QParams(0.5))
    assert found.codes.tolist() == [4, 4]  # 2.0 and 1.75, which is 3.5 steps
    with pytest.raises(md.OptionError, match="does not define sum"):
        md.sum(x[:, 0], out=QParams(0.5, rounding="onnx"))
    with pytest.raises(md.GridError, match="out has scales along axis 0"):
        md.sum(x, axis=0, out=QParams([0.5, 1], axis=0))


@pytest.mark.parametrize("reduce", [md.sum, md.max, md.min, md.argmax, md.argmin])
def test_keepdims_is_a_truth_value(reduce):
    with pytest.raises(md.OptionError, match=r"keepdims is 'no'\. Use True or False"):
        reduce(QInt8Tensor([1, 2], scale=0.5), keepdims="no")


def test_codes_add_up_to_codes():
    x = QInt8Tensor([1, 2], scale=0.5)
    with pytest.raises(md.OptionError) as raised:
        md.sum(x, dtype=md.int64)
    assert str(raised.value) == (
        "sum(QInt8Tensor[2]): a sum of codes is always qint32; dtype= is for sums of "
        "dense tensors. "
        "Omit dtype=, or use dequantize(x) first."
    )


def test_nothing_sums_to_zero_and_has_no_mean_or_maximum():
    x = QUInt8Tensor(np.zeros((0, 3), np.uint8), scale=0.5, zero_point=9)
    assert md.sum(x, axis=0).codes.tolist() == [0, 0, 0]
    assert md.mean(x, axis=1, out=OUTS[0]).shape == (0,)
    with pytest.raises(md.ShapeError) as raised:
        md.mean(x, out=OUTS[0])
    assert str(raised.value) == (
        "mean(QUInt8Tensor[0,3]): cannot quantize the mean of an empty tensor."
    )
    for reduce in (md.max, md.argmax):
        with pytest.raises(
            md.ShapeError,
            match=r"\(QUInt8Tensor\[0,3\]\): cannot take the minimum or maximum of no",
        ):
            reduce(x)


def test_a_mean_needs_out(tensor):
    with pytest.raises(md.GridError) as raised:
        md.mean(tensor([1, 2], GRIDS[0]))
    assert str(raised.value) == (
        "mean(QInt8Tensor[2]): no grid represents the result exactly; "
        "the grid is (scale=0.1, zero_point=3). "
        "Pass out=QParams(...); the result is rounded to it, once."
    )


@pytest.mark.parametrize("reduce", [md.sum, md.max, md.argmax, md.mean])
def test_axes_and_grids_are_checked(reduce):
    x = QInt8Tensor([[1, 2]], scale=0.5)
    with pytest.raises(md.ShapeError, match=r"\(QInt8Tensor\[1,2\]\): axis 2 does not"):
        reduce(x, axis=2)
    split = QInt8Tensor([[1, 2]], scale=[0.5, 1], axis=1)
    with pytest.raises(md.GridError, match="scales differ along axis 1"):
        reduce(split, axis=1)
    moved = QInt8Tensor([[1, 2]], scale=[0.5, 0.5], zero_point=[0, 1], axis=1)
    with pytest.raises(md.GridError, match="zero points differ along axis 1"):
        reduce(moved, axis=1)


def test_argmax_takes_one_axis(tensor):
    with pytest.raises(md.OptionError, match=r"axis is \(0, 1\)"):
        md.argmax(tensor([[1]], GRIDS[0]), axis=(0, 1))


SOFTMAX_GRIDS = [
    (QParams(0.05, 3), QParams(1 / 256, dtype=quint8)),
    (QParams(0.5, 200, dtype=quint8), QParams(1 / 255, -128)),
    (QParams(2.0**-12, 0), QParams(1e-5, dtype=quint8)),
    (QParams(10.0, 0), QParams(0.25, 1)),
]


@pytest.mark.parametrize(("source", "out"), SOFTMAX_GRIDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_rounds_the_exact_shares_once(source, out, axis, rng, exact):
    kind = {qint8: QInt8Tensor, quint8: QUInt8Tensor}[source.dtype]
    codes = rng.integers(source.minimum, source.maximum + 1, (5, 7, 3))
    x = kind(codes.astype(source.dtype.storage), source)
    powers = np.vectorize(build.exp, otypes=[object])(exact.reals(x))
    shares = powers / powers.sum(axis=axis, keepdims=True)
    got = md.softmax(x, axis=axis, out=out)
    assert np.array_equal(got.buffer, exact.codes(shares, out))


def test_equal_codes_share_equally_with_ties_to_even():
    x = QInt8Tensor(np.zeros((1, 4), np.int8), scale=0.5)
    got = md.softmax(x, out=QParams(0.5, dtype=quint8))
    assert got.codes.tolist() == [[0, 0, 0, 0]]


def test_softmax_of_codes_needs_out():
    with pytest.raises(md.GridError, match="no grid represents the result exactly"):
        md.softmax(QInt8Tensor([1], scale=0.5))
