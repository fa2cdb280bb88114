"""Modules that a user names with --import: found alike by every command."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mdtensor.cli import execute
from mdtensor.cli.loading import load
from mdtensor.stubs.package import Package
from mdtensor.stubs.sources import Skeleton

STAR = '''"""With the names of another module."""

from math import *
import os.path
import mdtensor as md

HERE: os.PathLike = "."

def half(x: float) -> float:
    return sqrt(x)
'''
COMMANDS = (
    ["support", "sin", "--import"],
    ["stubs", "--output", "typ", "--import"],
    ["dispatch", "methods", "sin", "--import"],
)


@pytest.fixture
def star(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the current folder, where an installed command has no path to."""
    folder = tmp_path / "bin"
    path = tmp_path / "star.py"
    path.write_text(STAR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(folder), *filter(None, sys.path)])
    yield path
    sys.modules.pop("star", None)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_module_of_this_folder(
    star: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found, and so it can fail."""
    star.write_text("raise ValueError('no stars')")
    assert execute([*command, "star"]) == 3
    assert capsys.readouterr().err == (
        "mdtensor: ModuleError: star cannot be imported: ValueError: no stars "
        "(star.py:1). Install it, or correct it.\n"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_what_cannot_be_imported(
    star: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([*command, "no.such"]) == 3
    ended = capsys.readouterr()
    assert ended.out == ""
    assert ended.err == (
        "mdtensor: ModuleError: no.such cannot be imported: ModuleNotFoundError: "
        "No module named 'no'. Install it, or correct it.\n"
    )


def test_the_stub_of_a_module_with_the_names_of_another(star: Path) -> None:
    (module,) = load(["star"])
    assert Skeleton({}, {}, {}).of(module).splitlines() == [
        "from math import *",
        "import os.path",
        "HERE: os.PathLike",
        "",
        "def half(x: float) -> float: ...",
    ]


@pytest.fixture
def made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stubs take ten seconds, and are the same for each command."""
    make, made = Package.files, list[dict[str, str]]()

    def files(package: Package) -> dict[str, str]:
        made[:] = made or [make(package)]
        return made[0]

    monkeypatch.setattr(Package, "files", files)


@pytest.mark.long
@pytest.mark.usefixtures("made_once")
def test_a_stub_that_is_written_by_hand_is_not_lost(
    star: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("typ").mkdir()
    by_hand = Path("typ/star.pyi")
    by_hand.write_text("def half(x: float) -> float: ...\n")
    assert execute(["stubs", "--output", "typ", "--import", "star"]) == 2
    assert capsys.readouterr().err == (
        "mdtensor: OptionError: typ/star.pyi is written by hand, and would be lost. "
        "Choose another folder.\n"
    )
    assert [*Path("typ").rglob("*.*")] == [by_hand]
    by_hand.unlink()
    assert execute(["stubs", "--output", "typ", "--import", "star"]) == 0
    by_hand.write_text(by_hand.read_text() + "old")
    assert execute(["stubs", "--output", "typ", "--import", "star"]) == 0
    assert not by_hand.read_text().endswith("old")


@pytest.mark.parametrize("command", COMMANDS[::2], ids=lambda command: command[0])
def test_without_named_modules_nothing_comes_from_this_folder(
    star: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with the name of a package does not run in its place."""
    before = [*sys.path]
    assert execute(command[:-1]) == 0
    assert sys.path == before
    assert str(star.parent) not in sys.path


def test_imports_of_a_named_module_come_from_the_installed_packages(star: Path) -> None:
    """A file with the name of an installed package waits, and a new name is found."""
    star.with_name("colorsys.py").write_text("raise ValueError('the wrong file')")
    star.with_name("sibling.py").write_text("NAME = 'here'")
    star.write_text("import colorsys\nfrom sibling import NAME")
    sys.modules.pop("colorsys", None)
    finders = [*sys.meta_path]
    try:
        (module,) = load(["star"])
        assert module.NAME == "here" and hasattr(module.colorsys, "rgb_to_hsv")
    finally:
        sys.modules.pop("sibling", None)
    assert sys.meta_path == finders


def test_a_named_module_of_this_folder_hides_an_installed_one(star: Path) -> None:
    """It is the one that the user works on; a folder without code hides nothing."""
    star.with_name("colorsys.py").write_text("HERE = True")
    sys.modules.pop("colorsys", None)
    try:
        (module,) = load(["colorsys"])
        assert module.HERE
    finally:
        sys.modules.pop("colorsys", None)
    star.with_name("colorsys.py").unlink()
    star.with_name("colorsys").mkdir()
    (module,) = load(["colorsys"])
    assert not hasattr(module, "HERE")
