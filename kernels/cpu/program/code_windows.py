"""Groups of weights for convolutions of codes whose windows stay where they lie."""

from typing import NamedTuple

import numpy as np

from mdtensor.kernels.cpu.generic.float_packing import padded_lines
from mdtensor.kernels.cpu.generic.pair_packing import (
    GROUP,
    LINE_BITS,
    MOST_LINES,
    pack_pairs,
)
from mdtensor.kernels.cpu.program.kinds import SLACK

#: With more groups than this for each four weights, products of words are as fast.
MOST_GROUPS = 1.5
#: Bytes of padded lines that stay in the second cache next to the weights.
PADDED_BYTES = 1 << 16


class Groups(NamedTuple):
    """Weights in groups, see `pack_pairs`; `entries` are int32 [2, groups]."""

    starts: np.ndarray
    entries: np.ndarray
    packed: np.ndarray


# Sums of pairs in 16 bits take fewer instructions than words (decision 0112).
def group_weights(weight, dilation):
    """Return the groups of weights int8 [oc, ic, kh, kw]; None if words are better."""
    n, c, lines, taps = weight.shape
    # The taps of a line lie side by side, but for dilated ones.
    runs, length = (1, taps * c) if dilation == 1 or taps == 1 else (taps, c)
    reach = ((taps - 1) * dilation + 1) * c
    if length < GROUP or lines > MOST_LINES or reach >= 1 << LINE_BITS:
        return None
    rows = weight.transpose(0, 2, 3, 1).reshape(n, lines, runs, length)
    starts, places, packed = pack_pairs(np.ascontiguousarray(rows))
    depth, panels = rows[0].size, len(starts) - 1
    if len(places) * GROUP > MOST_GROUPS * panels * depth:
        return None
    entries = np.empty((2, len(places)), np.int32)
    entries[0] = places[:, 0]
    entries[1] = places[:, 1] * (dilation * c) + places[:, 2]
    return Groups(starts, entries, packed)


def strip_of(seen, channels):
    """Return (lines of outputs of one padded copy, bytes of the copy).

    No window that lies in its image is copied: (0, 0).
    """
    reach_h = (seen.kernel_h - 1) * seen.dilation_h + 1
    reach_w = (seen.kernel_w - 1) * seen.dilation_w + 1
    width = (seen.out_w - 1) * seen.stride_w + reach_w
    height = (seen.out_h - 1) * seen.stride_h + reach_h
    is_inside = seen.pad_top == seen.pad_left == 0
    if is_inside and width <= seen.width and height <= seen.height:
        return 0, 0
    size = width * channels
    lines = (PADDED_BYTES // size - reach_h) // seen.stride_h + 1
    lines = max(1, min(lines, seen.out_h))
    return lines, padded_lines(seen, lines) * size + SLACK
