"""The kernels of this machine: a library of `make native`, or of the wheel.

The index of the libraries, `entries.json`, names them with their checksums, and
describes the record of a step and the kinds of steps.
"""

import ctypes
import json
import os
import sys
import zlib
from functools import cache, cached_property
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import Any

import numpy as np

from mdtensor_run.errors import PlanError

INDEX, FORMAT = "entries.json", 4
HERE = os.path.dirname(os.path.realpath(__file__))
FIX = "Install the wheel mdtensor-run for this system, or run make native"
#: Names of the same features in Linux and in the index.
LINUX = {"pni": "sse3", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "lahf_lm": "sahf"}
LINUX |= {"abm": "lzcnt", "bmi1": "bmi", "avx512_vnni": "avx512vnni"}
LINUX |= {"avx_vnni": "avxvnni"}
#: Bits of the word of the auxiliary vector that lists features of Arm.
HWCAP, ARM = 16, {1: "neon", 8: "lse", 20: "dotprod"}


def find_libraries() -> str:
    """Return the folder of the libraries: MDTENSOR_LIBRARIES, here, or in mdtensor.

    mdtensor is found, not imported.
    """
    chosen = os.environ.get("MDTENSOR_LIBRARIES")
    if chosen:
        return chosen
    package = find_spec("mdtensor")
    places = (package and package.submodule_search_locations) or []
    below = (os.path.join(place, "kernels", "native") for place in places)
    checkout = os.path.join(HERE, "..", "..", "kernels", "native")
    for folder in (HERE, *below, checkout):
        if os.path.exists(os.path.join(folder, INDEX)):
            return folder
    raise PlanError("no library of kernels was found", FIX)


@cache
def features() -> frozenset[str]:
    """Return the features of this CPU that Linux lists; empty on other systems."""
    if sys.platform == "linux" and os.uname().machine == "aarch64":
        return frozenset(_features_of_arm())
    try:
        with open("/proc/cpuinfo") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    names = flags.partition(":")[2].split()
    return frozenset(LINUX.get(name, name) for name in names)


def _features_of_arm() -> list[str]:
    query = ctypes.CDLL(None).getauxval
    query.restype, query.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    word = query(HWCAP)
    return [name for bit, name in ARM.items() if word >> bit & 1]


def _plain(folder: str, entry: dict[str, Any]) -> str:
    """Return the path of a file, whose bytes must be as they were built."""
    path = os.path.join(folder, entry["file"])
    try:
        with open(path, "rb") as file:
            found = zlib.crc32(file.read())
    except OSError:
        raise PlanError(f"{path} is missing", FIX) from None
    # Damaged machine code would end the process, or give wrong numbers.
    if found != entry["crc32"]:
        raise PlanError(f"{path} is damaged", FIX)
    return path


def _dtype(described: list[Any]) -> np.dtype[Any]:
    """Return the type of a record from its description in the index."""
    fields = []
    for name, kind, *shape in described:
        made = _dtype(kind) if isinstance(kind, list) else np.dtype(kind)
        fields.append((name, made, *map(tuple, shape)))
    return np.dtype(fields)


class Libraries:
    """The index of a folder.

    Attributes:
        stamp: a hash of the sources of the kernels; a plan has that of its kernels.
        step: the type of the record of a step.
        kinds: the function of each kind of step, in the order of their numbers.
        queue: the words that threads share.

    Raises:
        PlanError: there is no index that this version can read.
    """

    def __init__(self, folder: str) -> None:
        self.folder, path = folder, os.path.join(folder, INDEX)
        try:
            with open(path, "rb") as file:
                self._index = json.loads(file.read())
            if self._index["format"] != FORMAT:
                raise ValueError
            self.stamp: str = self._index["stamp"]
            self.kinds: list[str] = self._index["steps"]["functions"]
            self.queue: dict[str, int] = self._index["queue"]
            self.step = _dtype(self._index["steps"]["record"])
        except (OSError, ValueError, KeyError, TypeError):
            problem = f"{path} is not an index of this version"
            raise PlanError(problem, FIX) from None

    def isas(self) -> list[str]:
        """Return the ISAs whose libraries this CPU can run."""
        found = self._index["libraries"]
        return [name for name in found if features().issuperset(found[name]["needs"])]

    def library(self, isa: str) -> "Library":
        """Return the library of one of `isas`."""
        return Library(self.folder, self._index["libraries"][isa], self._call)

    @cached_property
    def _call(self) -> Any:
        """Return the function of the glue that calls a kernel."""
        # The glue counts references where Pythons with a GIL do (decision 0079).
        if "t" in getattr(sys, "abiflags", ""):
            raise PlanError("this Python is free-threaded", "Use one with a GIL")
        path = _plain(self.folder, self._index["glue"])
        loader = ExtensionFileLoader("mdtensor_run._glue", path)
        spec = spec_from_file_location("mdtensor_run._glue", path, loader=loader)
        assert spec is not None
        glue = module_from_spec(spec)
        loader.exec_module(glue)
        return glue.call


class Library:
    """The functions of one ISA."""

    def __init__(self, folder: str, entry: dict[str, Any], call: Any) -> None:
        self._call, self._functions = call, entry["functions"]
        try:
            self._code = ctypes.CDLL(_plain(folder, entry))
        except OSError as error:
            raise PlanError(f"a library cannot be loaded: {error}", FIX) from None

    def function(self, key: str) -> Any:
        """Return a function as a Python callable."""
        letters = self._functions[key][0].encode()
        place = self._place("mdt_" + key.replace(".", "_").replace(":", "_"))
        call = self._call
        return lambda *arguments: call(place, letters, *arguments)

    def address(self, key: str) -> int:
        """Return the address of a function for the loop over steps."""
        return self._place(self._functions[key][1])

    def _place(self, name: str) -> int:
        found = ctypes.cast(self._code[name], ctypes.c_void_p).value
        assert found is not None
        return found


@cache
def libraries() -> Libraries:
    """Return the libraries of this process."""
    return Libraries(find_libraries())
