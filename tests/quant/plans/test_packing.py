"""Sizes of packed weights by the runner's formulas, and as kernels pack them."""

import numpy as np
import pytest
from support import libraries
from support.packings import packed

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.elsewhere import kernels_elsewhere
from mdtensor_run.packing import PACKINGS, padded_columns


def test_every_isa_has_sizes():
    assert set(PACKINGS) == set(isa.ISAS)


@pytest.mark.parametrize("name", PACKINGS)
def test_formulas(name, rng):
    own, sizes = kernels_elsewhere(name), PACKINGS[name]
    assert sizes.has_windows == own.MULTIPLIES_WINDOWS
    for _ in range(60):
        n, k, kernel_h, kernel_w = rng.integers(1, (70, 300, 8, 8)).tolist()
        assert sizes.products(n, k) == own.pack_s8(np.zeros((n, k), np.int8)).nbytes
        weight = np.zeros((n, kernel_h, kernel_w), np.int64)
        for part, size in enumerate(sizes.depthwise(*weight.shape)):
            weight[:] = -128 * (part + 1)
            assert size == own.pack_depthwise(weight).nbytes
        column = own.packed_column_bytes(k) + own.TERM_BYTES
        assert sizes.columns(n, k) == column * padded_columns(n)
        assert padded_columns(n) == own.padded_columns(n)
        assert sizes.pitch(k) == own.im2col_pitch(k)


HERE = """
from support.packings import packed
from mdtensor.kernels.cpu.kernel_set import HOST
print(packed(HOST))
"""


@pytest.mark.parametrize("name", isa.DOT_ISAS)
def test_other_cpus_are_packed_for_as_they_pack(name):
    """Packing is plain Python: a process that emulates an ISA packs without it."""
    if name == kernel_set.HOST.name:
        assert packed(kernels_elsewhere(name)) == packed(kernel_set.HOST)
        return
    if name != "neon" and isa.lacking("avx2", isa.FEATURES):
        pytest.skip("without AVX2, other kernels take the place of AVX2's")
    found = libraries.output("-c", HERE, MDTENSOR_ISA=name + isa.EMULATED)
    assert found == packed(kernels_elsewhere(name))


@pytest.mark.parametrize("name", isa.here())
def test_kernels_of_this_process_pack_the_same(name):
    name = name.removesuffix(isa.EMULATED)
    if name in isa.DOT_ISAS and name != kernel_set.HOST.name:
        pytest.skip("emulated beside another ISA, whose floats it takes")
    if name == "avx2" and kernel_set.HOST.name in ("vnni", "avx512"):
        pytest.skip("this process has wider vectors of floats")
    assert packed(kernels_elsewhere(name)) == packed(kernel_set.kernels(name))
