"""Parts that readers of estimators share: rows, labels and post transforms.

The standard does not define the transforms but by their names; ONNX Runtime and the
reference of the package onnx have the formulas here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator

#: The factor of the logarithm in the approximation of erf⁻¹ by Winitzki.
WINITZKI = 0.147
#: SOFTMAX_ZERO takes numbers up to this for 0.
ZERO = 1e-7


def rows(g: Builder, op: Operator, dtype: md.DType, index: int = 0) -> str:
    """Return an input [n, f] in an element type; [f] is a single row.

    Raises:
        ModelError: the input has another rank.
    """
    name = str(op.inputs[index])
    shape = g.shape(name)
    if len(shape) not in (1, 2):
        raise op.error(f"reads {name!r} of shape {shape}", "Give it [n, f] or [f]")
    if len(shape) == 1:
        name = g.step(op, f"row{index}", md.expand_dims, name, axis=0)
    return cast(g, op, name, dtype)


def cast(g: Builder, op: Operator, name: str, dtype: md.DType) -> str:
    """Return a value in a floating-point type, or an integer in a wider one."""
    if g.specs[name].dtype is dtype:
        return name
    return g.step(op, f"{dtype}", md.astype, name, dtype, casting="wrap")


def numbers(op: Operator, name: str, count: int | None = None) -> Array:
    """Return an attribute of floats, or of its tensor, as float64; absent is empty.

    Raises:
        ModelError: the attribute does not have `count` numbers, or is given as both.
    """
    found, tensor = op.get(name), op.get(f"{name}_as_tensor")
    if found and tensor is not None:
        raise op.error(f"has {name} and {name}_as_tensor", "Keep one of them")
    given = np.asarray(found or () if tensor is None else tensor, np.float64)
    if count is not None:
        require_count(op, given.reshape(-1), count, name)
    return given.reshape(-1)


def text(entry: Any) -> str:
    """Return an entry of an attribute as text."""
    return entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)


def class_labels(op: Operator, ints: str = "classlabels_ints") -> tuple[int, Any]:
    """Return the number of classes, and their labels; None if the labels are text.

    Raises:
        ModelError: there are no labels, or labels of both types, or just one.
    """
    whole, texts = op.get(ints) or (), op.get("classlabels_strings") or ()
    if bool(whole) == bool(texts):
        raise op.error(
            f"has {len(whole)} labels as {ints} and {len(texts)} as "
            "classlabels_strings",
            "Give one of them",
        )
    count = len(whole or texts)
    if count < 2:
        raise op.error("has 1 class", "Give it 2 or more labels")
    return count, np.array(whole, np.int64) if whole else None


def write_labels(g: Builder, op: Operator, labels: Any, places: str) -> None:
    """Write the first output: the labels of the classes at `places`."""
    if labels is None:
        g.texts[op.outputs[0]] = op
        return
    if np.array_equal(labels, np.arange(len(labels))):
        g.alias(op, op.outputs[0], cast(g, op, places, md.int64))
        return
    known = g.new_constant(op, "labels", labels)
    g.call(op, md.take, known, places, axis=0)
    g.unsupported.pop(_scores(op), None)


def write_scores(g: Builder, op: Operator, scores: str) -> None:
    """Write the second output, in float32, if the file names it."""
    if output := _scores(op):
        g.alias(op, output, cast(g, op, scores, md.float32))


def _scores(op: Operator) -> str:
    return op.outputs[1] if len(op.outputs) > 1 else ""


def transform(g: Builder, op: Operator, x: str) -> str:
    """Return scores [n, k] after the attribute `post_transform`."""
    kind = op.get("post_transform", "NONE")
    found: str = TRANSFORMS[kind](g, op, x)
    return found


def with_opposite(g: Builder, op: Operator, score: str, *, is_signed: bool) -> str:
    """Return two scores for the one of two classes, after the post transform.

    A single score of two classes is that of the second class. The score of the first
    is -s if `is_signed`, else 1 - s. The standard does not mention this case. Of the
    transforms, ONNX Runtime applies LOGISTIC, to -s and s, and PROBIT. Its PROBIT of
    the first class is not defined; here it is that of 1 - s, as in the reference of
    the package onnx.

    Args:
        score: [n, 1].
    """
    kind = op.get("post_transform", "NONE")
    turned = g.step(op, "negative", md.neg, score)
    if kind == "PROBIT" or (kind != "LOGISTIC" and not is_signed):
        turned = g.step(op, "rest", md.add, turned, 1.0)
    both = g.step(op, "both", md.concat, turned, score, axis=1)
    if kind in ("LOGISTIC", "PROBIT"):
        return transform(g, op, both)
    return both


def _keep(g: Builder, op: Operator, x: str) -> str:
    return x


def _logistic(g: Builder, op: Operator, x: str) -> str:
    return g.step(op, "logistic", md.sigmoid, x)


def _softmax(g: Builder, op: Operator, x: str) -> str:
    return g.step(op, "softmax", md.softmax, x, axis=-1)


def _softmax_zero(g: Builder, op: Operator, x: str) -> str:
    """Return a softmax of the scores other than 0, which stay 0.

    A row of zeros becomes NaN, as in ONNX Runtime.
    """
    high = g.step(op, "high", md.max, x, axis=-1, keepdims=True)
    powers = g.step(op, "power", md.exp, g.step(op, "less", md.sub, x, high))
    size = g.step(op, "size", md.abs, x)
    is_other = g.step(op, "is_other", md.greater, size, ZERO)
    kept = g.step(op, "kept", md.where, is_other, powers, 0.0)
    total = g.step(op, "total", md.sum, kept, axis=-1, keepdims=True)
    return g.step(op, "softmax", md.div, kept, total)


def _probit(g: Builder, op: Operator, x: str) -> str:
    """Return √2 · erf⁻¹(2x - 1) by the approximation that ONNX Runtime has."""
    y = g.step(op, "wide", md.sub, g.step(op, "twice", md.mul, x, 2.0), 1.0)
    rest = g.step(op, "rest", md.sub, 1.0, g.step(op, "square", md.mul, y, y))
    log = g.step(op, "log", md.log, rest)
    half = g.step(op, "half", md.mul, log, 0.5)
    v = g.step(op, "v", md.add, half, 2 / (math.pi * WINITZKI))
    scaled = g.step(op, "scaled", md.mul, log, 1 / WINITZKI)
    inner = g.step(op, "inner", md.sub, g.step(op, "v2", md.mul, v, v), scaled)
    root = g.step(op, "root", md.sqrt, inner)
    size = g.step(op, "size", md.sqrt, g.step(op, "over", md.sub, root, v))
    signed = g.step(op, "signed", md.copysign, size, y)
    return g.step(op, "probit", md.mul, signed, math.sqrt(2))


TRANSFORMS: dict[str, Any] = {
    "NONE": _keep,
    "SOFTMAX": _softmax,
    "LOGISTIC": _logistic,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
