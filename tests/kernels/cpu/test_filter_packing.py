"""Filters of float convolutions in panels and blocks, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu.generic.float_packing import BLOCK, PANEL, first_channel
from mdtensor.kernels.cpu.program.filters import Filters

SHAPES = [
    ((1, 1, 1, 1), 1),
    ((16, 8, 1, 1), 1),
    ((17, 3, 3, 3), 1),
    ((32, 5, 2, 3), 1),
    ((48, 2, 3, 3), 3),
    ((40, 2, 3, 3), 2),
    ((33, 9, 1, 1), 3),
    ((12, 1, 3, 3), 12),
    ((3, 1, 2, 2), 3),
    ((24, 1, 5, 1), 24),
    ((24, 1, 3, 3), 12),
]


def weights(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype(np.float32)


def parts_of(filters, packed):
    """Return the packed weights, and biases in order, as arrays of float32."""
    place, size = filters.fields["bias"], filters.fields["padded_columns"]
    numbers = packed.view(np.float32)
    biases = numbers[place // 4 :][: filters.groups * size]
    biases = biases.reshape(filters.groups, size)
    return numbers[: place // 4], biases


def panels_of(w, groups):
    """Return panels [groups][n / 16][taps][channels][16] as the formula says."""
    n, channels, taps = len(w) // groups, w.shape[1], w.shape[2] * w.shape[3]
    wide = np.zeros((groups, -(-n // PANEL) * PANEL, channels, taps), np.float32)
    wide[:, :n] = w.reshape(groups, n, channels, taps)
    panels = wide.reshape(groups, -1, PANEL, channels, taps)
    return panels.transpose(0, 1, 4, 3, 2).reshape(-1)


def blocks_of(w):
    """Return blocks [c / 8][taps][8]; the last one overlaps the one before."""
    c = len(w)
    blocks = np.zeros((-(-c // BLOCK), w[0].size, BLOCK), np.float32)
    for number, block in enumerate(blocks):
        part = w[first_channel(number, c) :][:BLOCK].reshape(-1, w[0].size)
        block[:, : len(part)] = part.T
    return blocks.reshape(-1)


@pytest.mark.parametrize(("shape", "groups"), SHAPES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_filters_lie_as_the_formula_says(shape, groups, has_bias):
    w, filters = weights(shape), Filters(shape, groups)
    bias = weights(shape[:1], 1) if has_bias else None
    packed = filters.pack(w, bias)
    found, biases = parts_of(filters, packed)
    want = blocks_of(w) if filters.is_depthwise else panels_of(w, groups)
    assert np.array_equal(found[: len(want)], want)
    assert not found[len(want) :].any()
    given = np.zeros(shape[0], np.float32) if bias is None else bias
    assert np.array_equal(biases[:, : filters.columns].reshape(-1), given)
    assert not biases[:, filters.columns :].any()
    assert packed.size == filters.bytes
    assert packed.ctypes.data % 64 == 0


@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 9), st.integers(1, 4))
def test_any_sizes_are_packed(groups, n, channels, side):
    w = weights((groups * n, channels, side, 1))
    filters = Filters(w.shape, groups)
    found, _ = parts_of(filters, filters.pack(w))
    want = blocks_of(w) if filters.is_depthwise else panels_of(w, groups)
    assert np.array_equal(found[: len(want)], want)


def test_strides_and_locked_memory_make_no_difference():
    w = weights((34, 3, 3, 3))
    filters = Filters(w.shape, 1)
    want = filters.pack(w, w[:, 0, 0, 0].copy()).tobytes()
    other = np.asfortranarray(w)
    locked = w.copy()
    locked.flags.writeable = False
    for given_weights in (other, locked):
        bias = given_weights[:, 0, 0, 0]
        assert filters.pack(given_weights, bias).tobytes() == want
