"""The wheel holds what the checkout holds, and nothing is imported twice."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import mdtensor

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]


def packages_on_disk(root: Path) -> set[str]:
    """Each folder with an `__init__.py`, by the name the package-dir map gives it."""
    names = {root / folder: package for package, folder in FOLDERS.items()}
    found = set()
    for start in names:
        for init in start.rglob("__init__.py"):
            # A folder that is mapped itself is no part of the package around it.
            nearest = next(p for p in (init.parent, *init.parents) if p in names)
            below = init.parent.relative_to(nearest).parts
            found.add(".".join([names[nearest], *below]))
    return found


def test_packages_are_the_folders() -> None:
    listed = SETUPTOOLS["packages"]
    assert listed == sorted(set(listed))
    assert set(listed) == packages_on_disk(ROOT)


def test_a_forgotten_folder_is_seen(tmp_path: Path) -> None:
    for name in ("mdtensor/ops", "quant", "kernels/cpu"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
    assert packages_on_disk(tmp_path) == {
        "mdtensor.ops",
        "mdtensor.quant",
        "mdtensor.kernels.cpu",
    }


def test_no_module_lies_outside_a_package() -> None:
    """A folder without `__init__.py` would stay out of the wheel silently."""
    orphans = [
        path
        for folder in FOLDERS.values()
        for path in (ROOT / folder).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    ]
    assert orphans == []


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["kernels", "quant"])
def test_a_second_copy_is_refused(name: str) -> None:
    """Two copies of a class, and dispatch finds a method for only one of them."""
    done = run(f"import {name}", PYTHONPATH=str(ROOT))
    assert done.returncode == 1
    assert f"ImportError: import mdtensor.{name}, not {name}" in done.stderr


def test_everything_imports_from_the_checkout_root() -> None:
    names = ", ".join(SETUPTOOLS["packages"])
    done = run(f"import {names}", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr


def test_the_path_is_extended_first() -> None:
    """Without it a wheel's kernels are invisible from inside a checkout."""
    text = (ROOT / "mdtensor" / "__init__.py").read_text()
    assert "extend_path(__path__, __name__)" in text


def test_python_beside_the_clone_needs_its_option(tmp_path: Path) -> None:
    """As CONTRIBUTING says; without the option, the clone is a namespace package."""
    assert "`python -P`" in (ROOT / "CONTRIBUTING.md").read_text()
    (tmp_path / "mdtensor").symlink_to(ROOT)
    script = "import mdtensor; print(mdtensor.__version__)"
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, mdtensor.__version__)


def test_one_version() -> None:
    declared = PROJECT["project"]["version"]
    assert mdtensor.__version__ == declared
    assert metadata.version("mdtensor") == declared


def test_types_are_shipped() -> None:
    assert (ROOT / "mdtensor" / "py.typed").exists()
    assert "py.typed" in SETUPTOOLS["package-data"]["mdtensor"]


def test_the_command_is_declared() -> None:
    assert PROJECT["project"]["scripts"] == {"mdtensor": "mdtensor.cli:main"}


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("version_info", "mdtensor needs Python 3.11 or newer"),
        ("ensurepip", "cannot make virtual environments"),
    ],
)
def test_make_says_what_python_lacks(tmp_path: Path, refused: str, said: str) -> None:
    """One sentence, not a trace from pip."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\ncase "$*" in *{refused}*) exit 1;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", f"PYTHON={python}", f"VENV={tmp_path}/none", "test"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert said in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
