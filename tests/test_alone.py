"""Each test file in a process of its own: no test needs what others left behind.

In the suite one process runs many files, so an operation that an earlier file called
has its methods, tables and types. Here nothing ran before. MDTENSOR_SHARE=3/8 runs
every eighth file, from the fourth one on.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
FILES = sorted(
    str(path.relative_to(TESTS))
    for path in TESTS.rglob("test_*.py")
    if path != Path(__file__)
)
SHARE, SHARES = map(int, os.environ.get("MDTENSOR_SHARE", "0/1").split("/"))
#: Only the first tests of a file can differ: later ones have a history here, too.
FIRST = 12
#: Exit status of pytest if all tests of a file are slow.
NO_TESTS = 5


class FirstTests:
    """A pytest plugin that keeps the first tests of a file."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        del items[FIRST:]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES[SHARE::SHARES])
def test_a_file_passes_alone(file: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, file],
        cwd=TESTS.parent,
        env={**os.environ, "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in (0, NO_TESTS), done.stdout[-3000:]


if __name__ == "__main__":
    arguments = ["-n", "0", "-x", "-p", "no:cacheprovider", f"tests/{sys.argv[1]}"]
    raise SystemExit(pytest.main(arguments, plugins=[FirstTests()]))
