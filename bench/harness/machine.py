"""The machine: what a number depends on besides the code, and which processors run."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

PACKAGES = ("mdtensor", "plum-dispatch", "multipledispatch", "numpy", "numba")
PACKAGES += ("llvmlite", "numexpr", "torch", "onnxruntime", "ai-edge-litert")
POOLS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")


def one_thread() -> None:
    """Have libraries that are imported later use one thread, until told otherwise."""
    for pool in POOLS:
        os.environ.setdefault(f"{pool}_NUM_THREADS", "1")


def write_bytecode() -> None:
    """Let processes that are started later keep the bytecode of what they import.

    `pip install` compiles all modules; without bytecode, half of an import is parsing.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def keep_no_plans() -> None:
    """Let each process read and plan its models, as the first one of a user does."""
    os.environ["MDTENSOR_PLANS"] = "off"


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Stay on so many processors: on more, the scheduler would move the work about."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-threads:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def environment() -> dict[str, object]:
    """What a number depends on besides the code."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "commit": _commit(),
        "packages": versions,
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
