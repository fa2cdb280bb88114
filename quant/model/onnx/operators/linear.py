"""Readers of LinearRegressor and LinearClassifier."""

from __future__ import annotations

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.scores import (
    class_labels,
    numbers,
    rows,
    transform,
    with_opposite,
    write_labels,
    write_scores,
)
from mdtensor.quant.model.onnx.operators.table import reads


@reads("ai.onnx.ml.LinearRegressor")
def linear_regressor(g: Builder, op: Operator) -> None:
    """Read LinearRegressor: x · Cᵀ + intercepts."""
    found = _products(g, op, op.get("targets", 1))
    # ONNX Runtime applies only PROBIT to a single target; the text has no exception.
    g.alias(op, op.outputs[0], transform(g, op, found))


@reads("ai.onnx.ml.LinearClassifier")
def linear_classifier(g: Builder, op: Operator) -> None:
    """Read LinearClassifier; one score for two classes is that of the second one."""
    count, labels = class_labels(op)
    width, given = g.shape(op.inputs[0])[-1], numbers(op, "coefficients").size
    is_single = count == 2 and (
        given == width if width > 0 else numbers(op, "intercepts").size == 1
    )
    scores = _products(g, op, 1 if is_single else count)
    if is_single:
        flat = g.step(op, "flat", md.squeeze, scores, axis=1)
        is_second = g.step(op, "is_second", md.greater, flat, 0.0)
        best = g.step(op, "best", md.astype, is_second, md.int64)
        scores = with_opposite(g, op, scores, is_signed=False)
    else:
        best = g.step(op, "best", md.argmax, scores, axis=1)
        scores = transform(g, op, scores)
    write_labels(g, op, labels, best)
    write_scores(g, op, scores)


def _products(g: Builder, op: Operator, count: int) -> str:
    """Return x · Cᵀ + intercepts for `count` targets, in float32.

    Raises:
        ModelError: the coefficients do not have a number for each feature and target.
    """
    x = rows(g, op, md.float32)
    width, given = g.shape(x)[1], numbers(op, "coefficients")
    wide = width if width > 0 else given.size // max(count, 1)
    require_count(op, given, count * wide, f"coefficients of {count} targets")
    weights = given.astype(np.float32).reshape(count, wide)
    names = [g.new_constant(op, "coefficients", weights)]
    if op.get("intercepts"):
        bias = numbers(op, "intercepts", count).astype(np.float32)
        names.append(g.new_constant(op, "intercepts", bias))
    return g.step(op, "products", md.linear, x, *names)
