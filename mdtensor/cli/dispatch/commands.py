"""`mdtensor dispatch` and its options."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mdtensor.cli.outputs import file_name

app = typer.Typer(
    help="Show which method a call runs; find ambiguous calls.",
    rich_markup_mode=None,
)
baselines = typer.Typer(
    help="Accept findings in a file, and show what has changed since.",
    rich_markup_mode=None,
)
app.add_typer(baselines, name="baseline")


@app.callback(invoke_without_command=True)
@baselines.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Print the list of commands."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Modules = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODULE",
        help="Package with the functions to check; mdtensor by default.",
        show_default=False,
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="Module to import first."),
]
Pattern = Annotated[
    str,
    typer.Option("--function", metavar="GLOB", help="Only functions with such a name."),
]
Select = Annotated[
    list[str] | None,
    typer.Option(metavar="RULES", help="Check only these rules: MDT001,MDT003."),
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="RULES", help="Skip these rules.")
]
Accepted = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File of accepted findings, see `baseline`."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict-baseline", help="Exit with 4 if an accepted finding is gone."
    ),
]
FailOn = Annotated[
    str,
    typer.Option(
        metavar="LEVEL",
        help="Level that exits with 1: error, warning, info, never.",
    ),
]
Format = Annotated[
    str,
    typer.Option("--format", metavar="FORMAT", help="text|json|jsonl|github|sarif|md"),
]
AnswerFormat = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="text or json.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        parser=file_name,
        help="File; stdout by default.",
    ),
]
Patch = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="FILE",
        help="Write a diff that mends findings, for `git apply`.",
    ),
]
Operation = Annotated[
    str,
    typer.Argument(metavar="FUNCTION", help="A name such as add, or shop.tables.put."),
]
Types = Annotated[
    list[str] | None,
    typer.Argument(metavar="TYPE", help="Argument types, such as Int8Tensor int."),
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline file.")]


def write(text: str, output: Path | None) -> None:
    """Write text to a file, or to stdout."""
    if output is None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        if text:
            typer.echo(text.encode(encoding, "replace").decode(encoding))
    else:
        from mdtensor.cli.outputs import write_text

        write_text(output, f"{text}\n" if text else "")


def answer(found: Any, form: str, show: Any, plain: Any) -> None:
    """Print an answer: `plain` as JSON, or `found` as `show` renders it."""
    from mdtensor.cli import report
    from mdtensor.cli.dispatch.formats import JSON, require_format

    if require_format(form, answers=True) == JSON:
        typer.echo(json.dumps(plain, indent=2))
    else:
        typer.echo(report.text_of(show, found))


def checked(
    modules: Sequence[str] | None,
    pattern: str,
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
    baseline: Path | None,
    strict: bool,
    fail_on: str,
    form: str,
    output: Path | None,
    patch: Path | None = None,
) -> None:
    """Check, print the findings, and exit with the code of the check."""
    from mdtensor.cli import report
    from mdtensor.cli.dispatch.formats import FORMATS, TEXT, require_format
    from mdtensor.cli.dispatch.query import Request, check, require_level
    from mdtensor.cli.dispatch.text import plain, show_checked
    from mdtensor.cli.outputs import check_apart, source_inputs

    require_format(form)
    require_level(fail_on)
    request = Request(modules or (), pattern, select or (), ignore or ())
    found: Any = check(request, baseline)
    # After the check, which imports the modules.
    check_apart(output, source_inputs(baseline))
    if patch is not None:
        check_apart(patch, source_inputs(baseline, output))
        write_patch(found, patch)
    show: Any = show_checked
    if form != TEXT:
        write(FORMATS[form](found), output)
    else:
        write(report.text_of(show, found) if output is None else plain(found), output)
    raise typer.Exit(found.code(fail_on, strict))


def write_patch(found: Any, patch: Path) -> None:
    """Write the diff of all patches, and report on stderr how many there are."""
    from mdtensor.cli.dispatch.query import diff_of
    from mdtensor.cli.outputs import write_text
    from mdtensor.diagnose.finding import quantity

    write_text(patch, diff_of(found))
    mended = f"{len(found.patches)} of {quantity(len(found.new), 'new finding')}"
    typer.echo(f"{patch}: mends {mended}", err=True)


@app.command()
def check(
    modules: Modules = None,
    pattern: Pattern = "*",
    select: Select = None,
    ignore: Ignore = None,
    baseline: Accepted = None,
    strict: Strict = False,
    fail_on: FailOn = "warning",
    form: Format = "text",
    output: Output = None,
    patch: Patch = None,
) -> None:
    """Find ambiguous calls and other mistakes, with fixes.

    The exit code is 0 without new findings, 1 with some, 2 for wrong usage, 3 if a
    module cannot be imported, 4 for a stale baseline with --strict-baseline.
    """
    checked(
        modules,
        pattern,
        select,
        ignore,
        baseline,
        strict,
        fail_on,
        form,
        output,
        patch,
    )


def _one_rule(rule: str, text: str) -> None:
    """Add a command that checks one rule only."""

    def command(
        modules: Modules = None,
        pattern: Pattern = "*",
        fail_on: FailOn = "warning",
        form: Format = "text",
        output: Output = None,
    ) -> None:
        checked(modules, pattern, [rule], None, None, False, fail_on, form, output)

    # typer shows the docstring as the help of the command.
    command.__doc__ = text
    app.command({"MDT004": "dead", "MDT003": "overwrites", "MDT005": "piracy"}[rule])(
        command
    )


_one_rule("MDT004", "Find methods that never run (MDT004).")
_one_rule("MDT003", "Find methods that a later one replaced (MDT003).")
_one_rule("MDT005", "Find methods for functions and types of others (MDT005).")


@app.command()
def explain(
    operation: Operation,
    types: Types = None,
    modules: Imports = None,
    form: AnswerFormat = "text",
) -> None:
    """Explain which method a call with these types runs."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    call = query.function(operation, modules or ())
    found = diagnose.explain(call, *query.types(types or (), [call]))
    answer(found, form, text.show_explanation, asdict(found))


