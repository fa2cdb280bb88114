"""The instruction set that the kernels use, chosen once at import.

`ISA` is one of `ISAS`; all of them give the same bytes. An intrinsic that the CPU lacks
aborts the process, so the features are read first.

    vnni      AVX-512 with the 8-bit dot product
    avx512    AVX-512 without it: bytes are split into 16-bit products
    avxvnni   the 8-bit dot product in 256-bit vectors
    avx2      16-bit products, fused multiply-add
    neon      Arm with the 8-bit dot product
    generic   plain loops that LLVM vectorizes for any CPU

The kernels in `dot8/` serve four of these ISAs: vnni, avx512, avxvnni and neon. For
tests, `MDTENSOR_ISA=vnni-emulated` runs these kernels on a CPU that lacks the
instructions. They are slow and return the same bytes. `avx512-emulated`,
`avxvnni-emulated` and `neon-emulated` do the same.
"""

import ctypes
import os
import platform
import sys
from pathlib import Path

from mdtensor.kernels import refusal

# Names of the same features in the operating system and in LLVM.
# Source: Linux, `arch/arm64/include/uapi/asm/hwcap.h` and
# `arch/x86/include/asm/cpufeatures.h`; Apple, "Determining instruction set
# characteristics".

#: Linux lists the features of an Arm CPU as bits of two words.
HWCAP, HWCAP2 = 16, 26
LINUX_ARM = {HWCAP: {1: "neon", 8: "lse", 20: "dotprod"}, HWCAP2: {13: "i8mm"}}
#: Every other feature of x86 that this module needs has one name in both.
LINUX_X86 = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "lahf_lm": "sahf",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx_vnni": "avxvnni",
    "amx_int8": "amx-int8",
}
APPLE = {
    "hw.optional.AdvSIMD": "neon",
    "hw.optional.armv8_1_atomics": "lse",
    "hw.optional.arm.FEAT_DotProd": "dotprod",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
}
#: The kind of CPU that kernels are compiled for: this one, except in some builds.
MACHINE = os.environ.get("MDTENSOR_BUILD_MACHINE") or platform.machine().lower()
IS_ARM = MACHINE in ("aarch64", "arm64")
IS_X86 = MACHINE in ("x86_64", "amd64")
CPUINFO = Path("/proc/cpuinfo")


# The system is queried, because LLVM does not report Arm's dot product (decision 0034).
def features():
    """Return the features in LINUX_ARM or APPLE that this CPU has, by LLVM's names."""
    if not IS_ARM:
        return set()
    if sys.platform == "darwin":
        return {name for key, name in APPLE.items() if _has(key)}
    return arm_features(_auxiliary) if sys.platform == "linux" else set()


# LLVM reads a file, and finds no dot product (decision 0078).
def arm_features(word):
    """Return the features in the words of Linux; `word` returns the one of a number.

    The processors of one machine may differ. Linux lists what all of them have.
    """
    return {
        name
        for number, bits in LINUX_ARM.items()
        for bit, name in bits.items()
        if word(number) >> bit & 1
    }


def _auxiliary(number):
    """Return a word of the auxiliary vector that Linux gave to this process."""
    query = ctypes.CDLL(None).getauxval
    query.restype, query.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return query(number)


def x86_features(lines):
    """Return the features in lines of /proc/cpuinfo, by LLVM's names.

    Linux lists a feature only if the system saves the registers that it needs. All
    processors of an x86 machine have the same features.
    """
    flags = next((line for line in lines if line.startswith("flags")), "")
    return {LINUX_X86.get(flag, flag) for flag in flags.partition(":")[2].split()}


def _has(key):
    """Return whether macOS reports 1 for `key`."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    query = ctypes.CDLL(None).sysctlbyname
    failed = query(key.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return not failed and value.value == 1


ISAS = ("generic", "neon", "avx2", "avxvnni", "avx512", "vnni")
#: ISAs whose kernels are in `dot8/`. A process has one of them.
DOT_ISAS = ("neon", "avxvnni", "avx512", "vnni")
EMULATED = "-emulated"
AVX2_FEATURES = ("avx2", "fma")
AVX512_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
VNNI_FEATURES = (*AVX512_FEATURES, "avx512vnni")
NEON_FEATURES = ("neon", "dotprod")
#: ISAs that ran on a CPU with their instructions; the others were only emulated so far.
PROVEN = ("generic", "avx2", "avx512", "vnni")
# The fastest ISA comes first.
NEEDED = {
    "vnni": VNNI_FEATURES,
    "avx512": AVX512_FEATURES,
    "avxvnni": (*AVX2_FEATURES, "avxvnni"),
    "avx2": AVX2_FEATURES,
    "neon": NEON_FEATURES,
    "generic": (),
}
NOTED_FEATURES = (
    *("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vbmi"),
    *("avx512vnni", "avxvnni", "avx512bf16", "amx-int8", "neon", "dotprod", "i8mm"),
)


# llvmlite takes 60 MB and 60 ms, so the system answers where it can (decision 0058).
def host_features():
    """Return the features that the host has and numba may compile for."""
    target = os.environ.get("MDTENSOR_BUILD_FEATURES")
    if target:
        # A library for another CPU is compiled here and not run.
        return frozenset(target.split(","))
    host = features() or _linux_features() or _llvm_features()
    restricted = os.environ.get("NUMBA_CPU_FEATURES")
    if restricted is None:
        return frozenset(host)
    allowed = {name[1:] for name in restricted.split(",") if name.startswith("+")}
    return frozenset(host & allowed)


def _linux_features():
    """Return the features of an x86 CPU under Linux; nothing elsewhere."""
    if not IS_X86 or not CPUINFO.exists():
        return set()
    # With many processors the whole file is slow.
    with CPUINFO.open() as lines:
        return x86_features(lines)


def _llvm_features():
    """Return the features by LLVM; none without it, so that the ISA is generic."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return set()
    return {name for name, has in llvm.get_host_cpu_features().items() if has}


