"""The one writer of files: the old file or the new one, at every moment."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mdtensor import files
from mdtensor.files import replacing, require_writable, write_problem, write_text


def without_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems and file systems that cannot make a file without a name."""
    monkeypatch.setattr(files, "_UNNAMED", 0)


def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems that make files without a name, but cannot name them."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(os, "link", refuse)


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    without_unnamed(monkeypatch)
    monkeypatch.setattr(files, "fcntl", None)


SYSTEMS: list[Callable[[pytest.MonkeyPatch], None]] = [
    lambda _: None,
    without_unnamed,
    without_links,
    without_locks,
]


@pytest.fixture(params=SYSTEMS, ids=["linux", "unnamed", "links", "locks"])
def system(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request.param(monkeypatch)


@pytest.fixture
def mask() -> Iterator[None]:
    old = os.umask(0o027)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("system", "mask")
def test_modes(tmp_path: Path) -> None:
    """A new file has the mode that the umask gives, an old one keeps its own."""
    new, old, private = (tmp_path / name for name in ("new", "old", "private"))
    for path, bits in ((old, 0o664), (private, 0o400)):
        path.touch()
        path.chmod(bits)
    for path in (new, old, private):
        with replacing(path) as file:
            # Before the end, the bytes are as private as after it.
            now = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            file.write(b"1")
        assert now & ~mode(path) == 0
    assert [mode(p) for p in (new, old, private)] == [0o640, 0o664, 0o400]


@pytest.mark.usefixtures("system")
def test_the_umask_is_never_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to the process, so another thread would write with it."""
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was changed"))
    write_text(tmp_path / "a", "1")
    write_text(tmp_path / "a", "2")
    assert (tmp_path / "a").read_text() == "2"


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
def test_an_error_changes_nothing(error: type, tmp_path: Path) -> None:
    path = tmp_path / "a"
    for before in ([], [path]):
        with pytest.raises(error), replacing(path) as file:
            file.write(b"new" * 10000)
            raise error
        assert list(tmp_path.iterdir()) == before
        path.write_text("old")
    assert path.read_text() == "old"


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_the_end_changes_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a"
    path.write_text("old")
    monkeypatch.setattr({"fsync": os, "replace": Path}[step], step, fail)
    with pytest.raises(OSError, match="No space left"), replacing(path) as file:
        file.write(b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("system")
def test_bytes_and_names_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes before the rename, else a power failure can leave an empty file."""
    order = []
    sync, rename = os.fsync, Path.replace

    def synced(opened: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        order.append("folder" if is_folder else "bytes")
        sync(opened)

    def renamed(path: Path, target: Path) -> Path:
        order.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_text(tmp_path / "a", "new")
    assert order[-3:] == ["bytes", "rename", "folder"]


@pytest.mark.usefixtures("system")
def test_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    for name, target in {"link": "real", "next": "link", "new": "none"}.items():
        (tmp_path / name).symlink_to(target)
        write_text(tmp_path / name, name)
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "real").read_text() == "next"
    assert (tmp_path / "none").read_text() == "new"


def test_links_that_lead_to_themselves(tmp_path: Path) -> None:
    """They are errors of the system, and no path of a new file."""
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for name in ("self", "a", "b", "self/file"):
        for write in (require_writable, lambda path: write_text(path, "1")):
            with pytest.raises(OSError, match="Too many levels") as caught:
                write(tmp_path / name)
            assert caught.value.errno == errno.ELOOP
    assert "Remove the link" in write_problem("a", caught.value)[1]
    assert all(path.is_symlink() for path in tmp_path.iterdir())


def test_devices_and_pipes_receive_the_bytes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    opened = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    require_writable(tmp_path / "pipe")
    write_text(tmp_path / "pipe", "1")
    assert os.read(opened, 9) == b"1"
    os.close(opened)
    write_text("/dev/null", "1")
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]


@pytest.mark.usefixtures("system")
def test_a_place_is_tried_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        require_writable(tmp_path / name)
    for name in ("none/a", "old/a", "."):
        with pytest.raises(OSError, match=r"director|folder"):
            require_writable(tmp_path / name)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


# --- processes that are killed --------------------------------------------------------

WRITER = """
import importlib.util, sys
# The module alone, since the package takes a second to import.
spec = importlib.util.spec_from_file_location("files", sys.argv[3])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
if sys.argv[2] == "named":
    files._UNNAMED = 0
print("on", flush=True)
number = 0
while True:
    number += 1
    with files.replacing(sys.argv[1]) as file:
        for _ in range(40):
            file.write(b"%08d" % number * 1000)
"""


def kill_writers(path: Path, way: str, kills: int) -> int:
    """Kill processes that write; return how many files were left behind."""
    left = 0
    command = [sys.executable, "-c", WRITER, str(path), way, str(files.__file__)]
    for number in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.002 * (number % 20))
            writer.send_signal(signal.SIGKILL)
        left += sum(p.name.startswith(".") for p in path.parent.iterdir())
        if path.exists():
            found = path.read_bytes()
            assert len(found) == 320000 and found == found[:8] * 40000
    return left


@pytest.mark.parametrize(("way", "kills"), [("unnamed", 3), ("named", 3)])
def test_a_killed_writer(tmp_path: Path, way: str, kills: int) -> None:
    kill_writers(tmp_path / "a", way, kills)
    write_text(tmp_path / "a", "whole")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["unnamed", "named"])
def test_many_killed_writers(tmp_path: Path, way: str) -> None:
    left = kill_writers(tmp_path / "a", way, 250)
    # Without a name there is nothing to leave, but for the moment of the rename.
    assert way == "named" or left < 25
    write_text(tmp_path / "a", "whole")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_leftovers_go_and_all_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_unnamed(monkeypatch)
    left = tmp_path / ".mdtensor-0123456789abcdef.new"
    left.write_bytes(b"half")
    others = [".mdtensor-notes", ".mdtensor-0123456789abcdef.new.txt", "b.new"]
    others += [".mdtensor-00000000000000aa.new", ".mdtensor-00000000000000bb.new"]
    for name in others[:3]:
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / others[3])
    (tmp_path / others[4]).symlink_to("b.new")
    # Another writer is at work in the same folder.
    with replacing(tmp_path / "slow") as file:
        write_text(tmp_path / "a", "1")
        file.write(b"2")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "a", "slow"])


@pytest.mark.usefixtures("system")
def test_many_writers_at_once(tmp_path: Path) -> None:
    """Each text is whole at every moment, and no writer removes another's file."""
    path, failures = tmp_path / "a", []

    def work(letter: str) -> None:
        try:
            for _ in range(20):
                write_text(path, letter * 5000)
                found = path.read_text()
                assert found == found[0] * 5000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert list(tmp_path.iterdir()) == [path]
