"""The memory that the system can still give to this process."""

from __future__ import annotations

import os
from pathlib import Path

#: What Linux says of the memory of a machine, and of the group of this process.
_MACHINE = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")


def free_bytes() -> int | None:
    """Return the bytes that the system can still give; None if it does not say.

    Source: proc(5), "MemAvailable"; Linux, "Control Group v2", memory.max.
    """
    found = [x for x in (_of_machine(), _of_group()) if x is not None]
    return min(found) if found else None


def _of_machine() -> int | None:
    try:
        lines = dict(line.split(":") for line in _MACHINE.read_text().splitlines())
        return 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, ValueError, KeyError):
        return _pages()


def _pages() -> int | None:
    """Return the whole memory: macOS does not say what is free."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group() -> int | None:
    try:
        return max(0, int(_LIMIT.read_text()) - int(_USED.read_text()))
    except (OSError, ValueError):  # without a limit, it is the word max
        return None
