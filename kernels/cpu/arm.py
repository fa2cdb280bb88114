"""What an Arm CPU has for products of bytes, which LLVM does not say.

LLVM knows what each CPU has that it knows by name, but tells only a part of it
(`getHostCPUFeatures`), so the system is asked, by its names for the same features.
Source: Linux, `Documentation/arch/arm64/elf_hwcaps.rst`; Apple, "Determining
instruction set characteristics".
"""

import ctypes
import platform
import sys
from pathlib import Path

LINUX = {"asimd": "neon", "asimddp": "dotprod", "i8mm": "i8mm"}
APPLE = {
    "hw.optional.AdvSIMD": "neon",
    "hw.optional.arm.FEAT_DotProd": "dotprod",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
}
IS_ARM = platform.machine().lower() in ("aarch64", "arm64")


# The system is queried, because LLVM does not report Arm's dot product (decision 0034).
def features():
    """Those of LINUX and APPLE that this CPU has, by LLVM's names."""
    if not IS_ARM:
        return set()
    if sys.platform == "darwin":
        return {name for key, name in APPLE.items() if _has(key)}
    cpuinfo = Path("/proc/cpuinfo")
    return in_cpuinfo(cpuinfo.read_text()) if cpuinfo.exists() else set()


def in_cpuinfo(text):
    """Those that every processor in this text has: they may differ in one machine."""
    lines = [line for line in text.splitlines() if line.startswith("Features")]
    each = [set(line.partition(":")[2].split()) for line in lines]
    common = set.intersection(*each) if each else set()
    return {name for flag, name in LINUX.items() if flag in common}


def _has(key):
    """Whether Apple's system says 1 for `key`."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    ask = ctypes.CDLL(None).sysctlbyname
    failed = ask(key.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return not failed and value.value == 1
