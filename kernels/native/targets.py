"""The CPUs that libraries are compiled for: one for each ISA of x86-64."""

from typing import NamedTuple

#: Features of every x86-64.
BASE = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_V2 = ("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


class Target(NamedTuple):
    """A CPU as LLVM knows it.

    Args:
        cpu: the name of the CPU whose costs of instructions LLVM assumes.
        needs: the features that code may use, beyond those of every x86-64.
    """

    cpu: str
    needs: tuple


# Code that is tuned for no CPU takes up to 3 % longer (decision 0058).
TARGETS = {
    "generic": Target("x86-64-v2", _V2),
    "avx2": Target("znver3", _V3),
    "avxvnni": Target("alderlake", (*_V3, "avxvnni")),
    "avx512": Target("skylake-avx512", _V4),
    "vnni": Target("icelake-server", (*_V4, "avx512vnni", "avx512vbmi")),
}


def environment(isa_name, known):
    """Return the variables of a process that compiles for an ISA.

    Args: known: the names of all features that LLVM knows here.
    """
    target = TARGETS[isa_name]
    on = (*BASE, *target.needs)
    signs = dict.fromkeys(known, "-") | dict.fromkeys(on, "+")
    return {
        "MDTENSOR_ISA": isa_name,
        "MDTENSOR_BUILD_FEATURES": ",".join(target.needs),
        "MDTENSOR_KERNELS": "jit",
        "NUMBA_CPU_NAME": target.cpu,
        "NUMBA_CPU_FEATURES": ",".join(sign + name for name, sign in signs.items()),
    }
