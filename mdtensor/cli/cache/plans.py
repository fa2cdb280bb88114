"""The plans of models that `load` keeps on disk, for `mdtensor cache`."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mdtensor import files
from mdtensor.errors import DataError, OptionError
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


#: The name of a plan in an export: a hash of the model, its options and the sources.
MEMBER = re.compile(r"plans/[0-9a-f]{32}\.mdt", re.ASCII)
#: A plan is about as large as its model, and larger models keep none.
LARGEST_MEMBER = 2 * cache.LARGEST


def members() -> Iterator[tuple[str, Path]]:
    """Yield (name in an export, file) of each plan of this version."""
    for row in rows():
        name = f"plans/{Path(row['file']).name}"
        if row["current"] and MEMBER.fullmatch(name):
            yield name, Path(row["file"])


def check(source: Path, name: str, content: bytes) -> None:
    """Check that a plan of an export is whole, and of this version.

    Raises:
        DataError: it is not; the error names the export and the member.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "plan.mdt")
        path.write_bytes(content)
        about = cache.about(path)
    if not about:
        raise DataError(f"{name} in {source} is damaged", "Export it again")
    if about["sources"] != cache.sources():
        problem = f"{name} in {source} is a plan of another version of mdtensor"
        raise DataError(problem, "Export it where the version is the same")


def write(name: str, content: bytes) -> None:
    """Write a checked plan of an export to the folder of plans.

    Raises:
        OptionError: the folder does not exist, or you may not write to it.
    """
    folder = cache.folder()
    if folder is None:
        problem = "plans are switched off, or there is no folder for them"
        raise OptionError(problem, f"Set {cache.VARIABLE} to an absolute path")
    path = folder / name.rpartition("/")[2]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise OptionError(*files.write_problem(path, error)) from None
