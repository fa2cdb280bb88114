"""`python -m bench`: what runs, what is kept, and what stands in the page."""

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from bench import command, report
from bench.harness import Bench, Count, Promise, Reason, Row
from bench.harness.result import command as printed, load


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A bench of two rows that are counted; gives the folder of its results."""

    def rows(quick: bool) -> Iterator[Row]:
        yield Count("it's small", lambda: {"mdtensor": 1, "rival": 2}, "B", "Sizes")
        if not quick:
            yield Count("large", lambda: {"mdtensor": 3, "rival": 2}, "B", "Sizes")

    module = ModuleType("bench.toy")
    module.BENCH = Bench(
        "A toy",
        rows,
        rounds=2,
        promises=[Promise("small", 0.6, lambda f: f.ratio("it's small", "rival"))],
        reasons=[Reason("it carries its type", "large")],
        notes="Bytes.",
    )
    monkeypatch.setitem(sys.modules, "bench.toy", module)
    monkeypatch.setattr(command, "NAMES", ("toy",))
    for place in (command, report):
        monkeypatch.setattr(place, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    return tmp_path


def test_a_full_run_is_kept_and_written(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.execute([]) == 0
    shown = capsys.readouterr().out
    assert "    python -m bench toy --row large\n" in shown
    reason = "- toy: it carries its type:\n  - large, relative to rival: 1.50\n"
    assert reason in shown
    assert "All limits are met." in shown
    page = (toy / "page.md").read_text()
    assert page.startswith("# Benchmarks\n")
    for text in ("## A toy\n\nBytes.\n\n### Sizes", "| large", "it carries its type"):
        assert text in page
    assert """python -m bench toy --row 'it'"'"'s small'""" in page
    kept = load(toy / "toy.json")
    assert kept is not None
    assert [reading.value for reading in kept.readings] == [1, 2, 3, 2]
    assert str(kept.readings[1].ratio) == "0.50"
    assert kept.environment["cores"] >= 1


@pytest.mark.parametrize(
    "options", [["--quick"], ["--no-save"], ["--rounds", "2"], ["--row", "large"]]
)
def test_parts_of_a_run_are_not_kept(toy: Path, options: list[str]) -> None:
    assert command.execute(options) == 0
    assert list(toy.iterdir()) == []


def test_a_row_alone_is_not_judged(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.execute(["toy", "--row", "large"]) == 0
    shown = capsys.readouterr().out
    assert "No limit was judged." in shown and "All limits are met." not in shown


def test_a_quick_run_judges_nothing(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.execute(["toy", "--quick"]) == 0
    shown = capsys.readouterr().out
    assert "large" not in shown
    assert shown.endswith("quick: too few rounds to judge a number by\n")


def test_a_missed_limit_fails(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tight = Promise("small", 0.4, lambda f: f.ratio("it's small", "rival"))
    monkeypatch.setattr(
        sys.modules["bench.toy"],
        "BENCH",
        Bench("A toy", sys.modules["bench.toy"].BENCH.rows, 2, promises=[tight]),
    )
    assert command.execute(["toy", "--no-save"]) == 1
    shown = capsys.readouterr().out
    assert "MISSED: small: 0.50, limit 0.40" in shown
    reason = "- toy: no reason is known:\n  - large, relative to rival: 1.50\n"
    assert reason in shown


def test_unknown_names_are_refused(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.execute(["--row", "medium"]) == 2
    assert capsys.readouterr().err == "no row is called 'medium'; see --rows\n"
    with pytest.raises(SystemExit):
        command.execute(["tpy"])
    assert "no bench is called tpy" in capsys.readouterr().err


def test_results_of_another_layout_are_left_out(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says so; without any result the page stays as it is."""
    (toy / "page.md").write_text("as it was")
    (toy / "toy.json").write_text('{"rows": []}')
    assert command.execute(["report"]) == 2
    told = capsys.readouterr()
    assert told.out == (
        "report: left out toy.json, which has another layout. "
        "`python -m bench toy` measures it again\n"
    )
    assert told.err == "report: no results, page.md stays as it is\n"
    assert (toy / "page.md").read_text() == "as it was"


def test_the_page_lists_what_is_not_measured(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "NAMES", ("toy", "other"))
    assert command.execute(["toy"]) == 0
    assert not (toy / "page.md").exists()
    assert command.execute(["report"]) == 0
    page = (toy / "page.md").read_text()
    assert page.endswith("## Not measured yet\n\n- `python -m bench other`\n")
    assert command.execute(["report"]) == 0
    assert (toy / "page.md").read_text() == page


def test_the_command_under_a_number_finds_its_row() -> None:
    """Names hold spaces, quotes, brackets and asterisks."""
    for name in command.NAMES:
        bench = command.bench_of(name)
        rows = list(bench.rows(False))
        bench = replace(bench, rows=lambda quick, rows=rows: rows)
        for row in rows:
            line = printed(name, row.name).removeprefix("python -m bench ")
            options = command.parsed(shlex.split(line))
            chosen = bench.chosen(options.row, options.quick)
            assert options.names == [name]
            assert [one.name for one in chosen] == [row.name]


def test_every_bench_says_what_it_is() -> None:
    """Each has a title, rows of different names, and a limit or a reason."""
    for name in command.NAMES:
        bench = command.bench_of(name)
        assert bench.title
        assert bench.promises or bench.reasons
        names = [row.name for row in bench.rows(False)]
        assert len(set(names)) == len(names), name
        quick = {row.name for row in bench.rows(True)}
        assert quick <= set(names), name


def test_rows_are_listed(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.execute(["toy", "--rows"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        """python -m bench toy --row 'it'"'"'s small'""",
        "python -m bench toy --row large",
    ]
    assert command.execute(["--rows", "--row", "l*"]) == 0
    assert capsys.readouterr().out == "python -m bench toy --row large\n"
    assert command.execute(["--rows", "--row", "m*"]) == 2
    assert list(toy.iterdir()) == []
