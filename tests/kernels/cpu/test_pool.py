"""Pooling against the oracle."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu.program.steps import AvgPool, MaxPool
from mdtensor.kernels.reference import conv as oracle

CASES = [
    ((2, 6, 9, 8), (2, 2), (2, 2), (0, 0, 0, 0)),
    ((1, 7, 7, 3), (3, 3), (2, 1), (1, 1, 1, 1)),
    ((1, 5, 8, 17), (2, 3), (1, 2), (0, 1, 1, 1)),
]


@pytest.mark.parametrize("case", CASES)
def test_max_pool(rng, case):
    x = rng.integers(0, 256, case[0], dtype=np.uint8)
    assert np.array_equal(MaxPool(*case[1:])(x), oracle.max_pool_u8(x, *case[1:]))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_avg_pool(rng, case, include):
    x = rng.integers(0, 256, case[0], dtype=np.uint8)
    for ratio in (Fraction(1), Fraction(7, 5)):
        found = AvgPool(
            *case[1:],
            ratio=ratio,
            x_zero_point=40,
            zero_point=30,
            clamp=(1, 200),
            count_include_pad=include,
        )(x)
        want = oracle.avg_pool_u8(x, *case[1:], ratio, 40, 30, 1, 200, include)
        assert np.array_equal(found, want)
