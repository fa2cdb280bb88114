"""A report says the same whatever was registered first."""

from itertools import permutations
from random import Random

import plum
import pytest
from diagnose.lattices import table

from mdtensor.diagnose import analyze


def rebuilt(function, order):
    """The same methods, registered in another order."""
    again = plum.Dispatcher().abstract(function.__wrapped__)
    entries = [*function._resolved, *function._pending]
    for at in order:
        implementation, signature, _ = entries[at]
        again.register(implementation, signature=signature)
    return again


@pytest.mark.parametrize("precedence", [False, True], ids=["plain", "tiers"])
def test_reports_are_byte_identical(precedence):
    random = Random(3)
    with_findings = 0
    for at in range(25):
        options = {"arities": (1, 2), "precedence": precedence}
        function, universe = table(random, f"S{at}", **options)
        count = len(function._pending)
        orders = list(permutations(range(count)))
        expected = analyze(function, universe)
        with_findings += bool(expected.findings)
        for order in random.sample(orders, min(12, len(orders))):
            report = analyze(rebuilt(function, order), universe)
            assert repr(report) == repr(expected)
            assert str(report) == str(expected)
    assert with_findings > 12


def test_every_order_of_one_small_table():
    random = Random(4)
    function, universe = table(random, "T", arities=(2,))
    while len(function._pending) != 5:
        function, universe = table(random, "T", arities=(2,))
    expected = repr(analyze(function, universe))
    for order in permutations(range(5)):
        assert repr(analyze(rebuilt(function, order), universe)) == expected


def test_functions_are_sorted_too():
    dispatch = plum.Dispatcher()

    @dispatch
    def b(x: int): ...

    @dispatch
    def a(x): ...

    assert repr(analyze([a, b])) == repr(analyze([b, a])) == repr(analyze(dispatch))
