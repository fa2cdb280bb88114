"""Observers: independent of batches, and never worse than they claim."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from mdtensor import DataError
from mdtensor.quant import MinMaxObserver, MSEObserver, quint8

BATCHES = arrays(
    np.float32, st.integers(2, 60), elements=st.floats(-1e4, 1e4, width=32)
)
KINDS = [MinMaxObserver, MSEObserver]


def seen(kind, *batches):
    observer = kind()
    for batch in batches:
        observer.observe(batch)
    return observer


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(BATCHES, st.data())
def test_any_split_into_batches_gives_the_same_grid(kind, values, data):
    cut = data.draw(st.integers(0, len(values)))
    whole = seen(kind, values)
    split = seen(kind, values[cut:], values[:cut])
    merged = seen(kind, values[:cut])
    merged.merge(seen(kind, values[cut:]))
    assert whole.qparams() == split.qparams() == merged.qparams()


@pytest.mark.parametrize("kind", KINDS)
def test_nan_infinity_and_nothing_are_refused(kind):
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(DataError, match="NaN or infinite"):
            kind().observe(np.array([1.0, bad]))
    with pytest.raises(DataError) as raised:
        kind().qparams()
    assert str(raised.value) == "nothing was observed. Give at least one sample."


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


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_mse_is_never_worse_than_min_max(name):
    values = DISTRIBUTIONS[name](np.random.default_rng(0))
    best, plain = (seen(kind, values).qparams(quint8) for kind in KINDS[::-1])
    assert squared_error(values, best) <= 1.001 * squared_error(values, plain)
    if name == "student":
        assert squared_error(values, best) < 0.96 * squared_error(values, plain)


def test_limits_cut_the_range():
    observer = seen(MinMaxObserver, np.array([-50.0, 4.0]))
    grid = observer.qparams(quint8, low=-3.0)
    assert grid.range[0] == pytest.approx(-3.0, abs=0.03)
