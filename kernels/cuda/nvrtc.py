"""NVRTC, the compiler of CUDA C++ in a library, by its C interface.

CuPy has an interface too, but its `getCUBIN` drops the last byte, and its import
needs 70 MB more where texts are only compiled. No GPU and no driver are needed.

Source: NVRTC 13.0 documentation, "Basic Usage" and "Supported Compile Options".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

#: Versions that compile the texts, newest first.
MAJORS = (13, 12)
#: Where the packages of NVIDIA keep the library, below `nvidia`.
FOLDERS = {13: "cu13/lib", 12: "cuda_nvrtc/lib"}


class NvrtcError(Exception):
    """NVRTC is not installed, or a text does not compile."""


@cache
def library(most: int = MAJORS[0]) -> ctypes.CDLL:
    """Return the newest NVRTC of at most this major version.

    Args:
        most: the major version of CUDA that the driver supports: an older driver does
            not load what a newer compiler makes.

    Raises:
        NvrtcError: none is installed.
    """
    for major in (m for m in MAJORS if m <= most):
        for place in _places(major):
            try:
                # The library looks for this one by name only.
                for part in sorted(place.parent.glob(f"libnvrtc-builtins.so.{major}*")):
                    ctypes.CDLL(str(part))
                return ctypes.CDLL(str(place))
            except OSError:
                continue
    wanted = " or ".join(f"libnvrtc.so.{m}" for m in MAJORS if m <= most)
    raise NvrtcError(f"NVRTC is not installed: {wanted} was not found.")


def _places(major: int) -> Iterator[Path]:
    """Yield paths of the library: of a Python package, then of the system."""
    name = f"libnvrtc.so.{major}"
    package = find_spec("nvidia")
    for folder in (package and package.submodule_search_locations) or ():
        yield Path(folder) / FOLDERS[major] / name
    yield Path(name)


def version(lib: ctypes.CDLL) -> tuple[int, int]:
    """Return the version of CUDA that the library belongs to."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


# Not by CuPy, which needs a GPU to compile (decision 0076).
def compile_text(
    lib: ctypes.CDLL, text: str, options: tuple[str, ...]
) -> tuple[bytes, str]:
    """Return the machine code (CUBIN) of a text, and the log of the compiler.

    Raises:
        NvrtcError: the text does not compile; the message has the first errors.
    """
    program = ctypes.c_void_p()
    arguments = text.encode(), b"kernel.cu", 0, None, None
    _check(lib, lib.nvrtcCreateProgram(ctypes.byref(program), *arguments))
    try:
        given = [option.encode() for option in options]
        array = (ctypes.c_char_p * len(given))(*given)
        failed = lib.nvrtcCompileProgram(program, len(given), array)
        log = _bytes(lib, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if failed:
            lines = [line for line in log.splitlines() if "error" in line]
            reason = " ".join(lines[:3]) or f"error {failed}"
            raise NvrtcError(f"NVRTC does not compile the text: {reason}")
        return _bytes(lib, program, "CUBIN"), log
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(lib: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """Return a result of a program, whose size has a function of its own."""
    size = ctypes.c_size_t()
    _check(lib, getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    found = ctypes.create_string_buffer(size.value)
    _check(lib, getattr(lib, f"nvrtcGet{what}")(program, found))
    return found.raw


def _check(lib: ctypes.CDLL, failed: int) -> None:
    if failed:
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise NvrtcError(f"NVRTC fails: {lib.nvrtcGetErrorString(failed).decode()}.")
