"""`kernel`: numba.njit with the options and the disk cache that kernels need.

numba's own cache knows the file of the compiled function only, so an edit in a file
of its callees leaves stale code behind, and two processes that fill it at the same time
can swap each other's entries. Here every compiled signature is a file of its own, whose
name is a hash of all kernel sources, versions, CPU, signature and function.
"""

import copy
import hashlib
import importlib
import logging
import os
import pickle
import platform
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import compiler, types
from numba.core.caching import NullCache
from numba.core.serialize import dumps

from mdtensor.kernels.cpu import isa

# Large compiled kernels are shared: their callers call a symbol and hold no copy.
#
# numba links the code of every callee into each caller and optimizes all of it again, so
# a product would be compiled for itself, for its step and for the loop over steps. Here a
# kernel of a module that is too large to be inlined gets a symbol of its own. Compiled
# code in the cache names the symbols that it calls, so that they are there before it is.

LARGE = 8192  # bytes of an object file, of which the call from Python takes some 3,000
PREFIX = "mdtensor.kernel."
_published: dict = {}  # symbol: (module, name, argument types)


def is_large(compiled):
    """Whether a function just compiled is too large to be inlined.

    Raises:
        KeyboardInterrupt: one came while LLVM handed over the code, where ctypes
            drops it; all that is left of it is that there is no code.
    """
    try:
        code = compiled.library._get_compiled_object()
    except RuntimeError as error:
        raise KeyboardInterrupt from error
    return len(code) >= LARGE


# A large kernel gets a symbol, because numba would compile it again in each caller
# (decision 0030).
def publish(dispatcher, compiled, key):
    """Let callers reach this compiled signature by the symbol of `key`.

    Not a function that no module holds: another process could not find it again.

    Args: key: text that is the same in every process that compiles the same code.
    """
    function, target = dispatcher.py_func, dispatcher.targetctx
    module = sys.modules.get(function.__module__)
    if getattr(module, function.__name__, None) is not dispatcher:
        return
    described = copy.copy(compiled.fndesc)
    name = described.mangled_name = PREFIX + key
    place = compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name)
    llvm.add_symbol(name, place)
    _published[name] = function.__module__, function.__name__, compiled.signature.args
    target.remove_user_function(compiled.entry_point)
    target.insert_user_function(compiled.entry_point, described)


def needed_by(compiled):
    """{symbol: (module, name, argument types)} of the kernels that the code calls."""
    functions = compiled.library._final_module.functions
    called = [f.name for f in functions if f.is_declaration]
    return {name: _published[name] for name in called if name.startswith(PREFIX)}


# Symbols are loaded before the code that calls them, since a missing one ends the
# process (decision 0030).
def require(needed):
    """Compile or load what `needed_by` found; whether all its symbols are there now."""
    for module, name, arguments in needed.values():
        getattr(importlib.import_module(module), name).compile(arguments)
    return needed.keys() <= _published.keys()


KEPT_STAMPS = 6
DIGEST = hashlib.sha256().digest_size  # of what stands behind it in a file
SCALARS = (bool, int, float, str, np.number)
_log = logging.getLogger(__name__)


@cache
def stamp():
    """Hash of everything that can change what a kernel compiles to."""
    root = Path(__file__).resolve().parents[1]
    text = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        text.update(f"{path.relative_to(root)}\0".encode())
        text.update(path.read_bytes())
    config = numba.config
    built = (numba.__version__, llvmlite.__version__, platform.python_version())
    flags = (config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT)
    cpu = (isa.cpu_name(), sorted(isa.FEATURES))
    text.update(repr((built, flags, cpu, sys.byteorder)).encode())
    return text.hexdigest()[:20]


def _candidates():
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"]) / "mdtensor"
    yield Path(__file__).resolve().parents[1] / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    yield Path(home) / "mdtensor"


@cache
def cache_folder():
    """The folder of this stamp, or None (after one log line) where none is writable."""
    for place in _candidates():
        folder = place / f"kernels-{stamp()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        os.utime(folder)  # in use, and so among the newest
        _drop_old(place)
        return folder
    _log.warning("no writable cache folder: kernels are compiled anew in each process")
    return None


def _drop_old(place):
    """Keep the newest stamps; another process may be deleting as well."""
    try:
        folders = sorted(place.glob("kernels-*"), key=lambda f: f.stat().st_mtime)
        for folder in folders[:-KEPT_STAMPS]:
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()
    except OSError:
        pass


