"""Figures come from kept results alone, and are the same whenever they are drawn."""

import fnmatch
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import command, report
from bench.figures import FIGURES, Figure
from bench.figures.theme import follow_reader
from bench.harness.ratio import Ratio
from bench.harness.reading import Reading
from bench.harness.result import Result

ENVIRONMENT = {
    "cpu": "a CPU",
    "cores": 2,
    "load": 0.1,
    "commit": "abc",
    "python": "3.11",
    "packages": {},
}
ALL = [(name, figure) for name, figures in FIGURES.items() for figure in figures]
IDS = [figure.name for _, figure in ALL]
TWICE = ("dispatch", "expression")


def reading(figure: Figure, row: str, name: str, value: float) -> Reading:
    over = None if name == "mdtensor" else Ratio(1 / value, 0.9 / value, 1.1 / value)
    unit = "lines" if figure.kind == "bars" else "s"
    return Reading(figure.table, row, name, value, value, value, unit, over)


def row_of(figure: Figure, count: int) -> str:
    of = figure.rows.replace("*", "of ")
    return f"{of}, {count:,}" if figure.kind == "sizes" else f"{count} {of}"


def result(name: str) -> Result:
    """Two rows of each table that is drawn, with two rivals."""
    contenders = {"mdtensor": 1.0, "rival <a>": 2.0, "rival b": 40.0}
    readings = [
        reading(figure, row_of(figure, count), who, value)
        for figure in FIGURES[name]
        for count in (4, 500)
        for who, value in contenders.items()
    ]
    return Result(name, f"Bench {name}", "", ENVIRONMENT, readings, [])


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with results of all benches that have figures; the page goes there."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    for name in FIGURES:
        result(name).save(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_report_is_the_same_each_time(kept: Path) -> None:
    pytest.importorskip("matplotlib", reason="of the extra bench")
    names = [figure.name for bench in TWICE for figure in FIGURES[bench]]
    assert report.write(TWICE) == 0
    first, page = files(kept / "page"), (kept / "page.md").read_text()
    assert set(first) == {f"{name}.svg" for name in names}
    (kept / "page" / "earlier.svg").write_text("<svg/>")
    assert report.write(TWICE) == 0
    assert files(kept / "page") == first
    assert (kept / "page.md").read_text() == page
    for name in names:
        assert f"](page/{name}.svg)" in page
        assert b"@media (prefers-color-scheme: dark)" in first[f"{name}.svg"]


def test_every_colour_of_a_drawing_has_one_for_dark_pages() -> None:
    svg = (
        '<svg>\n <defs>\n </defs>\n <path style="fill: #ffffff; stroke: #1f2328"/>\n'
        ' <rect fill="#0b3d91"/>\n</svg>\n'
    )
    shown = follow_reader(svg)
    assert '[style*="fill: #ffffff"]' in shown and "fill: #0d1117 !" in shown
    assert "stroke: #e6edf3 !" in shown and '[fill="#0b3d91"]' in shown
    assert shown.count("!important") == 3
    drawn = ElementTree.fromstring(shown)
    assert [child.tag for child in drawn] == ["style", "defs", "path", "rect"]


@pytest.mark.parametrize(("bench", "figure"), ALL, ids=IDS)
def test_a_figure_names_what_it_shows(
    bench: str, figure: Figure, tmp_path: Path
) -> None:
    """Texts are texts, files are small, and each rival has a mark of its own."""
    pytest.importorskip("matplotlib", reason="of the extra bench")
    figure.write(figure.readings(result(bench)), tmp_path)
    path = tmp_path / f"{figure.name}.svg"
    assert path.stat().st_size < 100_000
    shown = " ".join(ElementTree.parse(path).getroot().itertext())
    assert "rival <a>" in shown
    assert "rival b" in shown


def test_without_matplotlib_the_page_stays(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (kept / "page").mkdir()
    (kept / "page" / "earlier.svg").write_text("<svg/>")
    assert report.write(tuple(FIGURES)) == 2
    assert capsys.readouterr().err == (
        "report: figures need matplotlib, page.md stays as it is. "
        "Use `pip install -e .[bench]`\n"
    )
    assert not (kept / "page.md").exists()
    assert set(files(kept / "page")) == {"earlier.svg"}


@pytest.mark.parametrize(("bench", "figure"), ALL, ids=IDS)
def test_what_is_drawn_is_measured(bench: str, figure: Figure) -> None:
    """A table that was renamed would lose its figure in silence."""
    rows = command.bench_of(bench).chosen(figure.rows, quick=False)
    tables = [getattr(row, "table", "") for row in rows]
    assert fnmatch.filter(tables, figure.table)
