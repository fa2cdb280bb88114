"""Sizes of packed weights by the runner's formulas, and as kernels pack them."""

import numpy as np
import pytest

from mdtensor.kernels.cpu import kernel_set
from mdtensor_run.packing import PACKINGS, padded_columns


@pytest.mark.parametrize("name", PACKINGS)
def test_formulas(name, rng):
    own, sizes = kernel_set.kernels(name), PACKINGS[name]
    for _ in range(60):
        n, k, kernel_h, kernel_w = rng.integers(1, (70, 300, 8, 8)).tolist()
        assert sizes.products(n, k) == own.pack_s8(np.zeros((n, k), np.int8)).nbytes
        weight = np.zeros((n, kernel_h, kernel_w), np.int64)
        assert sizes.depthwise(*weight.shape) == own.pack_depthwise(weight).nbytes
        column = own.packed_column_bytes(k) + own.TERM_BYTES
        assert sizes.columns(n, k) == column * padded_columns(n)
        assert padded_columns(n) == own.padded_columns(n)
        assert sizes.pitch(k) == own.im2col_pitch(k)