def _referenced(function):
    """Values of the global names, and of module attributes, that `function` reads."""
    names = function.__code__.co_names
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, ModuleType):
            yield from ((n, vars(value)[n]) for n in names if n in vars(value))
        else:
            yield name, value


@cache
def _identity(function):
    """What tells apart functions of one name: code, constants, closure, callees.

    The callees count because they differ between runways while all sources are equal.
    """
    code = function.__code__
    callees = hashlib.sha256()
    scalars = []
    for name, value in _referenced(function):
        callee = getattr(value, "py_func", None)
        if callee is not None and callee is not function:
            callees.update(_identity(callee))
        elif isinstance(value, SCALARS):
            scalars.append((name, repr(value)))
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    text = repr((function.__module__, function.__qualname__, constants, scalars))
    # the same sources for several sets
    if ".dot8." in function.__module__:
        text += repr((isa.DOT_RUNWAY, isa.IS_EMULATED))
    if ".avx2." in function.__module__:  # products of floats have its vectors
        text += repr(isa.RUNWAY)
    closure = dumps(cells) if cells else b""
    return b"|".join((code.co_code, text.encode(), closure, callees.digest()))


class KernelCache(NullCache):
    """One file per compiled signature; written beside, then renamed."""

    def __init__(self, function):
        self._function = function
        self._loaded = {}  # argument types: is the compiled function large?

    def is_large(self, compiled):
        """Whether callers shall call it and hold no copy; the same once it is cached.

        Loaded code no longer knows its size.
        """
        known = self._loaded.get(compiled.signature.args)
        return is_large(compiled) if known is None else known

    @property
    def cache_path(self):
        return str(cache_folder())

    def key(self, signature, codegen):
        """Text that names this function compiled for `signature` on this CPU."""
        rest = repr((str(signature), codegen.magic_tuple())).encode()
        name = hashlib.sha256(_identity(self._function) + rest).hexdigest()[:24]
        return f"{self._function.__name__}-{name}"

    def _file(self, signature, codegen):
        folder = cache_folder()
        return folder and folder / f"{self.key(signature, codegen)}.nbc"

    def load_overload(self, sig, target_context):
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        if file is None:
            return None
        try:
            found = file.read_bytes()
        except OSError:
            return None
        digest, entry = found[:DIGEST], found[DIGEST:]
        if hashlib.sha256(entry).digest() != digest:  # damaged
            return None
        is_large, needed, payload = pickle.loads(entry)
        if not require(needed):  # of functions that are others in this process
            return None
        compiled = compiler.CompileResult._rebuild(target_context, *payload)
        self._loaded[compiled.signature.args] = is_large
        return compiled

    def save_overload(self, sig, data):
        file = self._file(sig, data.codegen)
        if file is None or data.lifted or data.library.has_dynamic_globals:
            return
        entry = dumps((self.is_large(data), needed_by(data), data._reduce()))
        try:
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as beside:
                beside.write(hashlib.sha256(entry).digest() + entry)
            Path(beside.name).replace(file)
        except OSError as error:
            _log.warning("a compiled kernel was not cached: %s", error)


def _publishing(dispatcher):
    """`dispatcher.add_overload` that lets callers reach a large kernel by symbol."""
    plain, cache = dispatcher.add_overload, dispatcher._cache
    codegen = dispatcher.targetctx.codegen()

    def add_overload(compiled):
        plain(compiled)
        if cache.is_large(compiled):
            key = cache.key(compiled.signature.args, codegen)
            publish(dispatcher, compiled, key)

    return add_overload


def _without_literals(dispatcher):
    """`dispatcher.get_call_template` that takes 0 and 1 for integers like all others.

    Else a callee is compiled anew for each literal among its arguments.
    """
    plain = dispatcher.get_call_template

    def get_call_template(arguments, named):
        arguments = [types.unliteral(kind) for kind in arguments]
        named = {name: types.unliteral(kind) for name, kind in dict(named).items()}
        return plain(arguments, named)

    return get_call_template


def kernel(function=None, **options):
    """Compile `function` at its first call, without the GIL, division as in NumPy.

    Options go to numba.njit (`inline`, `fastmath`, `locals`). No signature is given, so
    importing kernels compiles nothing. Under NUMBA_DISABLE_JIT=1 it is `function`.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    compiled = numba.njit(
        nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options
    )(function)
    if hasattr(compiled, "overloads"):
        compiled._cache = KernelCache(function)
        compiled.add_overload = _publishing(compiled)
        compiled.get_call_template = _without_literals(compiled)
    return compiled
