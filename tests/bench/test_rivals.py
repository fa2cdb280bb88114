"""A rival that fell over early would be a fast rival."""

import shutil

import pytest

from bench.dispatch import growth, ours
from bench.harness.agreement import Disagreement
from bench.rivals import NAMES, Way, check_ways, classes, enums, libraries, native

MAKERS = growth.makers(4)


@pytest.mark.parametrize("module", [ours, enums, classes, libraries])
def test_every_way_finds_every_kernel(module) -> None:
    ways = module.ways()
    assert len({way.name for way in ways}) == len(ways) >= 2
    check_ways(ways)
    for way in ways:
        assert way.contender(NAMES[0]).result() == NAMES[0]


def test_a_way_that_chooses_wrongly_is_seen() -> None:
    def first(x1: str, x2: str) -> str:
        return x1

    def none(x1: str, x2: str) -> str:
        raise TypeError

    with pytest.raises(
        Disagreement, match="lax of float32 and float64 gives 'float32'"
    ):
        check_ways([Way("lax", first, str)])
    with pytest.raises(Disagreement, match="strict of float32 and float32 gives"):
        check_ways([Way("strict", none, str)])


@pytest.mark.parametrize("name", MAKERS)
def test_functions_of_many_methods_answer_for_the_last(name: str) -> None:
    call, x = MAKERS[name](4)
    assert call(x, x) is x


def test_handles_of_an_operation_are_its_methods() -> None:
    """A handle costs what a call costs, because it is what the call runs."""
    call, x = growth.ours_of(4)
    handle = call.select(type(x), type(x)).function
    assert handle is call.operation.methods[-1].implementation


@pytest.mark.compiled
def test_what_is_compiled_counts_its_calls() -> None:
    """The makers check what their loops return."""
    assert len(native.in_numba()) == 1
    assert len(native.in_rust()) == (2 if shutil.which("rustc") else 0)
