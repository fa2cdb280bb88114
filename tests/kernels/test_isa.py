"""The runway follows the CPU, the override and the JIT switch."""

import pytest

from mdtensor.kernels.cpu import isa

ALL = frozenset(isa.VNNI_FEATURES)


@pytest.mark.parametrize(
    ("features", "override", "is_jit_disabled", "runway"),
    [
        (ALL, None, False, "vnni"),
        (ALL, "", False, "vnni"),
        (ALL, "vnni", False, "vnni"),
        (ALL, "generic", False, "generic"),
        (ALL, None, True, "generic"),
        (ALL - {"avx512vl"}, None, False, "generic"),
        (frozenset(), "generic", True, "generic"),
    ],
)
def test_choice(features, override, is_jit_disabled, runway):
    found, why = isa.choose_runway(features, override, is_jit_disabled)
    assert found == runway
    assert why


@pytest.mark.parametrize(
    ("features", "override", "is_jit_disabled", "message"),
    [
        (frozenset(), "vnni", False, "lacks avx512f"),
        (ALL, "vnni", True, "NUMBA_DISABLE_JIT"),
        (ALL, "neon", False, "no such runway"),
    ],
)
def test_impossible_overrides(features, override, is_jit_disabled, message):
    with pytest.raises(RuntimeError, match=message):
        isa.choose_runway(features, override, is_jit_disabled)


def test_description():
    found = isa.describe()
    assert found["runway"] == isa.RUNWAY
    assert set(found) == {"machine", "cpu", "features", "runway", "why", "jit"}
