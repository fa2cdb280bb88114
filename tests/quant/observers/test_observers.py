"""Observers: independent of batches, of bounded memory, never worse than they claim."""

import math
import tracemalloc
from collections import Counter
from fractions import Fraction
from functools import partial, reduce

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import mdtensor as md
from mdtensor import DataError, OptionError
from mdtensor.quant import (
    EntropyObserver,
    MinMaxObserver,
    MovingAverageObserver,
    MSEObserver,
    PercentileObserver,
    grid_of,
    quint8,
)
from mdtensor.quant.dtypes import qint8, quint4

BATCHES = arrays(
    np.float32, st.integers(2, 60), elements=st.floats(-1e4, 1e4, width=32)
)
PERCENTILE = partial(PercentileObserver, percentile=90)
KINDS = [MinMaxObserver, MSEObserver, EntropyObserver, PERCENTILE]
ALL = [*KINDS, partial(MovingAverageObserver, momentum=0.25)]


def seen(kind, *batches):
    observer = kind()
    for batch in batches:
        observer.observe(batch)
    return observer


def merged(kind, batches, data):
    """One observer a batch, merged two by two in any order."""
    found = [seen(kind, batch) for batch in batches]
    while len(found) > 1:
        first = found.pop(data.draw(st.integers(0, len(found) - 1)))
        found[data.draw(st.integers(0, len(found) - 1))].merge(first)
    return found[0]


def pieces(values, data):
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=5).map(sorted))
    return np.split(values, cuts)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(BATCHES, st.data())
def test_any_split_and_any_tree_of_merges_give_the_same_grid(kind, values, data):
    whole = seen(kind, values)
    split = pieces(values, data)
    shuffled = seen(kind, *data.draw(st.permutations(split)))
    tree = merged(kind, split, data)
    assert whole == shuffled == tree
    for dtype in (quint8, qint8):
        assert whole.qparams(dtype) == shuffled.qparams(dtype) == tree.qparams(dtype)


@given(BATCHES, st.data())
def test_a_moving_average_is_of_samples_not_of_batches(values, data):
    kind = ALL[-1]
    assert seen(kind, values) == seen(kind, *pieces(values, data))


def test_a_moving_average_fades():
    observer = MovingAverageObserver(momentum=0.5)
    observer.observe(np.array([[0.0, 8.0], [-4.0, 0.0]]))
    assert (observer.low, observer.high) == (-2.0, 4.0)
    observer.observe(np.array(2.0))  # without axes: one sample
    assert (observer.low, observer.high) == (0.0, 3.0)


def test_a_moving_average_does_not_merge_but_joins_values_on_one_grid():
    first, second = (seen(MovingAverageObserver, np.array([x])) for x in (1.0, -3.0))
    with pytest.raises(OptionError) as raised:
        first.merge(second)
    assert str(raised.value) == (
        "a moving average depends on the order of samples, so it cannot be merged."
        " Observe all samples with one observer, or use MinMaxObserver."
    )
    first.join(second)
    assert (first.low, first.high) == (-3.0, 1.0)


ALIKE = " Use observers of one kind."


@pytest.mark.parametrize(
    ("made", "other", "said"),
    [
        (
            PercentileObserver,
            PERCENTILE,
            "PercentileObserver(99.99) cannot merge PercentileObserver(90)." + ALIKE,
        ),
        (
            MinMaxObserver,
            MSEObserver,
            "MinMaxObserver() cannot merge MSEObserver()." + ALIKE,
        ),
    ],
)
def test_only_like_merges_with_like(made, other, said):
    with pytest.raises(OptionError) as raised:
        made().merge(other())
    assert str(raised.value) == said


@pytest.mark.parametrize("kind", ALL)
def test_memory_does_not_grow_with_batches(kind):
    rng = np.random.default_rng(0)
    pool = rng.standard_normal(2000)
    observer = seen(kind, pool)
    tracemalloc.start()
    try:
        for _ in range(50):
            observer.observe(rng.choice(pool, (16, 64)))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(400):
            observer.observe(rng.choice(pool, (16, 64)))
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A batch has 8 KiB, all of them 3 MiB; counts above 256 are objects of 32 bytes.
    assert after - before < 64 * 1024
    assert peak - before < 256 * 1024


@pytest.mark.parametrize("kind", ALL)
def test_nan_infinity_and_nothing_are_refused(kind):
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(DataError, match="NaN or infinite"):
            kind().observe(np.array([1.0, bad]))
    for bad in ("text", [1j], [[1.0], [1.0, 2.0]], None):
        with pytest.raises(DataError, match="is not an array of real numbers"):
            kind().observe(bad)
    empty = seen(kind, np.zeros((0, 3)), np.zeros((3, 0)))
    with pytest.raises(DataError) as raised:
        empty.qparams()
    assert str(raised.value) == "nothing was observed. Give at least one sample."


