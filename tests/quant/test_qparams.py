"""Grids: what they refuse, what they cover, what they are worth."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor import GridError
from mdtensor.quant import QParams, grid_of, qint8, qint32, quint4, quint8

RANGES = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize(
    ("scale", "shown"),
    [
        (0, "0"),
        (-0.5, "-0.5"),
        (np.nan, "nan"),
        (np.inf, "infinite"),
        (1e-42, "1e-42"),
        (1e39, "infinite"),
    ],
)
def test_a_scale_that_is_no_step_is_refused(scale, shown):
    with pytest.raises(GridError) as raised:
        QParams(scale)
    assert str(raised.value) == (
        f"QParams: a scale is {shown}. Use finite numbers of 1.18e-38 or more."
    )


@pytest.mark.parametrize(
    ("zero_point", "dtype", "shown", "fix"),
    [
        (128, qint8, "128", "integers from -128 to 127, or dtype='quint8'"),
        (256, qint8, "256", "integers from -128 to 127"),
        (-1, quint8, "-1", "integers from 0 to 255, or dtype='qint8'"),
        (0.5, quint8, "0.5", "integers from 0 to 255"),
        (16, quint4, "16", "integers from 0 to 15"),
        (1, qint32, "1", "0"),
    ],
)
def test_a_zero_point_that_is_no_code_is_refused(zero_point, dtype, shown, fix):
    with pytest.raises(GridError) as raised:
        QParams(0.1, zero_point, dtype=dtype)
    assert str(raised.value) == (
        f"QParams: a zero point is not a code of {dtype}: given {shown}. Use {fix}."
    )


def test_scales_and_axis_come_together():
    with pytest.raises(GridError, match="2 scales with axis=None"):
        QParams([0.1, 0.2])
    with pytest.raises(GridError, match="1 scales with axis=0"):
        QParams(0.1, axis=0)


def test_a_grid_does_not_change():
    grid = QParams(0.5, 1)
    with pytest.raises(GridError, match="is immutable"):
        grid.scale = 1.0
    with pytest.raises(ValueError, match="read-only"):
        grid.scale[...] = 1.0


def test_equality_hash_pickle_and_copy_agree():
    grid = QParams([0.5, 0.25], axis=1)
    for other in (pickle.loads(pickle.dumps(grid)), copy.deepcopy(grid)):
        assert other == grid and hash(other) == hash(grid)
    different = [
        QParams([0.5, 0.25], axis=0),
        QParams([0.5, 0.125], axis=1),
        QParams([0.5, 0.25], [0, 1], axis=1),
        QParams([0.5, 0.25], axis=1, dtype=quint8),
    ]
    assert all(grid != other for other in different)


def test_eight_bit_scales_are_float32_and_accumulators_hold_products():
    a, b = QParams(0.1).fraction, QParams(0.3).fraction
    assert a == Fraction(float(np.float32(0.1)))
    product = QParams(float(a) * float(b), dtype=qint32)
    assert product.fraction == a * b


@given(RANGES, RANGES)
def test_a_grid_covers_its_range_and_holds_zero(a, b):
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    grid = grid_of(low, high, dtype=quint8)
    step = float(grid.scale)
    bottom, top = grid.range
    assert 0 <= grid.zero <= 255
    assert bottom <= low + step / 2 and top >= high - step / 2


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(1, -1, "1 to -1"), (np.nan, 1, "nan to 1"), (0, np.inf, "0 to inf")],
)
def test_a_range_has_finite_ends_in_order(low, high, shown):
    with pytest.raises(GridError) as caught:
        grid_of(low, high, dtype=qint8)
    assert str(caught.value) == (
        f"grid_of: a range is {shown}. Give finite numbers, the lower one first."
    )


@given(RANGES)
def test_a_symmetric_grid_has_zero_point_zero_and_covers(bound):
    grid = grid_of(-abs(bound), abs(bound), dtype=qint8, symmetric=True)
    assert grid.zero == 0
    assert 127 * grid.fraction >= Fraction(abs(bound)) or abs(bound) < 1e-36


def test_repr_is_one_short_line():
    assert repr(QParams(0.1, 3)) == (
        "QParams(scale=0.1, zero_point=3, range=-13.1..12.4, dtype=qint8)"
    )
    scales = np.linspace(0.1, 0.3, 1000)
    assert repr(QParams(scales, axis=0, dtype=qint8)) == (
        "QParams(1000 scales=0.1..0.3, axis=0, range=-38.4..38.1, dtype=qint8)"
    )


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((None,), {}, "QParams: scale is a NoneType that does not hold numbers"),
        ((True,), {}, "QParams: scale is a bool that does not hold numbers"),
        ((1.0, True), {}, "QParams: zero_point is a bool that does not hold numbers"),
        (
            ([None, 1.0],),
            {"axis": 0},
            "QParams: scale is a list that does not hold numbers",
        ),
        (
            ("wide",),
            {},
            "QParams: scale is a str that does not hold numbers. Give a number",
        ),
        (
            ([[1], [1, 2]],),
            {"axis": 0},
            "QParams: scale is a list that does not hold numbers",
        ),
        ((1, "x"), {}, "QParams: zero_point is a str that does not hold numbers"),
        ((1, None), {}, "QParams: zero_point is a NoneType that does not hold numbers"),
        ((1, [1, 2]), {}, "QParams: 2 zero points for 1 scales. Give one, or one"),
        (([1, 2], [1, 2, 3]), {"axis": 0}, "QParams: 3 zero points for 2 scales"),
        (
            ([1, 2],),
            {"axis": -1},
            "QParams: axis is -1. Count axes from the front, starting at 0.",
        ),
        (
            ([1, 2],),
            {"axis": 1.5},
            "QParams: axis is 1.5. Count axes from the front, starting at 0.",
        ),
        ((1,), {"dtype": "int8"}, "QParams: int8 is not a quantized type. Use qint8."),
    ],
)
def test_what_makes_no_grid_is_refused(arguments, options, text):
    with pytest.raises(GridError) as raised:
        QParams(*arguments, **options)
    assert str(raised.value).startswith(text)


def test_an_axis_of_no_indices_has_no_scales():
    grid = QParams([], axis=1)
    assert repr(grid) == "QParams(0 scales, axis=1, dtype=qint8)"


def test_scales_past_float32_are_shown():
    assert repr(QParams(1e300, dtype=qint32)) == (
        "QParams(scale=1e+300, zero_point=0, range=-inf..inf, dtype=qint32)"
    )


def test_blocks_have_at_least_one_index_and_scales_of_every_axis():
    grid = QParams([[0.5, 0.25]], axis=1, block_size=4)
    assert (grid.axis, grid.block_size) == (1, 4)
    for size in (0, -1, 2**63, True, 1.5):
        with pytest.raises(GridError, match=f"block_size is {size}"):
            QParams([[0.5, 0.25]], axis=1, block_size=size)
    with pytest.raises(GridError, match=r"scales of shape \(2,\) with axis=1"):
        QParams([0.5, 0.25], axis=1, block_size=4)
