"""Oracles of parts of estimators, in plain Python."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def walk_trees(
    x: Array, thresholds: Array, features: Array, children: Array, roots: Array
) -> Array:
    """Return the leaf that each row reaches in each tree.

        next = children[node, 0 if x <= h else 2 if x is NaN else 1]

    Args:
        x: [n, f].
        thresholds: [m].
        features: [m], a column of x for each node.
        children: [m, 3], a node if it is 0 or above, else -1 - leaf.
        roots: [t], as children.

    Returns:
        int64 [n, t].

    Source: ONNX `TreeEnsemble`.
    """

    def leaf(row: list[float], node: int) -> int:
        while node >= 0:
            value = row[features[node]]
            side = 2 if isnan(value) else 0 if value <= thresholds[node] else 1
            node = int(children[node][side])
        return -1 - node

    found = [[leaf(row, int(root)) for root in roots] for row in x.tolist()]
    return np.array(found, np.int64).reshape(len(x), len(roots))


def couple_pairs(row: list[float], count: int) -> list[float]:
    """Return the probabilities of `count` classes for one row, as LIBSVM does.

    Args:
        row: r_ij for the pairs i < j, in order.
        count: k.

    Source: LIBSVM `multiclass_probability`.
    """
    r, pairs = np.zeros((count, count)), iter(row)
    for i in range(count):
        for j in range(i + 1, count):
            r[i, j] = next(pairs)
            r[j, i] = 1 - r[i, j]
    q = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            q[i, j] = (
                -r[j, i] * r[i, j]
                if i != j
                else sum(r[k, i] ** 2 for k in range(count))
            )
    p = [1 / count] * count
    for _ in range(100):
        products = [sum(q[i, j] * p[j] for j in range(count)) for i in range(count)]
        value = sum(p[i] * products[i] for i in range(count))
        if max(abs(one - value) for one in products) < 0.005 / count:
            break
        for i in range(count):
            change = (value - products[i]) / q[i, i]
            p[i] += change
            value = (value + change * (change * q[i, i] + 2 * products[i])) / (
                1 + change
            ) ** 2
            products = [
                (products[j] + change * q[i, j]) / (1 + change) for j in range(count)
            ]
            p = [one / (1 + change) for one in p]
    return [float(one) for one in p]
