"""Panels of packed weights: how the columns of a product lie in memory."""

import numpy as np

from mdtensor.kernels.cpu.dot8.simd import PRODUCT, TILE
from mdtensor.kernels.cpu.jit import kernel

HAS_ONE_SHAPE = TILE == 4  # of tiles; no other is compiled
GROUP_BYTES = PRODUCT.packed_bytes  # of 4 weights of a column
HEAD_BYTES = 4 if PRODUCT.offset else 0  # of a column: offset * sum of its weights
DEEP = 40  # groups of k from which narrow panels pay: they stay in the first cache
WIDEST = 6  # vectors of a panel of fewer


def packed_column_bytes(k):
    """Bytes of a packed column of k weights."""
    return HEAD_BYTES + GROUP_BYTES * ((k + 3) // 4)


#: Columns of packed weights lie apart from those before only at multiples of this.
PANEL_COLUMNS = 16 if HAS_ONE_SHAPE else 16 * WIDEST


# Panels are narrow for long sums, because 6 vectors from the second cache take longer
# than their products (decision 0042).
@kernel
def panel_width(first, count, k4):
    """Vectors of 16 columns in the panel from vector `first` of `count` on."""
    if HAS_ONE_SHAPE:
        return 1
    left = count - first
    if k4 < DEEP:
        return min(left, WIDEST)
    return left if left == 4 and first % WIDEST == 0 else min(left, WIDEST // 2)


def pack_s8(w):
    """w[n, k] as panels [K/4][width][16][4]; K and the columns are padded with 0.

    `PRODUCT.pack` may change the last two axes. A panel starts with its heads, int32
    [width][16], if there are any.

    Args:
        w: int8 [n, k].

    Returns: int8 1-D.
    """
    n, k = w.shape
    vectors, k4 = (n + 15) // 16, (k + 3) // 4
    padded = np.zeros((vectors * 16, 4 * k4), np.int8)
    padded[:n, :k] = w
    groups = padded.reshape(vectors, 16, k4, 4).transpose(2, 0, 1, 3)
    heads = padded.sum(1, dtype=np.int32) * np.int32(PRODUCT.offset)
    parts, first = [np.zeros(0, np.int8)], 0
    while first < vectors:
        end = first + panel_width(first, vectors, k4)
        if HEAD_BYTES:
            parts.append(heads[16 * first : 16 * end].view(np.int8))
        panel = np.ascontiguousarray(PRODUCT.pack(groups[:, first:end]))
        parts.append(panel.reshape(-1).view(np.int8))
        first = end
    return np.concatenate(parts)
