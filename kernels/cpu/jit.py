"""The decorator `kernel`: numba.njit with the options and disk cache for kernels.

numba's own cache checks only the file of the compiled function. An edit in the file of
a callee leaves stale code, and two processes that fill the cache at the same time can
swap entries. Here every compiled signature has a file of its own. The name of that file
is a hash of all kernel sources, versions, CPU, signature and function.
"""

import copy
import hashlib
import importlib
import logging
import os
import pickle
import platform
import secrets
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import compiler, event, registry, types
from numba.core.caching import NullCache
from numba.core.serialize import dumps

from mdtensor.kernels import refusal
from mdtensor.kernels.cpu import compilation, isa
from mdtensor.kernels.cpu.cache_entry import facts_of, pack, unpack


# LLVM finds no dot product of Arm, and would end the process at one (decision 0078).
def tell_features():
    """Let numba compile for all features of an Arm CPU.

    Raises `refusal.error` if numba asked LLVM alone before, to compile something else.
    """
    if not isa.IS_ARM or numba.config.CPU_FEATURES is not None:
        return
    numba.config.CPU_FEATURES = isa.numba_features()
    used = registry.cpu_target.target_context.codegen().magic_tuple()[2]
    # A CPU that LLVM can name has them by its name.
    is_known = used == numba.config.CPU_FEATURES or isa.cpu_name() != "generic"
    if isa.ISA == "neon" and not is_known:
        fix = "Import mdtensor.quant before you use numba"
        raise refusal.error(
            "numba compiles without them",
            f"{fix}, or set NUMBA_CPU_FEATURES={numba.config.CPU_FEATURES}",
            f"the features of this CPU, {', '.join(sorted(isa.FEATURES))}",
        )


tell_features()

# Shared code of large kernels: callers call a symbol and do not hold a copy.

# Bytes of an object file; the call from Python takes some 3,000 of them.
LARGE = 8192
PREFIX = "mdtensor.kernel."
# {symbol: (module, name, argument types)}
_published: dict = {}


def is_large(compiled):
    """Return whether a compiled function is too large to be inlined.

    Raises:
        KeyboardInterrupt: an interrupt came while LLVM passed the code to Python.
            ctypes drops this exception, so it is noticed by the missing code.
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

    A function that is not in a module gets no symbol, because another process could
    not find it again.

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


def required_symbols(compiled):
    """Return {symbol: (module, name, argument types)} of the called kernels."""
    functions = compiled.library._final_module.functions
    called = [f.name for f in functions if f.is_declaration]
    return {name: _published[name] for name in called if name.startswith(PREFIX)}


# Symbols are loaded before the code that calls them, since a missing one ends the
# process (decision 0030).
def load_symbols(needed):
    """Compile or load the kernels in `needed`; return whether all are there."""
    for module, name, arguments in needed.values():
        getattr(importlib.import_module(module), name).compile(arguments)
    return needed.keys() <= _published.keys()


# Several versions of the sources alternate in development, and a new one compiles for
# half a minute.
KEPT_STAMPS = 6
# The end of the name of a file until it is complete.
UNFINISHED = ".tmp"
SCALARS = (bool, int, float, str, np.number)
_log = logging.getLogger(__name__)


@cache
def stamp():
    """Return a hash of everything that can change what a kernel compiles to."""
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
    """Yield the folders that may hold the cache, best first."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"]) / "mdtensor"
    yield Path(__file__).resolve().parents[1] / "__pycache__"
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:
        # Neither HOME nor an entry of the user in passwd, as in many containers.
        return
    # The standard of XDG ignores relative paths, which change with the current folder.
    if home.is_absolute():
        yield home / "mdtensor"


# Reading needs no right to write: images are warmed up as root, then run as any user.
@cache
def read_folders():
    """Return all folders that may hold kernels of this stamp, best first."""
    return tuple(place / f"kernels-{stamp()}" for place in _candidates())


@cache
def cache_folder():
    """Return the folder for new kernels of this stamp, or None if none is writable.

    If none is writable, write one line to the log.
    """
    for folder in read_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            # A folder in use must count as one of the newest.
            os.utime(folder)
        except OSError:
            continue
        _drop_old(folder.parent)
        _drop_unfinished(folder)
        return folder
    _log.warning("no writable cache folder: kernels are compiled anew in each process")
    return None


def _drop_old(place):
    """Delete all but the newest stamps; another process may delete as well."""
    try:
        folders = sorted(place.glob("kernels-*"), key=lambda f: f.stat().st_mtime)
        for folder in folders[:-KEPT_STAMPS]:
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()
    except OSError:
        pass


def _drop_unfinished(folder):
    """Delete files that killed processes left an hour ago or earlier."""
    try:
        for file in folder.glob(f"*{UNFINISHED}"):
            if file.stat().st_mtime < time.time() - 3600:
                file.unlink(missing_ok=True)
    except OSError:
        pass


