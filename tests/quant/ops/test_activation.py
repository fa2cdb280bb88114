"""Functions of one argument: off the 8-bit grids, at their ends, in every layout.

`tests/quant/lookup/test_build.py` holds the tables themselves.
"""

from fractions import Fraction

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams, qint32, quint8

OUT = QParams(0.05, -3)
CURVES = [md.relu, md.relu6, md.hardsigmoid, md.hardswish, md.sigmoid, md.tanh, md.exp]
named = pytest.mark.parametrize("operation", CURVES, ids=lambda f: f.__name__)
INF, NAN = float("inf"), float("nan")


@named
def test_layout_does_not_matter(operation, random_codes, layout):
    x = random_codes((4, 6), QParams(0.1, 3, dtype=quint8))
    wanted = operation(x, out=OUT).buffer
    assert np.array_equal(operation(layout(x), out=OUT).buffer, wanted)


@named
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_shapes_stay(operation, shape, random_codes):
    got = operation(random_codes(shape, QParams(0.1)), out=OUT)
    assert isinstance(got.buffer, np.ndarray) and got.shape == shape


@named
def test_out_may_be_an_accumulator(operation, every_code):
    x = every_code(QParams(0.03, 3))
    fine = QParams(2.0**-24, dtype=qint32)
    got = operation(x, out=fine)
    assert type(got) is QInt32Tensor
    again = md.quant.requantize(got, out=OUT).buffer.astype(int)
    assert np.abs(again - operation(x, out=OUT).buffer).max() <= 1
    assert got.buffer.max() > 2**20


def test_relu_of_an_accumulator_is_exact(tensor):
    x = tensor([-(2**31), -1, 0, 2**31 - 1], QParams(0.5, dtype=qint32))
    assert md.relu(x).codes.tolist() == [0, 0, 0, 2**31 - 1]
    assert md.relu(x).qparams == x.qparams
    assert isinstance(md.relu(x[1]).buffer, np.ndarray)


@pytest.mark.parametrize(
    ("low", "high"), [(-2, 3), (None, 3), (-2, None), (-INF, INF), (None, 1000), (0, 0)]
)
def test_clip_on_its_own_grid_is_exact(low, high, every_code, exact):
    x = every_code(QParams(0.25, 5))
    got = md.clip(x, low, high)
    bounds = [
        Fraction(v) if v is not None and abs(v) < INF else None for v in (low, high)
    ]
    wanted = exact.reals(x)
    wanted = wanted if bounds[0] is None else np.maximum(wanted, bounds[0])
    wanted = wanted if bounds[1] is None else np.minimum(wanted, bounds[1])
    assert got.qparams == x.qparams
    assert np.array_equal(exact.reals(got), wanted)


@pytest.mark.parametrize("bounds", [(-0.3, 0.7), (100, 200), (-200, -100), (None, INF)])
def test_clip_to_a_grid_rounds_once(bounds, every_code, exact):
    x = every_code(QParams(0.25, 5))
    low, high = (None if b in (None, INF) else Fraction(b) for b in bounds)
    wanted = exact.reals(x)
    wanted = wanted if low is None else np.maximum(wanted, low)
    wanted = wanted if high is None else np.minimum(wanted, high)
    got = md.clip(x, *bounds, out=OUT)
    assert np.array_equal(got.buffer, exact.codes(wanted, OUT))


@pytest.mark.parametrize(
    ("bounds", "error", "text"),
    [
        ((3, 1), md.OptionError, "min 3 is above max 1. Swap them."),
        ((NAN, 1), md.OptionError, "a bound is nan. Pass numbers, or None."),
        ((0, NAN), md.OptionError, "a bound is nan. Pass numbers, or None."),
        ((0, "x"), md.OptionError, "a bound is 'x'. Pass numbers, or None."),
        (
            (INF, INF),
            md.OptionError,
            "no finite number lies between min inf and max inf",
        ),
        (
            (None, -INF),
            md.OptionError,
            "no finite number lies between min None and max",
        ),
        (
            (100, None),
            md.GridError,
            "100 is past the codes of (scale=0.25, zero_point=5). Pass out=QParams",
        ),
        (
            (None, -100),
            md.GridError,
            "-100 is past the codes of (scale=0.25, zero_point=5). Pass out=QParams",
        ),
        (
            (0.3, None),
            md.GridError,
            "0.3 is between two codes of (scale=0.25, zero_point=5). Pass out=QParams",
        ),
    ],
)
def test_bounds_that_are_none_are_refused(bounds, error, text, every_code):
    x = every_code(QParams(0.25, 5))
    with pytest.raises(error) as raised:
        md.clip(x, *bounds)
    assert str(raised.value).startswith(f"clip(QInt8Tensor[256]): {text}")


@pytest.mark.parametrize("slope", [(NAN, 0), (0.2, INF), ("x", 0), (0.2, None)])
def test_a_slope_is_finite(slope, every_code):
    with pytest.raises(md.OptionError, match="Pass finite numbers"):
        md.hardsigmoid(every_code(OUT), alpha=slope[0], beta=slope[1], out=OUT)


@pytest.mark.parametrize("scales", [(2.0**-126, 2.0**-125), (2.0**-80, 2.0**-79)])
def test_tanh_is_below_its_argument_where_that_is_a_tie(scales, every_code):
    got = md.tanh(every_code(QParams(scales[0])), out=QParams(scales[1])).buffer
    # |tanh(x)| < |x|, however little: a half step rounds toward 0.
    codes = np.arange(-128, 128)
    assert np.array_equal(got, np.sign(codes) * (np.abs(codes) // 2))


@pytest.mark.parametrize("scale", [2.0**-126, 3e38])
@named
def test_extreme_scales_do_not_fail(operation, scale, every_code):
    x = every_code(QParams(scale, 1))
    for out in (QParams(2.0**-126), QParams(3e38), QParams(2.0)):
        got = operation(x, out=out).buffer.astype(int)
        assert (np.diff(got) >= 0).all() or operation is md.hardswish


def test_negation_of_an_accumulator(tensor):
    grid = QParams(0.5, dtype=qint32)
    assert (-tensor([5, -(2**31) + 1], grid)).codes.tolist() == [-5, 2**31 - 1]
    with pytest.raises(md.GridError) as raised:
        -tensor([-(2**31)], grid)
    assert str(raised.value) == (
        "neg(QInt32Tensor[1]): -(-2**31) does not fit 32 bits. Requantize first."
    )


def test_negation_keeps_axes_and_scalars(exact):
    x = QInt8Tensor(
        [[-128, 127], [3, 4]], scale=[0.5, 0.25], zero_point=[-128, 7], axis=0
    )
    assert np.array_equal(exact.reals(-x), -exact.reals(x))
    scalar = -x[0:1, 0:1]
    assert scalar.shape == (1, 1)
    assert isinstance((-QInt8Tensor(3, scale=0.5)).buffer, np.ndarray)


@named
def test_scales_along_an_axis_are_taken_one_by_one(operation):
    x = QInt8Tensor([1, 2], scale=[0.5, 0.25], axis=0)
    each = [operation(x[i], out=OUT).codes.item() for i in range(2)]
    assert operation(x, out=OUT).codes.tolist() == each
