"""Our answers beside plum's own, for every tuple of types of random tables."""

from random import Random

import pytest
from diagnose.lattices import answer, table, tuples

from mdtensor.diagnose.report import study_of


def compare(random, name, **options):
    """How many tuples agree, of which kinds; fails at the first that does not."""
    function, universe = table(random, name, **options)
    study = study_of(function, universe)
    counts = {"runs": 0, "ties": 0, "misses": 0}
    for _, found in study.each_table():
        for types in tuples(universe, found.arity):
            expected = answer(function, types)
            ours, kind = answered(found, types)
            assert ours == expected, (function.methods, types)
            counts[kind] += 1
        assert_counts(found)
    return counts


def answered(found, types):
    mask = found.mask(types)
    if not mask:
        return None, "misses"
    said = found.answer(mask)
    if said.winner >= 0:
        return found.methods[said.winner].implementation, "runs"
    return frozenset(found.methods[m].implementation for m in said.tied), "ties"


def assert_counts(found):
    """Every tuple is in just one cell, and each witness is answered as its cell."""
    assert sum(cells.count for cells in found.cells.values()) == found.total
    for mask, cells in found.cells.items():
        assert found.mask(cells.witness) == mask


NAMES = ["plain", "precedence", "varargs", "all"]
OPTIONS = [
    {},
    {"precedence": True},
    {"varargs": True, "arities": (1, 2, 3)},
    {"varargs": True, "precedence": True, "arities": (0, 1, 2)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_answers_are_those_of_plum(options):
    compare_many(80, options, "D")


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_answers_are_those_of_plum_at_length(options):
    compare_many(2500, options, "L")


def compare_many(count, options, name):
    random = Random(str(options) + name)
    total = {"runs": 0, "ties": 0, "misses": 0}
    for at in range(count):
        for kind, number in compare(random, f"{name}{at}", **options).items():
            total[kind] += number
    print(total)
    assert min(total.values()) > 100
