"""The runway follows the CPU, the override and the JIT switch."""

import pytest

from mdtensor.kernels.cpu import isa

AVX2 = frozenset(isa.AVX2_FEATURES)
ALL = AVX2 | frozenset(isa.VNNI_FEATURES)


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
        (AVX2, None, False, "avx2"),
        (AVX2, None, True, "generic"),
        (AVX2 - {"fma"}, None, False, "generic"),
        (frozenset(), "generic", True, "generic"),
        (AVX2, "vnni-emulated", False, "vnni"),
        (ALL, "vnni-emulated", False, "vnni"),
    ],
)
def test_choice(features, override, is_jit_disabled, runway):
    found, why = isa.choose_runway(features, override, is_jit_disabled)
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
        (ALL, "neon", False, "no such runway"),
    ],
)
def test_impossible_overrides(features, override, is_jit_disabled, message):
    with pytest.raises(RuntimeError, match=message):
        isa.choose_runway(features, override, is_jit_disabled)


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (AVX2, "the CPU has avx2, fma and lacks avx512f, avx512bw, avx512dq"),
        (ALL, "the CPU has avx512f, avx512bw, avx512dq, avx512vl, avx512vnni"),
        (ALL - {"fma", "avx512f"}, "the CPU lacks avx512f, fma"),
    ],
)
def test_reason(features, why):
    assert isa.choose_runway(features, None, False)[1].startswith(why)


def test_description():
    found = isa.describe()
    assert found["runway"] == isa.RUNWAY
    assert set(found) == {"machine", "cpu", "features", "runway", "why", "jit"}
