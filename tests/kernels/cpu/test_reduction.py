"""The mean against the oracle."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu.generic import pool
from mdtensor.kernels.reference import elementwise as oracle
from mdtensor.kernels.rescale import rescale


@pytest.mark.parametrize("ratio", [Fraction(1), Fraction(5, 3), Fraction(1, 2)])
@pytest.mark.parametrize(("p", "c"), [(1, 1), (7, 5), (96, 200), (64, 16)])
def test_mean(rng, p, c, ratio):
    for codes in (range(256), (0, 255)):
        x = rng.choice(codes, (1, p, c)).astype(np.uint8)
        multiplier, limbs = rescale([ratio / p])
        out = np.empty(c, np.uint8)
        pool.mean_u8u8(x.reshape(-1), p, c, 100, multiplier, limbs, 90, 1, 250, out)
        want = oracle.mean_u8u8(x, ratio, 100, 90, 1, 250)
        assert np.array_equal(out, want[0])
