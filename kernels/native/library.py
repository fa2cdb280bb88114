"""The libraries of kernels on this machine: which fit, and their functions."""

import ctypes
import hashlib
import json
import os
import sys
import zlib
from functools import cache, partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from mdtensor.kernels import refusal
from mdtensor.kernels.cpu import isa

#: The sources of libraries, and where libraries are, by default side by side.
FOLDER = Path(__file__).resolve().parent
PLACE = Path(os.environ.get("MDTENSOR_LIBRARIES") or FOLDER)
#: Says what was built: the file and the functions of each ISA's library, and checksums.
INDEX = "entries.json"
GLUE = "mdtensor.kernels.native._glue"
#: The version of `INDEX` and of the calls between the glue and a library.
FORMAT = 4
MODES = ("auto", "native", "jit")


def chosen_mode(value):
    """Return the value of MDTENSOR_KERNELS, or `auto` if there is none.

    Raises `refusal.error` for any other value.
    """
    if value and value not in MODES:
        fix = f"Use one of {', '.join(MODES)}"
        raise refusal.error("no such kernels", fix, f"MDTENSOR_KERNELS={value}")
    return value or "auto"


MODE = chosen_mode(os.environ.get("MDTENSOR_KERNELS"))


class Unusable(Exception):
    """A reason not to use a library."""


# A checksum finds damage as well as a hash does. The runner has it without OpenSSL,
# which would be a tenth of what it imports beyond NumPy.
def checksum(content):
    """Return the CRC-32 of bytes."""
    return zlib.crc32(content)


# Sources that changed after a build must win, or an edit would do nothing (decision
# 0058).
@cache
def stamp():
    """Return a hash of all sources of kernels."""
    root, text = FOLDER.parent, hashlib.sha256()
    for pattern in ("**/*.py", "native/*.c"):
        for path in sorted(root.glob(pattern)):
            text.update(f"{path.relative_to(root)}\0".encode())
            text.update(path.read_bytes())
    return text.hexdigest()[:20]


def is_free_threaded():
    """Return whether this Python can run without a GIL."""
    return "t" in getattr(sys, "abiflags", "")


# The glue counts references where Pythons with a GIL do, so another would crash
# (decision 0079).
def require_gil():
    """Raise Unusable in a free-threaded Python."""
    if is_free_threaded():
        raise Unusable("this Python is free-threaded")


def read_index(folder):
    """Return the contents of `INDEX`.

    Raises:
        Unusable: there is no such file, or it is not for these sources.
    """
    try:
        found = json.loads((folder / INDEX).read_bytes())
        built = found["format"], found["stamp"]
    except OSError:
        raise Unusable("no libraries were built") from None
    except (ValueError, KeyError, TypeError):
        raise Unusable(f"{folder / INDEX} is damaged") from None
    if built != (FORMAT, stamp()):
        raise Unusable("the libraries were built from other sources")
    return found


def read_file(folder, entry):
    """Return the path of a built file, whose bytes must be as they were built.

    Raises:
        Unusable: they are not.
    """
    path = folder / entry["file"]
    try:
        content = path.read_bytes()
    except OSError:
        raise Unusable(f"{path} is missing") from None
    # Damaged machine code would end the process, or give wrong numbers.
    if checksum(content) != entry["crc32"]:
        raise Unusable(f"{path} is damaged")
    return path


@cache
def _glue_call():
    """Return the function of the glue that calls a kernel."""
    path = read_file(PLACE, read_index(PLACE)["glue"])
    loader = ExtensionFileLoader(GLUE, str(path))
    glue = module_from_spec(spec_from_file_location(GLUE, path, loader=loader))
    loader.exec_module(glue)
    return glue.call


class Library:
    """The functions of one ISA.

    Raises:
        Unusable: this process cannot use them.
    """

    def __init__(self, isa_name):
        if MODE == "jit":
            raise Unusable("MDTENSOR_KERNELS=jit")
        if isa.IS_JIT_DISABLED:
            raise Unusable("NUMBA_DISABLE_JIT is set")
        if isa_name == isa.DOT_ISA and isa.IS_EMULATED:
            raise Unusable(f"{isa_name} is emulated")
        require_gil()
        entry = read_index(PLACE)["libraries"].get(isa_name)
        if entry is None:
            raise Unusable(f"no library was built for {isa_name}")
        lacks = set(entry["needs"]) - isa.FEATURES
        if lacks:
            raise Unusable(f"this CPU lacks {', '.join(sorted(lacks))}")
        self._call, self._functions = _glue_call(), entry["functions"]
        try:
            self._code = ctypes.CDLL(str(read_file(PLACE, entry)))
        except OSError as error:
            raise Unusable(str(error)) from error

    def function(self, key):
        """Return a function as a Python callable, or None if the library lacks it."""
        if key not in self._functions:
            return None
        letters, _ = self._functions[key]
        return partial(self._call, self._place(symbol(key)), letters.encode())

    def address(self, key):
        """Return the address of a function for compiled code, or None."""
        return self._place(self._functions[key][1]) if key in self._functions else None

    def _place(self, name):
        return ctypes.cast(self._code[name], ctypes.c_void_p).value


def symbol(key):
    """Return the symbol of a function that takes its arguments as an array of words."""
    return "mdt_" + key.replace(".", "_").replace(":", "_")


@cache
def _state(isa_name):
    """Return (library or None, why there is none)."""
    try:
        return Library(isa_name), ""
    except Unusable as reason:
        # Imported late, because a process with a library has nothing to log.
        import logging

        # A build that went stale is normal in a checkout; a damaged file is not.
        level = logging.WARNING if "damaged" in str(reason) else logging.DEBUG
        log = logging.getLogger(__name__)
        log.log(level, "kernels are compiled by numba: %s", reason)
        return None, str(reason)


def function(isa_name, key):
    """Return a kernel of the library of an ISA, or None if there is none."""
    library, _ = _state(isa_name)
    return library and library.function(key)


def address(isa_name, key):
    """Return the address of a kernel of the library of an ISA, or None."""
    library, _ = _state(isa_name)
    return library and library.address(key)


def describe(isa_name):
    """Return where the kernels of an ISA come from, and why not from a library."""
    library, reason = _state(isa_name)
    return "a library" if library else f"numba: {reason}"


def why_not(isa_name):
    """Return why a kernel of an ISA does not come from a library."""
    _, reason = _state(isa_name)
    return reason or "no library holds this kernel"


def remedy():
    """Return what gives kernels to a Python without numba."""
    if is_free_threaded():
        return "Use a Python with a GIL, or install numba if it supports this one"
    return "Install numba, or run python -m mdtensor.kernels.build"


def may_compile():
    """Return whether MDTENSOR_KERNELS allows to compile a kernel."""
    return MODE != "native" or isa.IS_JIT_DISABLED


def require_numba(isa_name, key):
    """Raise `refusal.error` if MDTENSOR_KERNELS forbids to compile a kernel."""
    if may_compile():
        return
    _, reason = _state(isa_name)
    raise refusal.error(
        reason or f"the library of {isa_name} does not hold it",
        "Run python -m mdtensor.kernels.build, or omit MDTENSOR_KERNELS",
        f"{key} under MDTENSOR_KERNELS=native",
    )
