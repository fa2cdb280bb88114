"""Dispatch that is over before it runs, or runs without an interpreter, for scale.

numba resolves an overload by the types it compiles for. Rust matches on a pair of enum
values, behind references that the compiler cannot see through; the seed claims 5 to
10 ns for it. Both loop inside, so that no call from Python is timed.
"""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numba
from numba.extending import overload

from bench.harness import Contender

CALLS = 1_000_000
SOURCE = Path(__file__).with_name("matching.rs")
NUMBA, RUST = "compile time, inside numba", "match in Rust, {} of 10 cases"
#: What the kernels add to their argument: 1 for the first type, 10 for the last.
FIRST, LAST = 1, 10


# numba compares the names of parameters together with their annotations: none here.
def poke(x1, x2):
    """x1 + 1 for integers, x1 + 10 for floats; resolved by numba's types."""
    raise TypeError("called by compiled code only")


@overload(poke)
def choose(x1, x2):
    if isinstance(x1, numba.types.Integer) and isinstance(x2, numba.types.Integer):
        return lambda x1, x2: x1 + FIRST
    if isinstance(x1, numba.types.Float) and isinstance(x2, numba.types.Float):
        return lambda x1, x2: x1 + LAST
    return None


@numba.njit
def loop(count, x1, x2):
    # Each call needs the result of the one before: none can be left out.
    for _ in range(count):
        x1 = poke(x1, x2)
    return x1


def in_numba() -> list[Contender]:
    """A float, so that LLVM adds it up step by step."""
    assert loop(3, 0, 0) == 3 * FIRST
    assert loop(3, 0.0, 0.0) == 3 * LAST
    names = {"loop": loop, "n": CALLS}
    return [Contender(NUMBA, "loop(n, 0.0, 0.0)", names, CALLS)]


def in_rust() -> list[Contender]:
    """The first and the last case; none where there is no compiler."""
    compiler = shutil.which("rustc")
    if compiler is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "matching.so"
        command = [compiler, "-O", "--crate-type=cdylib", "-o", library, SOURCE]
        subprocess.run(command, check=True)
        run = ctypes.CDLL(str(library)).run
    run.argtypes = [ctypes.c_uint64, ctypes.c_uint8, ctypes.c_uint8]
    run.restype = ctypes.c_uint64
    assert run(3, 0, 0) == 3 * FIRST
    assert run(3, 9, 9) == 3 * LAST
    assert run(3, 0, 9) == 0
    return [
        Contender(
            RUST.format(name), f"run(n, {at}, {at})", {"run": run, "n": CALLS}, CALLS
        )
        for name, at in (("1st", 0), ("10th", 9))
    ]
