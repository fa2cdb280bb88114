"""The files of the kernel cache: what they are, and how they come and go."""

import re
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mdtensor import files
from mdtensor.cli.cache import plans
from mdtensor.cli.outputs import require_writable
from mdtensor.cli.report import columns
from mdtensor.errors import DataError, OptionError
from mdtensor.kernels.cpu import cache_entry, jit

Facts = dict[str, Any]
#: The name of a file in an export: the stamp of the version, the function, a hash.
MEMBER = re.compile(r"kernels-([0-9a-f]{20})/(?:user-)?\w+-[0-9a-f]{24}\.nbc", re.ASCII)
#: The largest kernel takes 2 MB; a file that promises more is no export.
LARGEST_MEMBER = 64 << 20
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A file of the cache: one function, compiled for one signature and CPU."""

    path: Path

    @property
    def is_user(self) -> bool:
        """Return whether it is a loop over a function that a user wrote."""
        return self.path.name.startswith("user-")

    @property
    def is_old(self) -> bool:
        """Return whether another version compiled it, or this one for another CPU."""
        return self.path.parent.name != f"kernels-{jit.stamp()}"


def entries() -> Iterator[Entry]:
    """Yield the files in all folders that may hold the cache, the best folder first."""
    for place in dict.fromkeys(folder.parent for folder in jit.read_folders()):
        for folder in sorted(place.glob("kernels-*")):
            yield from map(Entry, sorted(folder.glob("*.nbc")))


def describe() -> Facts:
    """Return the folders with their sizes, and the functions of this version."""
    now, folders = time.time(), dict[str, Facts]()
    functions: dict[tuple[str, bool], Facts] = {}
    for entry in entries():
        try:
            found = entry.path.stat()
        except OSError:  # another process deletes, too
            continue
        row = folders.setdefault(
            str(entry.path.parent),
            {"files": 0, "bytes": 0, "current": not entry.is_old},
        )
        _count(row, found.st_size)
        if not entry.is_old:
            facts = cache_entry.read_facts(entry.path)
            key = str(facts.get("function", "damaged")), entry.is_user
            row = functions.setdefault(
                key, {"files": 0, "bytes": 0, "seconds": 0.0, "hours": 0.0}
            )
            _count(row, found.st_size)
            row["seconds"] = round(row["seconds"] + facts.get("seconds", 0.0), 3)
            row["hours"] = max(row["hours"], round((now - found.st_mtime) / 3600, 2))
    kept = plans.rows()
    for plan in kept:
        row = folders.setdefault(
            str(Path(plan["file"]).parent), {"files": 0, "bytes": 0, "current": True}
        )
        _count(row, plan["bytes"])
    return {
        "plans": kept,
        "folders": [{"folder": name, **row} for name, row in folders.items()],
        "functions": [
            {"function": name, "user": is_user, **row}
            for (name, is_user), row in functions.items()
        ],
    }


def _count(row: Facts, size: int) -> None:
    row["files"] += 1
    row["bytes"] += size


def show_functions(console: Console, facts: Facts) -> None:
    """Print the plans, and the functions of this version, the slowest first."""
    show_plans(console, facts["plans"])
    if not facts["functions"]:
        console.print("The cache is empty; kernels are compiled when they first run.")
        return
    table = columns("function", "whose", "files", "MB", "seconds", "hours old")
    for row in sorted(facts["functions"], key=lambda row: -row["seconds"]):
        table.add_row(
            row["function"].removeprefix("mdtensor.kernels."),
            "yours" if row["user"] else "mdtensor",
            str(row["files"]),
            f"{row['bytes'] / MEGABYTE:.2f}",
            f"{row['seconds']:.2f}",
            f"{row['hours']:.1f}",
        )
    console.print(table)


def show_plans(console: Console, plans: list[Facts]) -> None:
    """Print the plans of models, the newest first."""
    if not plans:
        return
    table = columns("plan of", "version", "MB", "hours old")
    for row in sorted(plans, key=lambda row: row["hours"]):
        version = "this one" if row["current"] else "another"
        size = f"{row['bytes'] / MEGABYTE:.2f}"
        table.add_row(row["model"], version, size, f"{row['hours']:.1f}")
    console.print(table)


def show_folders(console: Console, facts: Facts) -> None:
    """Print the size of each folder."""
    table = columns("folder", "version", "files", "MB")
    for row in facts["folders"]:
        version = "this one" if row["current"] else "another"
        size = f"{row['bytes'] / MEGABYTE:.1f}"
        table.add_row(row["folder"], version, str(row["files"]), size)
    total = sum(row["bytes"] for row in facts["folders"])
    files = sum(row["files"] for row in facts["folders"])
    table.add_row("all", "", str(files), f"{total / MEGABYTE:.1f}")
    console.print(table)


def clear(*, old: bool, user: bool) -> Facts:
    """Delete files of the cache.

    Args:
        old: whether to keep what this version compiled.
        user: whether to keep all but loops over functions of users, plans too.

    Raises:
        OptionError: a file cannot be deleted.
    """
    done: Facts = {"done": "deleted", "files": 0, "bytes": 0}
    for entry in entries():
        if (old and not entry.is_old) or (user and not entry.is_user):
            continue
        try:
            size = entry.path.stat().st_size
            entry.path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OptionError(
                f"{entry.path} cannot be deleted: {error.strerror}",
                "Delete it as the user who owns it",
            ) from None
        _count(done, size)
    for size in () if user else plans.clear(old):
        _count(done, size)
    return done


def export(path: Path) -> Facts:
    """Write the files and plans of this version to a zip file.

    Raises:
        OptionError: the cache is empty, or the file cannot be written.
    """
    require_writable(path)
    # The first folder that has a file is the one that is read.
    chosen: dict[str, Path] = {}
    for entry in entries():
        if not entry.is_old:
            chosen.setdefault(f"{entry.path.parent.name}/{entry.path.name}", entry.path)
    chosen |= dict(plans.members())
    if not chosen:
        raise OptionError(
            "the cache of this version is empty",
            "Run mdtensor warmup, or the program whose kernels you want",
        )
    done: Facts = {"done": "exported", "files": 0, "bytes": 0}
    try:
        with files.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, source in chosen.items():
                content = source.read_bytes()
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
                _count(done, len(content))
    except OSError as error:
        raise OptionError(*files.write_problem(path, error)) from None
    return done


def load(path: Path) -> Facts:
    """Add the files of an export to the cache.

    Nothing is added if one of the files is damaged.

    Raises:
        DataError: the file is not an export, is damaged, or is of another version.
        OptionError: no folder of the cache is writable.
    """
    done: Facts = {"done": "imported", "files": 0, "bytes": 0}
    # All members are checked before the first is written.
    for name, content in dict(_members(path)).items():
        if plans.MEMBER.fullmatch(name):
            plans.write(name, content)
        else:
            _write_function(name.rpartition("/")[2], content)
        _count(done, len(content))
    return done


def _write_function(name: str, content: bytes) -> None:
    folder = jit.cache_folder()
    if folder is None:
        raise OptionError(
            "no folder of the cache is writable", "Set NUMBA_CACHE_DIR to one that is"
        )
    try:
        jit.write_entry(folder / name, content)
    except OSError as error:
        raise OptionError(*files.write_problem(folder / name, error)) from None


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (member, content) of each file in an export, after checks."""
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                yield _member(path, archive, info)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}", "Pass a file of `cache export`"
        ) from None
    # zlib's errors are no subclasses of a common one.
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        raise DataError(
            f"{path} is not an export of the cache, or is damaged: {error}",
            "Export it again",
        ) from None


