"""The CPUs that libraries are compiled for: one for each ISA of a machine."""

from typing import NamedTuple

#: Features of every x86-64.
BASE = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_V2 = ("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
#: Features that LLVM's Arm CPUs below may have and no kernel needs.
_UNUSED = ("aes", "sha2", "crc", "fullfp16", "rcpc", "rdm", "lse")


class Target(NamedTuple):
    """A CPU as LLVM knows it.

    Args:
        cpu: the name of the CPU whose costs of instructions LLVM assumes.
        needs: the features that code may use, beyond those of every such machine.
    """

    cpu: str
    needs: tuple


class Machine(NamedTuple):
    """A kind of machines.

    Args:
        triple: its name in LLVM.
        base: features that each of them has.
        targets: the CPU of each ISA.
        unused: features to switch off; if None, all that LLVM knows on such a machine.
        code_model: how code reaches its constants, by LLVM's name.
    """

    triple: str
    base: tuple
    targets: dict
    unused: tuple | None = None
    code_model: str = "default"


# Code that is tuned for no CPU takes up to 3 % longer (decision 0058).
MACHINES = {
    "x86_64": Machine(
        "x86_64-unknown-linux-gnu",
        BASE,
        {
            "generic": Target("x86-64-v2", _V2),
            "avx2": Target("znver3", _V3),
            "avxvnni": Target("alderlake", (*_V3, "avxvnni")),
            "avx512": Target("skylake-avx512", _V4),
            "vnni": Target("icelake-server", (*_V4, "avx512vnni", "avx512vbmi")),
        },
        code_model="large",
    ),
    "aarch64": Machine(
        "aarch64-unknown-linux-gnu",
        (),
        {
            "generic": Target("cortex-a72", ("neon",)),
            "neon": Target("neoverse-n1", ("neon", "dotprod", "lse")),
        },
        _UNUSED,
    ),
}


def environment(machine, isa_name, known):
    """Return the variables of a process that compiles for an ISA of a machine.

    Args: known: the names of all features that LLVM knows here.
    """
    kind = MACHINES[machine]
    target = kind.targets[isa_name]
    off = known if kind.unused is None else kind.unused
    signs = dict.fromkeys(off, "-") | dict.fromkeys((*kind.base, *target.needs), "+")
    return {
        "MDTENSOR_ISA": isa_name,
        "MDTENSOR_BUILD_MACHINE": machine,
        "MDTENSOR_BUILD_FEATURES": ",".join(target.needs),
        "MDTENSOR_KERNELS": "jit",
        "NUMBA_CPU_NAME": target.cpu,
        "NUMBA_CPU_FEATURES": ",".join(sign + name for name, sign in signs.items()),
    }
