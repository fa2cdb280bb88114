"""Atomic replacement of files: readers see the whole old file or the whole new one."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: The name of a new file until it replaces its target.
_NEW: Final = re.compile(r"\.mdtensor-[0-9a-f]{16}\.new")
#: The flag of Linux for files without a name, which disappear with their process.
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file for writing that replaces `path` at the end.

    After an error or an interrupt, `path` is unchanged. At the end the bytes are on the
    disk, so that a power failure leaves the old file or the new one. A link stays a
    link, to the new file. A device or a pipe receives the bytes.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> with replacing("numbers") as file:
        ...     _ = file.write(b"1 2 3")
        >>> Path("numbers").read_bytes()
        b'1 2 3'
    """
    target, mode = _find_target(path)
    if mode is not None and not stat.S_ISREG(mode):
        # A device must be written to: a rename would put a file in its place.
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with target.open("wb") as device:
                shutil.copyfileobj(file, device)
        return
    _remove_leftovers(target.parent)
    new = _NewFile(target.parent, mode)
    try:
        yield new.file
        new.replace(target)
    finally:
        new.close()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a text in UTF-8; see `replacing`.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> write_text("note", "1 µs")
        >>> Path("note").read_bytes()
        b'1 \\xc2\\xb5s'
    """
    with replacing(path) as file:
        file.write(text.encode())


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise for a path that `replacing` could not write, before any work starts.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> require_writable("new")
        >>> Path("new").exists()
        False
    """
    target, mode = _find_target(path)
    # A device is written directly; opening it now could wait for a reader.
    if mode is None or stat.S_ISREG(mode):
        _NewFile(target.parent, mode).close()


def write_problem(path: object, error: OSError) -> tuple[str, str]:
    """Return the problem and the fix for an error that writing `path` raised.

    Example:
        >>> write_problem("a/b", FileNotFoundError(2, "No such file or directory"))
        ('a/b cannot be written: No such file or directory', 'Choose a folder ...')
    """
    fix = _FIXES.get(error.errno or 0, "Choose a folder that exists and is writable")
    return f"{path} cannot be written: {error.strerror or error}", fix


_FULL: Final = "Free space, or choose a folder of another disk"
_FIXES: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "Raise the limit of file sizes",
    errno.EISDIR: "Pass the name of a file",
    errno.ELOOP: "Remove the link, which leads to itself",
    errno.ENAMETOOLONG: "Choose a shorter name",
}


def _find_target(path: str | os.PathLike[str]) -> tuple[Path, int | None]:
    """Return the path behind all links, and its type and mode if it exists."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    # `Path.resolve` raises RuntimeError for a loop; `stat` raised OSError before.
    return Path(os.path.realpath(path)), mode


class _NewFile:
    """A new file in a folder: without a name if the system can, else locked.

    Args:
        folder: where it will be renamed: a rename is atomic only in one file system.
        mode: the mode of the file that it will replace; None if there is none.
    """

    def __init__(self, folder: Path, mode: int | None) -> None:
        self._folder = folder
        self._mode = None if mode is None else stat.S_IMODE(mode) & 0o777
        #: None until the file gets a name.
        self._name: Path | None = None
        self.file = self._open_unnamed() or self._open_named()

    def _allowed(self) -> int:
        # The system applies the umask; the program could read it only by setting it.
        return 0o666 if self._mode is None else self._mode

    def _open_unnamed(self) -> IO[bytes] | None:
        """Return a file without a name, or None if the system cannot name it later."""
        if not _UNNAMED:
            return None
        try:
            opened = os.open(self._folder, _UNNAMED | os.O_RDWR, self._allowed())
        except OSError:
            return None
        if Path(f"/proc/self/fd/{opened}").exists():
            return os.fdopen(opened, "w+b")
        os.close(opened)
        return None

    def _open_named(self) -> IO[bytes]:
        """Return a locked file with a temporary name."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        while True:
            name = self._temporary_name()
            opened = os.open(name, flags, self._allowed())
            _lock(opened)
            # Another process may have removed it as a leftover before it was locked.
            if os.fstat(opened).st_nlink:
                self._name = name
                return os.fdopen(opened, "w+b")
            os.close(opened)

    def _temporary_name(self) -> Path:
        return self._folder / f".mdtensor-{os.urandom(8).hex()}.new"

    def replace(self, target: Path) -> None:
        """Put the bytes on the disk and the file in place of `target`."""
        self._flush()
        if self._name is None:
            self._link()
        assert self._name is not None
        self._name.replace(target)
        self._name = None
        _sync_folder(self._folder)

    def _flush(self) -> None:
        self.file.flush()
        # The mode of the old file holds even if the umask would forbid it.
        if self._mode is not None and hasattr(os, "fchmod"):
            os.fchmod(self.file.fileno(), self._mode)
        os.fsync(self.file.fileno())

    def _link(self) -> None:
        """Give an unnamed file a temporary name: no link replaces a file."""
        opened, name = self.file.fileno(), self._temporary_name()
        _lock(opened)
        try:
            # Only `linkat` follows the link in /proc, and Python calls it for a folder.
            os.link(f"/proc/self/fd/{opened}", name, src_dir_fd=opened)
            self._name = name
        except OSError:
            # Some file systems make such files, but do not link them.
            with self.file as unnamed:
                self.file = self._open_named()
                unnamed.seek(0)
                shutil.copyfileobj(unnamed, self.file)
            self._flush()

    def close(self) -> None:
        """Close the file, and remove it if it has not replaced its target."""
        if self._name is not None:
            self._name.unlink(missing_ok=True)
        # The bytes left in its buffer are not needed, and the disk may be full.
        with suppress(OSError):
            self.file.close()


def _lock(opened: int) -> None:
    """Mark a file as in use until its process closes it or dies."""
    # Without locks, as on some network file systems, leftovers stay.
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)


def _remove_leftovers(folder: Path) -> None:
    """Remove new files whose processes died before the rename."""
    if fcntl is None:
        return
    with suppress(OSError):
        for path in folder.iterdir():
            if _NEW.fullmatch(path.name):
                _remove_leftover(path)


def _remove_leftover(path: Path) -> None:
    with suppress(OSError):
        # A pipe of this name must not block, and a link is not ours.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW
        opened = os.open(path, flags)
        try:
            # A writer holds the lock, and the system drops it when the process ends.
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISREG(os.fstat(opened).st_mode):
                path.unlink()
        finally:
            os.close(opened)


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
