"""`mdtensor cache` and its options."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List, delete, export and import compiled code on disk.",
    rich_markup_mode=None,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """Print the list of commands."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def emit(facts: dict[str, Any], as_json: bool, show: Any) -> None:
    """Print facts as JSON, or as `show` renders them."""
    from mdtensor.cli import report

    text = json.dumps(facts, indent=2) if as_json else report.text_of(show, facts)
    typer.echo(text)


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List plans of models and compiled functions."""
    from mdtensor.cli.cache import contents

    emit(contents.describe(), as_json, contents.show_functions)


@app.command("size")
def show_size(as_json: AsJson = False) -> None:
    """Show the size of each folder, including old versions."""
    from mdtensor.cli.cache import contents

    emit(contents.describe(), as_json, contents.show_folders)


@app.command()
def clear(
    old: Annotated[
        bool, typer.Option("--old", help="Only what other versions compiled.")
    ] = False,
    user: Annotated[
        bool,
        typer.Option("--user", help="Only loops over functions that you wrote."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete compiled code and plans."""
    from mdtensor.cli.cache import contents

    emit(contents.clear(old=old, user=user), as_json, contents.show_change)


@app.command("export")
def write(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A .zip file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write compiled code and plans to a file.

    Machines with the same versions and CPU can import it.
    """
    from mdtensor.cli.cache import contents

    emit(contents.export(path), as_json, contents.show_change)


@app.command("import")
def read(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A .zip of `export`.")],
    as_json: AsJson = False,
) -> None:
    """Add compiled code and plans from a file.

    `export` wrote the file. Import only files that you trust: the code will run.
    """
    from mdtensor.cli.cache import contents

    emit(contents.load(path), as_json, contents.show_change)
