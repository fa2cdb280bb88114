"""What every test starts from: seeded randomness, and time for compilation."""

import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import mdtensor.quant  # (its types would leave with whoever loads it first)

# A first example may compile a kernel, so no example has a deadline; the same
# examples on every run, so a red suite is red for the next reader too. Hypothesis draws
# 100 examples by default: the suite has 10 minutes, and the slow tier draws thousands.
settings.register_profile("mdtensor", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("mdtensor")

# A plan of an earlier run must not answer for the code under test.
os.environ["MDTENSOR_PLANS"] = "off"


# numba, plum and 20,000 tests are a million objects, and all of them stay: a search for
# garbage among them takes half a second, and happens every few files.
@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collection, and leave them out of it later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: Tests of a device that stays registered, which other tests of the process would meet.
#: `test_processes.py` runs them, each file in a process that has this variable.
APART = ("test_emucuda.py", "test_ledger.py", "rendered", "gpu")
APART += ("test_compile_gate.py",)
ALLOWED = "MDTENSOR_TEST_DEVICE"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of a device, but not in a process of their own."""
    is_apart = collection_path.name in APART and ALLOWED not in os.environ
    return True if is_apart else None


#: Folders of files that take long. A process that took one of them last would go on
#: alone for a minute after the others.
FIRST = {"typing", "extension", "certificate", "cli", "stubs"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that take longest; each process sorts alike."""
    items.sort(key=lambda item: FIRST.isdisjoint(item.path.parts))


@pytest.fixture(scope="module")
def registered_as_before() -> Iterator[None]:
    """For tests that declare operations: none of them stays."""
    with mdtensor.registry.restored():
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in each test, whatever ran before it."""
    return np.random.default_rng(20250101)


#: What a damaged file may take.
GIGABYTES = 4


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let the process use four gigabytes more than it does."""
    pages = Path("/proc/self/statm").read_text().split()[0]
    used = int(pages) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + GIGABYTES * 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
