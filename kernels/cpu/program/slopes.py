"""Tables of codes as two lines through zero, one slope above it and one below."""

from typing import NamedTuple

import numpy as np

#: Slopes that the kernel gets in a row, at least: short rows cost more than the work.
LEAST = 256
#: Slopes beyond this take every code but zero to a limit.
STEEPEST = 512.0


class Slopes(NamedTuple):
    """The lines of some channels; they repeat, to be LEAST long."""

    factors: np.ndarray  # float32 [2, n]: of codes above zero, and below it
    x_zero_point: int
    zero_point: int


# Lines are used only where they give every entry, so the tables stay the one
# place of rounding (decision 0101).
def fit_slopes(tables, x_zero_point, zero_point):
    """Return the `Slopes` that give each entry of `tables`; None if there are none.

    Args:
        tables: uint8 [channels, 256].
        x_zero_point, zero_point: the codes of 0, which the lines go through.
    """
    steps = np.arange(256.0) - x_zero_point
    sides = [_middle(tables, steps, zero_point, side) for side in (1, -1)]
    factors = np.stack(sides).astype(np.float32)
    if not np.array_equal(_entries(factors, steps, zero_point), tables):
        return None
    repeats = -(-LEAST // len(tables))
    return Slopes(np.tile(factors, repeats), x_zero_point, zero_point)


def _middle(tables, steps, zero_point, side):
    """Return the middle of the slopes that give the entries of one side of zero."""
    at = steps * side > 0
    entries = tables[:, at].astype(np.float64)
    # An entry at a limit stands for all that lies beyond.
    low = np.where(entries == 0, -np.inf, entries - zero_point - 0.5)
    high = np.where(entries == 255, np.inf, entries - zero_point + 0.5)
    ends = np.sort(np.stack([low, high]) / steps[at], axis=0)
    least = ends[0].max(axis=1, initial=-STEEPEST)
    most = ends[1].min(axis=1, initial=STEEPEST)
    return (least + most) / 2


def _entries(factors, steps, zero_point):
    """Return the tables of lines, by the arithmetic of `slopes_u8`."""
    above, below = np.float32(steps) * factors[:, :, None]
    lines = np.where(steps > 0, above, below)
    return np.rint(np.clip(lines, -zero_point, 255 - zero_point)) + zero_point
