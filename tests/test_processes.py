"""Tests of devices that stay registered, each file in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
FILES = ["test_emucuda.py", "rendered/test_operations.py", "rendered/test_products.py"]
FILES += ["quant/rendered/test_codes.py", "test_ledger.py"]
FILES += ["rendered/test_faults.py", "rendered/test_lines.py"]


def run(file: str, marker: str) -> None:
    """Run the tests of a file with or without the slow ones."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-m", marker, str(TESTS / file)],
        cwd=TESTS.parent,
        env={**os.environ, "MDTENSOR_TEST_DEVICE": "1", "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


@pytest.mark.compiled
@pytest.mark.parametrize("file", FILES)
def test_in_a_process_of_its_own(file: str) -> None:
    run(file, "not slow")


@pytest.mark.slow
def test_all_operations_of_rendered_devices() -> None:
    run("rendered/test_operations.py", "slow")