@pytest.mark.parametrize("kind", ALL)
def test_tensors_of_any_floating_type_are_observed(kind):
    values = [[-1.0, 0.5], [0.25, 2.0]]
    wanted = seen(kind, np.array(values)).qparams()
    for dtype in (md.float16, md.bfloat16, md.float32, md.float64):
        assert seen(kind, md.asarray(values, dtype=dtype)).qparams() == wanted


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e-30, 5e-324])
def test_one_constant_has_a_grid(kind, value):
    grid = seen(kind, np.full((4, 5), value)).qparams()
    assert grid.range[0] <= 0 <= grid.range[1]
    if abs(value) > 1e-38:
        code = round(value / float(grid.scale)) + grid.zero
        assert grid.minimum <= code <= grid.maximum


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: MovingAverageObserver(momentum=0.0),
            "momentum is 0.0. Use a number above 0, at most 1.",
        ),
        (
            lambda: MovingAverageObserver("a"),
            "momentum is 'a'. Use a number above 0, at most 1.",
        ),
        (
            lambda: PercentileObserver(101),
            "percentile is 101. Use a number above 0, at most 100.",
        ),
    ],
)
def test_settings_are_checked(make, said):
    with pytest.raises(OptionError) as raised:
        make()
    assert str(raised.value) == said


def test_what_was_seen_is_no_setting():
    wide, narrow = PercentileObserver(100), PercentileObserver(90)
    for observer in (wide, narrow):
        observer.observe(np.arange(1000.0))
    assert narrow.qparams().range[1] < 0.96 * wide.qparams().range[1]
    for kind in (MinMaxObserver, MSEObserver):
        with pytest.raises(md.DispatchError, match="expects 0 arguments, got 1"):
            kind(-5.0)


def test_merging_leaves_the_other_as_it_was():
    some, other = MSEObserver(), MSEObserver()
    some.observe([1e6])
    other.observe([1.0, 2.0])
    before = dict(other.counts), other.exponent
    some.merge(other)
    assert (other.counts, other.exponent) == before
    assert sum(some.counts.values()) == 3


@pytest.mark.parametrize("dtype", ["qint16", "qfloat8_e4m3"])
def test_types_without_zero_points_get_symmetric_grids(dtype):
    observer = MSEObserver()
    observer.observe(np.linspace(-1.0, 3.0, 999))
    found = md.dtype(dtype)
    for grid in (observer.qparams(dtype=found), grid_of(-1.0, 3.0, dtype=found)):
        assert grid.dtype is found
        assert not grid.zero_point.any()
        assert grid.range[1] >= 2.9


DISTRIBUTIONS = {
    "normal": lambda r: r.standard_normal(20000),
    "laplace": lambda r: r.laplace(size=20000),
    "relu": lambda r: np.maximum(r.standard_normal(20000), 0),
    "outliers": lambda r: np.r_[r.standard_normal(20000), 60 * r.standard_normal(2)],
    "student": lambda r: r.standard_t(3, 20000),
}


def squared_error(values, grid):
    step, zero = float(grid.scale), grid.zero
    codes = np.clip(np.rint(values / step) + zero, grid.minimum, grid.maximum)
    return float(np.square(values - (codes - zero) * step).sum())


@pytest.mark.parametrize("dtype", [quint8, quint4, qint8])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_mse_is_never_worse_than_min_max(name, dtype):
    values = DISTRIBUTIONS[name](np.random.default_rng(0))
    best, plain = (
        seen(kind, values).qparams(dtype) for kind in (MSEObserver, MinMaxObserver)
    )
    assert squared_error(values, best) <= 1.001 * squared_error(values, plain)
    if name == "student":
        assert squared_error(values, best) < 0.96 * squared_error(values, plain)


GAINS = {
    "normal": lambda r: r.standard_normal(200_000),
    "laplace": lambda r: r.laplace(size=200_000),
}


@pytest.mark.parametrize("name", ["normal", "laplace", "outliers", "student"])
def test_percentile_and_entropy_gain_and_lose_where_they_say(name):
    values = {**DISTRIBUTIONS, **GAINS}[name](np.random.default_rng(0))
    kinds = (MinMaxObserver, PercentileObserver, EntropyObserver)
    plain, percentile, entropy = (
        squared_error(values, seen(kind, values).qparams(quint8)) for kind in kinds
    )
    assert (percentile < plain) == (name in GAINS)
    assert (entropy < plain) == (name in GAINS)


