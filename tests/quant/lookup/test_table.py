"""Functions of users as tables, every code against decimals."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, Table, quint8

LEAVES = {"qint8": QInt8Tensor, "quint8": QUInt8Tensor}
GRIDS = [
    (QParams(0.05, 3), QParams(0.02, -100)),
    (QParams(0.03125, 128, dtype=quint8), QParams(1 / 256, dtype=quint8)),
    (QParams(0.25, -5), QParams(0.0625, 7, dtype=quint8)),
    (QParams(0.1, 200, dtype=quint8), QParams(0.05, -128)),
]


def every_code(grid):
    codes = np.arange(256) + (0 if grid.dtype is quint8 else -128)
    return LEAVES[grid.dtype.name](codes.astype(grid.dtype.storage), grid)


def wanted(function, grid, out):
    found = []
    for code in np.asarray(every_code(grid).codes).tolist():
        value = Fraction(function((code - grid.zero) * grid.fraction))
        steps = round(value / out.fraction) + out.zero
        found.append(min(max(steps, out.minimum), out.maximum))
    return found


def decimal_asinh(x):
    """asinh in 50 digits, by its formula."""
    from decimal import localcontext

    with localcontext() as context:
        context.prec = 80
        number = Decimal(x.numerator) / Decimal(x.denominator)
        found = (abs(number) + (number * number + 1).sqrt()).ln()
        return found.copy_sign(number)


@pytest.mark.parametrize("grid, out", GRIDS)
def test_a_float_function_gives_the_nearest_codes(grid, out):
    table = Table(lambda x: math.asinh(x), grid, out)
    found = table(every_code(grid))
    assert found.qparams == out
    assert np.asarray(found.codes).tolist() == wanted(decimal_asinh, grid, out)
    assert table.code(grid.zero) == min(max(out.zero, out.minimum), out.maximum)


@pytest.mark.parametrize("grid, out", GRIDS)
def test_exact_values_decide_ties_to_even(grid, out):
    found = Table(lambda x: x / 2 + out.fraction / 2, grid, out)(every_code(grid))
    expected = wanted(lambda x: x / 2 + out.fraction / 2, grid, out)
    assert np.asarray(found.codes).tolist() == expected


def test_shapes_and_strides_are_those_of_the_argument(rng):
    grid = QParams(0.25)
    x = QInt8Tensor(rng.integers(-128, 128, (4, 6), dtype=np.int8), grid)
    table = Table(lambda x: -x, grid, QParams(0.25))
    for view in (x, x[::2, ::-1], md.permute_dims(x, (1, 0)), x[:0], x[1, 2]):
        codes = np.asarray(view.codes).astype(int)
        found = table(view)
        assert found.shape == view.shape
        assert np.array_equal(np.asarray(found.codes), np.minimum(-codes, 127))


def test_a_float_at_a_tie_is_refused_unless_floats_are_exact():
    grid = QParams(0.5)
    with pytest.raises(md.CastError) as caught:
        Table(lambda x: float(x) / 2, grid, grid)
    assert str(caught.value) == (
        "Table: f(-63.5) = -31.75 is within its error of the middle of two codes. "
        "Return a Fraction or a Decimal, or pass error=0 if floats are exact."
    )
    table = Table(lambda x: float(x) / 2, grid, grid, error=0)
    assert [table.code(c) for c in (-3, -1, 1, 3)] == [-2, 0, 0, 2]


def test_infinities_saturate_and_other_values_are_refused():
    grid = QParams(1.0)
    ends = Table(lambda x: math.inf if x > 0 else -math.inf, grid, grid)
    assert (ends.code(1), ends.code(0)) == (127, -128)
    with pytest.raises(md.CastError, match=r"f\(-128\) is NaN"):
        Table(lambda x: math.nan, grid, grid)
    with pytest.raises(md.OptionError, match="the function returned 'a'"):
        Table(lambda x: "a", grid, grid)
    with pytest.raises(md.OptionError, match="out is a float"):
        Table(lambda x: x, grid, 1.0)
    with pytest.raises(
        md.OptionError, match="must be a grid of qint8, quint8 or qint16 with one scale"
    ):
        Table(lambda x: x, QParams([1.0, 2.0], axis=0), grid)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (math.log, "-128: ValueError: math domain error"),
        (lambda x: 1 / x, "0: ZeroDivisionError: Fraction(1, 0)"),
    ],
)
def test_a_function_that_has_no_number_for_a_code(function, said):
    with pytest.raises(md.OptionError) as caught:
        Table(function, QParams(1.0), QParams(1.0))
    assert str(caught.value) == (
        f"Table: the function raises for {said}. Return a number for each code; each "
        "code is passed as a Fraction."
    )


def test_another_grid_is_refused():
    table = Table(lambda x: x, QParams(1.0), QParams(1.0))
    for other in (QInt8Tensor([1], scale=2.0), md.ones(2)):
        with pytest.raises(md.GridError, match="the table is for"):
            table(other)


def test_tables_are_exact_or_refused():
    for make in (
        lambda: Table(abs, QParams(0.5), QParams(1.0, rounding="tflite_ref")),
        lambda: Table(abs, QParams(0.5), QParams(1.0)),
    ):
        with md.quant.rounding("tflite_ref"), pytest.raises(md.OptionError) as raised:
            make()
        assert str(raised.value).startswith(
            "table: rounding='tflite_ref' does not define table. It defines add, "
        )


def test_integers_past_float64_saturate():
    assert Table(lambda _: 10**400, QParams(1.0), QParams(1.0)).code(3) == 127
