"""What a notebook shows of operations and reports: small tables, nothing fetched."""

from html.parser import HTMLParser

import plum

import mdtensor as md
from mdtensor import diagnose, registry
from mdtensor.html import SHOWN_ROWS


class Cells(HTMLParser):
    """The texts of the cells of a table, row by row; elements in proper order."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.seen = [], [], set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style", "colspan"}, "nothing fetched"
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def tied(*kinds):
    """A function with a tie between each two of some classes."""
    dispatch = plum.Dispatcher()

    def put(a, b): ...

    for kind in kinds:
        dispatch.multi((kind, object))(put)
        dispatch.multi((object, kind))(put)
    (function,) = dispatch.functions.values()
    return function


def test_an_operation_shows_its_methods():
    shown = md.neg.operation._repr_html_()
    head, *rows = Cells(shown).rows
    assert head == ["method", "where"]
    assert rows == [[str(m), m.location] for m in md.neg.operation.methods]
    assert "<p>Return -x." in shown and "neg(x: " in shown
    assert md.neg._repr_html_() == shown, "notebooks are given the function"
    assert repr(md.neg).startswith("<function neg at 0x")
    assert repr(md.neg.operation).startswith(
        "<mdtensor.dispatch.operation.Operation object at"
    )


def test_every_operation_can_be_shown():
    for function in md.operations().values():
        rows = Cells(function._repr_html_()).rows
        assert len(rows) == 1 + len(function.operation.methods)


def test_a_report_shows_its_findings_errors_first():
    class A: ...

    function = tied(A)

    @function.dispatch
    def put(a: int, b: int, c: int) -> int: ...

    report = diagnose.analyze(function)
    head, *rows = Cells(report._repr_html_()).rows
    assert head == ["", "rule", "what", "where", "fix"]
    assert [row[:2] for row in rows] == [["✖ error", "MDT001"], ["info", "MDT010"]]
    (tie,) = report.of("MDT001")
    assert rows[0][2] == tie.message and rows[0][4] == tie.fix
    assert all(str(method) in rows[0][3] for method in tie.methods)
    assert str(report).splitlines()[-1] == report.counts
    assert report.counts in report._repr_html_()


def test_a_report_without_findings_is_one_line():
    shown = diagnose.analyze(md.neg)._repr_html_()
    assert "nothing found" in shown and "<table" not in shown


def test_a_long_report_is_cut():
    found = diagnose.analyze(tied(*(type(f"T{at}", (), {}) for at in range(60))))
    rows = Cells(found._repr_html_()).rows
    assert len(found.findings) > SHOWN_ROWS
    assert len(rows) == SHOWN_ROWS + 2
    assert rows[-1] == [f"and {len(found.findings) - SHOWN_ROWS} more"]


def test_names_are_not_taken_for_html():
    evil = "<script>alert('&')</script>"
    shown = diagnose.analyze(tied(type(evil, (), {})))._repr_html_()
    assert "script" not in Cells(shown).seen and evil in Cells(shown).rows[1][2]
    with registry.restored():

        @md.generic
        def odd(x, /):
            """<script>."""

        @md.method(odd, types=(type(evil, (md.Tensor,), {"__slots__": ()}),))
        def odd(x): ...

        shown = odd._repr_html_()
    assert "script" not in Cells(shown).seen and evil in Cells(shown).rows[1][0]
