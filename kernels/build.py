"""Compile all kernels ahead of time: `python -m mdtensor.kernels.build [ISA ...]`.

For each ISA a process compiles the functions of `native/entries.py`; a C compiler
links them with `native/runtime.c` into a shared library in `native/`. Two ISAs are
compiled at a time. The index, which names all files, is replaced last and at once, so a
reader finds whole files, also if a build is killed.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mdtensor.kernels.cpu.program import STEP, kinds
from mdtensor.kernels.cpu.threads import words
from mdtensor.kernels.native import library
from mdtensor.kernels.native.library import FOLDER, FORMAT, INDEX, PLACE
from mdtensor.kernels.native.targets import MACHINES, environment

#: Options of the C compiler. An unknown symbol must fail the build, not a call.
OPTIONS = ("-shared", "-fPIC", "-O2", "-s", "-Wall", "-Werror")
LINKED = ("-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--gc-sections")
#: The oldest C library of a manylinux wheel with these libraries; a newer symbol of it
#: would keep them from loading there.
GLIBC = 2, 17
#: Processes that compile at once; each needs some 600 MB.
AT_ONCE = 2


class BuildError(Exception):
    """A reason why the libraries cannot be built here."""


def c_compiler(machine):
    """Return the command of the C compiler for a machine.

    Raises:
        BuildError: there is none, or libraries are not made for this system.
    """
    here = platform.machine()
    if sys.platform != "linux" or machine not in MACHINES:
        raise BuildError(
            f"expected Linux on {' or '.join(MACHINES)}, got {sys.platform} on "
            f"{machine}. numba compiles the kernels there when they are first called."
        )
    if machine != here and MACHINES[machine].unused is None:
        raise BuildError(f"libraries for {machine} are built there, not on {here}.")
    names = ("gcc", "cc") if machine == here else (f"{machine}-linux-gnu-gcc",)
    found = os.environ.get("CC") or next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise BuildError(f"no C compiler was found. Install {names[0]}, or set CC.")
    return found


def run(command, **variables):
    """Run a command; raise BuildError with its output if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise BuildError(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def build_glue(compiler, folder):
    """Compile the extension module that calls kernels; return its path."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        fix = "Install Python's headers (Debian: python3-dev)."
        raise BuildError(f"{headers}/Python.h is missing. {fix}")
    target = folder / "_glue.abi3.so"
    run([compiler, *OPTIONS, f"-I{headers}", FOLDER / "glue.c", "-o", target])
    return target


def build_library(compiler, folder, isa_name, variables):
    """Compile and link the library of an ISA.

    Args: variables: the environment of the process that compiles.

    Returns: (path, {function: (letters of its arguments, symbol)}).
    """
    own = folder / isa_name
    own.mkdir()
    run([sys.executable, "-m", "mdtensor.kernels.native.compiler", own], **variables)
    target = folder / f"mdt_{isa_name}.so"
    sources = own / "kernels.o", FOLDER / "runtime.c"
    run([compiler, *OPTIONS, *LINKED, "-o", target, *sources, "-lm"])
    return target, json.loads((own / "kernels.json").read_text())


# Wheels name the oldest C library that they load with (decision 0079).
def needed_glibc(content):
    """Return the version of the C library that a shared library needs."""
    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content)
    return max((tuple(map(int, each)) for each in found), default=GLIBC)


def install(path, to):
    """Copy a file into a folder under a name with its digest; return its description.

    A running process may have an older file of the same ISA loaded.

    Raises:
        BuildError: the file needs a newer C library than `GLIBC`.
    """
    content = path.read_bytes()
    needed = needed_glibc(content)
    if needed > GLIBC:
        problem = f"expected symbols of glibc {GLIBC} or older, got {needed}"
        raise BuildError(f"{path.name}: {problem}. See them by objdump -T.")
    checksum = library.checksum(content)
    stem, _, ending = path.name.partition(".")
    name = f"{stem}-{checksum:08x}.{ending}"
    replace(to / name, content)
    return {"file": name, "crc32": checksum}


def replace(path, content):
    """Write a file at once: a reader sees the old bytes or the new ones."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    Path(name).chmod(0o644)
    Path(name).replace(path)


def remove_unused(folder, index):
    """Delete libraries that the index does not name, and files of killed builds."""
    named = {entry["file"] for entry in (index["glue"], *index["libraries"].values())}
    for path in (*folder.glob("*.so"), *folder.glob(".new-*")):
        if path.name not in named:
            path.unlink(missing_ok=True)


# A runner without mdtensor reads the record of a step from here (decision 0064).
def describe_steps():
    """Return the record of a step, and the function of each kind, for the index."""
    functions = [".".join(place) for place in kinds.FUNCTIONS]
    return {"record": STEP.descr, "functions": functions}


def build(names, to, machine=None):
    """Build the libraries of some ISAs into a folder; return the index.

    Args: machine: what they run on, a key of `MACHINES`; this one if omitted.

    Raises:
        BuildError: no compiler, or a step failed; the folder is as before.
    """
    import llvmlite.binding as llvm

    machine = machine or platform.machine()
    compiler, known = c_compiler(machine), tuple(llvm.get_host_cpu_features())
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(scratch)
        glue = build_glue(compiler, folder)
        made = pool.map(
            lambda name: build_library(
                compiler, folder, name, environment(machine, name, known)
            ),
            names,
        )
        index = {"format": FORMAT, "stamp": library.stamp(), "libraries": {}}
        index["steps"] = describe_steps()
        index["queue"] = words.describe()
        index["platform"] = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"
        for name, (path, functions) in zip(names, made, strict=True):
            print(f"{name}: {len(functions)} functions, {path.stat().st_size:,} bytes")
            index["libraries"][name] = {
                **install(path, to),
                "needs": sorted(MACHINES[machine].targets[name].needs),
                "functions": functions,
            }
        index["glue"] = install(glue, to)
    replace(to / INDEX, json.dumps(index, indent=1, sort_keys=True).encode())
    remove_unused(to, index)
    return index


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m mdtensor.kernels.build")
    parser.description = "Compile all kernels ahead of time into shared libraries."
    parser.add_argument("isa", nargs="*", help="an ISA of the machine; all if omitted")
    parser.add_argument(
        "--machine",
        choices=MACHINES,
        help="what runs the libraries; this one if omitted",
    )
    parser.add_argument(
        "--to", type=Path, default=PLACE, help="folder of the libraries"
    )
    given = parser.parse_args()
    machine = given.machine or platform.machine()
    try:
        c_compiler(machine)
        targets = MACHINES[machine].targets
        unknown = set(given.isa) - set(targets)
        if unknown:
            parser.error(f"no such ISA: {', '.join(unknown)}. Use {', '.join(targets)}")
        given.to.mkdir(parents=True, exist_ok=True)
        build(given.isa or list(targets), given.to, machine)
    except BuildError as error:
        sys.exit(str(error))
    print(f"written to {given.to}")


if __name__ == "__main__":
    main()
