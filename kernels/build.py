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
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mdtensor.kernels.cpu.program import STEP, kinds
from mdtensor.kernels.native import library
from mdtensor.kernels.native.library import FOLDER, FORMAT, INDEX, PLACE
from mdtensor.kernels.native.targets import TARGETS, environment

#: Options of the C compiler. An unknown symbol must fail the build, not a call.
OPTIONS = ("-shared", "-fPIC", "-O2", "-s", "-Wall", "-Werror")
LINKED = ("-Wl,-z,defs", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--gc-sections")
#: Processes that compile at once; each needs some 600 MB.
AT_ONCE = 2


class BuildError(Exception):
    """A reason why the libraries cannot be built here."""


def c_compiler():
    """Return the command of the C compiler.

    Raises:
        BuildError: there is none, or libraries are not made for this system.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise BuildError(
            f"expected Linux on x86-64, got {sys.platform} on {platform.machine()}. "
            "numba compiles the kernels here when they are first called."
        )
    found = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not found:
        raise BuildError("no C compiler was found. Install gcc, or set CC.")
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


def build_library(compiler, folder, isa_name, known):
    """Compile and link the library of an ISA.

    Args: known: the names of all features of LLVM.

    Returns: (path, {function: (letters of its arguments, symbol)}).
    """
    own = folder / isa_name
    own.mkdir()
    module = "mdtensor.kernels.native.compiler"
    run([sys.executable, "-m", module, own], **environment(isa_name, known))
    target = folder / f"mdt_{isa_name}.so"
    sources = own / "kernels.o", FOLDER / "runtime.c"
    run([compiler, *OPTIONS, *LINKED, "-o", target, *sources, "-lm"])
    return target, json.loads((own / "kernels.json").read_text())


def install(path, to):
    """Copy a file into a folder under a name with its digest; return its description.

    A running process may have an older file of the same ISA loaded.
    """
    content = path.read_bytes()
    digest = library.digest(content)
    stem, _, ending = path.name.partition(".")
    name = f"{stem}-{digest[:8]}.{ending}"
    replace(to / name, content)
    return {"file": name, "digest": digest}


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


def build(names, to):
    """Build the libraries of some ISAs into a folder; return the index.

    Raises:
        BuildError: no compiler, or a step failed; the folder is as before.
    """
    import llvmlite.binding as llvm

    compiler, known = c_compiler(), tuple(llvm.get_host_cpu_features())
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(scratch)
        glue = build_glue(compiler, folder)
        made = pool.map(
            lambda name: build_library(compiler, folder, name, known), names
        )
        index = {"format": FORMAT, "stamp": library.stamp(), "libraries": {}}
        index["steps"] = describe_steps()
        for name, (path, functions) in zip(names, made, strict=True):
            print(f"{name}: {len(functions)} functions, {path.stat().st_size:,} bytes")
            index["libraries"][name] = {
                **install(path, to),
                "needs": sorted(TARGETS[name].needs),
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
    parser.add_argument("isa", nargs="*", help=f"{', '.join(TARGETS)}; all if omitted")
    parser.add_argument(
        "--to", type=Path, default=PLACE, help="folder of the libraries"
    )
    given = parser.parse_args()
    names = given.isa or list(TARGETS)
    unknown = set(names) - set(TARGETS)
    if unknown:
        parser.error(f"no such ISA: {', '.join(sorted(unknown))}")
    try:
        given.to.mkdir(parents=True, exist_ok=True)
        build(names, given.to)
    except BuildError as error:
        sys.exit(str(error))
    print(f"written to {given.to}")


if __name__ == "__main__":
    main()
