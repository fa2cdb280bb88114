"""The harness takes turns, and its intervals and limits say what they claim."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("harness")


def test_contenders_take_turns_in_rotation(harness: ModuleType) -> None:
    order: list[str] = []
    contenders = [
        harness.Contender(name, lambda name=name: order.append(name)) for name in "abc"
    ]
    samples = harness.interleave(contenders, rounds=3, sample_seconds=0)
    assert [len(taken) for taken in samples.values()] == [3, 3, 3]
    assert "".join(order[-9:]) == "abcbcacab"


def test_source_sees_its_own_namespace(harness: ModuleType) -> None:
    seen: list[int] = []
    contender = harness.Contender("a", "seen.append(x)", {"seen": seen, "x": 7})
    harness.interleave([contender], rounds=1, sample_seconds=0)
    assert set(seen) == {7}


def test_ratio_is_taken_inside_each_round(harness: ModuleType) -> None:
    """The machine slows down tenfold on the way; the ratio does not notice."""
    drift = [1.0 + round_ for round_ in range(10)]
    samples = {"mine": [2 * d for d in drift], "theirs": [4 * d for d in drift]}
    ratio = harness.ratio(samples, "mine", "theirs")
    assert (ratio.low, ratio.median, ratio.high) == (0.5, 0.5, 0.5)


def test_interval_holds_the_median_and_widens_with_the_spread(
    harness: ModuleType,
) -> None:
    narrow = harness.interval([1.0, 1.1, 0.9] * 20)
    wide = harness.interval([1.0, 9.0, 0.1] * 4)
    for found in (narrow, wide):
        assert found.low <= found.median <= found.high
    assert wide.high - wide.low > narrow.high - narrow.low


def test_a_limit_says_whether_it_holds(harness: ModuleType) -> None:
    assert str(harness.Limit("x", 0.5, 0.6)) == "holds: x: 0.50 of at most 0.60"
    assert str(harness.Limit("x", 9.0, 6.0, " ms")).startswith("MISSED: x: 9.00 ms")


def test_table_is_markdown(harness: ModuleType) -> None:
    assert harness.table(("a", "bb"), [("ccc", "d")]) == (
        "| a   | bb |\n| --- | -- |\n| ccc | d  |"
    )


@pytest.mark.parametrize(("value", "status"), [(0.5, 0), (0.7, 1)])
def test_report_writes_the_page_and_fails_on_a_missed_limit(
    harness: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: float,
    status: int,
) -> None:
    report = importlib.import_module("report")
    for module in (harness, report):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr("sys.argv", ["bench_toy.py"])
    limits = [harness.Limit("toy", value, 0.6)]
    harness.report("toy", "A toy", ("a",), [("b",)], limits, save=True)
    assert json.loads((tmp_path / "toy.json").read_text())["rows"] == [["b"]]
    assert report.main() == status
    page = (tmp_path / "page.md").read_text()
    assert "## A toy" in page
    assert "| b |" in page
    assert str(limits[0]) in page


def test_the_rivals_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival that fell over early would be a fast rival."""
    monkeypatch.syspath_prepend(str(BENCH))
    rivals = importlib.import_module("enum_dispatch")

    def kernel(x1: object, x2: object) -> tuple[object, object]:
        return x1, x2

    enum = rivals.pair_registry(rivals.DType, kernel)
    number = rivals.pair_registry(rivals.IntDType, kernel)
    cases = rivals.match_dispatch(kernel)
    for name in rivals.NAMES:
        x = rivals.TaggedTensor(None, rivals.DType[name])
        assert enum(x, x) == (x, x)
        assert cases(x, x) == (x, x)
        x = rivals.TaggedTensor(None, rivals.IntDType[name])
        assert number(x, x) == (x, x)
    for dispatch in (rivals.class_pairs, rivals.nested_classes):
        poke = dispatch((int, str), kernel)
        assert poke(1, "a") == (1, "a")
        with pytest.raises(KeyError):
            poke(1.0, "a")
