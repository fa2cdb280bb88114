"""Paths through decision trees."""

import numpy as np

from mdtensor.kernels.cpu.borrowing import borrowed
from mdtensor.kernels.cpu.jit import kernel

#: What `walk_trees` returns: all paths end, or the reason why one does not.
ENDED, NO_NODE, NO_FEATURE, NO_END, NO_LEAF = range(5)


@kernel
def find_leaf(x, i, thresholds, features, children, root):
    """Return -1 - leaf that row i of x reaches from a root, or why it reaches none.

    Args: as for `walk_trees`.
    """
    node, left = np.int64(root), thresholds.size
    while node >= 0:
        if node >= thresholds.size:
            return np.int64(NO_NODE)
        if left == 0:
            return np.int64(NO_END)
        left -= 1
        feature = features[np.uintp(node)]
        if feature < 0 or feature >= x.shape[1]:
            return np.int64(NO_FEATURE)
        value, limit = x[i, np.uintp(feature)], thresholds[np.uintp(node)]
        # A NaN as the threshold compares as false, as in IEEE 754.
        side = np.uintp(0) if value <= limit else np.uintp(1)
        if np.isnan(value):
            side = np.uintp(2)
        node = np.int64(children[np.uintp(node), side])
    return node


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
    x, thresholds, features = borrowed(x), borrowed(thresholds), borrowed(features)
    children, roots, out = borrowed(children), borrowed(roots), borrowed(out)
    # Trees outside: the nodes of one tree stay in the cache for all rows.
    for t in range(roots.size):
        for i in range(x.shape[0]):
            leaf = find_leaf(x, i, thresholds, features, children, roots[t])
            if leaf >= 0:
                return leaf
            out[i, t] = -1 - leaf
    return ENDED


# Most of the time of a small forest was between two calls (decision 0113).
@kernel
def take_votes(x, thresholds, features, children, roots, table, by_tree, out):
    """Set out[i, t] to the weights of the leaf that row i of x reaches in tree t.

    Args:
        x, thresholds, features, children, roots: as for `walk_trees`.
        table: [leaves, k], flat.
        by_tree: whether out is [t, n, k], not [n, t, k].
        out: of the type of the table, flat, written.

    Returns:
        As `walk_trees`; NO_LEAF if the table has no row for a leaf.
    """
    x, thresholds, features = borrowed(x), borrowed(thresholds), borrowed(features)
    children, roots, out = borrowed(children), borrowed(roots), borrowed(out)
    n, trees, table = x.shape[0], roots.size, borrowed(table)
    if n * trees == 0:
        return ENDED
    k = out.size // (n * trees)
    for t in range(trees):
        for i in range(n):
            leaf = find_leaf(x, i, thresholds, features, children, roots[t])
            if leaf >= 0:
                return leaf
            first = (-1 - leaf) * k
            if first + k > table.size:
                return NO_LEAF
            at = (t * n + i if by_tree else i * trees + t) * k
            for j in range(k):
                out[np.uintp(at + j)] = table[np.uintp(first + j)]
    return ENDED
