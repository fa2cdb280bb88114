"""Import of the modules that the user names, which register types and methods."""

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from mdtensor.cli.errors import ModuleError

#: The part of the wheel outside the core, which every command covers.
QUANT = "mdtensor.quant"


def load(modules: Iterable[str]) -> list[ModuleType]:
    """Import mdtensor.quant and modules, also from the current folder.

    A module that you name comes from the current folder if it is there. Its imports
    come from there only if nothing installed has their name. The output of the modules
    goes to stderr.

    Returns:
        The modules, without mdtensor.quant.

    Raises:
        ModuleError: a module cannot be imported.
    """
    importlib.import_module(QUANT)
    named = list(modules)
    if not named:
        return []
    here = str(Path.cwd())
    # `python -m` looks in the current folder; a console script does not. The folder is
    # last: a file `yaml.py` in it must not run in the place of an installed package.
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)
    with _preferred(here, named):
        return [_import(name) for name in named]


@contextlib.contextmanager
def _preferred(folder: str, modules: Iterable[str]) -> Iterator[None]:
    """Look for modules in a folder before all others, and for nothing else."""
    finder = _Finder(folder, frozenset(name.partition(".")[0] for name in modules))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """A finder of the modules with certain names in one folder."""

    def __init__(self, folder: str, names: frozenset[str]) -> None:
        self._folder = folder
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return where a module is; None leaves it to the other finders."""
        if path is not None or name not in self._names:
            return None
        found = PathFinder.find_spec(name, [self._folder])
        # A folder of data with the name of a package must not hide that package.
        return found if found and found.loader else None


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