def _member(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> tuple[str, bytes]:
    if plans.MEMBER.fullmatch(info.filename):
        return _plan(path, archive, info)
    match = MEMBER.fullmatch(info.filename)
    if not match or info.file_size > LARGEST_MEMBER:
        raise _no_member(path, info)
    if match[1] != jit.stamp():
        raise DataError(
            f"{path} is for stamp {match[1]}, but this version, Python, numba and CPU "
            f"have {jit.stamp()}",
            "Export it where all of them are the same",
        )
    content = archive.read(info)
    if cache_entry.unpack(content) is None:
        raise DataError(f"{info.filename} in {path} is damaged", "Export it again")
    return info.filename, content


def _plan(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> tuple[str, bytes]:
    if info.file_size > plans.LARGEST_MEMBER:
        raise _no_member(path, info)
    content = archive.read(info)
    plans.check(path, info.filename, content)
    return info.filename, content


def _no_member(path: Path, info: zipfile.ZipInfo) -> DataError:
    problem = f"{path} has a member {info.filename[:80]!r} that no export has"
    return DataError(problem, "Pass a file of `mdtensor cache export`")


def show_change(console: Console, facts: Facts) -> None:
    """Print how many files were deleted or copied."""
    size = f"{facts['bytes'] / MEGABYTE:.1f} MB"
    console.print(f"{facts['done']} {facts['files']} files, {size}")
