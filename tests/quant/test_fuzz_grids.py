"""Grids of every granularity and type: moved, converted, compared, beside floats.

The oracle is Python's Fraction, element by element; of products of floats the rule that
`kernels/reference/matmul.py` writes down. The longer tier is marked slow.
"""

from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.grids import EVERY, NARROW, grids
from support.layouts import SCALES, USUAL_SCALES, any_codes, laid

import mdtensor as md
from mdtensor import quant
from mdtensor.kernels.reference import round_to_float32
from mdtensor.kernels.reference.matmul import gemm_f32f32f32
from mdtensor.quant import qint32
from mdtensor.quant.dtypes import FLOATS

SHAPES = st.lists(st.sampled_from([1, 2, 3, 5]), max_size=3).map(tuple)
SOME = st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=3).map(tuple)


def keys(draw, shape):
    """An index of some axes."""
    found = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        start, stop = (draw(st.none() | st.integers(-size, size)) for _ in range(2))
        step = draw(st.sampled_from([None, 1, 2, 3, -1]))
        found.append(
            draw(st.sampled_from([slice(start, stop, step), draw(st.just(size - 1))]))
        )
        if draw(st.booleans()):
            found.append(None)
    return tuple(found)


def moves(draw, shape):
    """Moves: of a tensor, and of an array."""
    ndim = len(shape)
    axis = draw(st.integers(0, ndim - 1))
    order = tuple(draw(st.permutations(range(ndim))))
    wide = (draw(st.integers(1, 3)), *shape)
    key = keys(draw, shape)
    places = np.array(draw(st.lists(st.integers(0, shape[axis] - 1), max_size=4)), int)
    flat = draw(st.sampled_from([(-1,), (shape[0], -1), (*shape, 1), (1, *shape)]))
    return [
        (lambda x: x[key], lambda a: a[key]),
        (lambda x: md.reshape(x, flat), lambda a: a.reshape(flat)),
        (lambda x: md.permute_dims(x, order), lambda a: a.transpose(order)),
        (lambda x: md.flip(x, axis=axis), lambda a: np.flip(a, axis)),
        (
            lambda x: md.expand_dims(x, axis=axis),
            lambda a: np.expand_dims(a, axis),
        ),
        (
            lambda x: md.broadcast_to(x, wide),
            lambda a: np.broadcast_to(a, wide),
        ),
        (lambda x: md.moveaxis(x, axis, 0), lambda a: np.moveaxis(a, axis, 0)),
        (
            lambda x: md.take(x, md.asarray(places), axis=axis),
            lambda a: np.take(a, places, axis),
        ),
        (
            lambda x: md.concat([x, x], axis=axis),
            lambda a: np.concatenate([a, a], axis),
        ),
        (
            lambda x: md.stack([x, x], axis=axis),
            lambda a: np.stack([a, a], axis),
        ),
    ]


def moving(exact, data):
    """Numbers stay what they are, or the grid that they would need is refused."""
    shape = data.draw(SOME)
    x = any_codes(data.draw, shape)
    reals = exact.reals(x)
    for ours, theirs in moves(data.draw, shape):
        wanted = theirs(reals)
        try:
            got = ours(x)
        except md.GridError:
            assert x.qparams.axis is not None
            continue
        assert got.dtype is x.dtype and got.shape == np.shape(wanted)
        assert np.array_equal(exact.reals(got), wanted)


def same_codes(exact, got, wanted, grid):
    """`got` is on `grid`, with the codes of the Fractions `wanted`."""
    assert got.qparams == grid and got.shape == wanted.shape
    codes = exact.codes(wanted, grid)
    found = got.buffer.astype(float) if grid.dtype in FLOATS else np.asarray(got.codes)
    assert np.array_equal(found, codes)


