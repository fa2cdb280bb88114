"""Printed answers: the same words everywhere, with colour and width in a terminal."""

import io
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mdtensor.cli.dispatch.formats import counts
from mdtensor.cli.dispatch.query import Checked
from mdtensor.cli.report import UNBOUNDED
from mdtensor.diagnose import Coverage, Explanation, Finding, MethodInfo, Rule
from mdtensor.diagnose.report import Baseline

STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def show_checked(console: Console, checked: Checked) -> None:
    """Print new findings, a line for each baseline entry, and a line of counts."""
    for finding in checked.new:
        console.print(_finding(finding))
        console.print()
    for accepted in Baseline.of(checked.old).entries:
        console.print(Text(f"baselined: {accepted}", "dim"))
    for entry in checked.stale:
        console.print(Text(f"stale in the baseline: {entry}", "yellow"))
    if checked.old or checked.stale:
        console.print()
    console.print(Text(counts(checked), _style(checked)))


def plain(checked: Checked) -> str:
    """Return the same text for a file, always without colour."""
    # Neither width nor colour of the terminal may end up in the file, which is compared
    # between machines.
    console = Console(file=io.StringIO(), width=UNBOUNDED, color_system=None)
    with console.capture() as captured:
        show_checked(console, checked)
    return captured.get().rstrip()


def _style(checked: Checked) -> str:
    levels = {finding.level for finding in checked.new}
    return next((style for level, style in STYLES.items() if level in levels), "green")


def _finding(finding: Finding) -> Text:
    head, *rest = str(finding).splitlines()
    level, _, message = head.partition(": ")
    text = Text.assemble((level, STYLES[finding.level]), ": ", (message, "bold"))
    for line in rest:
        # The lines of a fix are the ones to copy, so they stand out.
        fixes = line.startswith(("   = fix: ", "          "))
        text.append(f"\n{line}", "green" if fixes else "")
    return text


def show_rule(console: Console, rule: Rule) -> None:
    """Print the explanation of a rule."""
    head, *rest = str(rule).splitlines()
    console.print(Text(head, STYLES[rule.level]))
    console.print(Text("\n".join(rest)))


def show_rules(console: Console, found: Iterable[Rule]) -> None:
    """Print a line for each rule."""
    table = _table()
    for rule in found:
        table.add_row(rule.id, Text(rule.level, STYLES[rule.level]), rule.title)
    console.print(table)


def show_methods(console: Console, found: Iterable[MethodInfo]) -> None:
    """Print a line for each method."""
    table = _table()
    for method in found:
        table.add_row(method.signature, Text(method.location, "cyan"))
    console.print(table)


def show_explanation(console: Console, found: Explanation) -> None:
    """Print the method that runs, and why no other method does."""
    head, outcome, *rest = str(found).splitlines()
    console.print(Text(head, "bold"))
    console.print(Text(outcome, "bold green" if found.winner else "bold red"))
    # As Text, because brackets in signatures would be read as markup.
    for line in rest:
        console.print(Text(line))


def show_coverage(console: Console, found: Iterable[Coverage]) -> None:
    """Print a table of the methods of each function and their share of calls."""
    for each in found:
        console.print(Text(f"{each.function}: {each.total} type tuples", "bold"))
        table = _table()
        for share in each.shares:
            _add_share(table, share.method.signature, share.count, each.total, "")
        bad = "bold red" if each.ambiguous else "dim"
        _add_share(table, "ambiguous", each.ambiguous, each.total, bad)
        _add_share(table, "missing", each.missing, each.total, "dim")
        console.print(table)


def _add_share(table: Table, name: str, count: int, total: int, style: str) -> None:
    part = 100 * count / total if total else 0
    cells = f"{count:>8}", f"{part:5.1f} %", name
    table.add_row(*(Text(cell, style) for cell in cells))


def show_plain(console: Console, found: object) -> None:
    console.print(Text(str(found)))


def _table(*heads: str) -> Table:
    """Return a table without lines, which folds long cells and never cuts them."""
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(heads)
    )
    for head in heads or ("",) * 3:
        table.add_column(head, overflow="fold")
    return table
