"""The runway follows the CPU, the override and the JIT switch."""

import sys

import pytest

from mdtensor.errors import OptionError
from mdtensor.kernels.cpu import isa

AVX2 = frozenset(isa.AVX2_FEATURES)
AVX512 = AVX2 | frozenset(isa.AVX512_FEATURES)
ALL = AVX512 | frozenset(isa.VNNI_FEATURES)
ARM = frozenset(isa.NEON_FEATURES)
NAMES = "generic, neon, avx2, avxvnni, avx512, vnni"
NO_SUCH_RUNWAY = f"no such ISA. Use one of {NAMES}."


@pytest.mark.parametrize(
    ("features", "override", "is_jit_disabled", "runway"),
    [
        (ALL, None, False, "vnni"),
        (ALL, "", False, "vnni"),
        (ALL, "vnni", False, "vnni"),
        (ALL, "generic", False, "generic"),
        (ALL, None, True, "generic"),
        (ALL, "avx2", False, "avx2"),
        (ALL - {"avx512vl"}, None, False, "avx2"),
        (ALL - {"avx512vnni"}, None, False, "avx512"),
        (ALL, "avx512", False, "avx512"),
        (AVX2, None, False, "avx2"),
        (AVX2 | {"avxvnni"}, None, False, "avxvnni"),
        (ARM, None, False, "neon"),
        (ARM | {"i8mm"}, None, False, "neon"),
        (ARM - {"dotprod"}, None, False, "generic"),
        (AVX2, None, True, "generic"),
        (AVX2 - {"fma"}, None, False, "generic"),
        (frozenset(), "generic", True, "generic"),
        (AVX2, "vnni-emulated", False, "vnni"),
        (ALL, "vnni-emulated", False, "vnni"),
        (AVX2, "avx512-emulated", False, "avx512"),
        (AVX2, "neon-emulated", False, "neon"),
        (ARM, "avxvnni-emulated", False, "avxvnni"),
    ],
)
def test_choice(features, override, is_jit_disabled, runway):
    found, why = isa.choose_isa(features, override, is_jit_disabled)
    assert found == runway
    assert why


@pytest.mark.parametrize(
    ("features", "override", "is_jit_disabled", "message"),
    [
        (frozenset(), "vnni", False, r"lacks avx512f.* Use MDTENSOR_ISA=generic\."),
        (AVX2, "vnni", False, r"lacks avx512f.* Use MDTENSOR_ISA=avx2\."),
        (frozenset({"avx2"}), "avx2", False, "lacks fma"),
        (AVX2, "avx2", True, "NUMBA_DISABLE_JIT"),
        (ALL, "vnni", True, "NUMBA_DISABLE_JIT"),
        (AVX2, "vnni-emulated", True, "NUMBA_DISABLE_JIT"),
        (ALL, "neon", False, r"lacks neon, dotprod\. Use MDTENSOR_ISA=vnni\."),
        (ARM, "avx2", False, r"lacks avx2, fma\. Use MDTENSOR_ISA=neon\."),
        (AVX512, "vnni", False, r"lacks avx512vnni\. Use MDTENSOR_ISA=avx512\."),
        (ALL, "sve", False, f"MDTENSOR_ISA=sve: {NO_SUCH_RUNWAY}"),
        (ALL, "avx2-emulated", False, f"MDTENSOR_ISA=avx2-emulated: {NO_SUCH_RUNWAY}"),
    ],
)
def test_impossible_overrides(features, override, is_jit_disabled, message):
    with pytest.raises(OptionError, match=message):
        isa.choose_isa(features, override, is_jit_disabled)


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (AVX2, "the CPU has avx2, fma and lacks avx512f, avx512bw, avx512dq"),
        (ALL, "the CPU has avx512f, avx512bw, avx512dq, avx512vl, avx512vnni"),
        (ALL - {"avx512vnni"}, "the CPU has avx512f, avx512bw, avx512dq, avx512vl and"),
        (ALL - {"fma", "avx512f"}, "the CPU lacks avx512f, fma, avxvnni"),
        (ARM, "the CPU has neon, dotprod"),
        (ARM - {"dotprod"}, "the CPU lacks dotprod"),
    ],
)
def test_reason(features, why):
    assert isa.choose_isa(features, None, False)[1].startswith(why)


def test_description():
    found = isa.describe()
    assert found["isa"] == found["runway"] == isa.ISA  # its former name
    names = {"machine", "cpu", "features", "isa", "runway", "why", "proven", "jit"}
    assert set(found) == names
    assert set(isa.PROVEN) < set(isa.ISAS)


#: Features of Arm in the order of their bits, as Linux names them.
#: Source: Linux, arch/arm64/include/uapi/asm/hwcap.h.
BITS = (
    *("fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics"),
    *("fphp", "asimdhp", "cpuid", "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop"),
    *("sha3", "sm3", "sm4", "asimddp", "sha512", "sve"),
)
CORTEX_A72 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
GRAVITON_2 = f"{CORTEX_A72} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
I8MM = 1 << 13


@pytest.mark.parametrize(
    ("named", "more", "features"),
    [
        (GRAVITON_2, 0, {"neon", "lse", "dotprod"}),
        (GRAVITON_2, I8MM, {"neon", "lse", "dotprod", "i8mm"}),
        (CORTEX_A72, 0, {"neon"}),
        ("", 0, set()),
    ],
)
def test_features_that_linux_lists(named, more, features):
    word = sum(1 << BITS.index(name) for name in named.split())
    assert isa.arm_features({isa.HWCAP: word, isa.HWCAP2: more}.get) == features


def test_other_cpus_are_not_asked():
    assert isa.IS_ARM or isa.features() == set()


def test_a_cpu_that_nobody_describes_is_generic(monkeypatch, tmp_path):
    """Neither the system lists features nor is LLVM there, as with libraries alone."""
    monkeypatch.setattr(isa, "features", set)
    monkeypatch.setattr(isa, "CPUINFO", tmp_path / "none")
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    assert isa.host_features() == frozenset()
    assert isa.choose_isa(frozenset(), "", False)[0] == "generic"