def conversion(exact, data):
    """Codes to numbers, numbers to codes, and from any grid to any other."""
    shape = data.draw(SHAPES)
    x = any_codes(data.draw, shape)
    out = data.draw(grids(shape, EVERY, SCALES))
    reals = exact.reals(x)
    same_codes(exact, quant.requantize(x, out=out), reals, out)
    numbers = np.asarray(quant.dequantize(x))
    nearest = [round_to_float32(v) for v in reals.ravel()]
    assert numbers.ravel().tolist() == [float(v) for v in nearest]
    stored = data.draw(
        st.sampled_from([np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
    )
    with np.errstate(over="ignore", under="ignore"):
        given = numbers.astype(stored)
    given = laid(
        data.draw,
        np.where(np.isfinite(given.astype(float)), given, given.dtype.type(0)),
    )
    exactly = [*map(Fraction, given.astype(float).ravel().tolist()), None]
    wanted = np.array(exactly, object)[:-1].reshape(shape)
    same_codes(exact, quant.quantize(md.from_numpy(given), out), wanted, out)


def casting(exact, data):
    """astype gives what requantize gives, or refuses what its policy names."""
    shape = data.draw(SHAPES)
    x, out = any_codes(data.draw, shape), data.draw(grids(shape, EVERY, SCALES))
    policy = data.draw(st.sampled_from(["exact", "check", "saturate"]))
    reals = exact.reals(x)
    moved = quant.requantize(x, out=out)
    try:
        got = md.astype(x, out, casting=policy)
    except md.CastError:
        lost = ~np.equal(exact.reals(moved), reals)
        assert policy != "saturate" and lost.any()
        return
    assert got.qparams == out
    assert np.array_equal(exact.reals(got), exact.reals(moved))
    if policy == "exact":
        assert np.array_equal(exact.reals(got), reals)


COMPARED = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


def comparison(exact, data):
    """Any two grids compare as their numbers do."""
    shape = data.draw(SHAPES)
    a, b = any_codes(data.draw, shape), any_codes(data.draw, shape)
    if data.draw(st.booleans()):
        b = a
    name = data.draw(st.sampled_from(COMPARED))
    wanted = getattr(np, name)(exact.reals(a), exact.reals(b)).astype(bool)
    try:
        got = getattr(md, name)(a, b)
    except (md.GridError, md.PromotionError):
        assert qint32 in (a.dtype, b.dtype)
        return
    assert np.array_equal(np.asarray(got), wanted)


def scaling(exact, data):
    """Signs, magnitudes and factors without `out` are exact."""
    shape = data.draw(SHAPES)
    x = any_codes(data.draw, shape, dtypes=NARROW)
    reals = exact.reals(x)
    factor = data.draw(st.sampled_from([1, 2, 0.5, 3]))
    signs = np.array([(v > 0) - (v < 0) for v in reals.ravel()] + [None], object)[:-1]
    for call, wanted in (
        (partial(md.neg, x), -reals),
        (partial(md.abs, x), np.abs(reals)),
        (partial(md.sign, x), signs.reshape(shape)),
        (partial(md.mul, x, factor), reals * Fraction(factor)),
    ):
        try:
            got = call()
        except md.GridError as error:
            assert "scale" in error.problem, error
            continue
        assert np.array_equal(exact.reals(got), wanted)


WEIGHTS = [*NARROW, quant.qfloat8_e4m3, quant.qfloat8_e5m2]
ODD_FLOATS = st.sampled_from([0.0, -0.0, 1e-45, 3e38, -3e38, 1.0, 2.0**-126])


def floats(data, shape):
    """Numbers of float32, of any size, in any layout."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    found = rng.standard_normal(shape).astype(np.float32)
    some = rng.random(shape) < data.draw(st.sampled_from([0, 0.2]))
    found[some] = data.draw(ODD_FLOATS)
    return laid(data.draw, found)


def same_floats(got, wanted):
    """The same bytes, but of NaN."""
    got = np.asarray(got)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    is_nan = np.isnan(wanted)
    assert np.array_equal(np.isnan(got), is_nan)
    assert got[~is_nan].tobytes() == wanted[~is_nan].tobytes()


def numbers_of(exact, w):
    found = [round_to_float32(v) for v in exact.reals(w).ravel()]
    return np.array(found, np.float32).reshape(w.shape)


def weight_only(exact, data):
    """Floats by codes of any grid: the documented sums, to the byte."""
    m, n, k = (data.draw(st.sampled_from(sizes)) for sizes in ([1, 3], [1, 4], [1, 7]))
    w = any_codes(data.draw, (n, k), dtypes=WEIGHTS, scales=USUAL_SCALES)
    x, b = floats(data, (m, k)), floats(data, (n,))
    stored = data.draw(st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]))
    with np.errstate(over="ignore", under="ignore"):
        x, b = x.astype(stored), b.astype(stored)
    bias = md.from_numpy(b) if data.draw(st.booleans()) else None
    added = np.float32(b) if bias is not None else np.zeros(n, np.float32)
    with np.errstate(all="ignore"):
        wanted = gemm_f32f32f32(np.float32(x), numbers_of(exact, w), added)
        same_floats(md.linear(md.from_numpy(x), w, bias), wanted.astype(stored))
        if bias is None:
            same_floats(md.matmul(md.from_numpy(x), w.T), wanted.astype(stored))


FAMILIES = [moving, conversion, casting, comparison, scaling, weight_only]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_grid_is_exact(exact, family, data):
    family(exact, data)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_any_grid_is_exact_at_length(exact, family, data):
    family(exact, data)