def write_entry(file, content):
    """Write a cache file at once, readable for all whom the umask allows."""
    # `tempfile` makes files that only their owner may read.
    new = file.with_name(f"{file.name}-{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with new.open("xb") as opened:
            opened.write(content)
        # Renaming is atomic, so no process reads half of a file.
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def _read(name):
    """Return the code in the first undamaged file of this name, or None."""
    for folder in read_folders():
        try:
            found = (folder / name).read_bytes()
        except OSError:
            continue
        entry = unpack(found)
        if entry is not None:
            return entry[1]
    return None


def _references(function):
    """Return the values of the globals and module attributes in `function`."""
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
    """Return a key that differs for different functions of one name.

    The key is made of code, constants, closure and callees. Callees are part of it,
    because they differ between ISAs while all sources are equal.
    """
    code = function.__code__
    callees = hashlib.sha256()
    scalars = []
    for name, value in _references(function):
        callee = getattr(value, "py_func", None)
        if callee is not None and callee is not function:
            callees.update(_identity(callee))
        elif isinstance(value, SCALARS):
            scalars.append((name, repr(value)))
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    text = repr((function.__module__, function.__qualname__, constants, scalars))
    # Several ISAs compile the same sources.
    if ".dot8." in function.__module__:
        text += repr((isa.DOT_ISA, isa.IS_EMULATED))
    # Products of floats use wider vectors on AVX-512, from the same sources.
    if ".avx2." in function.__module__:
        text += repr(isa.ISA)
    closure = dumps(cells) if cells else b""
    return b"|".join((code.co_code, text.encode(), closure, callees.digest()))


class KernelCache(NullCache):
    """One file per compiled signature, written to a new name, then renamed."""

    def __init__(self, function):
        self._function = function
        # {argument types: whether the compiled function is large}
        self._loaded = {}

    def is_large(self, compiled):
        """Return whether callers call the code rather than inline it.

        The size of code that was loaded is not known, so the cache stores this result.
        """
        known = self._loaded.get(compiled.signature.args)
        return is_large(compiled) if known is None else known

    @property
    def cache_path(self):
        """Return the first cache folder as text, for numba's statistics."""
        return str(read_folders()[0])

    def key(self, signature, codegen):
        """Return text that names this function for `signature` on this CPU."""
        rest = repr((str(signature), codegen.magic_tuple())).encode()
        name = hashlib.sha256(_identity(self._function) + rest).hexdigest()[:24]
        return f"{self._function.__name__}-{name}"

    def _file_name(self, signature, codegen):
        """Return the name of the file of a signature."""
        return f"{self.key(signature, codegen)}.nbc"

    def load_overload(self, sig, target_context):
        """Return the cached code of a signature, or None."""
        target_context.refresh()
        entry = _read(self._file_name(sig, target_context.codegen()))
        # Compile anew if there is no file, or only damaged ones.
        if entry is None:
            return None
        is_large, needed, payload = pickle.loads(entry)
        # Without its symbols the code would end the process.
        if not load_symbols(needed):
            return None
        compiled = compiler.CompileResult._rebuild(target_context, *payload)
        self._loaded[compiled.signature.args] = is_large
        return compiled

    def save_overload(self, sig, data):
        """Write the code of a signature."""
        if data.lifted or data.library.has_dynamic_globals:
            return
        folder = cache_folder()
        if folder is None:
            return
        code = dumps((self.is_large(data), required_symbols(data), data._reduce()))
        facts = facts_of(data, self._function)
        file = folder / self._file_name(sig, data.codegen)
        try:
            write_entry(file, pack(facts, code))
        except OSError as error:
            _log.warning("a compiled kernel was not cached: %s", error)


def _publishing(dispatcher):
    """Return `dispatcher.add_overload` that also publishes large kernels."""
    plain, cache = dispatcher.add_overload, dispatcher._cache
    codegen = dispatcher.targetctx.codegen()

    def add_overload(compiled):
        plain(compiled)
        if cache.is_large(compiled):
            key = cache.key(compiled.signature.args, codegen)
            publish(dispatcher, compiled, key)

    return add_overload


def _without_literals(dispatcher):
    """Return `dispatcher.get_call_template` that treats 0 and 1 as any integer.

    Otherwise numba compiles a callee anew for each literal among its arguments.
    """
    plain = dispatcher.get_call_template

    def get_call_template(arguments, named):
        arguments = [types.unliteral(kind) for kind in arguments]
        named = {name: types.unliteral(kind) for name, kind in dict(named).items()}
        return plain(arguments, named)

    return get_call_template


class _Forward(event.Listener):
    """A listener that calls all observers of `compilation`."""

    def on_start(self, event):
        """Call the observers as a compilation begins."""
        for observer in tuple(compilation.ACTIVE):
            observer.begin()

    def on_end(self, event):
        """Do nothing: the observers were called as the compilation began."""


event.register("numba:compile", _Forward())


def kernel(function=None, **options):
    """Compile `function` at its first call, without the GIL, with NumPy's division.

    Options go to numba.njit (`inline`, `fastmath`, `locals`). The signature is left
    open, so importing kernels compiles nothing. Under NUMBA_DISABLE_JIT=1 the function
    itself is returned.
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
