"""Class probabilities from pairs of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: The iteration ends after so many turns, or at an error of TOLERANCE / k.
TURNS, TOLERANCE = 100, 0.005


def couple_pairs(x: Array, count: int) -> Array:
    """Compute p with minimal Σ (r_ji · p_i - r_ij · p_j)², as LIBSVM iterates.

    Args:
        x: float64 [n, k · (k - 1) / 2], r_ij for i < j.
        count: k.

    Returns:
        float64 [n, k]. Rows do not depend on each other.

    Source: Wu, Lin and Weng 2004, algorithm 2; LIBSVM `multiclass_probability`.
    """
    # Probabilities of exactly 0 or 1 divide by 0, and the result is NaN.
    with np.errstate(all="ignore"):
        return _iterate(_quadratic_form(x, count), count)


def _iterate(q: Array, count: int) -> Array:
    """Return p after the iteration, for the quadratic form of each row."""
    p = np.full((len(q), count), 1 / count)
    live = np.arange(len(q))
    for _ in range(TURNS):
        part, form = p[live], q[live]
        products = np.einsum("nij,nj->ni", form, part)
        value = np.einsum("ni,ni->n", part, products)
        error = np.abs(products - value[:, None]).max(axis=1, initial=0)
        goes_on = ~(error < TOLERANCE / count)
        live = live[goes_on]
        if not live.size:
            break
        p[live] = _turn(form[goes_on], part[goes_on], products[goes_on], value[goes_on])
    return p


def _quadratic_form(x: Array, count: int) -> Array:
    """Return Q [n, k, k]: Q_ii = Σ r_ji², Q_ij = -r_ji · r_ij."""
    r = np.zeros((len(x), count, count))
    i, j = np.triu_indices(count, 1)
    r[:, i, j], r[:, j, i] = x, 1 - x
    turned = r.transpose(0, 2, 1)
    q = -turned * r
    at = np.arange(count)
    q[:, at, at] = (turned * turned).sum(axis=2)
    return q


def _turn(q: Array, p: Array, products: Array, value: Array) -> Array:
    """Return p after a change of each class in turn, with a sum of 1."""
    for i in range(p.shape[1]):
        diagonal = q[:, i, i]
        change = (value - products[:, i]) / diagonal
        p[:, i] += change
        total = 1 + change
        grown = value + change * (change * diagonal + 2 * products[:, i])
        value = grown / total / total
        products = (products + change[:, None] * q[:, i]) / total[:, None]
        p /= total[:, None]
    return p
