"""Parts of estimators: decision trees, class probabilities from pairs of classes."""

from __future__ import annotations

from math import isqrt
from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.dtypes import int64
from mdtensor.errors import ShapeError
from mdtensor.spec.shapes import DYNAMIC, Shape, are_like
from mdtensor.spec.spec import TensorSpec

# Shape rules.


def infer_decision_trees(
    x: TensorSpec,
    thresholds: TensorSpec,
    features: TensorSpec,
    children: TensorSpec,
    roots: TensorSpec,
) -> TensorSpec:
    """Infer int64 [n, t]."""
    if (x.ndim, thresholds.ndim, roots.ndim) != (2, 1, 1):
        raise ShapeError(
            f"x, thresholds and roots have {x.ndim}, {thresholds.ndim} and "
            f"{roots.ndim} axes",
            "Give x [n, f], thresholds [m] and roots [t]",
        )
    (count,) = thresholds.shape
    _check_shape("features", features.shape, (count,))
    _check_shape("children", children.shape, (count, 3))
    return x.with_dtype(int64).with_shape((x.shape[0], roots.shape[0]))


def _check_shape(name: str, shape: Shape, wanted: Shape) -> None:
    if not are_like(shape, wanted):
        raise ShapeError(f"{name} has shape {shape}", f"Give it shape {wanted}")


def infer_pairwise_probabilities(x: TensorSpec) -> TensorSpec:
    """Infer [n, k] from [n, k · (k - 1) / 2]."""
    if x.ndim != 2:
        raise ShapeError(f"x has {x.ndim} axes", "Give [n, pairs]")
    return x.with_shape((x.shape[0], class_count(int(x.shape[1]))))


def class_count(pairs: int) -> int:
    """Return how many classes have so many pairs.

    Raises:
        ShapeError: no number of classes does.
    """
    if pairs == DYNAMIC:
        return DYNAMIC
    count = (1 + isqrt(1 + 8 * pairs)) // 2
    if not pairs or count * (count - 1) // 2 != pairs:
        raise ShapeError(
            f"x has {pairs} pairs of classes", "Give k · (k - 1) / 2: 1, 3, 6, 10 ..."
        )
    return count


# Integers are exact; weights and sums are operations that exist (decision 0060).
@generic(deduce=infer_decision_trees)
def decision_trees(
    x: object,
    thresholds: object,
    features: object,
    children: object,
    roots: object,
    /,
) -> Any:
    """Return the leaf that each row of x reaches in each tree.

    A row goes from the root to a leaf. At a node with feature f and threshold h it goes
    to the first child if x[f] <= h, to the third if x[f] is NaN, else to the second. A
    node or a leaf may have several parents.

    Args:
        x: [n, f], a row of features for each sample.
        thresholds: [m], one for each node of all trees. x and thresholds are compared
            in their common type.
        features: [m], integers: the column of x that each node compares.
        children: [m, 3], integers: a node, or -1 - j for leaf j.
        roots: [t], integers: the first node of each tree, or -1 - j for leaf j.

    Returns:
        int64 [n, t], the number j of a leaf.

    Raises:
        ShapeError: the shapes do not fit each other.
        BoundsError: there is no such node, or no such feature.
        DataError: a path returns to a node, so that it does not end.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[0.5, 3.0], [2.0, 3.0]])
        >>> children = md.asarray([[-1, 1, -1], [-2, -3, -3]])
        >>> limits, features = md.asarray([1.0, 3.0]), md.asarray([0, 1])
        >>> roots = md.asarray([0])
        >>> md.decision_trees(x, limits, features, children, roots).tolist()
        [[0], [1]]

    Source: ONNX `TreeEnsemble`; Breiman et al. 1984.
    """


@generic(deduce=infer_pairwise_probabilities)
def pairwise_probabilities(x: object, /) -> Any:
    """Return the probability of each class, from probabilities for pairs of classes.

    p minimizes Σ (r_ji · p_i - r_ij · p_j)² over all pairs, with a sum of 1. The
    iteration ends as in LIBSVM: after 100 turns, or if the gradient differs from 0 by
    less than 0.005 / k.

    Args:
        x: [n, k · (k - 1) / 2], r_ij, the probability of class i if the class is i or
            j, for the pairs 01, 02, ... 12, ...; above 0 and below 1.

    Returns:
        [n, k].

    Raises:
        ShapeError: x does not have so many columns for any k.

    Example:
        >>> import mdtensor as md
        >>> md.pairwise_probabilities(md.asarray([[0.5, 0.5, 0.5]])).tolist()
        [[0.3333333432674408, 0.3333333432674408, 0.3333333432674408]]

    Source: Wu, Lin and Weng 2004, "Probability Estimates for Multi-class
    Classification by Pairwise Coupling", algorithm 2.
    """
