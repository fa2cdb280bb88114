"""The command line: `mdtensor info | support | dispatch | demo | quantize | ...`.

stdout carries results only (JSON with `--json`); progress and errors go to stderr. Exit
code 2 and one line for anything that is the caller's to mend, 130 when interrupted.
"""

import sys
from collections.abc import Sequence

import numpy as np

from mdtensor.cli.errors import ending, option
from mdtensor.errors import writing


def main() -> None:
    """Entry point of the `mdtensor` command."""
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        Its exit code.
    """
    try:
        from mdtensor.cli.commands import app

        # What overflows is told by the results, and by calibration's own error.
        with np.errstate(all="ignore"), writing(option):
            code = app(list(arguments), prog_name="mdtensor", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        code, line = ending(error)
        if line:
            print(line, file=sys.stderr)
    return int(code or 0)
