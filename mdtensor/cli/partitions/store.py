"""Files of data and their results in a folder, so that a run can be taken up again.

A file is a partition. Its result is a .npz file of the same name, which appears whole
or not at all; so a result that exists is complete, and a partition has one.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdtensor import files
from mdtensor.cli.outputs import write_text
from mdtensor.errors import DataError, OptionError

#: The file that says what a folder of results belongs to.
NOTE = "run.json"
SUFFIXES = (".npy", ".npz")


@dataclass(frozen=True)
class Partition:
    """A file of samples, and where its results belong.

    Args:
        name: its path below the folder that all files share, without the suffix.
        source: the file.
        target: the .npz file of the results.
    """

    name: str
    source: Path
    target: Path

    def absolute(self) -> Partition:
        """Return the partition with paths that mean the same in every process."""
        source, target = self.source.resolve(), self.target.resolve()
        return Partition(self.name, source, target)

    @property
    def is_done(self) -> bool:
        return self.target.exists()

    @property
    def state(self) -> list[int]:
        """Return size and time of change of the file; both change with its content."""
        found = self.source.stat()
        return [found.st_size, found.st_mtime_ns]


def partitions(pattern: str, folder: Path) -> list[Partition]:
    """Return the partitions of all files that fit a glob pattern, sorted.

    Raises:
        DataError: no file fits, a file has another suffix, or two have one name.
    """
    # `Path.glob` does not take absolute patterns.
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207
    found = sorted(map(Path, names))
    sources = [path for path in found if not path.is_dir()]
    if not sources:
        raise DataError(
            f"no file fits {pattern!r}", "Quote the pattern: --data 'folder/*.npy'"
        )
    if others := [path for path in sources if path.suffix not in SUFFIXES]:
        problem = f"{others[0]} is not a .npy or .npz file"
        raise DataError(problem, "Choose a narrower pattern for --data")
    root = Path(os.path.commonpath([path.parent for path in sources]))
    made = [_partition(path, root, folder) for path in sources]
    by_name: dict[str, Path] = {}
    for one in made:
        if (other := by_name.setdefault(one.name, one.source)) != one.source:
            problem = f"{other} and {one.source} would have one result file"
            raise DataError(problem, "Rename one of them")
    return made


def _partition(source: Path, root: Path, folder: Path) -> Partition:
    name = source.relative_to(root).with_suffix("").as_posix()
    return Partition(name, source, folder / f"{name}.npz")


# The results themselves are the state of a run (decision 0072).
def begin(
    folder: Path, model: Path, options: Mapping[str, Any], found: Sequence[Partition]
) -> None:
    """Note what the results in a folder belong to, or check the note of a former run.

    Raises:
        OptionError: the folder has results of another model, or of other options or
            data, or it cannot be written.
    """
    note = {
        "model": hashlib.sha256(model.read_bytes()).hexdigest(),
        "options": json.loads(json.dumps(options)),
        "partitions": {one.name: one.state for one in found},
    }
    path = folder / NOTE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _read(path) if path.exists() else None
    except OSError as error:
        raise OptionError(*files.write_problem(folder, error)) from None
    if before is None:
        _require_empty(folder)
        return write_text(path, json.dumps(note, indent=1))
    _compare(folder, before, note, {one.name for one in found if one.is_done})
    write_text(path, json.dumps(_merged(before, note), indent=1))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        problem = f"{path} is not the note of a run"
        raise OptionError(problem, "Choose another --output") from None


def _require_empty(folder: Path) -> None:
    # Results without a note could be of any model.
    if any(folder.rglob("*.npz")):
        problem = f"{folder} has .npz files and no {NOTE}"
        raise OptionError(problem, "Choose a new folder as --output")


def _compare(folder: Path, before: Any, note: dict[str, Any], done: Set[str]) -> None:
    fix = "Choose another --output"
    for part in ("model", "options"):
        if not isinstance(before, dict) or before.get(part) != note[part]:
            problem = f"the results in {folder} are of {_OTHER[part]}"
            raise OptionError(problem, fix)
    # A file without a result may be mended; one with a result must be what it was.
    for name in sorted(done):
        if before["partitions"].get(name) != note["partitions"][name]:
            problem = f"{name} has changed since the run that began {folder}"
            raise OptionError(problem, fix)


_OTHER = {"model": "another model", "options": "other options"}


def _merged(before: dict[str, Any], note: dict[str, Any]) -> dict[str, Any]:
    """Return a note that also has files that came later; the results stay."""
    return note | {"partitions": before["partitions"] | note["partitions"]}
