"""Compiled texts on disk: whole or not there, and read only if nothing has changed."""

from pathlib import Path

import pytest

from mdtensor.kernels.loops import store


def test_there_and_back(tmp_path: Path) -> None:
    place = tmp_path / "code"
    assert store.read(place) is None
    store.write(place, b"machine code")
    assert store.read(place) == b"machine code"
    assert [path.name for path in tmp_path.iterdir()] == ["code"]


def test_a_damaged_file_is_not_read(tmp_path: Path) -> None:
    place = tmp_path / "code"
    store.write(place, b"machine code")
    whole = place.read_bytes()
    for bad in (b"", whole[:-1], whole[:10], whole[:-1] + b"x"):
        place.write_bytes(bad)
        assert store.read(place) is None


def test_a_full_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    store.write(tmp_path / "code", b"machine code")
    assert not list(tmp_path.iterdir())


def test_the_folder_is_the_first_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.folder.cache_clear()
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert store.folder("some") == tmp_path / "home" / "mdtensor" / "some"
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    store.folder.cache_clear()
    assert store.folder("some").is_dir()
    store.folder.cache_clear()


def test_a_key_depends_on_every_fact() -> None:
    keys = {store.key_of(*facts) for facts in ((1, "a"), ("a", 1), (1, "b"), (1,))}
    assert len(keys) == 4
