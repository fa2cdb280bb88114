"""Where stubs lie: beside their modules, or in a folder of the user's."""

from __future__ import annotations

import sys
from pathlib import Path


def places(files: dict[str, str], output: Path | None = None) -> dict[Path, str]:
    """The text of each stub by its path.

    Args:
        files: texts by the names of modules.
        output: the folder to hold packages of stubs; beside the modules unless given.
    """
    return {_place(name, output): text for name, text in files.items()}


def _place(name: str, output: Path | None) -> Path:
    above, _, last = name.rpartition(".")
    module = sys.modules.get(name)
    is_package = hasattr(module, "__path__")
    if output is not None:
        path = output.joinpath(*name.split("."))
        return path / "__init__.pyi" if is_package else path.with_suffix(".pyi")
    if module is None:
        return _place(above, None).with_name(f"{last}.pyi")
    return Path(str(module.__file__)).with_suffix(".pyi")


def outdated(files: dict[Path, str]) -> list[Path]:
    """The stubs that are missing or other than they should be."""
    return [p for p, text in files.items() if not p.exists() or p.read_text() != text]