def numba_features():
    """Return what numba is told of an Arm CPU: what LLVM finds, and the dot products.

    The text is in LLVM's form, such as "-sve,+dotprod".
    """
    import llvmlite.binding as llvm

    found = dict(llvm.get_host_cpu_features())
    found |= dict.fromkeys(FEATURES, True)
    return ",".join("-+"[has] + name for name, has in sorted(found.items()))


def cpu_name():
    """Return the name of the CPU that numba compiles for."""
    import llvmlite.binding as llvm

    return os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()


def lacking(isa, features):
    """Return the features that `isa` needs and the CPU lacks."""
    return [name for name in NEEDED[isa] if name not in features]


# One ISA per process is chosen at import, since packed weights and compiled loops
# depend on it (decision 0034).
def choose_isa(features, override, is_jit_disabled):
    """Return (isa, reason).

    Raises `refusal.error` for an override that the CPU cannot run.
    """
    if override:
        return _overridden(features, override, is_jit_disabled)
    if is_jit_disabled:
        return "generic", "NUMBA_DISABLE_JIT is set"
    names = _names_of_architecture(features)
    isa = next(name for name in names if not lacking(name, features))
    has = ", ".join(NEEDED[isa])
    faster = names[: names.index(isa)]
    lacks = dict.fromkeys(lack for name in faster for lack in lacking(name, features))
    reasons = [f"has {has}"] * bool(has) + [f"lacks {', '.join(lacks)}"] * bool(lacks)
    return isa, f"the CPU {' and '.join(reasons)}"


def here():
    """Return the ISAs that this process can use; at most one of them uses `dot8/`."""
    if IS_JIT_DISABLED:
        return ("generic",)
    rest = [name for name in ISAS if name not in DOT_ISAS]
    known = [name for name in rest if not lacking(name, FEATURES)]
    return (*known, DOT_ISA + EMULATED * IS_EMULATED)


def _names_of_architecture(features):
    """Return the ISAs that a CPU of this kind may have, fastest first."""
    is_arm = IS_ARM or "neon" in features
    return [name for name in NEEDED if name == "generic" or is_arm == (name == "neon")]


def _overridden(features, override, is_jit_disabled):
    """Return (isa, reason) for a value of MDTENSOR_ISA."""
    if override in ISAS:
        _require(override, features, is_jit_disabled)
        return override, f"MDTENSOR_ISA={override}"
    isa = override.removesuffix(EMULATED)
    if isa not in DOT_ISAS:
        fix = f"Use one of {', '.join(ISAS)}"
        raise refusal.error("no such ISA", fix, f"MDTENSOR_ISA={override}")
    _require(isa, NEEDED[isa], is_jit_disabled)
    return isa, f"MDTENSOR_ISA={override}, for tests: slow"


def _require(isa, features, is_jit_disabled):
    """Raise `refusal.error` if the CPU or the compiler lacks a feature of `isa`."""
    lacks = lacking(isa, features)
    if is_jit_disabled and NEEDED[isa]:
        lacks = lacks or ["a compiler (NUMBA_DISABLE_JIT is set)"]
    if not lacks:
        return
    usable = "generic" if is_jit_disabled else choose_isa(features, None, False)[0]
    raise refusal.error(
        f"this CPU lacks {', '.join(lacks)}",
        f"Use MDTENSOR_ISA={usable}",
        f"MDTENSOR_ISA={isa}",
    )


FEATURES = host_features()
IS_JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
OVERRIDE = os.environ.get("MDTENSOR_ISA") or ""
ISA, REASON = choose_isa(FEATURES, OVERRIDE, IS_JIT_DISABLED)
#: The ISA that `dot8/` is compiled for, if a context selects it.
DOT_ISA = ISA if ISA in DOT_ISAS else "vnni"
IS_EMULATED = OVERRIDE.endswith(EMULATED) or bool(lacking(DOT_ISA, FEATURES))


def describe():
    """Return the CPU, its relevant features, the ISA and why it was chosen."""
    return {
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "features": [name for name in NOTED_FEATURES if name in FEATURES],
        "isa": ISA,
        "runway": ISA,
        "why": REASON,
        "proven": ISA in PROVEN and not OVERRIDE.endswith(EMULATED),
        "jit": not IS_JIT_DISABLED,
    }
