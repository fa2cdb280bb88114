"""Sizes of packed weights by the runner's formulas, and as kernels pack them."""

import numpy as np
import pytest
from support import libraries

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor_run.packing import PACKINGS, padded_columns


@pytest.mark.parametrize("name", [name for name in PACKINGS if name in isa.DOT_ISAS])
def test_formulas_of_other_cpus(name):
    """Packing is plain Python, so any CPU packs for the ISA that it emulates."""
    if name == isa.DOT_ISA:
        pytest.skip("the next test")
    command = "-m", "pytest", "-n", "0", __file__, "-k", f"test_formulas[{name}]"
    done = libraries.run(*command, MDTENSOR_ISA=name + isa.EMULATED)
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("name", PACKINGS)
def test_formulas(name, rng):
    if name in isa.DOT_ISAS and name != isa.DOT_ISA:
        pytest.skip("this process has another one")
    own, sizes = kernel_set.kernels(name), PACKINGS[name]
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
