"""Libraries of kernels for tests, and processes that use them."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from mdtensor.kernels.native import library

TESTS = Path(__file__).parents[1]
#: Variables that would change which kernels a process uses.
CHOICES = ("MDTENSOR_ISA", "MDTENSOR_KERNELS", "MDTENSOR_LIBRARIES")


@cache
def missing():
    """Why this checkout has no libraries that fit; nothing if it has them."""
    try:
        library.read_index(library.PLACE)
    except library.Unusable as reason:
        return str(reason)
    return ""


def built():
    """The instruction sets of the libraries of this checkout."""
    return [] if missing() else list(library.read_index(library.PLACE)["libraries"])


def run(*command, **variables):
    """The finished process of `python command`, with libraries wherever they are."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    places = {"MDTENSOR_LIBRARIES": str(library.PLACE), "PYTHONPATH": str(TESTS)}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env=kept | places | variables,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
    )


def output(*command, **variables):
    """What `python command` prints; it must succeed."""
    done = run(*command, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def copy(to):
    """A copy of the libraries in a folder, to be damaged."""
    index = library.read_index(library.PLACE)
    (to / library.INDEX).write_bytes((library.PLACE / library.INDEX).read_bytes())
    for entry in (index["glue"], *index["libraries"].values()):
        shutil.copy(library.PLACE / entry["file"], to / entry["file"])
    return index
