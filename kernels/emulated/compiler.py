"""g++ as a compiler of CUDA C++ text: once for each text, cached by content.

`loops/store.py` has the folder. A file appears under its final name at once, so readers
and a process that dies never see half of it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mdtensor.kernels.loops import store
from mdtensor.kernels.loops.cuda import SCALARS
from mdtensor.kernels.loops.kernel import Kernel

HEADER = Path(__file__).with_name("cuda_host.h").read_text()
#: Without contraction a product and a sum round separately, as with --fmad=false.
OPTIONS: tuple[str, ...] = ("-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off")
OPTIONS += ("-fno-fast-math", "-fno-strict-aliasing", "-fPIC", "-shared", "-pipe")
#: What a launch returns besides 0.
FAILURES = (
    "",
    "threads of a block wait at different barriers, or some have ended",
    "the kernel waits at a barrier that it does not declare",
    "the kernel trapped",
    "there is no memory for the threads of a block",
)
NO_COMPILER = "g++, which compiles kernels for the emulated device, is not installed"


class EmulationError(Exception):
    """A text that does not compile, or a launch that failed."""


@cache
def compiler() -> str:
    """Return the path of g++; empty if there is none. `CXX` names another command."""
    return shutil.which(os.environ.get("CXX") or "g++") or ""


@cache
def entry(kernel: Kernel) -> ctypes._CFuncPtr:  # type: ignore[name-defined]
    """Return the compiled entry of a kernel: (arguments, grid, block, order, seed).

    Raises:
        EmulationError: there is no g++, or the text does not compile.
    """
    prepare((kernel,))
    library = ctypes.CDLL(str(_place(kernel).resolve()))
    found = getattr(library, f"{kernel.name}_launch")
    found.restype = ctypes.c_int
    found.argtypes = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    found.argtypes += (ctypes.c_int, ctypes.c_ulonglong)
    return found


# One run for many texts takes a tenth of the time of each alone (decision 0063).
def prepare(kernels: Iterable[Kernel]) -> None:
    """Compile the kernels that are not in the cache, all in one run of g++.

    Raises:
        EmulationError: there is no g++, or a text does not compile.
    """
    wanted = dict.fromkeys(kernels)
    missing = [one for one in wanted if not _place(one).exists()]
    if not missing:
        return
    text = source(missing)
    library = store.folder("emulated") / f"{_key(text)}.so"
    _compile(text, library)
    for one in missing:
        # A link appears at once, too.
        fresh = library.with_name(f"{one.name}-{os.getpid()}.tmp")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(library.name)
        fresh.replace(_place(one))


@cache
def _place(kernel: Kernel) -> Path:
    """Return the link to the library with this kernel."""
    return store.folder("emulated") / f"{_key(source((kernel,)))}.kernel"


def _key(text: str) -> str:
    if not compiler():
        raise EmulationError(f"{NO_COMPILER}. Install g++, or set CXX.")
    return store.key_of(text, OPTIONS, _version())


def source(kernels: Iterable[Kernel]) -> str:
    """Return the whole text that g++ compiles."""
    parts = [HEADER, SCALARS]
    for one in kernels:
        barriers = str(one.has_barriers).lower()
        parts += [one.text, f"MDT_EMULATED({one.name}, {barriers})\n"]
    return "\n".join(parts)


@cache
def _version() -> str:
    done = subprocess.run([compiler(), "--version"], capture_output=True, text=True)
    return done.stdout.partition("\n")[0]


def _compile(text: str, target: Path) -> None:
    """Compile `text`, and put the library at `target` at once."""
    with tempfile.TemporaryDirectory(dir=target.parent, suffix=".tmp") as place:
        made = Path(place) / "kernels.so"
        command = [compiler(), *OPTIONS, "-", "-o", str(made)]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            raise EmulationError(
                f"g++ does not compile the text: {' '.join(lines[:3])}"
            )
        made.replace(target)