@app.command()
def suggest(
    operation: Operation,
    types: Types = None,
    modules: Imports = None,
    form: AnswerFormat = "text",
) -> None:
    """Suggest a method for a call that fails."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    call = query.function(operation, modules or ())
    found = diagnose.suggest(call, *query.types(types or (), [call]))
    answer(found, form, text.show_plain, asdict(found))


@app.command()
def methods(
    operation: Operation, modules: Imports = None, form: AnswerFormat = "text"
) -> None:
    """List the methods of a function, the most specific first."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    found = diagnose.methods(query.function(operation, modules or ()))
    answer(found, form, text.show_methods, [asdict(method) for method in found])


@app.command("methods-with")
def methods_with(
    cls: Annotated[str, typer.Argument(metavar="TYPE")],
    pattern: Pattern = "*",
    exact: Annotated[
        bool, typer.Option("--exact", help="Leave out methods for a wider type.")
    ] = False,
    modules: Imports = None,
    form: AnswerFormat = "text",
) -> None:
    """List the methods that take an argument of a type."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    calls = query.functions(modules or (), pattern)
    (kind,) = query.types([cls], calls)
    found = diagnose.methods_with(kind, calls, supertypes=not exact)
    answer(found, form, text.show_methods, [asdict(method) for method in found])


@app.command()
def coverage(
    operations: Annotated[
        list[str] | None,
        typer.Argument(metavar="FUNCTION", help="Functions; all by default."),
    ] = None,
    modules: Imports = None,
    form: AnswerFormat = "text",
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write an HTML page with all types."),
    ] = None,
) -> None:
    """Count for how many types each method runs."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    names = operations or ()
    calls = [query.function(name, modules or ()) for name in names]
    calls = calls if names else [*query.functions(modules or ())]
    # A page shows the tables themselves, so it needs the functions and not the counts.
    if html is not None:
        from mdtensor.cli.dispatch.html import write_page

        typer.echo(write_page(calls, html))
        return
    found = [diagnose.coverage(call) for call in calls]
    answer(found, form, text.show_coverage, [asdict(each) for each in found])


@app.command()
def rule(
    name: Annotated[str | None, typer.Argument(metavar="RULE")] = None,
    form: AnswerFormat = "text",
) -> None:
    """Explain a rule of `check`; without a name, list all."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import text

    if name is None:
        known = diagnose.rules()
        answer(known, form, text.show_rules, [_rule_facts(each) for each in known])
    else:
        found = diagnose.rule(name)
        answer(found, form, text.show_rule, _rule_facts(found))


def _rule_facts(found: object) -> dict[str, str]:
    names = ("id", "level", "title", "explanation", "example", "repaired")
    return {name: getattr(found, name).strip() for name in names}


@baselines.command("write")
def write_baseline(
    file: File,
    modules: Modules = None,
    pattern: Pattern = "*",
    select: Select = None,
    ignore: Ignore = None,
) -> None:
    """Accept all current findings."""
    from mdtensor.cli.dispatch.query import Request, check
    from mdtensor.cli.outputs import check_apart, source_inputs, write_text
    from mdtensor.diagnose.finding import quantity
    from mdtensor.diagnose.report import Baseline

    found = check(Request(modules or (), pattern, select or (), ignore or ()))
    new = Baseline.of(found.findings)
    check_apart(file, source_inputs())
    write_text(file, new.text)
    typer.echo(f"{file}: {quantity(len(new.entries), 'finding')}")


@baselines.command("diff")
def diff_baseline(
    file: File,
    modules: Modules = None,
    pattern: Pattern = "*",
    select: Select = None,
    ignore: Ignore = None,
) -> None:
    """List findings that are not accepted (+), and accepted ones that are gone (-)."""
    from mdtensor.cli.dispatch.query import Request, check
    from mdtensor.diagnose.report import Baseline

    request = Request(modules or (), pattern, select or (), ignore or ())
    found = check(request, file)
    added, gone = Baseline.of(found.new).entries, found.stale
    # New findings first: they are what fails a check.
    lines = [f"+ {entry}" for entry in added] + [f"- {entry}" for entry in gone]
    write("\n".join(lines), None)
    raise typer.Exit(1 if added else 4 if gone else 0)


@baselines.command("prune")
def prune_baseline(
    file: File,
    modules: Modules = None,
    pattern: Pattern = "*",
    select: Select = None,
    ignore: Ignore = None,
) -> None:
    """Remove the entries that are gone; add none."""
    from mdtensor.cli.dispatch.query import Request, check
    from mdtensor.cli.outputs import write_text
    from mdtensor.diagnose.finding import quantity
    from mdtensor.diagnose.report import Baseline

    request = Request(modules or (), pattern, select or (), ignore or ())
    # Checked as in `check`, so that entries of rules that were not selected stay.
    gone = check(request, file).stale
    rest = Baseline.read(file).without(gone)
    write_text(file, rest.text)
    left = quantity(len(rest.entries), "finding")
    typer.echo(f"{file}: {left}, {len(gone)} pruned")
