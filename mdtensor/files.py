"""Atomic replacement of files: readers see the whole old file or the whole new one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file for writing that replaces `path` at the end; see `replacement`.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> with replacing("numbers") as file:
        ...     _ = file.write(b"1 2 3")
        >>> Path("numbers").read_bytes()
        b'1 2 3'
    """
    with replacement(path) as new, new.open("wb") as file:
        yield file


@contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a new file that replaces `path` at the end.

    After an error or an interrupt, the new file is removed and `path` is unchanged. A
    link stays a link, to the new file. A device or a pipe receives the bytes.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(0, "it is a folder")
    # A device must be written to: a rename would put a file in its place.
    is_special = target.exists() and not target.is_file()
    folder = None if is_special else target.parent
    # A rename is atomic only within a file system, so the new file lies next to `path`.
    handle, name = tempfile.mkstemp(prefix=".mdtensor-", dir=folder)
    os.close(handle)
    new = Path(name)
    try:
        yield new
        if is_special:
            with new.open("rb") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
        else:
            new.chmod(_mode(target))
            new.replace(target)
    finally:
        new.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    """Return the mode of the file to replace, or the mode of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    # The umask can only be read by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