def test_percentiles_are_those_of_numpy_but_for_a_cell():
    values = np.random.default_rng(0).standard_normal(20000)
    for percentile in (50, 90, 99, 99.9, 100):
        grid = seen(partial(PercentileObserver, percentile=percentile), values)
        cut = (100 - percentile) / 2
        low, high = np.percentile(values, [cut, 100 - cut])
        found = grid.qparams().range
        step = float(grid.qparams().scale)
        assert found == pytest.approx((low, high), rel=1 / 256, abs=step)


@pytest.mark.parametrize("size", [1e2, 1e5, 1e20, 1e38])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("kind", [PercentileObserver, EntropyObserver])
def test_an_outlier_does_not_blind_an_observer(kind, sign, size):
    """However large it is, and at whichever end."""
    values = np.random.default_rng(5).standard_normal(50_000)
    plain, more = seen(kind, values), seen(kind, np.r_[values, sign * size])
    wanted, found = (np.array(x.qparams().range) for x in (plain, more))
    assert np.all(found / wanted > 0.5)
    assert np.all(found / wanted < 2)


def test_cells_have_equal_relative_widths_and_hold_their_values():
    """Of every power of two, and next to each end of a cell."""
    ends = (1 + np.arange(256) / 256) * 2.0 ** np.array([[-1060], [-126], [0], [1000]])
    values = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, 1e308)])
    for x in (values, -values):
        observer = seen(EntropyObserver, x)
        low, high, counts = observer._histogram()
        assert counts.sum() == x.size and np.all(low[1:] >= high[:-1])
        inner, outer = np.sort(np.abs([low, high]), axis=0)
        assert np.all((outer - inner) / inner <= 1 / 256)
        at = np.searchsorted(low, x, side="right" if x.max() > 0 else "left")
        at = at - 1 if x.max() > 0 else np.searchsorted(high, x)
        assert np.all((low[at] <= x) & (x <= high[at]))


def divergence(cells, grid):
    """Cell by cell: the distribution, and what is left of it on the grid."""
    places, outside, widths = {}, {}, {}
    for cell, (low, high, count) in enumerate(cells):
        code = round((low + high) / 2 / float(grid.scale)) + grid.zero
        widths[cell] = high - low
        inside = grid.minimum <= code <= grid.maximum
        (places if inside else outside)[cell] = (code, count)
    real = {cell: count for cell, (_, count) in places.items()}
    for cell, (_, count) in outside.items():
        real[min(real) if cell < min(real) else max(real)] += count
    kept, total = sum(n for _, n in places.values()), sum(real.values())
    found = 0.0
    for cell, (code, _) in places.items():
        same = {c: n for c, (other, n) in places.items() if other == code}
        width = widths[cell] / sum(widths[c] for c in same)
        q = sum(same.values()) * width / kept
        found += real[cell] / total * math.log(real[cell] / total / q)
    return found


def test_entropy_is_the_least_divergence():
    values = np.random.default_rng(5).standard_t(3, 300)
    observer = seen(EntropyObserver, values)
    cells = [cell for cell in zip(*observer._histogram(), strict=True) if any(cell[:2])]
    limits = max(-observer.low, observer.high) * np.linspace(1, 0.01, 100)
    ends = [(max(observer.low, -m), min(observer.high, m)) for m in limits]
    grids = [grid_of(*pair, dtype=quint8) for pair in ends]
    found = [divergence(cells, grid) for grid in grids]
    best = observer.qparams()
    assert divergence(cells, best) <= min(found) * (1 + 1e-9)
    assert best != grids[0]


def test_limits_cut_the_range():
    observer = seen(MinMaxObserver, np.array([-50.0, 4.0]))
    grid = observer.qparams(quint8, low=-3.0)
    assert grid.range[0] == pytest.approx(-3.0, abs=0.03)


def test_merging_changes_nothing_in_what_is_merged():
    parts = [np.array([x]) for x in (1.0, -3.0, 1e4)]
    observers = [seen(MSEObserver, part) for part in parts]
    reduce(lambda a, b: a.merge(b) or a, observers)
    assert observers[1:] == [seen(MSEObserver, part) for part in parts[1:]]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_each_value_is_in_the_cell_that_exact_arithmetic_names(values):
    observer = MSEObserver()
    observer.observe(np.array(values, np.float32))
    width = Fraction(2) ** observer.exponent
    wanted = Counter(math.floor(Fraction(value) / width) for value in values)
    assert observer.counts == wanted
    again = MSEObserver()
    again.observe(np.array(values))
    assert (again.counts, again.exponent) == (observer.counts, observer.exponent)
