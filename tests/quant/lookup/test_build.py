"""Tables of 256 codes against the exact functions, every code."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, qint8, quint8
from mdtensor.quant.lookup import build, functions

ALL = {
    qint8: QInt8Tensor,
    quint8: QUInt8Tensor,
}
GRIDS = [
    (QParams(0.05, 3), QParams(0.02, -100)),
    (QParams(0.03125, 128, dtype=quint8), QParams(1 / 256, dtype=quint8)),
    (QParams(0.25, -5), QParams(0.0625, 7, dtype=quint8)),
    (QParams(0.1, 200, dtype=quint8), QParams(0.05, -128)),
]
RATIONAL = {
    md.relu: lambda x: max(x, 0),
    md.relu6: lambda x: min(max(x, 0), 6),
    md.hardswish: lambda x: x * min(max(x + 3, 0), 6) / 6,
    md.hardsigmoid: lambda x: min(max(Fraction(1 / 6) * x + Fraction(1, 2), 0), 1),
}
REAL = {
    md.sigmoid: lambda x: 1 / (1 + math.exp(-x)),
    md.tanh: math.tanh,
    md.exp: math.exp,
}


def every_code(grid):
    codes = np.arange(grid.minimum, grid.maximum + 1).astype(grid.dtype.storage)
    return ALL[grid.dtype](codes, grid)


@pytest.mark.parametrize("operation", RATIONAL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grids", GRIDS)
def test_piecewise_functions_are_exact_on_every_code(operation, grids, exact):
    x = every_code(grids[0])
    values = np.array([RATIONAL[operation](v) for v in exact.reals(x)], object)
    got = operation(x, out=grids[1])
    assert got.qparams == grids[1]
    assert np.array_equal(got.buffer, exact.codes(values, grids[1]))


@pytest.mark.parametrize("operation", REAL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("grids", GRIDS)
def test_transcendental_functions_are_rounded_correctly(operation, grids, exact):
    x = every_code(grids[0])
    values = np.array([REAL[operation](float(v)) for v in exact.reals(x)])
    got = operation(x, out=grids[1]).buffer.astype(np.int64)
    low = exact.codes(values * (1 - 1e-14), grids[1])
    high = exact.codes(values * (1 + 1e-14), grids[1])
    assert np.all((got == low) | (got == high))


def test_negation_is_exact_on_every_code(exact):
    for grid in (QParams(0.05, 3), QParams(0.05, 3, dtype=quint8)):
        x = every_code(grid)
        assert np.array_equal(exact.reals(-x), -exact.reals(x))


def test_relu_keeps_its_grid_and_is_exact_on_it(exact):
    x = every_code(QParams(0.1, 3))
    got = md.relu(x)
    assert got.qparams == x.qparams
    assert np.array_equal(exact.reals(got), np.maximum(exact.reals(x), 0))


def test_a_bound_between_codes_needs_out():
    x = every_code(QParams(0.7, 0))
    with pytest.raises(md.GridError) as raised:
        md.relu6(x)
    assert str(raised.value) == (
        "relu6(QInt8Tensor[256]): 6 is between two codes of "
        "(scale=0.7, zero_point=0). Pass out=QParams(...)."
    )
    half = every_code(QParams(0.5, 0))
    assert md.relu6(half).codes.tolist()[-1] == 12


def test_without_out_a_curve_is_refused():
    with pytest.raises(md.GridError) as raised:
        md.sigmoid(every_code(QParams(0.1)))
    assert str(raised.value) == (
        "sigmoid(QInt8Tensor[256]): no grid represents the result exactly; the grid is "
        "(scale=0.1, zero_point=0). "
        "Pass out=QParams(...); the result is rounded to it, once."
    )


def test_exp_is_e_to_fifty_digits():
    e = Fraction(
        "2.7182818284590452353602874713526624977572470936999595749669676277240766"
    )
    assert abs(build.exp(Fraction(1)) - e) < Fraction(1, 10**48)
    assert build.exp(Fraction(-(10**6))) > 0


@pytest.mark.parametrize("function", [build.exp, build.sigmoid, build.tanh])
def test_far_arguments_are_computed_once(function: Any) -> None:
    for sign in (1, -1):
        ends = [function(Fraction(sign * 10**n, 3)) for n in (4, 5, 38)]
        assert ends[0] is ends[1] is ends[2]
        assert ends[0] == function(Fraction(sign * build.FAR))
    # The result of the last argument that is not far is on its side.
    near = Fraction(build.FAR) - Fraction(1, 1000)
    assert function(near) <= function(Fraction(build.FAR))
    assert function(-near) >= function(Fraction(-build.FAR))


def naive(function, source, target):
    """The codes by fractions, one by one."""
    every = range(int(source.dtype.minimum), source.maximum + 1)
    reals = [(code - source.zero) * source.fraction for code in every]
    rounded = [round(function(x) / target.fraction) + target.zero for x in reals]
    return [min(max(n, target.minimum), target.maximum) for n in rounded]


#: Functions by pieces with every order of bounds, and their definitions.
PIECES = {
    "slope": (
        build.hardsigmoid(0.2, 0.5),
        lambda x: clamp(exact(0.2) * x + exact(0.5)),
    ),
    "falling": (
        build.hardsigmoid(-0.3, 0.1),
        lambda x: clamp(exact(0.1) - exact(0.3) * x),
    ),
    "flat": (build.hardsigmoid(0.0, 1.7), lambda x: Fraction(1)),
    "below": (build.clip(None, 0.4), lambda x: min(x, exact(0.4))),
    "above": (build.clip(-0.7, None), lambda x: max(x, exact(-0.7))),
    "all": (build.clip(None, None), lambda x: x),
    "none": (build.clip(2.0, 1.0), lambda x: Fraction(1)),
    "point": (build.clip(0.5, 0.5), lambda x: exact(0.5)),
    "leaky": (functions.leaky_relu(0.01), lambda x: x if x > 0 else exact(0.01) * x),
    "rising": (functions.leaky_relu(1.5), lambda x: x if x > 0 else exact(1.5) * x),
    "square": (build.square, lambda x: x * x),
    "magnitude": (build.magnitude, abs),
    "hardswish": (build.hardswish, lambda x: x * min(max(x + 3, 0), 6) / 6),
    "affine": (
        build.affine(Fraction(-3, 7), Fraction(1, 2)),
        lambda x: Fraction(1, 2) - 3 * x / 7,
    ),
}


def exact(number):
    return Fraction(number)


def clamp(x):
    return min(max(x, Fraction(0)), Fraction(1))


@pytest.mark.parametrize("name", PIECES)
def test_pieces_have_the_codes_of_fractions(name):
    function, want = PIECES[name]
    for x in (Fraction(-9), Fraction(-1, 3), Fraction(0), Fraction(2, 5), Fraction(77)):
        assert function(x) == want(x)
    tie = (QParams(0.5, dtype=qint8), QParams(1.0, -3, dtype=qint8))
    for source, target in (*GRIDS, tie):
        assert build.codes(function, source, target) == naive(want, source, target)
