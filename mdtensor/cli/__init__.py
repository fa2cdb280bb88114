"""The command line: `mdtensor info | support | dispatch | demo | quantize | ...`.

Results go to stdout (JSON with `--json`), progress and errors to stderr. An error that
you can mend prints one line and gives exit code 2; an interrupt gives 130.
"""

import sys
from collections.abc import Sequence

import numpy as np

from mdtensor.cli.errors import ending, option
from mdtensor.errors import writing


def main() -> None:
    """Run the `mdtensor` command and exit."""
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        Its exit code.
    """
    try:
        # Imported here, because a missing package must end in one line, too.
        from mdtensor.cli.commands import app

        # Overflow shows in the results, and calibration has an error of its own for it.
        with np.errstate(all="ignore"), writing(option):
            code = app(list(arguments), prog_name="mdtensor", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        code, line = ending(error)
        if line:
            print(line, file=sys.stderr)
    return int(code or 0)
