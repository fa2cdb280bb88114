"""g++ as a compiler of CUDA C++ text: once for each text, cached by content.

The cache is the folder `emulated` next to numba's: `NUMBA_CACHE_DIR`, or the user's
cache. A file appears under its final name at once, so readers and a process that dies
never see half of it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

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
def folder() -> Path:
    """Return the folder of compiled texts; one for this process if none is writable."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    places = [os.environ.get("NUMBA_CACHE_DIR"), home]
    for place in filter(None, places):
        try:
            found = Path(place).expanduser() / "mdtensor" / "emulated"
            found.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=found):
                return found
        except (OSError, RuntimeError):
            continue
    return Path(tempfile.mkdtemp(prefix="mdtensor-emulated-"))


@cache
def entry(kernel: Kernel) -> ctypes._CFuncPtr:  # type: ignore[name-defined]
    """Return the compiled entry of a kernel: (arguments, grid, block, order, seed).

    Raises:
        EmulationError: there is no g++, or the text does not compile.
    """
    return _load(_build((kernel,)), kernel)


def prepare(kernels: Iterable[Kernel]) -> None:
    """Compile many kernels as one text: far faster than one by one."""
    wanted = tuple(dict.fromkeys(kernels))
    library = _build(wanted)
    for one in wanted:
        _PREPARED[one] = library


_PREPARED: dict[Kernel, Path] = {}


def _load(library: Path, kernel: Kernel) -> ctypes._CFuncPtr:  # type: ignore[name-defined]
    found = getattr(ctypes.CDLL(str(library)), f"{kernel.name}_launch")
    found.restype = ctypes.c_int
    found.argtypes = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    found.argtypes += (ctypes.c_int, ctypes.c_ulonglong)
    return found


def source(kernels: Iterable[Kernel]) -> str:
    """Return the whole text that g++ compiles."""
    parts = [HEADER, SCALARS]
    for one in kernels:
        barriers = str(one.has_barriers).lower()
        parts += [one.text, f"MDT_EMULATED({one.name}, {barriers})\n"]
    return "\n".join(parts)


def _build(kernels: tuple[Kernel, ...]) -> Path:
    if len(kernels) == 1 and kernels[0] in _PREPARED:
        return _PREPARED[kernels[0]]
    if not compiler():
        raise EmulationError(f"{NO_COMPILER}. Install g++, or set CXX.")
    text = source(kernels)
    key = hashlib.sha256(repr((text, OPTIONS, _version())).encode()).hexdigest()
    target = folder() / f"{key[:32]}.so"
    if not target.exists():
        _compile(text, target)
    return target


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
