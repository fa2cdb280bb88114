"""Moving codes: the real numbers move, and nothing else changes."""

from fractions import Fraction

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams, QUInt8Tensor, quint8
from mdtensor.quant.ops.manipulation import reshape_view

GRIDS = [QParams(0.1, 3), QParams(0.25, 131, dtype=quint8)]


def per_axis(axis, shape=(2, 3, 4)):
    """A tensor whose scales and zero points differ along `axis`."""
    codes = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    count = shape[axis]
    scales, zeros = 0.5 * np.arange(1, count + 1), np.arange(count)
    return QUInt8Tensor(codes, scale=scales, zero_point=zeros, axis=axis)


MOVES = {
    "permute": (
        lambda x: md.permute_dims(x, (2, 0, 1)),
        lambda r: r.transpose(2, 0, 1),
    ),
    "negative": (
        lambda x: md.permute_dims(x, (-1, 1, 0)),
        lambda r: r.transpose(2, 1, 0),
    ),
    "transpose": (lambda x: x.mT, lambda r: r.swapaxes(1, 2)),
    "front": (lambda x: md.expand_dims(x, 0), lambda r: r[None]),
    "middle": (lambda x: md.expand_dims(x, axis=1), lambda r: r[:, None]),
    "back": (lambda x: md.expand_dims(x, axis=-1), lambda r: r[..., None]),
    "slices": (lambda x: x[1:, ::-1, 1:3], lambda r: r[1:, ::-1, 1:3]),
    "few": (lambda x: x[1:], lambda r: r[1:]),
    "none": (lambda x: x[:, 5:, 9:], lambda r: r[:, 5:, 9:]),
    "squeeze": (lambda x: md.squeeze(x[:, 1:2], 1), lambda r: r[:, 1]),
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", MOVES)
def test_the_axis_moves_along(name, axis, exact):
    x = per_axis(axis)
    move, expected = MOVES[name]
    got = move(x)
    wanted = exact.reals(x)
    wanted = expected(wanted)
    assert got.shape == wanted.shape
    assert np.array_equal(exact.reals(got), wanted)


def test_squeezing_the_axis_leaves_one_grid(exact):
    x = QInt8Tensor([[5], [6]], scale=[0.5], zero_point=[2], axis=1)
    got = md.squeeze(x, 1)
    assert got.qparams == QParams(0.5, 2)
    assert np.array_equal(exact.reals(got), exact.reals(x)[:, 0])
    assert md.squeeze(x, np.int64(1)).shape == md.squeeze(x, (-1,)).shape == (2,)


@pytest.mark.parametrize("grid", GRIDS)
def test_one_grid_stays(grid, random_codes, layout, exact):
    x = layout(random_codes((4, 6), grid))
    reals = exact.reals(x)
    pairs = [
        (md.reshape(x, (3, -1)), reals.reshape(3, 8)),
        (x.T, reals.T),
        (x[1], reals[1]),
        (x[..., None, 2], reals[..., None, 2]),
        (md.concat([x, x], axis=1), np.concatenate([reals, reals], axis=1)),
        (md.concat([x, x[:2]], axis=None), np.r_[reals.ravel(), reals[:2].ravel()]),
        (md.pad(x, [(1, 0), (0, 2)]), np.pad(reals, [(1, 0), (0, 2)])),
    ]
    for got, wanted in pairs:
        assert got.qparams == grid
        assert np.array_equal(exact.reals(got), wanted)


def test_one_grid_is_picked_from(random_codes, exact):
    x = random_codes((4, 6), GRIDS[0])
    reals = exact.reals(x)
    mask, rows = np.arange(24).reshape(4, 6) % 5 == 0, np.array([3, 0, 3])
    for key in (mask, rows, (slice(None), rows), (rows, rows)):
        got = x[key]
        assert got.qparams == GRIDS[0]
        assert np.array_equal(exact.reals(got), reals[key])
    with pytest.raises(md.ShapeError, match=r"^getitem\(QInt8Tensor\[4,6\]\): a mask"):
        x[np.array([True])]


def test_scalars_stay_tensors(random_codes):
    x = random_codes((2, 3), GRIDS[0])
    for got in (x[0, 0], md.reshape(x[0, 0], ()), md.permute_dims(x[0, 0], ())):
        assert type(got) is QInt8Tensor
        assert isinstance(got.buffer, np.ndarray) and got.shape == ()


@pytest.mark.parametrize("value", [0, 0.5, -1.5, Fraction(1, 2), np.float32(2)])
def test_a_border_on_the_grid_is_exact(value, exact):
    x = QInt8Tensor([1], scale=0.5, zero_point=3)
    got = md.pad(x, [(1, 1)], value=value)
    assert exact.reals(got)[0] == Fraction(float(value)) == exact.reals(got)[-1]


def test_borders_that_differ_in_one_number_are_bound_apart(exact):
    """A call is bound once: its key has the widths, the value and their types."""
    x = QInt8Tensor([[1, 2]], scale=0.5, zero_point=3)
    for widths in (((0, 0), (1, 0)), ((0, 0), (0, 1)), ((1, 0), (0, 1))):
        for value in (0, 1, 0.5):
            for _ in range(2):
                got = exact.reals(md.pad(x, widths, value=value)).astype(float)
                wanted = np.pad(
                    exact.reals(x).astype(float), widths, constant_values=value
                )
                assert got.tolist() == wanted.tolist()
    with pytest.raises(md.OptionError):
        md.pad(x, ((0, 0), (True, 0.5)))


def test_a_wrong_border_names_the_quantized_tensor():
    with pytest.raises(md.OptionError) as caught:
        md.pad(QInt8Tensor([1, 2], scale=0.5), 3)
    assert str(caught.value) == (
        "pad(QInt8Tensor[2]): pad_width is 3. For 3 on all sides give [(3, 3)] * 1."
    )


@pytest.mark.parametrize(
    ("value", "near"),
    [(0.3, 0.5), (1e9, 62), (float("inf"), 0), (float("nan"), 0), ("x", 0)],
)
def test_a_border_off_the_grid_is_refused(value, near):
    x = QInt8Tensor([1], scale=0.5, zero_point=3)
    with pytest.raises(md.CastError) as raised:
        md.pad(x, [(1, 1)], value=value)
    assert str(raised.value) == (
        f"pad(QInt8Tensor[1]): {value!r} is not on the grid (scale=0.5, zero_point=3). "
        f"Pass a number on the grid, such as {near}."
    )
    spec = md.TensorSpec(QInt8Tensor, x.shape, x.qparams)
    with pytest.raises(md.CastError, match="is not on the grid"):
        md.pad.select(QInt8Tensor).deduce(spec, pad_width=[(1, 1)], value=value)


def test_other_grids_do_not_join():
    x, y = QInt8Tensor([1], scale=0.5), QInt8Tensor([1], scale=0.25)
    with pytest.raises(md.GridError) as raised:
        md.concat([x, x, y])
    assert str(raised.value) == (
        "concat(QInt8Tensor[1], QInt8Tensor[1]): the grids differ: "
        "(scale=0.5, zero_point=0) and (scale=0.25, zero_point=0). "
        "Pass out=QParams(...), or requantize one to the grid of the other."
    )
    with pytest.raises(md.GridError, match="the grids differ"):
        md.concat([x, QUInt8Tensor([1], scale=0.5)])
    with pytest.raises(
        md.PromotionError, match="quantized and float operands do not have a common"
    ):
        md.concat([x, md.asarray([1.0])])


@pytest.mark.parametrize(
    ("refused", "error", "text"),
    [
        (lambda x: md.reshape(x, (6, 4)), md.GridError, "reshape(QUInt8Tensor[2,3,4])"),
        (
            lambda x: x[0, np.ones(3, bool)],
            md.GridError,
            "getitem(QUInt8Tensor[2,3,4]): s",
        ),
        (lambda x: x[0, [[0]]], md.BoundsError, "getitem(QUInt8Tensor[2,3,4]): canno"),
        (lambda x: x[:, 3], md.BoundsError, "getitem(QUInt8Tensor[2,3,4]): index 3"),
        (lambda x: x[0, np.array([0])], md.GridError, "getitem(QUInt8Tensor[2,3,4])"),
        (lambda x: md.pad(x, [(1, 1)] * 3), md.GridError, "pad(QUInt8Tensor[2,3,4])"),
        (lambda x: md.concat([x, x], axis=None), md.GridError, "concat(QUInt8Tensor["),
        (lambda x: md.concat([x, x[:, ::-1]]), md.GridError, "concat(QUInt8Tensor[2,"),
        (lambda x: md.stack([x, x[:, ::-1]]), md.GridError, "stack(QUInt8Tensor[2,3,"),
        (lambda x: x[:, :, :, :], md.ShapeError, "getitem(QUInt8Tensor[2,3,4]): 4 ind"),
        (lambda x: md.squeeze(x, 0), md.ShapeError, "squeeze(QUInt8Tensor[2,3,4]): "),
        (lambda x: md.squeeze(x, 9), md.ShapeError, "squeeze(QUInt8Tensor[2,3,4]): "),
        (lambda x: md.permute_dims(x, (0, 1)), md.ShapeError, "permute_dims(QUInt8"),
        (lambda x: md.permute_dims(x, "abc"), md.OptionError, "permute_dims(QUInt8"),
        (lambda x: md.expand_dims(x, axis=7), md.ShapeError, "expand_dims(QUInt8"),
        (lambda x: md.pixel_shuffle(x, 2), md.ShapeError, "pixel_shuffle(QUInt8Ten"),
        (lambda x: md.pixel_shuffle(x, 1), md.GridError, "pixel_shuffle(QUInt8Tens"),
        (lambda x: md.pixel_unshuffle(x, 1), md.GridError, "pixel_unshuffle(QUInt8"),
    ],
)
def test_what_does_not_fit_is_refused(refused, error, text):
    with pytest.raises(error) as raised:
        refused(per_axis(1))
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_channels_become_pixels_and_channels_again(grid, batch):
    shape = (*batch, 8, 3, 2)
    codes = np.arange(np.prod(shape)).reshape(shape).astype(grid.dtype.storage)
    x = (
        QInt8Tensor(codes, grid)
        if grid.dtype.storage == "i1"
        else QUInt8Tensor(codes, grid)
    )
    large = md.pixel_shuffle(x, 2)
    wanted = md.pixel_shuffle(md.asarray(codes), 2)
    assert np.array_equal(large.codes.buffer, wanted.buffer)
    assert large.qparams == grid and type(large) is type(x)
    again = md.pixel_unshuffle(large, 2)
    assert np.array_equal(again.codes.buffer, codes) and again.qparams == grid


def test_a_scalar_has_no_axis_to_squeeze():
    with pytest.raises(md.ShapeError):
        md.squeeze(QInt8Tensor(1, scale=0.5), 0)


def test_a_vector_has_no_matrix_to_transpose():
    with pytest.raises(md.ShapeError, match=r"^matrix_transpose\(QInt8Tensor\[1\]"):
        md.matrix_transpose(QInt8Tensor([1], scale=0.5))


def test_accumulators_move_too(exact):
    x = QInt32Tensor([[1, 2], [3, 4]], scale=[0.5, 0.25], axis=1)
    assert np.array_equal(exact.reals(x.T), exact.reals(x).T)


def test_a_view_of_codes_that_would_move_says_why():
    codes = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert reshape_view(codes, shape=(6, 4), copy=None).base is not None
    with pytest.raises(ValueError, match=r"to \(6, 4\) would move codes: images are"):
        reshape_view(codes.transpose(1, 0, 2), shape=(6, 4), copy=None)
