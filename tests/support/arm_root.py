"""A folder with Python for 64-bit Arm, which qemu runs on an x86-64 machine.

    python tests/support/arm_root.py FOLDER

FOLDER gets `python`, `cc`, and what they need: Debian's Python and C library for Arm,
its C compiler for Arm, and wheels of the packages that the tests import. Two scripts
are what you call: `python` runs Arm code under `qemu-aarch64`, and `cc` compiles it.
Nothing is installed on this machine, and no rights are needed.

Needs Debian 12, its package qemu-user, and a network.
"""

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
EMULATOR = "qemu-aarch64"
PYTHON = "3.11"
#: Packages of Debian: those that Arm code uses, and a compiler that runs here.
FOR_ARM = (
    *(
        f"python{PYTHON}-minimal",
        f"libpython{PYTHON}-minimal",
        f"libpython{PYTHON}-dev",
    ),
    *(f"libpython{PYTHON}-stdlib", "libc6", "libgcc-s1", "libstdc++6", "zlib1g"),
    *("libexpat1", "libffi8", "libbz2-1.0", "liblzma5", "libssl3", "libsqlite3-0"),
    "libuuid1",
)
FOR_THIS = (
    *("gcc-12-aarch64-linux-gnu", "cpp-12-aarch64-linux-gnu", "libc6-arm64-cross"),
    *("gcc-12-aarch64-linux-gnu-base", "libgcc-12-dev-arm64-cross"),
    *("libc6-dev-arm64-cross", "linux-libc-dev-arm64-cross", "libgcc-s1-arm64-cross"),
    "binutils-aarch64-linux-gnu",
)
#: Packages of Python, in the versions of this environment, with what they need.
WHEELS = (
    *("numpy", "numba", "llvmlite", "ml_dtypes", "plum-dispatch", "beartype"),
    *("onnx", "typer", "rich", "jinja2", "pytest", "hypothesis"),
)
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux2014")
#: Packages of the checkout, by the folder that holds each.
PACKAGES = {"mdtensor_run": "quant/run_plan"}
PACKAGES |= {"pytest_mdtensor": "mdtensor/diagnose/pytest_plugin"}
BELOW_MDTENSOR = {"kernels": "kernels", "quant": "quant"}

ARM_SCRIPT = """\
#!/bin/sh
# `-0` names this script as the interpreter, so that Python starts it for its processes.
exec {emulator} -L "{root}" -0 "$0" "{root}/usr/bin/python{version}.elf" "$@"
"""
START = """\
#!/bin/sh
export PYTHONPATH="{packages}${{PYTHONPATH:+:$PYTHONPATH}}"
exec "{root}/usr/bin/python{version}" "$@"
"""
COMPILER = """\
#!/bin/sh
export LD_LIBRARY_PATH="{tools}/usr/lib/x86_64-linux-gnu"
exec "{tools}/usr/bin/aarch64-linux-gnu-gcc-12" --sysroot="{tools}" \\
    -B"{tools}/usr/aarch64-linux-gnu/lib" -L"{tools}/usr/aarch64-linux-gnu/lib" \\
    -I"{tools}/usr/aarch64-linux-gnu/include" -I"{root}/usr/include" \\
    -I"{root}/usr/include/python{version}" "$@"
"""


def run(command, folder):
    """Run a command in a folder; end with its output if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def unpack_debian(folder):
    """Unpack Debian's packages into root/ and tools/."""
    lists, cache = folder / "apt/lists", folder / "apt/archives"
    for place in (lists, cache):
        (place / "partial").mkdir(parents=True, exist_ok=True)
    # apt-get has a state of its own here, so that this machine stays one of x86.
    options = ("APT::Architectures::=amd64", "APT::Architectures::=arm64")
    options += (f"Dir::State::lists={lists}", f"Dir::Cache={folder / 'apt'}")
    options += ("APT::Sandbox::User=root",)
    apt = ["apt-get", *(part for option in options for part in ("-o", option))]
    run([*apt, "update"], folder)
    run([*apt, "download", *(f"{name}:arm64" for name in FOR_ARM), *FOR_THIS], cache)
    for package in cache.glob("*.deb"):
        is_ours = package.name.endswith("_arm64.deb")
        run(["dpkg", "-x", package, folder / ("root" if is_ours else "tools")], folder)


def unpack_wheels(folder):
    """Unpack wheels for Arm into packages/."""
    wheels = folder / "wheels"
    given = [f"{name}=={metadata.version(name)}" for name in WHEELS]
    platforms = [f"--platform={name}_aarch64" for name in PLATFORMS]
    run(
        [
            *(sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:"),
            *(f"--python-version={PYTHON}", *platforms, "-d", wheels, *given),
        ],
        folder,
    )
    for wheel in wheels.glob("*.whl"):
        with ZipFile(wheel) as archive:
            archive.extractall(folder / "packages")


def link_checkout(packages):
    """Link the packages of this checkout, as its package-dir maps them."""
    own = packages / "mdtensor"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    for path in (ROOT / "mdtensor").iterdir():
        if path.name != "__pycache__":
            (own / path.name).symlink_to(path)
    for name, place in BELOW_MDTENSOR.items():
        (own / name).symlink_to(ROOT / place)
    for name, place in PACKAGES.items():
        (packages / name).unlink(missing_ok=True)
        (packages / name).symlink_to(ROOT / place)


def write_scripts(folder):
    """Write `python` and `cc`."""
    root, version = folder / "root", PYTHON
    places = {"root": root, "tools": folder / "tools", "packages": folder / "packages"}
    interpreter = root / f"usr/bin/python{version}"
    interpreter.rename(f"{interpreter}.elf")
    texts = {interpreter: ARM_SCRIPT, folder / "python": START, folder / "cc": COMPILER}
    for path, text in texts.items():
        emulator = shutil.which(EMULATOR)
        path.write_text(text.format(**places, version=version, emulator=emulator))
        path.chmod(0o755)


def prepare(folder):
    """Fill a folder; if it is complete, only link the checkout again."""
    if (folder / "python").exists():
        link_checkout(folder / "packages")
        return
    if not shutil.which(EMULATOR) or not shutil.which("apt-get"):
        sys.exit(f"{EMULATOR} or apt-get is missing. Use Debian 12 with qemu-user.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    unpack_debian(folder)
    unpack_wheels(folder)
    link_checkout(folder / "packages")
    write_scripts(folder)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]).resolve())
