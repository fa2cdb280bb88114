"""The harness takes turns, and its intervals and limits say what they claim."""

import os
from itertools import islice

import pytest

from bench.harness import (
    Bench,
    Contender,
    Count,
    Found,
    Limit,
    NotMeasured,
    Promise,
    Race,
    Reason,
    interleave,
    interval,
    ratio,
    spread,
)
from bench.harness.agreement import Disagreement, alike, gives, near
from bench.harness.machine import pinned
from bench.harness.turns import QUICK, Effort


def test_contenders_take_turns_in_rotation() -> None:
    order: list[str] = []
    contenders = [
        Contender(name, lambda name=name: order.append(name)) for name in "abc"
    ]
    samples = interleave(contenders, rounds=3, sample_seconds=0)
    assert [len(taken) for taken in samples.values()] == [3, 3, 3]
    assert "".join(order[-9:]) == "abcbcacab"


def test_source_sees_its_own_namespace() -> None:
    seen: list[int] = []
    contender = Contender("a", "seen.append(x)", {"seen": seen, "x": 7})
    interleave([contender], rounds=1, sample_seconds=0)
    assert set(seen) == {7}


def test_the_result_is_that_of_one_call() -> None:
    assert Contender("source", "x + 1", {"x": 7}).result() == 8
    assert Contender("function", lambda: 9).result() == 9


def test_time_is_that_of_one_of_many_calls() -> None:
    """Each look at this clock is a second later than the one before."""
    ticks = iter(range(1000))
    samples = interleave([Contender("a", "0", calls=4)], 2, 0, lambda: next(ticks))
    assert samples == {"a": [0.25, 0.25]}


def test_ratio_is_taken_inside_each_round() -> None:
    """The machine slows down tenfold on the way; the ratio does not notice."""
    drift = [1.0 + round_ for round_ in range(10)]
    samples = {"mine": [2 * d for d in drift], "theirs": [4 * d for d in drift]}
    found = ratio(samples, "mine", "theirs")
    assert (found.low, found.median, found.high) == (0.5, 0.5, 0.5)


def test_interval_holds_the_median_and_widens_with_the_spread() -> None:
    narrow = interval([1.0, 1.1, 0.9] * 20)
    wide = interval([1.0, 9.0, 0.1] * 4)
    for found in (narrow, wide):
        assert found.low <= found.median <= found.high
    assert wide.high - wide.low > narrow.high - narrow.low


def test_a_limit_says_whether_it_holds() -> None:
    assert str(Limit("x", 0.5, 0.6)) == "met: x: 0.50, limit 0.60"
    assert str(Limit("x", 9.0, 6.0, " ms")).startswith("MISSED: x: 9.00 ms")
    assert str(Limit("x", None, 6.0)) == "not measured: x, limit 6.00"
    assert not Limit("x", None, 6.0).holds


def race(**results: object) -> Race:
    ways = [Contender(name, lambda x=x: x) for name, x in results.items()]
    return Race("row", lambda: ways, gives(results["mdtensor"]), sample_seconds=0)


def test_rows_that_are_spread_take_turns() -> None:
    """All rounds of one row lie between those of the other; those alone do not."""
    order: list[str] = []

    def made(name: str, is_spread: bool) -> Race:
        ways = [Contender("mdtensor", lambda: order.append(name))]
        return Race(name, lambda: ways, dict, sample_seconds=0, is_spread=is_spread)

    rows = [made("a", False), made("b", True), made("c", True), made("d", False)]
    found = list(spread.read(rows, Effort(3)))
    assert [row.name for row, _ in found] == ["a", "b", "c", "d"]
    assert [one.row for _, own in found for one in own] == ["a", "b", "c", "d"]
    # each once before, for its check
    assert "".join(order) == "aaaa" + "bc" + "bcbcbc" + "dddd"


def test_a_warm_sample_follows_a_call_that_is_not_timed() -> None:
    ticks = iter(range(100))
    calls: list[int] = []
    ways = [Contender("mdtensor", lambda: calls.append(next(ticks)))]
    row = Race("row", lambda: ways, dict, sample_seconds=0, is_warm=True,
               clock=lambda: float(len(calls)))  # fmt: skip
    samples = [one["mdtensor"] for one in islice(row.rounds(QUICK), 3)]
    assert samples == [1.0] * 3
    assert len(calls) == 1 + 3 * 2  # one for its check


