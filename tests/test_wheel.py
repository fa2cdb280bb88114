"""Wheels: the same bytes from two builds, and the first example where one is installed.

They are built in copies of the checkout, from the files that git knows.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import libraries
from support.reader_files import write_your_files

from mdtensor.kernels import build
from mdtensor.kernels.native import library

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
needs_libraries = pytest.mark.skipif(
    bool(libraries.missing()), reason=f"{libraries.missing()}: run make native"
)


def run(*command: object, cwd: Path, **variables: str) -> str:
    """What a command prints; it must succeed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MDTENSOR_")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=clean | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def wheel(folder: Path, platform: str = "") -> Path:
    """The wheel of a copy of the checkout; for a platform it has the libraries."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines()
    for name in listed:
        left_out = name.startswith(("docs/", "tests/", "bench/"))
        if (ROOT / name).is_file() and not left_out:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    options = []
    if platform:
        libraries.copy(folder / "kernels/native")
        options = [f"--config-settings=--build-option=--plat-name={platform}"]
    pip = sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"
    out = folder / "out"
    run(*pip, *options, "-w", out, ".", cwd=folder, SOURCE_DATE_EPOCH="1700000000")
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("pure"))


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    platform = library.read_index(library.PLACE)["platform"]
    return wheel(tmp_path_factory.mktemp("native"), platform)


def test_two_builds_give_the_same_bytes(pure: Path, tmp_path: Path) -> None:
    again = wheel(tmp_path)
    assert again.name == pure.name
    assert again.read_bytes() == pure.read_bytes()


def test_a_pure_wheel_has_no_library(pure: Path) -> None:
    assert pure.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(pure).namelist()
    assert not [n for n in names if n.endswith((".so", library.INDEX))]
    assert {"mdtensor/__init__.py", "mdtensor_run/runner.py"} <= {*names}


@needs_libraries
def test_a_wheel_with_libraries_names_their_platform(native: Path) -> None:
    assert "-py3-none-manylinux_2_17_" in native.name
    with zipfile.ZipFile(native) as archive:
        own = "mdtensor/kernels/native/"
        index = json.loads(archive.read(own + library.INDEX))
        entries = index["glue"], *index["libraries"].values()
        for entry in entries:
            content = archive.read(own + entry["file"])
            assert library.checksum(content) == entry["crc32"]
            assert build.needed_glibc(content) <= build.GLIBC


def first_example() -> str:
    """The first Python block of the README."""
    text = (ROOT / "README.md").read_text()
    return text.split("```python\n", 1)[1].split("```", 1)[0]


def installed(made: Path, folder: Path) -> Path:
    """The interpreter of a new environment with the wheel and what it needs."""
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "-q", f"{made}[onnx]", cwd=folder)
    return python


def check_first_example(python: Path, folder: Path, **variables: str) -> None:
    write_your_files(folder)
    shown = run(python, "-c", first_example(), cwd=folder, **variables)
    assert "largest difference: " in shown and "conv2d" in shown
    found = run(python, "-c", "import mdtensor; print(mdtensor.__file__)", cwd=folder)
    assert found.startswith(str(folder))


def test_the_first_example_in_an_empty_environment(pure: Path, tmp_path: Path) -> None:
    check_first_example(installed(pure, tmp_path), tmp_path)


@needs_libraries
def test_the_first_example_without_a_compiler(native: Path, tmp_path: Path) -> None:
    python = installed(native, tmp_path)
    remove = "-m", "pip", "uninstall", "-q", "-y", "numba", "llvmlite"
    run(python, *remove, cwd=tmp_path)
    check_first_example(python, tmp_path, MDTENSOR_KERNELS="native")
