"""Apply a patch to a copy of a library, check the result, and count what it took."""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
#: What each change needs before it.
CHANGES = {
    "add_type": ("add_type",),
    "add_operation": ("add_operation",),
    "add_both": ("add_type", "add_operation", "add_both"),
}


@dataclass(frozen=True)
class Cost:
    """What a patch changes.

    Args:
        files: how many that were there before it.
        lines: added to these and taken away from them.
        new: lines of the files that it brings.
    """

    files: int
    lines: int
    new: int


def read(patch: str) -> Cost:
    """The cost of a unified diff."""
    edited, lines, new, is_new = 0, 0, 0, False
    for line in patch.splitlines():
        if line.startswith("--- "):
            is_new = line == "--- /dev/null"
            edited += not is_new
        elif line.startswith(("+", "-")) and not line.startswith("+++ "):
            new += is_new
            lines += not is_new
    return Cost(edited, lines, new)


def cost(folder: str, change: str) -> Cost:
    """The cost of a change, which was applied and found to work.

    Raises:
        CalledProcessError: a patch does not fit, or a check fails.
    """
    library = HERE / folder
    with tempfile.TemporaryDirectory() as place:
        copied = shutil.ignore_patterns("__pycache__")
        shutil.copytree(library / "library", Path(place) / "library", ignore=copied)
        _run(place, sys.executable, HERE / "check.py", "before")
        for patch in CHANGES[change]:
            _run(place, "git", "apply", library / f"{patch}.patch")
        _run(place, sys.executable, HERE / "check.py", change)
    return read((library / f"{change}.patch").read_text())


def _run(place: str, *command: str | Path) -> None:
    subprocess.run(command, cwd=place, check=True)
