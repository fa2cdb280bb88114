"""`mdtensor cache`: what is compiled on disk, and how it comes and goes."""

import json
import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdtensor.kernels.cpu import cache_entry, jit

Call = Callable[..., Any]
#: Comes before the stamp of this version, whatever that is.
OTHER = "0" * 19 + "1"
FACTS = {"function": "mdtensor.kernels.add", "signature": "(int8,)", "seconds": 1.5}


def put(folder: Path, name: str, code: bytes, **facts: object) -> Path:
    """A file of the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{'0' * 24}.nbc"
    path.write_bytes(cache_entry.pack({**FACTS, **facts}, code))
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of caches: two kernels, a loop of a user, and an old kernel."""
    place = tmp_path / "cache"
    mine = place / f"kernels-{jit.stamp()}"
    put(mine, "add", b"a" * 1000)
    put(mine, "mul", b"m", function="mdtensor.kernels.mul", seconds=0.25)
    put(mine, "user-scale", b"s", function="__main__.scale", seconds=3.0)
    put(place / f"kernels-{OTHER}", "add", b"old")
    monkeypatch.setattr(jit, "read_folders", lambda: (mine,))
    monkeypatch.setattr(jit, "cache_folder", lambda: mine)
    return place


def names(place: Path) -> list[str]:
    return sorted(path.name.partition("-0")[0] for path in place.rglob("*.nbc"))


def test_list_names_functions_and_what_they_cost(call: Call, place: Path) -> None:
    an_hour_ago = time.time() - 3600
    os.utime(next(place.rglob("mul-*")), (an_hour_ago, an_hour_ago))
    facts = json.loads(call("cache", "list", "--json").out)
    rows = {row["function"]: row for row in facts["functions"]}
    assert rows["mdtensor.kernels.mul"]["seconds"] == 0.25
    assert rows["mdtensor.kernels.mul"]["hours"] == pytest.approx(1, abs=0.1)
    assert [name for name, row in rows.items() if row["user"]] == ["__main__.scale"]
    lines = call("cache", "list").out.splitlines()
    # The one that took longest is first.
    assert [line.split()[0] for line in lines[1:]] == ["__main__.scale", "add", "mul"]


def test_size_has_other_versions(call: Call, place: Path) -> None:
    facts = json.loads(call("cache", "size", "--json").out)
    assert [(row["files"], row["current"]) for row in facts["folders"]] == [
        (1, False),
        (3, True),
    ]
    total = sum(path.stat().st_size for path in place.rglob("*.nbc"))
    assert sum(row["bytes"] for row in facts["folders"]) == total
    assert call("cache", "size").out.splitlines()[-1].split()[:2] == ["all", "4"]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ([], []),
        (["--old"], ["add", "mul", "user-scale"]),
        (["--user"], ["add", "add", "mul"]),
        (["--old", "--user"], ["add", "add", "mul", "user-scale"]),
    ],
)
def test_clear(options: list[str], left: list[str], call: Call, place: Path) -> None:
    assert call("cache", "clear", *options).code == 0
    assert names(place) == left


def test_an_export_is_imported(call: Call, place: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernels.zip"
    before = {path: path.read_bytes() for path in place.rglob("*.nbc")}
    assert "3 files" in call("cache", "export", file).out
    call("cache", "clear")
    assert "3 files" in call("cache", "import", file).out
    after = {path: path.read_bytes() for path in place.rglob("*.nbc")}
    assert after == {p: b for p, b in before.items() if OTHER not in str(p)}


def test_an_empty_cache_has_no_export(call: Call, place: Path, tmp_path: Path) -> None:
    call("cache", "clear")
    ended = call("cache", "export", tmp_path / "kernels.zip")
    assert ended.code == 2 and "is empty" in ended.err
    assert not (tmp_path / "kernels.zip").exists()
    assert "is empty" in call("cache", "list").out


def write_zip(path: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
    return path


GOOD = cache_entry.pack(FACTS, b"code")
NAME = f"kernels-{jit.stamp()}/div-{'0' * 24}.nbc"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (f"../{NAME}", GOOD, "that no export has"),
        (f"/{NAME}", GOOD, "that no export has"),
        ("readme.txt", b"", "that no export has"),
        (f"kernels-{OTHER}/div-{'0' * 24}.nbc", GOOD, f"is for stamp {OTHER}"),
        (NAME, GOOD[:-1], "is damaged"),
        (NAME, b"", "is damaged"),
    ],
    ids=["above", "absolute", "other", "stamp", "cut", "empty"],
)
def test_a_foreign_or_damaged_file_adds_nothing(
    name: str, content: bytes, words: str, call: Call, place: Path, tmp_path: Path
) -> None:
    before = names(tmp_path)
    ended = call("cache", "import", write_zip(tmp_path / "x.zip", name, content))
    assert ended.code == 2 and words in ended.err
    assert names(tmp_path) == before


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_flipped_bit_adds_nothing_or_what_was_there(
    at: int, call: Call, place: Path, tmp_path: Path
) -> None:
    path = write_zip(tmp_path / "x.zip", NAME, GOOD)
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 1 << at % 8
    path.write_bytes(content)
    ended = call("cache", "import", path)
    added = list(place.rglob("div-*"))
    if ended.code == 0:
        # Bits of dates and attributes change nothing.
        assert all(file.read_bytes() == GOOD for file in added)
    else:
        assert ended.code == 2 and not added


def test_what_is_no_file(call: Call, place: Path, tmp_path: Path) -> None:
    ended = call("cache", "import", tmp_path / "none.zip")
    assert ended.code == 2 and "cannot be read" in ended.err
    (tmp_path / "text").write_text("no zip")
    ended = call("cache", "import", tmp_path / "text")
    assert ended.code == 2 and "is not an export" in ended.err
