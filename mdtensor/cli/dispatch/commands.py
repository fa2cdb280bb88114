"""`mdtensor dispatch` and its options."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="What runs for which types, and whether the tables of methods are sound.",
    rich_markup_mode=None,
)
baselines = typer.Typer(
    help="Accept findings by a file, and see what has changed since.",
    rich_markup_mode=None,
)
app.add_typer(baselines, name="baseline")


@app.callback(invoke_without_command=True)
@baselines.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Without a command: what commands there are."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


Modules = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODULE",
        help="Whose functions to check; mdtensor's own by default.",
        show_default=False,
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="What to import before."),
]
Pattern = Annotated[
    str, typer.Option("--function", metavar="GLOB", help="Only functions named so.")
]
Select = Annotated[
    list[str] | None,
    typer.Option(metavar="RULES", help="Only these, as MDT001,MDT003."),
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="RULES", help="All rules but these.")
]
Accepted = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Findings that are accepted, see `baseline`."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict-baseline", help="Exit with 4 if what is accepted is not there."
    ),
]
FailOn = Annotated[
    str,
    typer.Option(metavar="LEVEL", help="error, warning, info or never: exit with 1."),
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
    typer.Option("-o", "--output", metavar="FILE", help="Where to; stdout by default."),
]
Operation = Annotated[
    str,
    typer.Argument(metavar="FUNCTION", help="As add, or in full as shop.tables.put."),
]
Types = Annotated[
    list[str] | None,
    typer.Argument(metavar="TYPE", help="Of the arguments, as Int8Tensor int."),
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The baseline.")]


def write(text: str, output: Path | None) -> None:
    """To a file, or to stdout."""
    if output is None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        if text:
            typer.echo(text.encode(encoding, "replace").decode(encoding))
    else:
        output.write_text(f"{text}\n" if text else "", encoding="utf-8")


def answer(found: Any, form: str, show: Any, plain: Any) -> None:
    """The answer to a question: `plain` as JSON, or `found` as `show` renders it."""
    from mdtensor.cli import report
    from mdtensor.cli.dispatch.formats import JSON, known_format

    if known_format(form, answers=True) == JSON:
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
) -> None:
    """Check, tell, and leave with the exit code."""
    from mdtensor.cli import report
    from mdtensor.cli.dispatch.formats import FORMATS, TEXT, known_format
    from mdtensor.cli.dispatch.query import Asked, check, fail_level
    from mdtensor.cli.dispatch.text import plain, show_checked

    known_format(form)
    fail_level(fail_on)
    asked = Asked(modules or (), pattern, select or (), ignore or ())
    found: Any = check(asked, baseline)
    show: Any = show_checked
    if form != TEXT:
        write(FORMATS[form](found), output)
    else:
        write(report.text_of(show, found) if output is None else plain(found), output)
    raise typer.Exit(found.code(fail_on, strict))


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
) -> None:
    """Every ambiguity, hole and surprise, found before any call, with its fix.

    Exits with 0 if nothing new is found, 1 if something is, 2 for wrong usage, 3 if a
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
    )


def _one_rule(rule: str, text: str) -> None:
    """A command that checks one rule only."""

    def command(
        modules: Modules = None,
        pattern: Pattern = "*",
        fail_on: FailOn = "warning",
        form: Format = "text",
        output: Output = None,
    ) -> None:
        checked(modules, pattern, [rule], None, None, False, fail_on, form, output)

    command.__doc__ = text
    app.command({"MDT004": "dead", "MDT003": "overwrites", "MDT005": "piracy"}[rule])(
        command
    )


_one_rule("MDT004", "Methods that no call reaches; `check --select MDT004`.")
_one_rule("MDT003", "Methods that another has replaced; `check --select MDT003`.")
_one_rule("MDT005", "Methods of strangers for strangers; `check --select MDT005`.")


@app.command()
def explain(
    operation: Operation,
    types: Types = None,
    modules: Imports = None,
    form: AnswerFormat = "text",
) -> None:
    """Explain what a call with these types runs, and why no other method does."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    call = query.function(operation, modules or ())
    found = diagnose.explain(call, *query.types(types or (), [call]))
    answer(found, form, text.show_explained, asdict(found))


@app.command()
def suggest(
    operation: Operation,
    types: Types = None,
    modules: Imports = None,
    form: AnswerFormat = "text",
) -> None:
    """The method after which a call with these types works, tried."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    call = query.function(operation, modules or ())
    found = diagnose.suggest(call, *query.types(types or (), [call]))
    answer(found, form, text.show_plain, asdict(found))


@app.command()
def methods(
    operation: Operation, modules: Imports = None, form: AnswerFormat = "text"
) -> None:
    """The methods of a function, the most specific first."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    found = diagnose.methods(query.function(operation, modules or ()))
    answer(found, form, text.show_methods, [asdict(method) for method in found])


@app.command("methods-with")
def methods_with(
    cls: Annotated[str, typer.Argument(metavar="TYPE")],
    pattern: Pattern = "*",
    exact: Annotated[
        bool, typer.Option("--exact", help="Not those that take a wider type.")
    ] = False,
    modules: Imports = None,
    form: AnswerFormat = "text",
) -> None:
    """The methods that take an argument of a type."""
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
        typer.Argument(metavar="FUNCTION", help="All by default."),
    ] = None,
    modules: Imports = None,
    form: AnswerFormat = "text",
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with the table of types."),
    ] = None,
) -> None:
    """How many tuples of types each method answers, and how many none does."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import query, text

    names = operations or ()
    calls = [query.function(name, modules or ()) for name in names]
    calls = calls if names else [*query.functions(modules or ())]
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
    """What a rule finds, with an example and its repair; without a name all of them."""
    from mdtensor import diagnose
    from mdtensor.cli.dispatch import text

    if name is None:
        known = diagnose.rules()
        answer(known, form, text.show_rules, [_rule_facts(each) for each in known])
    else:
        found = diagnose.rule(name)
        answer(found, form, text.show_rule, _rule_facts(found))


def _rule_facts(found: Any) -> dict[str, str]:
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
    """Accept all that is found now."""
    from mdtensor.cli.dispatch.query import Asked, check
    from mdtensor.diagnose.finding import quantity
    from mdtensor.diagnose.report import Baseline

    found = check(Asked(modules or (), pattern, select or (), ignore or ()))
    new = Baseline.of(found.findings)
    file.write_text(new.text, encoding="utf-8")
    typer.echo(f"{file}: {quantity(len(new.entries), 'finding')}")


@baselines.command("diff")
def diff_baseline(
    file: File,
    modules: Modules = None,
    pattern: Pattern = "*",
    select: Select = None,
    ignore: Ignore = None,
) -> None:
    """What is found and not accepted (+), what is accepted and not found (-)."""
    from mdtensor.cli.dispatch.query import Asked, check
    from mdtensor.diagnose.report import Baseline

    asked = Asked(modules or (), pattern, select or (), ignore or ())
    found = check(asked, file)
    added, gone = Baseline.of(found.new).entries, found.stale
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
    """Leave out what is not found any more; nothing is added."""
    from mdtensor.cli.dispatch.query import Asked, check
    from mdtensor.diagnose.finding import quantity
    from mdtensor.diagnose.report import Baseline

    asked = Asked(modules or (), pattern, select or (), ignore or ())
    gone = check(asked, file).stale
    kept = Baseline.read(file).without(gone)
    file.write_text(kept.text, encoding="utf-8")
    left = quantity(len(kept.entries), "finding")
    typer.echo(f"{file}: {left}, {len(gone)} pruned")
