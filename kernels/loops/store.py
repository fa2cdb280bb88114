"""The folders of compiled texts on disk: a file there is complete, or it is not there.

A folder is next to numba's: `$NUMBA_CACHE_DIR/mdtensor/NAME`, or the user's cache. A
file appears under its final name at once, so readers and a process that dies never see
half of it.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

#: Bytes of the digest before the contents of a file.
DIGEST = sha256().digest_size


@cache
def folder(name: str) -> Path:
    """Return the folder of a compiler; one for this process if none is writable."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    places = [os.environ.get("NUMBA_CACHE_DIR"), home]
    for place in filter(None, places):
        try:
            found = Path(place).expanduser() / "mdtensor" / name
            found.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=found):
                return found
        except (OSError, RuntimeError):
            continue
    return Path(tempfile.mkdtemp(prefix=f"mdtensor-{name}-"))


def key_of(*facts: object) -> str:
    """Return the name of a file that depends on these facts: numbers and texts."""
    return sha256(repr(facts).encode()).hexdigest()[:32]


def read(path: Path) -> bytes | None:
    """Return what `write` wrote; None if there is no file, or a damaged one."""
    try:
        found = path.read_bytes()
    except OSError:
        return None
    contents = found[DIGEST:]
    return contents if sha256(contents).digest() == found[:DIGEST] else None


# A digest, since a damaged CUBIN would be loaded into the driver (decision 0076).
def write(path: Path, contents: bytes) -> None:
    """Write a file with its digest; a full disk leaves no file."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(sha256(contents).digest() + contents)
        unfinished.replace(path)
    except OSError:
        # The next process compiles again.
        unfinished.unlink(missing_ok=True)
