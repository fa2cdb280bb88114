"""Two slopes in place of tables: every code of every channel, by rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

from mdtensor.kernels.cpu.program.steps import LookupChannels
from mdtensor.kernels.reference import round_half_even


def tables_of(ratio, slopes, x_zero_point, zero_point):
    """Return uint8 [slopes, 256]: round(x * ratio), and slope times as much below 0."""

    def entry(slope, code):
        line = (code - x_zero_point) * ratio * (1 if code > x_zero_point else slope)
        return min(max(round_half_even(line) + zero_point, 0), 255)

    rows = [[entry(s, code) for code in range(256)] for s in slopes]
    return np.array(rows, np.uint8)


def every_code(channels):
    return np.repeat(np.arange(256, dtype=np.uint8), channels).reshape(256, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 16, 100, 300])
@pytest.mark.parametrize("seed", range(3))
def test_every_code_of_every_channel(channels, seed):
    rng = np.random.default_rng(seed)
    zeros = [int(v) for v in rng.integers(0, 256, 2)]
    slopes = [Fraction(float(v)) for v in rng.normal(0.2, 0.5, channels)]
    tables = tables_of(Fraction(float(rng.uniform(0.2, 4))), slopes, *zeros)
    step, x = LookupChannels(tables, -1, zeros), every_code(channels)
    assert step.kernel == "slopes_u8"
    assert np.array_equal(step(x), tables[np.arange(channels), x])
    assert np.array_equal(LookupChannels(tables)(x), step(x))


# 1/2 and 3/2 make ties, which go to the even code.
@pytest.mark.parametrize("zeros", [(0, 0), (255, 255), (128, 3), (0, 255), (255, 0)])
@pytest.mark.parametrize("ratio", [Fraction(1, 2), Fraction(3, 2), Fraction(400)])
def test_ties_limits_and_zeros_at_the_ends(ratio, zeros):
    tables = tables_of(ratio, [Fraction(0), Fraction(1), Fraction(-1, 2)], *zeros)
    step, x = LookupChannels(tables, -1, zeros), every_code(3)
    assert step.kernel == "slopes_u8"
    assert np.array_equal(step(x), tables[np.arange(3), x])


def test_tables_that_are_no_lines_stay_tables():
    tables = np.random.default_rng(0).integers(0, 256, (5, 256), dtype=np.uint8)
    step, x = LookupChannels(tables, -1, (3, 4)), every_code(5)
    assert step.kernel == "lookup_channels_u8" and step.bytes == 5 * 256
    assert np.array_equal(step(x), tables[np.arange(5), x])
    lines = tables_of(Fraction(1), [Fraction(1, 3)] * 5, 3, 4)
    assert LookupChannels(lines, 1, (3, 4)).kernel == "lookup_channels_u8"
    lines[4, 200] ^= 1
    assert LookupChannels(lines, -1, (3, 4)).kernel == "lookup_channels_u8"
