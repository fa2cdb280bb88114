"""The modules that a user names, for what they register."""

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from mdtensor.cli.errors import ModuleError

#: What the wheel holds besides the core, and is looked at unless modules are named.
QUANT = "mdtensor.quant"


def load(modules: Iterable[str]) -> list[ModuleType]:
    """Import mdtensor.quant and modules, as `python -m` would: from this folder too.

    What they print goes to stderr.

    Returns:
        The modules, without mdtensor.quant.

    Raises:
        ModuleError: one of them cannot be imported.
    """
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    importlib.import_module(QUANT)
    return [_imported(name) for name in modules]


def _imported(name: str) -> ModuleType:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a module does when it is imported
        text = f"{name} cannot be imported: {_cause(error)}"
        raise ModuleError(text, "Install it, or mend it") from None


def _cause(error: BaseException) -> str:
    """The class of an error, its first line, and the line of the module."""
    lines = str(error).strip().splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}".rstrip(": .")
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "importlib" not in f.filename]
    last = inside[-1] if len(inside) > 1 else None  # the first is _imported itself
    return f"{text} ({Path(last.filename).name}:{last.lineno})" if last else text
