"""Counts of cells: a mapping of what was counted."""

from collections import Counter
from copy import copy, deepcopy

import pytest
from hypothesis import given, strategies as st

from mdtensor.quant.observers.cell_counts import CELLS, CellCounts

COUNTS = st.dictionaries(st.integers(-CELLS, CELLS - 1), st.integers(1, 2**40))


@given(COUNTS)
def test_a_mapping_of_the_cells_that_occurred(wanted):
    counts = CellCounts(wanted.items())
    assert counts == wanted == dict(counts)
    assert list(counts) == sorted(wanted) and len(counts) == len(wanted)
    assert all(type(part) is int for pair in counts.items() for part in pair)
    for cell in {-CELLS - 1, 0, CELLS} - set(wanted):
        with pytest.raises(KeyError):
            counts[cell]


@given(COUNTS, st.integers(0, 2200))
def test_cells_merge_into_those_that_hold_them(pairs, shift):
    wanted = Counter()
    for cell, count in pairs.items():
        wanted[cell // 2**shift] += count
    counts = CellCounts(pairs.items())
    assert counts.merged(shift) == wanted
    assert counts == pairs


def test_copies_count_on_their_own():
    counts = CellCounts([(1, 2)])
    for other in (counts.copy(), deepcopy(counts)):
        other.array += 1
    assert counts == {1: 2}
    assert copy(counts).array is counts.array


@pytest.mark.parametrize("cell", [-CELLS - 1, CELLS])
def test_a_cell_outside_is_refused(cell):
    with pytest.raises(ValueError, match=f"cell {cell} is not from -2048 to 2047"):
        CellCounts([(cell, 1)])
