"""A folder with Pythons whose kernels run on x86-64 CPUs in software.

    python tests/support/x86_root.py FOLDER

FOLDER gets a script for each library that needs more than AVX2: `avx512`, `vnni`,
`avxvnni`. It starts this environment's Python, and kernels of libraries run on a CPU of
Bochs that has the instructions of that library and no better ones.

Needs Linux on x86-64, a C compiler, and a network for the package of the CPU.
"""

import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parent / "x86_cpu"
PACKAGE = "bochscpu-python==0.4.0"
#: For each ISA a CPU that has no better one, by the symbol that makes it.
CPUS = {
    "avx512": "_Z29create_corei7_skylake_x_cpuidP8BX_CPU_C",
    "vnni": "_Z29create_corei7_icelake_u_cpuidP8BX_CPU_C",
    "avxvnni": "_Z23create_arrow_lake_cpuidP8BX_CPU_C",
}

SCRIPT = """\
#!/bin/sh
export MDTENSOR_X86={cpu} MDTENSOR_X86_PACKAGE="{package}" MDTENSOR_X86_ENTRY="{entry}"
export PYTHONPATH="{sources}:{packages}${{PYTHONPATH:+:$PYTHONPATH}}"
export MDTENSOR_LIBRARIES="${{MDTENSOR_LIBRARIES:-{libraries}}}"
export MDTENSOR_KERNELS="${{MDTENSOR_KERNELS:-native}}" OPENBLAS_NUM_THREADS=1
exec "{python}" "$@"
"""


def run(*command):
    """Run a command; end with its output if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def write_scripts(folder):
    """Write the Python of each CPU."""
    (package,) = (folder / "packages/bochscpu").glob("_bochscpu.*.so")
    places = {"package": package, "entry": folder / "entry.so", "sources": SOURCES}
    places |= {"packages": folder / "packages", "python": sys.executable}
    places["libraries"] = folder / "libraries"
    for isa, cpu in CPUS.items():
        (folder / isa).write_text(SCRIPT.format(cpu=cpu, **places))
        (folder / isa).chmod(0o755)


def prepare(folder):
    """Fill a folder; the package stays if it is there."""
    packages = folder / "packages"
    if not (packages / "bochscpu").exists():
        shutil.rmtree(packages, ignore_errors=True)
        pip = sys.executable, "-m", "pip", "install", "-q", "--no-deps"
        run(*pip, "--only-binary=:all:", "--target", packages, PACKAGE)
    compiler = shutil.which("gcc") or sys.exit("gcc is missing")
    options = "-shared", "-fPIC", "-O2", "-Wall", "-Werror"
    run(compiler, *options, "-o", folder / "entry.so", SOURCES / "entry.c", "-ldl")
    write_scripts(folder)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]).resolve())
