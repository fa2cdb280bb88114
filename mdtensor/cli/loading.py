"""Import of the modules that the user names, which register types and methods."""

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from mdtensor.cli.errors import ModuleError

#: The part of the wheel outside the core, which every command covers.
QUANT = "mdtensor.quant"


def load(modules: Iterable[str]) -> list[ModuleType]:
    """Import mdtensor.quant and modules, also from the current folder.

    The output of the modules goes to stderr.

    Returns:
        The modules, without mdtensor.quant.

    Raises:
        ModuleError: a module cannot be imported.
    """
    importlib.import_module(QUANT)
    named = list(modules)
    # `python -m` looks in the current folder; a console script does not. Without named
    # modules we do not look there either: a file `yaml.py` in the folder would run in
    # the place of an installed package.
    if named and "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return [_import(name) for name in named]


def _import(name: str) -> ModuleType:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    # A module may raise anything at its import, SystemExit included.
    except BaseException as error:
        text = f"{name} cannot be imported: {_cause(error)}"
        raise ModuleError(text, "Install it, or correct it") from None


def _cause(error: BaseException) -> str:
    """Return the class of an error, its first line, and the line in the module."""
    lines = str(error).strip().splitlines() or [""]
    text = f"{type(error).__name__}: {lines[0]}".rstrip(": .")
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "importlib" not in f.filename]
    # The first frame is `_import` itself.
    last = inside[-1] if len(inside) > 1 else None
    return f"{text} ({Path(last.filename).name}:{last.lineno})" if last else text
