"""Run kernels of libraries on a CPU in software, in every Python that finds this file.

`x86_root.py` writes the scripts that start Python so. What Python reads of the CPU is
what the emulated one has, and the glue calls kernels on it. All else, NumPy too, runs
on the CPU of this machine.
"""

import atexit
import builtins
import ctypes
import io
import os
import traceback
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

INFO = Path("/proc/cpuinfo")
#: A kernel: its arguments, and the places of its result and of an exception.
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)


@cache
def emulated():
    """Return the CPU."""
    ctypes.CDLL(os.environ["MDTENSOR_X86_ENTRY"], mode=ctypes.RTLD_GLOBAL)
    from bochscpu import _bochscpu
    from cpu import Cpu

    return Cpu(_bochscpu)


def serve_features():
    """Give readers of /proc/cpuinfo the features of the emulated CPU."""
    text = f"flags : {' '.join(emulated().features())}\n"
    open_file, open_path = builtins.open, Path.open

    def read(file, *given, **named):
        if file == str(INFO):
            return io.StringIO(text)
        return open_file(file, *given, **named)

    def read_path(path, *given, **named):
        return io.StringIO(text) if path == INFO else open_path(path, *given, **named)

    builtins.open, Path.open = read, read_path


def serve_kernels():
    """Let the glue call kernels on the emulated CPU."""
    load = ExtensionFileLoader.exec_module

    @cache
    def emulate(address):
        def kernel(*given):
            try:
                return emulated().call(address, *(word or 0 for word in given))
            except BaseException:
                # ctypes would go on with 0, which means success.
                traceback.print_exc()
                os.abort()

        return KERNEL(kernel)

    def exec_module(self, module):
        load(self, module)
        if module.__name__.endswith("._glue"):
            call = module.call

            def call_emulated(address, *given):
                place = ctypes.cast(emulate(address), ctypes.c_void_p).value
                return call(place, *given)

            module.call = call_emulated

    ExtensionFileLoader.exec_module = exec_module


def finish():
    """Write how many kernels ran to the file MDTENSOR_X86_CALLS, if there were any."""
    chosen, calls = os.environ.get("MDTENSOR_X86_CALLS"), emulated().calls
    if chosen and calls:
        with Path(chosen).open("a") as file:
            file.write(f"{calls}\n")
    emulated().close()


if os.environ.get("MDTENSOR_X86"):
    serve_features()
    serve_kernels()
    atexit.register(finish)
