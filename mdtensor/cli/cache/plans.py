"""The plans of models that `load` keeps on disk, for `mdtensor cache`."""

import time
from pathlib import Path
from typing import Any

from mdtensor.errors import OptionError
from mdtensor.quant.plans import cache


def rows() -> list[dict[str, Any]]:
    """Return a row for each plan: its model, file, size, age, and whether it is old."""
    now, found = time.time(), []
    for path in cache.entries():
        try:
            facts = path.stat()
        except OSError:  # another process deletes, too
            continue
        about = cache.about(path)
        found.append(
            {
                "model": about.get("name", "damaged"),
                "file": str(path),
                "bytes": facts.st_size,
                "hours": max(0.0, round((now - facts.st_mtime) / 3600, 2)),
                "current": about.get("sources") == cache.sources(),
            }
        )
    return found


def clear(old: bool) -> list[int]:
    """Delete plans; return their sizes.

    Args:
        old: if true, plans of this version are kept.

    Raises:
        OptionError: a file cannot be deleted.
    """
    chosen = [row for row in rows() if not (old and row["current"])]
    for row in chosen:
        try:
            Path(row["file"]).unlink(missing_ok=True)
        except OSError as error:
            raise OptionError(
                f"{row['file']} cannot be deleted: {error.strerror}",
                "Delete it as the user who owns it",
            ) from None
    return [row["bytes"] for row in chosen]
