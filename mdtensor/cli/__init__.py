"""The command line: `mdtensor info | demo | quantize | run`.

stdout carries results only (JSON with `--json`); progress and errors go to stderr. Exit
code 2 and one line for anything that is the caller's to mend.
"""

import sys

from mdtensor.errors import MdtensorError


def main() -> None:
    """Entry point of the `mdtensor` command."""
    try:
        from mdtensor.cli.commands import app
    except ModuleNotFoundError as error:
        sys.exit(_missing(error))
    try:
        app(prog_name="mdtensor")
    except MdtensorError as error:
        print(f"mdtensor: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)


def _missing(error: ModuleNotFoundError) -> str:
    if error.name and error.name.split(".")[0] in ("typer", "rich", "click"):
        return "mdtensor: the command line needs `pip install mdtensor[cli]`."
    raise error
