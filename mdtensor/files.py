"""Files that are replaced in one step: who reads sees the old one or the new, whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file beside `path` to write to; at the end it takes the place of `path`.

    After an error, or an interrupt, it is gone and `path` is as it was. A link stays a
    link, to the new file. A device or a pipe is written to as it is.

    Raises:
        OSError: the place cannot be written.

    Example:
        >>> with replacing("numbers") as file:
        ...     _ = file.write(b"1 2 3")
        >>> Path("numbers").read_bytes()
        b'1 2 3'
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise IsADirectoryError(0, "it is a folder")
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(prefix=".mdtensor-", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        beside.chmod(_mode(target))
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """The mode of the file that is replaced, or what a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
