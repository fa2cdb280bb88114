"""Einsum, as products of matrices: operands are combined from left to right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape

#: Labels of the axes that an ellipsis stands for, counted from the last one.
ELLIPSIS = "..."


@dataclass(frozen=True)
class Operand:
    """A value and the label of each of its axes.

    Args:
        name: the name of the value.
        labels: a letter, or a number for an axis of the ellipsis.
    """

    name: str
    labels: tuple[str, ...]


@reads("Einsum")
def einsum(g: Builder, op: Operator) -> None:
    terms, output = _parse(g, op)
    operands = [
        _diagonal(g, op, Operand(str(name), labels))
        for name, labels in zip(op.inputs, terms, strict=True)
    ]
    found = operands[0]
    for at, other in enumerate(operands[1:], start=1):
        later = {x for rest in operands[at + 1 :] for x in rest.labels}
        found = _combine(g, op, found, other, later | set(output), at)
    found = _sum_out(g, op, found, set(output), "all")
    axes = tuple(found.labels.index(x) for x in output)
    g.call(op, md.permute_dims, found.name, axes=axes)


def _parse(g: Builder, op: Operator) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the labels of each operand and of the result."""
    equation = str(op.get("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(op.inputs):
        raise op.error(
            f"has {len(op.inputs)} operands, and the equation {equation!r} has "
            f"{len(texts)}",
            "Export it again",
        )
    ranks = [len(g.shape(name)) for name in op.inputs]
    terms = [_labels(op, t, rank) for t, rank in zip(texts, ranks, strict=True)]
    counts = Counter(x for term in terms for x in term)
    free = sorted((x for x in counts if x.isdigit()), key=int, reverse=True)
    if arrow:
        output = _labels(op, right, len(free) + len(right.replace(ELLIPSIS, "")))
    else:
        once = sorted(x for x, n in counts.items() if n == 1 and not x.isdigit())
        output = (*free, *once)
    if not set(output) <= set(counts) or len(set(output)) < len(output):
        raise op.error(
            f"has the equation {equation!r}, whose result repeats a label or has a "
            "label of no operand",
            "Export it again",
        )
    return terms, output


def _labels(op: Operator, text: str, rank: int) -> tuple[str, ...]:
    """Return the label of each axis of a term."""
    first, dots, last = text.partition(ELLIPSIS)
    more = rank - len(first) - len(last)
    letters = first + last
    is_known = letters.isalpha() or not letters
    if not is_known or more < 0 or (more and not dots):
        raise op.error(
            f"has the term {text!r} for a value of {rank} axes", "Export it again"
        )
    # Numbered from the last axis on: shapes broadcast from the right.
    return (*first, *(str(i) for i in reversed(range(more))), *last)


def _diagonal(g: Builder, op: Operator, x: Operand) -> Operand:
    """Select the elements whose indices of repeated labels are equal."""
    for label, count in Counter(x.labels).items():
        for turn in range(count - 1):
            first, second = [i for i, y in enumerate(x.labels) if y == label][:2]
            sizes = require_fixed_shape(g, op, x.name)
            along = np.arange(sizes[first])
            shape = [1] * len(sizes)
            rows, columns = (
                along.reshape([*shape[:at], -1, *shape[at + 1 :]])
                for at in (first, second)
            )
            stem = f"{x.name}.{label}{turn}"
            mask = g.new_constant(op, f"{stem}.mask", rows == columns)
            zero = np.zeros((), g.specs[x.name].dtype.storage)
            nothing = g.new_constant(op, f"{stem}.zero", zero)
            kept = g.step(op, f"{stem}.kept", md.where, mask, x.name, nothing)
            dtype = g.specs[x.name].dtype
            name = g.step(op, f"{stem}.sum", md.sum, kept, axis=second, dtype=dtype)
            x = Operand(name, (*x.labels[:second], *x.labels[second + 1 :]))
    return x


def _sum_out(
    g: Builder, op: Operator, x: Operand, kept: set[str], stem: str
) -> Operand:
    """Sum over the axes whose labels are not in `kept`."""
    axes = tuple(i for i, label in enumerate(x.labels) if label not in kept)
    if not axes:
        return x
    dtype = g.specs[x.name].dtype
    name = g.step(op, f"{stem}.sum", md.sum, x.name, axis=axes, dtype=dtype)
    return Operand(name, tuple(label for label in x.labels if label in kept))


def _combine(
    g: Builder, op: Operator, a: Operand, b: Operand, needed: set[str], at: int
) -> Operand:
    """Multiply two operands, and sum over labels that nothing else needs."""
    a = _sum_out(g, op, a, needed | set(b.labels), f"a{at}")
    b = _sum_out(g, op, b, needed | set(a.labels), f"b{at}")
    both = [x for x in a.labels if x in b.labels]
    batch = [x for x in both if x in needed]
    inner = [x for x in both if x not in needed]
    rows = [x for x in a.labels if x not in both]
    columns = [x for x in b.labels if x not in both]
    labels = (*batch, *rows, *columns)
    if not inner:
        left = _align(g, op, a, [*batch, *rows], len(columns), f"a{at}")
        right = _align(g, op, b, [*batch, *columns], 0, f"b{at}")
        # The columns of b come behind the rows of a, each with axes of size 1.
        for number in range(len(rows)):
            stem = f"b{at}.row{number}"
            right = g.step(op, stem, md.expand_dims, right, axis=len(batch))
        return Operand(g.step(op, f"product{at}", md.mul, left, right), labels)
    left = _matrices(g, op, a, (batch, rows, inner), f"a{at}")
    right = _matrices(g, op, b, (batch, inner, columns), f"b{at}")
    product = g.step(op, f"product{at}", md.matmul, left, right)
    sizes = dict(zip(b.labels, g.shape(b.name), strict=True))
    sizes |= dict(zip(a.labels, g.shape(a.name), strict=True))
    shape = g.shape(product)[: len(batch)] + tuple(sizes[x] for x in (*rows, *columns))
    if len(rows) == len(columns) == 1:
        return Operand(product, labels)
    return Operand(_reshape(g, op, product, shape, f"split{at}"), labels)


def _align(
    g: Builder, op: Operator, x: Operand, order: list[str], more: int, stem: str
) -> str:
    """Reorder the axes, and add `more` axes of size 1 at the end."""
    axes = tuple(x.labels.index(label) for label in order)
    name = x.name
    if axes != tuple(range(len(axes))):
        name = g.step(op, f"{stem}.turned", md.permute_dims, name, axes=axes)
    for number in range(more):
        name = g.step(op, f"{stem}.axis{number}", md.expand_dims, name, axis=-1)
    return name


def _matrices(
    g: Builder,
    op: Operator,
    x: Operand,
    parts: tuple[list[str], list[str], list[str]],
    stem: str,
) -> str:
    """Return x as a stack of matrices: the axes of each part in order, joined."""
    batch, rows, columns = parts
    name = _align(g, op, x, [*batch, *rows, *columns], 0, stem)
    if len(rows) == len(columns) == 1:
        return name
    shape = g.shape(name)
    first, second = len(batch), len(batch) + len(rows)
    joined = (_joined(shape[first:second]), _joined(shape[second:]))
    return _reshape(g, op, name, (*shape[:first], *joined), f"{stem}.joined")


def _joined(sizes: tuple[int, ...]) -> int:
    return -1 if -1 in sizes else prod(sizes)


def _reshape(
    g: Builder, op: Operator, name: str, shape: tuple[int, ...], stem: str
) -> str:
    if shape.count(-1) > 1:
        raise op.size_error("joins axes, and several sizes are dynamic")
    options: dict[str, Any] = {"shape": shape}
    return g.step(op, stem, md.reshape, name, **options)
