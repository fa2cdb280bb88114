"""The oracle of `cpu/pool.py`, window by window."""

import numpy as np

from mdtensor.kernels.reference.conv import padded_taps
from mdtensor.kernels.reference.rounding import round_half_even


def _inside(x, kernel, stride, padding, dilation):
    """Which taps lie inside x: [taps, n, oh, ow, c] of 0 and 1."""
    ones = np.ones(x.shape, np.uint8)
    taps = padded_taps(ones, kernel, stride, padding, dilation, 0)
    return np.stack([part for _, _, part in taps])


def max_pool_u8(x, kernel, stride, padding=(0, 0, 0, 0), dilation=(1, 1)):
    """Largest code of each window; padding never wins."""
    taps = padded_taps(x, kernel, stride, padding, dilation, 0)
    return np.stack([part for _, _, part in taps]).max(axis=0).astype(np.uint8)


def avg_pool_u8(
    x,
    kernel,
    stride,
    padding,
    ratio,
    x_zero_point,
    zero_point,
    lo,
    hi,
    count_include_pad=False,
):
    """clamp(round(sum of (x - x_zero_point) / count * ratio) + zero_point)."""
    taps = padded_taps(x, kernel, stride, padding, (1, 1), x_zero_point)
    sums = sum(part - x_zero_point for _, _, part in taps)
    counts = _inside(x, kernel, stride, padding, (1, 1)).sum(axis=0)
    if count_include_pad:
        counts = np.full_like(counts, kernel[0] * kernel[1])
    out = np.empty(sums.shape, np.uint8)
    for place in np.ndindex(*sums.shape):
        count = max(int(counts[place]), 1)
        code = round_half_even(int(sums[place]) * ratio / count) + zero_point
        out[place] = min(max(code, lo), hi)
    return out
