"""LSTMs with codes of each step: against their formula, near float ones, refusals."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import BoundsError, PromotionError, ShapeError

SIZES = st.tuples(st.integers(1, 4), st.integers(1, 3), *[st.integers(1, 6)] * 2)


def on_grid(x: Any) -> tuple[Any, float]:
    """Codes minus their zero point, and the scale, by DynamicQuantizeLinear."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = np.float32(high - low) / np.float32(255) or np.float32(1)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    codes = np.clip(np.rint(x / scale) + zero, 0, 255)
    return (codes - zero).astype(np.int64), float(scale)


def times(x: Any, w: Any, scale: Any) -> Any:
    steps, own = on_grid(x)
    return (steps @ w.T.astype(np.int64)) * (own * scale.astype(np.float64))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def formula(x: Any, w: Any, ws: Any, r: Any, rs: Any, b: Any, h: Any, c: Any) -> Any:
    """The states in float64, but for the grids."""
    parts = times(x.reshape(-1, x.shape[-1]), w, ws).reshape(*x.shape[:2], -1) + b
    found = []
    for part in parts:
        z = times(np.float32(h), r, rs) + part
        i, o, f, g = np.split(z, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.stack([*found, h, c])


def operands(rng: Any, t: int, n: int, i: int, k: int, rows: bool) -> list[Any]:
    """x, w, its scale, r, its scale."""
    found = [rng.normal(size=(t, n, i)).astype(np.float32)]
    for size in (i, k):
        found.append(rng.integers(-128, 128, (4 * k, size)).astype(np.int8))
        found.append(rng.uniform(1e-3, 1e-2, 4 * k if rows else ()).astype("f4"))
    return found


@given(SIZES, st.booleans(), st.integers(0, 99))
def test_against_the_formula(sizes: Any, rows: bool, seed: int) -> None:
    (t, n, i, k), rng = sizes, np.random.default_rng(seed)
    given_ = operands(rng, t, n, i, k, rows)
    b = rng.normal(size=(2, 4 * k)).astype(np.float32)
    h, c = (rng.uniform(-1, 1, (n, k)).astype(np.float32) for _ in range(2))
    found = md.dynamic_lstm(*map(md.asarray, (*given_, b, h, c)))
    wanted = formula(*given_, b.sum(axis=0), h, c)
    # A state next to a tie can have the neighbouring code.
    largest = float(np.max(given_[4])) * 128 * 2 / 255
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-5 + largest)
    assert np.median(np.abs(np.asarray(found) - wanted)) < 1e-5


def test_it_is_near_the_lstm_of_its_weights() -> None:
    rng = np.random.default_rng(1)
    x, w, ws, r, rs = operands(rng, 12, 2, 8, 16, True)
    small = [x, w, ws / 4, r, rs / 4]
    real = [x, *(m * s[:, None] for m, s in ((w, ws / 4), (r, rs / 4)))]
    found = np.asarray(md.dynamic_lstm(*map(md.asarray, small)))
    wanted = np.asarray(md.lstm(*map(md.asarray, real)))
    assert 0 < np.abs(found - wanted).max() < 0.02


def test_lengths_and_options() -> None:
    """What is not a product is as in `lstm`."""
    rng = np.random.default_rng(2)
    given_ = [md.asarray(x) for x in operands(rng, 4, 2, 3, 5, False)]
    holes = md.asarray(rng.normal(size=(3, 5)).astype(np.float32))
    lengths = md.asarray(np.array([2, 4]))
    options: Any = {
        "clip": 0.5,
        "coupled": True,
        "activations": ["relu", "tanh", "tanh"],
    }
    found = md.dynamic_lstm(*given_, None, None, None, holes, lengths, **options)
    assert np.asarray(found)[2:4, 0].tolist() == np.zeros((2, 5)).tolist()
    plain = md.dynamic_lstm(*given_)
    assert np.asarray(plain).tolist() != np.asarray(found).tolist()
    with pytest.raises(BoundsError, match="outside of 0 to 4"):
        md.dynamic_lstm(*given_, None, None, None, None, md.asarray(np.array([2, 5])))


def test_empty_sequences() -> None:
    given_ = [
        md.asarray(x) for x in operands(np.random.default_rng(3), 2, 2, 3, 2, True)
    ]
    empty = md.dynamic_lstm(md.zeros((0, 2, 3), dtype=md.float32), *given_[1:])
    assert empty.tolist() == [[[0.0, 0.0]] * 2] * 2
    none = md.dynamic_lstm(md.zeros((2, 0, 3), dtype=md.float32), *given_[1:])
    assert none.shape == (4, 0, 2)


def test_refusals() -> None:
    x, w, ws, r, rs = map(
        md.asarray, operands(np.random.default_rng(4), 2, 1, 3, 2, True)
    )
    with pytest.raises(PromotionError, match="w is uint8"):
        md.dynamic_lstm(x, md.astype(w, md.uint8, casting="wrap"), ws, r, rs)
    with pytest.raises(PromotionError, match="x is float64"):
        md.dynamic_lstm(md.astype(x, md.float64), w, ws, r, rs)
    with pytest.raises(ShapeError, match=r"the scale has shape \(3,\)"):
        md.dynamic_lstm(x, w, ws[:3], r, rs)
    with pytest.raises(ShapeError, match="r has shape"):
        md.dynamic_lstm(x, w, ws, r[:4], rs)
