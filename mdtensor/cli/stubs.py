"""What `mdtensor stubs` writes, and what it finds out of date."""

from pathlib import Path
from typing import Any

import mdtensor
from mdtensor import fft, linalg, quant
from mdtensor.cli.loading import load
from mdtensor.errors import OptionError
from mdtensor.stubs import Package, outdated, places

SPACES = (mdtensor, linalg, fft, quant)


def write_stubs(
    output: Path | None = None, modules: tuple[str, ...] = (), check: bool = False
) -> dict[str, Any]:
    """Write the stubs of all that is registered, or compare them with their files.

    Args:
        output: the folder to hold the stubs; beside mdtensor's modules unless given.
        modules: what else to import, for the types and methods that it registers.
        check: write nothing.

    Returns:
        All files, and those of them that were not as they should be.

    Raises:
        OptionError: modules would change mdtensor's own files.
        ModuleError: one of them cannot be imported.
    """
    if modules and output is None:
        raise OptionError(
            "the types of others do not belong into mdtensor's own files",
            "Say where with --output DIR",
        )
    others = load(modules)
    files = places(Package(SPACES, others).files(), output)
    stale = outdated(files)
    for path in () if check else stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    return {"files": [*map(str, files)], "changed": [*map(str, stale)]}
