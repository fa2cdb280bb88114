"""Which instructions the kernels may use, decided once when this module is imported.

`RUNWAY` is "vnni" (AVX-512 with the 8-bit dot product), "avx2" (16-bit products, fused
multiply-add) or "generic" (what LLVM makes of plain loops on any CPU). All give the
same bytes. An intrinsic that the CPU lacks aborts the process, so the features are
asked first and never assumed.

`MDTENSOR_ISA=vnni-emulated` runs the kernels of "vnni" on a CPU that lacks its
instructions, each written in others: for tests, the same bytes, slow.
"""

import os
import platform

import llvmlite.binding as llvm
import numba

RUNWAYS = ("generic", "avx2", "vnni")
EMULATED = "vnni-emulated"
AVX2_FEATURES = ("avx2", "fma")
VNNI_FEATURES = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")
# the fastest one first
NEEDED = {"vnni": VNNI_FEATURES, "avx2": AVX2_FEATURES, "generic": ()}
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


def lacking(runway, features):
    """The features that `runway` needs and the CPU lacks."""
    return [name for name in NEEDED[runway] if name not in features]


def choose_runway(features, override, is_jit_disabled):
    """(runway, why). An override that the CPU cannot run raises RuntimeError."""
    if override not in (None, "", *RUNWAYS, EMULATED):
        raise RuntimeError(
            f"MDTENSOR_ISA={override}: no such runway. Use one of {', '.join(RUNWAYS)}."
        )
    if override == EMULATED:
        _require("vnni", VNNI_FEATURES, is_jit_disabled)
        return "vnni", "MDTENSOR_ISA=vnni-emulated, for tests: slow"
    if override:
        _require(override, features, is_jit_disabled)
        return override, f"MDTENSOR_ISA={override}"
    if is_jit_disabled:
        return "generic", "NUMBA_DISABLE_JIT is set"
    runway = next(name for name in NEEDED if not lacking(name, features))
    has = ", ".join(NEEDED[runway])
    faster = list(NEEDED)[: list(NEEDED).index(runway)]
    lacks = [lack for name in faster for lack in lacking(name, features)]
    reasons = [f"has {has}"] * bool(has) + [f"lacks {', '.join(lacks)}"] * bool(lacks)
    return runway, f"the CPU {' and '.join(reasons)}"


def _require(runway, features, is_jit_disabled):
    """Refuse a runway that needs more than there is."""
    lacks = lacking(runway, features)
    if is_jit_disabled and NEEDED[runway]:
        lacks = lacks or ["a compiler (NUMBA_DISABLE_JIT is set)"]
    if not lacks:
        return
    usable = "generic" if is_jit_disabled else choose_runway(features, None, False)[0]
    raise RuntimeError(
        f"MDTENSOR_ISA={runway}: this CPU lacks {', '.join(lacks)}. "
        f"Use MDTENSOR_ISA={usable}."
    )


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
