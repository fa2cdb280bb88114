"""Numbers on their way into an arena."""

import numpy as np
import pytest

from mdtensor.kernels.cpu.program.program import copy_f32


@pytest.mark.parametrize("size", [0, 1, 7, 64, 1001])
def test_numbers_are_copied(size):
    source = np.random.default_rng(size).integers(0, 2**32, size, np.uint32)
    source[(source & 0x7FFFFFFF) > 0x7F800000] = 0x7F800000
    target = np.zeros_like(source)
    assert copy_f32(source, target)
    assert np.array_equal(target, source)


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FC00000, 0xFF800001, 0xFFFFFFFF])
@pytest.mark.parametrize("place", [0, 17, 99])
def test_every_nan_is_seen(bits, place):
    source = np.full(100, 0xFF800000, np.uint32)  # infinities are numbers
    source[place] = bits
    assert not copy_f32(source, np.zeros_like(source))
