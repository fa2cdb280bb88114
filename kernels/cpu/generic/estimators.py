"""Paths through decision trees."""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: What `walk_trees` returns: all paths end, or the reason why one does not.
ENDED, NO_NODE, NO_FEATURE, NO_END = range(4)


@kernel
def walk_trees(x, thresholds, features, children, roots, out):
    """Set out[i, t] to the leaf that row i of x reaches in tree t.

        next = children[node, 0 if x <= h else 2 if x is NaN else 1]

    Args:
        x, thresholds: [n, f] and [m], both float32 or both float64; contiguous.
        features: [m], a column of x for each node; int32 or int64, as all indices.
        children: [m, 3], a node if it is 0 or above, else -1 - leaf.
        roots: [t], as children.
        out: int64 [n, t], written.

    Returns:
        ENDED; or why a path does not end, and then out is incomplete.
    """
    count, width = thresholds.size, x.shape[1]
    # Trees outside: the nodes of one tree stay in the cache for all rows.
    for t in range(roots.size):
        for i in range(x.shape[0]):
            node, left = roots[t], count
            while node >= 0:
                if node >= count:
                    return NO_NODE
                if left == 0:
                    return NO_END
                left -= 1
                feature = features[np.uintp(node)]
                if feature < 0 or feature >= width:
                    return NO_FEATURE
                value, limit = x[i, np.uintp(feature)], thresholds[np.uintp(node)]
                # A NaN as the threshold compares as false, as in IEEE 754.
                side = np.uintp(0) if value <= limit else np.uintp(1)
                if np.isnan(value):
                    side = np.uintp(2)
                node = children[np.uintp(node), side]
            out[i, t] = -1 - np.int64(node)
    return ENDED
