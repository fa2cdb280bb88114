"""Readers of SVMRegressor and SVMClassifier, computed in float64 and rounded once.

The standard names the attributes but does not give a formula. The formulas here are
ONNX Runtime's, which are those of LIBSVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.scores import (
    cast,
    class_labels,
    numbers,
    rows,
    transform,
    with_opposite,
    write_labels,
    write_scores,
)
from mdtensor.quant.model.onnx.operators.table import reads

#: Probabilities of pairs of classes are at least this, and at most 1 - this.
LEAST = 1e-7


@reads("ai.onnx.ml.SVMRegressor")
def svm_regressor(g: Builder, op: Operator) -> None:
    """Read SVMRegressor: Σ coefficient · K(x, vector) + rho."""
    count = op.get("n_supports", 0)
    if count < 0:
        raise op.error(f"has n_supports={count}", "Use 0 or more")
    x, weights = rows(g, op, md.float64), numbers(op, "coefficients")
    if count:
        require_count(op, weights, count, "coefficients")
        x = _kernel(g, op, x, _vectors(op, count))
    w = g.new_constant(op, "weights", _checked_rows(g, op, x, weights, 1))
    rho = _first_rho(g, op)
    found = g.step(op, "sum", md.linear, x, w, rho)
    if op.get("one_class", 0):
        is_inside = g.step(op, "is_inside", md.greater, found, 0.0)
        found = g.step(op, "side", md.where, is_inside, *_signs(g, op))
    # ONNX Runtime ignores `post_transform` here; the text has no exception.
    found = transform(g, op, found)
    g.alias(op, op.outputs[0], cast(g, op, found, md.float32))


def _signs(g: Builder, op: Operator) -> list[str]:
    return [g.new_constant(op, f"side{v}", np.array(v, np.float64)) for v in (1, -1)]


def _first_rho(g: Builder, op: Operator) -> str:
    rho = numbers(op, "rho")
    require_count(op, rho[:1], 1, "rho")
    return g.new_constant(op, "rho", rho[:1])


def _checked_rows(
    g: Builder, op: Operator, x: str, weights: Array, count: int
) -> Array:
    """Return weights as `count` rows, as wide as x."""
    width = g.shape(x)[1]
    wide = width if width > 0 else weights.size // count
    require_count(op, weights, count * wide, f"coefficients of {count} rows")
    return weights.reshape(count, wide)


def _vectors(op: Operator, count: int) -> Array:
    """Return the support vectors, one in each row."""
    given = numbers(op, "support_vectors")
    if not given.size or given.size % count:
        raise op.error(
            f"has {given.size} numbers as {count} support vectors", "Export it again"
        )
    return given.reshape(count, -1)


def _kernel(g: Builder, op: Operator, x: str, vectors: Array) -> str:
    """Return K(x, vector) for each row of x and each support vector."""
    width = g.shape(x)[1]
    if width not in (-1, vectors.shape[1]):
        raise op.error(
            f"has support vectors of {vectors.shape[1]} features for {width}",
            "Export it again",
        )
    kind, given = op.get("kernel_type", "LINEAR"), numbers(op, "kernel_params")
    if given.size not in (0, 3):
        require_count(op, given, 3, "kernel_params")
    gamma, start, degree = map(float, given) if given.size else (0.0, 0.0, 0.0)
    v = g.new_constant(op, "vectors", vectors)
    found = g.step(op, "products", md.linear, x, v)
    if kind == "LINEAR":
        return found
    if kind == "RBF":
        return _radial(g, op, x, found, (vectors * vectors).sum(axis=1), gamma)
    scaled = g.step(op, "scaled", md.mul, found, gamma)
    moved = g.step(op, "moved", md.add, scaled, start)
    if kind == "SIGMOID":
        return g.step(op, "kernel", md.tanh, moved)
    return g.step(op, "kernel", md.pow, moved, degree)


def _radial(
    g: Builder, op: Operator, x: str, products: str, sizes: Array, gamma: float
) -> str:
    """Return exp(-gamma · |x - v|²), from |x|² + |v|² - 2 · x·v."""
    squares = g.step(op, "squares", md.mul, x, x)
    own = g.step(op, "own", md.sum, squares, axis=1, keepdims=True)
    both = g.step(op, "sizes", md.add, own, g.new_constant(op, "norms", sizes))
    twice = g.step(op, "twice", md.mul, products, 2.0)
    distance = g.step(op, "distance", md.sub, both, twice)
    scaled = g.step(op, "scaled", md.mul, distance, -gamma)
    return g.step(op, "kernel", md.exp, scaled)


@dataclass(frozen=True)
class Pairs:
    """The pairs of classes i < j, in order.

    Args:
        first, second: i and j of each pair.
        weights: [pairs, vectors], the coefficients that decide for i.
        rho: a bias of each pair.
    """

    first: Array
    second: Array
    weights: Array
    rho: Array


@reads("ai.onnx.ml.SVMClassifier")
def svm_classifier(g: Builder, op: Operator) -> None:
    """Read SVMClassifier; without support vectors its coefficients are linear."""
    count, labels = class_labels(op)
    x, sizes = rows(g, op, md.float64), op.get("vectors_per_class") or ()
    if not sum(sizes):
        _linear(g, op, x, count, labels)
        return
    require_count(op, sizes, count, "vectors_per_class")
    if min(sizes) < 0:
        raise op.error(f"has vectors_per_class={sizes}", "Use 0 or more")
    pairs = _pairs(op, count, np.array(sizes, np.int64))
    kernel = _kernel(g, op, x, _vectors(op, sum(sizes)))
    named = (
        g.new_constant(op, stem, values)
        for stem, values in (("weights", pairs.weights), ("rho", pairs.rho))
    )
    scores = g.step(op, "scores", md.linear, kernel, *named)
    write_labels(g, op, labels, _winner(g, op, scores, pairs, count))
    if op.get("prob_a"):
        found = _probabilities(g, op, scores, len(pairs.rho))
        write_scores(g, op, transform(g, op, found))
    elif count == 2:
        # Of ONNX Runtime: with a transform other than NONE the first score is 1 - s.
        is_signed = op.get("post_transform", "NONE") == "NONE"
        write_scores(g, op, with_opposite(g, op, scores, is_signed=is_signed))
    else:
        # One score for each pair, not each class, as in ONNX Runtime.
        write_scores(g, op, transform(g, op, scores))


def _linear(g: Builder, op: Operator, x: str, count: int, labels: Any) -> None:
    """Read a classifier whose coefficients are a row for each class."""
    if count == 2:
        raise op.error(
            "has two classes and no support vectors, for which ONNX does not define "
            "the label",
            "Export it as a LinearClassifier",
        )
    given = numbers(op, "coefficients")
    w = g.new_constant(op, "weights", _checked_rows(g, op, x, given, count))
    product = g.step(op, "products", md.linear, x, w)
    # ONNX Runtime adds the first number to all scores.
    scores = g.step(op, "scores", md.add, product, _first_rho(g, op))
    write_labels(g, op, labels, g.step(op, "best", md.argmax, scores, axis=1))
    write_scores(g, op, transform(g, op, scores))


def _pairs(op: Operator, count: int, sizes: Array) -> Pairs:
    """Return the coefficients by pair; the file has a row for each other class."""
    total, first = int(sizes.sum()), np.triu_indices(count, 1)
    given = numbers(op, "coefficients", (count - 1) * total).reshape(count - 1, total)
    rho = numbers(op, "rho", len(first[0]))
    owner = np.repeat(np.arange(count), sizes)
    weights = np.zeros((len(rho), total))
    for at, (i, j) in enumerate(zip(*first, strict=True)):
        weights[at] = np.where(owner == i, given[j - 1], 0.0)
        weights[at] += np.where(owner == j, given[i], 0.0)
    return Pairs(*first, weights, rho)


def _winner(g: Builder, op: Operator, scores: str, pairs: Pairs, count: int) -> str:
    """Return the class that wins the most pairs, the first one of several."""
    is_first = g.step(op, "is_first", md.greater, scores, 0.0)
    won = g.step(op, "won", md.astype, is_first, md.float64)
    # A pair adds 1 to its first or its second class: 1[j] + won · (1[i] - 1[j]).
    classes = np.arange(count)[:, None]
    second = (pairs.second == classes).astype(np.float64)
    change = g.new_constant(op, "change", (pairs.first == classes) - second)
    start = g.new_constant(op, "start", second.sum(axis=1))
    votes = g.step(op, "votes", md.linear, won, change, start)
    return g.step(op, "best", md.argmax, votes, axis=1)


def _probabilities(g: Builder, op: Operator, scores: str, count: int) -> str:
    """Return the probability of each class; pairs have 1 / (1 + exp(a · s + b))."""
    a, b = (
        g.new_constant(op, name, numbers(op, name, count))
        for name in ("prob_a", "prob_b")
    )
    moved = g.step(op, "moved", md.add, g.step(op, "scaled", md.mul, scores, a), b)
    first = g.step(op, "first", md.sigmoid, g.step(op, "back", md.neg, moved))
    options: dict[str, Any] = {"min": LEAST, "max": 1 - LEAST}
    limited = g.step(op, "limited", md.clip, first, **options)
    return g.step(op, "coupled", md.pairwise_probabilities, limited)