def test_nothing_is_timed_before_all_agree() -> None:
    same, other = object(), object()
    with pytest.raises(Disagreement, match="rival gives"):
        race(mdtensor=same, rival=other).read(QUICK)
    found = race(mdtensor=same, rival=same).read(QUICK)
    assert [reading.contender for reading in found] == ["mdtensor", "rival"]
    assert found[0].ratio is None
    assert found[1].ratio is not None


def test_a_limit_of_the_machine_is_no_rival() -> None:
    """It has no ratio; a column says which share of its speed is ours."""
    ways = [Contender(name, lambda x=name: x) for name in ("mdtensor", "limit")]
    found = Race("row", lambda: ways, dict, sample_seconds=0, limit="limit").read(QUICK)
    assert [reading.ratio for reading in found] == [None, None]
    share = found[1].value / found[0].value
    assert found[0].more == {"of the limit": f"{share:.0%}"}
    assert not found[1].more


def test_arrays_agree_in_shape_and_elements() -> None:
    alike({"a": [1, 2], "b": [1, 2]})
    with pytest.raises(Disagreement, match="b differs from a"):
        alike({"a": [1, 2], "b": [1, 3]})
    near([1.0, float("nan")], 1e-3)({"a": [1.0005, float("nan")]})
    with pytest.raises(Disagreement, match=r"a is off by 0\.01"):
        near([1.0], 1e-3)({"a": [1.01]})
    with pytest.raises(Disagreement, match="a has shape"):
        near([1.0], 1e-3)({"a": [[1.0]]})


def test_what_is_counted_is_compared_without_an_interval() -> None:
    found = Count("bytes", lambda: {"mdtensor": 3, "rival": 4, "none": 0}, "B").read(
        QUICK
    )
    assert [str(reading.ratio) for reading in found] == ["None", "0.75", "None"]


def test_a_promise_is_judged_by_what_was_measured() -> None:
    found = Found(Count("a", lambda: {"mdtensor": 3, "rival": 4}, "B").read(QUICK))
    promise = Promise("less", 0.8, lambda found: found.worst(["a"], "rival"))
    assert promise.judge(found) == Limit("less", 0.75, 0.8)
    unknown = Promise("less", 0.8, lambda found: found.ratio("b", "rival"))
    assert unknown.judge(found) == Limit("less", None, 0.8)
    with pytest.raises(NotMeasured, match="a ratio to mdtensor in a"):
        found.ratio("a", "mdtensor")


def test_rows_are_chosen_by_name_before_by_pattern() -> None:
    names = ["add, 1", "add, 10", "a[0]"]
    rows = [Count(name, dict, "B") for name in names]
    bench = Bench("toy", lambda quick: rows, rounds=1)

    def chosen(pattern: str) -> list[str]:
        return [row.name for row in bench.chosen(pattern, quick=False)]

    assert chosen("*") == names
    assert chosen("a[0]") == ["a[0]"]
    assert chosen("add, 1") == ["add, 1"]
    assert chosen("add, 1*") == ["add, 1", "add, 10"]
    assert chosen("sub") == []


def test_the_first_reason_that_fits_is_given() -> None:
    reasons = [Reason("first", row="a*"), Reason("second", rival="r*")]
    bench = Bench("toy", lambda quick: [], rounds=1, reasons=reasons)

    def why(row: str, ours: int) -> str:
        counted = {"mdtensor": ours, "rival": 4}
        return bench.explained(Count(row, lambda: counted, "B").read(QUICK)[1]).why

    assert (why("a", 5), why("b", 5), why("a", 3)) == ("first", "second", "")


def test_a_share_of_the_rounds_is_two_at_least() -> None:
    assert Effort(40).of(0.25) == Effort(10)
    assert Effort(4).of(0.25) == Effort(2)
    assert Effort(1).of(0.25) == Effort(1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinities here")
def test_pinned_gives_the_processors_back() -> None:
    before = os.sched_getaffinity(0)
    with pinned(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
