"""Which instructions the kernels may use, decided once when this module is imported.

`RUNWAY` is "vnni" (AVX-512 with the 8-bit dot product) or "generic" (what LLVM makes of
plain loops on any CPU). Both runways give the same bytes. An intrinsic that the CPU
lacks aborts the process, so the features are asked first and never assumed.
"""

import os
import platform

import llvmlite.binding as llvm
import numba

RUNWAYS = ("generic", "vnni")
VNNI_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")
NOTED_FEATURES = (
    *("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vbmi"),
    *("avx512vnni", "avxvnni", "avx512bf16", "amx-int8", "neon", "dotprod", "i8mm"),
)


def host_features():
    """Names of the features that the host has and that numba may compile for."""
    host = {name for name, has in llvm.get_host_cpu_features().items() if has}
    restricted = numba.config.CPU_FEATURES
    if restricted is None:
        return frozenset(host)
    allowed = {name[1:] for name in restricted.split(",") if name.startswith("+")}
    return frozenset(host & allowed)


def cpu_name():
    """The CPU that numba compiles for."""
    return numba.config.CPU_NAME or llvm.get_host_cpu_name()


def choose_runway(features, override, is_jit_disabled):
    """(runway, why). An override that the CPU cannot run raises RuntimeError."""
    missing = [name for name in VNNI_FEATURES if name not in features]
    if override not in (None, "", *RUNWAYS):
        raise RuntimeError(
            f"MDTENSOR_ISA={override}: no such runway. Use one of {', '.join(RUNWAYS)}."
        )
    if override == "vnni" and (missing or is_jit_disabled):
        lack = ", ".join(missing) or "a compiler (NUMBA_DISABLE_JIT is set)"
        raise RuntimeError(
            f"MDTENSOR_ISA=vnni: this CPU lacks {lack}. Use MDTENSOR_ISA=generic."
        )
    if override:
        return override, f"MDTENSOR_ISA={override}"
    if is_jit_disabled:
        return "generic", "NUMBA_DISABLE_JIT is set"
    if missing:
        return "generic", f"the CPU lacks {', '.join(missing)}"
    return "vnni", f"the CPU has {', '.join(VNNI_FEATURES)}"


FEATURES = host_features()
IS_JIT_DISABLED = bool(getattr(numba.config, "DISABLE_JIT", False))
RUNWAY, REASON = choose_runway(
    FEATURES, os.environ.get("MDTENSOR_ISA"), IS_JIT_DISABLED
)


def describe():
    """The CPU, the features that matter here, the runway and why it was chosen."""
    return {
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "features": [name for name in NOTED_FEATURES if name in FEATURES],
        "runway": RUNWAY,
        "why": REASON,
        "jit": not numba.config.DISABLE_JIT,
    }
