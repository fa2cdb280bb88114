"""Functions whose exact value is a tie but for a part too small to see, and NumPy's
integers as their options, which wrap where Python's grow."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QParams, Table
from mdtensor.quant.lookup import functions

X = QInt8Tensor([-100, -51, 5, 100], scale=0.1)


def test_gelu_far_from_zero_stays_below_its_argument():
    x = QInt8Tensor([19, 23, 31, 127], scale=1.0)
    assert md.gelu(x, out=QParams(2.0)).codes.tolist() == [9, 11, 15, 63]
    far = QInt8Tensor([3, 127], scale=2.0**100)
    assert md.gelu(far, out=QParams(2.0**101)).codes.tolist() == [1, 63]
    assert md.gelu(-far, out=QParams(2.0**101)).codes.tolist() == [0, 0]


@pytest.mark.parametrize("x", [12, 15, 20, 25, 30, 31])
def test_erf_has_the_zeros_of_its_complement(x):
    """1 - erf(x) by its asymptotic series, which errs by less than its last term."""
    with localcontext(Context(prec=60)):
        square = Decimal(x * x)
        term = total = Decimal(1)
        for n in range(1, 40):
            term *= -Decimal(2 * n - 1) / (2 * square)
            total += term
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        rest = (-square).exp() / (x * pi.sqrt()) * total
        ours = 1 - functions.erf(Fraction(x))
        found = Decimal(ours.numerator) / Decimal(ours.denominator)
        assert abs(found / rest - 1) < Decimal(10) ** -20
    assert functions.erf(Fraction(-x)) == ours - 1
    assert 0 < 1 - functions.erf(Fraction(10**9)) < Fraction(1, 10**400)


def test_celu_far_below_zero_stays_above_its_bound():
    x = QInt8Tensor([-1, -127], scale=200.0)
    found = md.celu(x, alpha=1.5, out=QParams(1.0))
    assert found.codes.tolist() == [-1, -1]
    assert md.elu(x, alpha=1.5, out=QParams(1.0)).codes.tolist() == [-1, -1]


OPTIONS = [
    (md.clip, {"min": -50, "max": 100}),
    (md.clip, {"min": 0, "max": 1}),
    (md.leaky_relu, {"negative_slope": 5}),
    (md.hardsigmoid, {"alpha": 5, "beta": 3}),
    (md.elu, {"alpha": 3}),
    (md.celu, {"alpha": 2}),
    (md.softplus, {"beta": 3, "threshold": 20}),
    (md.hardtanh, {"min_val": -3, "max_val": 4}),
]


@each("kind", [np.int8, np.int32, np.int64, np.uint8, np.float32])
@each("operation, options", OPTIONS)
def test_numpys_numbers_are_the_numbers_that_they_are(operation, options, kind):
    if kind is np.uint8 and min(options.values()) < 0:
        return
    out = QParams(0.3)
    given = {name: kind(value) for name, value in options.items()}
    found = operation(X, out=out, **given).codes.tolist()
    for clear in ("leaky_relu", "elu", "celu", "softplus"):  # which remember numbers
        getattr(functions, clear).cache_clear()
    assert found == operation(X, out=out, **options).codes.tolist()
    long = quant.requantize(X, out=QParams(X.scale, dtype=quant.qint16))
    if operation in (md.clip, md.leaky_relu, md.elu):  # of 16 bits as well
        wanted = operation(long, out=out, **options).codes.tolist()
        assert operation(long, out=out, **given).codes.tolist() == wanted


def test_numpys_integers_from_a_table_and_as_codes_do_not_wrap():
    grid = QParams(0.1)
    for number in (np.int32(100), np.int64(2**40), np.int8(100)):
        assert Table(lambda _, n=number: n, grid, grid)(X).codes.tolist() == [127] * 4
    with pytest.raises(md.CastError, match="is not on the grid"):
        md.full_like(QInt8Tensor([1], scale=2.0**-30), np.int32(4))
