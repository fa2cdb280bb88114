"""Tests of devices that stay registered, each file in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mdtensor as md

TESTS = Path(__file__).resolve().parent
FUSION = "rendered/test_fusion.py"
FILES = ["test_emucuda.py", "test_ledger.py"]
FILES += sorted(str(p.relative_to(TESTS)) for p in TESTS.glob("**/rendered/test_*.py"))
#: Those in the default suite; for each other file a C++ compiler takes many seconds.
SHORT = ["test_emucuda.py", "test_ledger.py", "rendered/test_operations.py"]
SHORT += ["rendered/test_faults.py", "rendered/test_few_types.py"]
#: On a double of CuPy: the code of cuda:0, and the operations with the most of it.
DOUBLE = ["gpu/test_cuda.py", "gpu/test_exchange.py", "rendered/test_capture.py"]
DOUBLE += ["rendered/test_products.py", "rendered/test_events.py"]
#: What a GPU must pass: every suite of operations.
SUITES = ["rendered/test_operations.py", "rendered/test_products.py"]
SUITES += ["rendered/test_lines.py", "quant/rendered/test_codes.py"]
SUITES += ["rendered/test_composed.py", "quant/rendered/test_weights.py", FUSION]


def run(file: str, marker: str, device: str = "emucuda") -> None:
    """Run the tests of a file with or without the slow ones."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-m", marker, str(TESTS / file)],
        cwd=TESTS.parent,
        env={**os.environ, "MDTENSOR_TEST_DEVICE": device, "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


@pytest.mark.compiled
@pytest.mark.parametrize("file", SHORT)
def test_in_a_process_of_its_own(file: str) -> None:
    run(file, "not slow")


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("file", sorted({*FILES} - {*SHORT}))
def test_in_a_longer_process_of_its_own(file: str) -> None:
    run(file, "not slow")


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("file", DOUBLE)
def test_on_a_double_of_cupy(file: str) -> None:
    run(file, "not slow", "double")


@pytest.mark.cuda
@pytest.mark.skipif(bool(md.cuda.missing), reason=md.cuda.missing)
@pytest.mark.parametrize("file", SUITES)
def test_on_a_gpu(file: str) -> None:
    run(file, "not slow or slow", "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("file", [SUITES[0], *SUITES[2:]])
def test_every_suite_on_a_double_of_cupy(file: str) -> None:
    run(file, "not slow", "double")


@pytest.mark.slow
def test_all_of_the_double_of_cupy() -> None:
    run("gpu/test_cuda.py", "slow", "double")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["rendered/test_operations.py", FUSION])
def test_all_of_rendered_devices(file: str) -> None:
    run(file, "slow")
