"""Sums of products by the labels of axes, as products of matrices.

    einsum("bij,bjk->bik", x, y)        # stacks of matrices
    einsum("...i,i->...", x, y)         # the ellipsis stands for any axes

Operands are combined from left to right. Two of them become a stack of matrix
products: shared labels that something else needs are the stack, the other shared ones
are summed. `Steps` says how an operation is done, so that the reader of ONNX files
writes nodes with the same algorithm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from mdtensor.compositions import as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.errors import OptionError, ShapeError, checked, describe, shown
from mdtensor.generics.arithmetic import mul
from mdtensor.generics.conversion import to
from mdtensor.generics.manipulation import expand_dims, permute_dims, reshape
from mdtensor.generics.matmul import matmul
from mdtensor.generics.reduction import sum as sum_of
from mdtensor.generics.sorting import where
from mdtensor.tensor import from_numpy

#: The axes that an ellipsis stands for have numbers as labels, from the last one on.
ELLIPSIS = "..."
Labels = tuple[str, ...]


class Steps(Protocol):
    """How operations are done: at once, or as nodes of a graph."""

    def shape(self, x: Any) -> tuple[int, ...]:
        """Return the shape of a value; -1 stands for an unknown size."""

    def call(self, stem: str, operation: Any, *inputs: Any, **options: Any) -> Any:
        """Return the result of a call; `stem` is a name for it."""

    def masked(self, stem: str, x: Any, mask: Any) -> Any:
        """Return `x`, and 0 where the array of bools `mask` does not hold."""

    def total(self, stem: str, x: Any, axis: Any) -> Any:
        """Return the sum of `x` over axes, in its own element type."""


class Operand(NamedTuple):
    """A value and the label of each of its axes: a letter, or a number."""

    value: Any
    labels: Labels


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand and of the result.

    Without an arrow the result has the labels that occur once, in alphabetical order,
    after the axes of the ellipsis.

    Args:
        equation: terms with a letter for each axis, "ij,jk->ik".
        ranks: the number of axes of each operand.

    Raises:
        OptionError: the equation has another number of terms, a term does not fit the
            axes of its operand, or the result repeats a label or has an unknown one.

    Example:
        >>> parse_equation("ij,jk", (2, 2))
        ([('i', 'j'), ('j', 'k')], ('i', 'k'))
    """
    plain = equation.replace(" ", "")
    left, arrow, right = plain.partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        problem = f"the equation {equation!r} has {len(texts)} terms"
        raise OptionError(f"{problem} for {len(ranks)} operands", "Give one for each")
    terms = [_labels(text, rank) for text, rank in zip(texts, ranks, strict=True)]
    counts = Counter(x for term in terms for x in term)
    free = sorted((x for x in counts if x.isdigit()), key=int, reverse=True)
    if arrow:
        output = _labels(right, len(free) + len(right.replace(ELLIPSIS, "")))
    else:
        once = sorted(x for x, n in counts.items() if n == 1 and not x.isdigit())
        output = (*free, *once)
    if not set(output) <= set(counts) or len(set(output)) < len(output):
        problem = f"the result {right!r} of the equation repeats a label, or has a"
        fix = "Use each label of the operands at most once"
        raise OptionError(f"{problem} label of no operand", fix)
    return terms, output


def _labels(text: str, rank: int) -> Labels:
    """Return the label of each axis of a term."""
    first, dots, last = text.partition(ELLIPSIS)
    more = rank - len(first) - len(last)
    letters = first + last
    # Letters of other alphabets would be sorted by their numbers.
    is_known = not letters or (letters.isalpha() and letters.isascii())
    if not is_known or more < 0 or (more and not dots):
        raise OptionError(
            f"the term {text!r} does not fit a value of {rank} axes",
            "Use one letter for each axis; ... stands for any number of axes",
        )
    # Numbered from the last axis on: shapes broadcast from the right.
    return (*first, *map(str, reversed(range(more))), *last)


def contract_terms(
    steps: Steps, values: Sequence[Any], terms: Sequence[Labels], output: Labels
) -> tuple[Any, tuple[int, ...]]:
    """Compute the sum of products of values for the labels of an equation.

    Args:
        steps: how operations are done.
        values: the operands.
        terms: the labels of each.
        output: the labels of the result.

    Returns:
        The sum, and the order of axes that the result has.
    """
    pairs = zip(values, terms, strict=True)
    operands = [_diagonal(steps, Operand(x, labels)) for x, labels in pairs]
    found = operands[0]
    for at, other in enumerate(operands[1:], start=1):
        later = {x for rest in operands[at + 1 :] for x in rest.labels}
        found = _combine(steps, found, other, later | set(output), at)
    found = _sum_out(steps, found, set(output), "all")
    return found.value, tuple(found.labels.index(label) for label in output)


def _diagonal(steps: Steps, x: Operand) -> Operand:
    """Select the elements whose indices of repeated labels are equal."""
    for label, count in Counter(x.labels).items():
        for turn in range(count - 1):
            first, second = [i for i, y in enumerate(x.labels) if y == label][:2]
            sizes = steps.shape(x.value)
            lines = [np.arange(sizes[at]) for at in (first, second)]
            shapes = [[1] * len(sizes), [1] * len(sizes)]
            shapes[0][first] = shapes[1][second] = -1
            rows, columns = map(np.reshape, lines, shapes)
            stem = f"{label}{turn}"
            kept = steps.masked(f"{stem}.kept", x.value, rows == columns)
            total = steps.total(f"{stem}.sum", kept, second)
            x = Operand(total, (*x.labels[:second], *x.labels[second + 1 :]))
    return x


def _sum_out(steps: Steps, x: Operand, kept: set[str], stem: str) -> Operand:
    """Sum over the axes whose labels are not in `kept`."""
    axes = tuple(i for i, label in enumerate(x.labels) if label not in kept)
    if not axes:
        return x
    labels = tuple(label for label in x.labels if label in kept)
    return Operand(steps.total(f"{stem}.sum", x.value, axes), labels)


def _combine(
    steps: Steps, a: Operand, b: Operand, needed: set[str], at: int
) -> Operand:
    """Multiply two operands, and sum over labels that nothing else needs."""
    a = _sum_out(steps, a, needed | set(b.labels), f"a{at}")
    b = _sum_out(steps, b, needed | set(a.labels), f"b{at}")
    both = [x for x in a.labels if x in b.labels]
    batch = [x for x in both if x in needed]
    inner = [x for x in both if x not in needed]
    rows = [x for x in a.labels if x not in both]
    columns = [x for x in b.labels if x not in both]
    labels = (*batch, *rows, *columns)
    if not inner:
        left = _align(steps, a, [*batch, *rows], len(columns), f"a{at}")
        right = _align(steps, b, [*batch, *columns], 0, f"b{at}")
        # The columns of b come behind the rows of a, each with axes of size 1.
        for number in range(len(rows)):
            stem = f"b{at}.row{number}"
            right = steps.call(stem, expand_dims, right, axis=len(batch))
        return Operand(steps.call(f"product{at}", mul, left, right), labels)
    left = _matrices(steps, a, (batch, rows, inner), f"a{at}")
    right = _matrices(steps, b, (batch, inner, columns), f"b{at}")
    product = steps.call(f"product{at}", matmul, left, right)
    if len(rows) == len(columns) == 1:
        return Operand(product, labels)
    sizes = dict(zip(b.labels, steps.shape(b.value), strict=True))
    sizes |= dict(zip(a.labels, steps.shape(a.value), strict=True))
    known = steps.shape(product)[: len(batch)]
    shape = known + tuple(sizes[x] for x in (*rows, *columns))
    return Operand(steps.call(f"split{at}", reshape, product, shape=shape), labels)


def _align(steps: Steps, x: Operand, order: Sequence[str], more: int, stem: str) -> Any:
    """Reorder the axes, and add `more` axes of size 1 at the end."""
    axes = tuple(x.labels.index(label) for label in order)
    value = x.value
    if axes != tuple(range(len(axes))):
        value = steps.call(f"{stem}.turned", permute_dims, value, axes=axes)
    for number in range(more):
        value = steps.call(f"{stem}.axis{number}", expand_dims, value, axis=-1)
    return value


def _matrices(
    steps: Steps, x: Operand, parts: tuple[list[str], list[str], list[str]], stem: str
) -> Any:
    """Return x as a stack of matrices: the axes of each part in order, joined."""
    batch, rows, columns = parts
    value = _align(steps, x, [*batch, *rows, *columns], 0, stem)
    if len(rows) == len(columns) == 1:
        return value
    shape = steps.shape(value)
    first, second = len(batch), len(batch) + len(rows)
    joined = (_joined(shape[first:second]), _joined(shape[second:]))
    shape = (*shape[:first], *joined)
    return steps.call(f"{stem}.joined", reshape, value, shape=shape)


def _joined(sizes: tuple[int, ...]) -> int:
    return -1 if -1 in sizes else prod(sizes)


class _Calls:
    """Operations are called at once."""

    def shape(self, x: Any) -> tuple[int, ...]:
        shape: tuple[int, ...] = x.shape
        return shape

    def call(self, stem: str, operation: Any, *inputs: Any, **options: Any) -> Any:
        return operation(*inputs, **options)

    def masked(self, stem: str, x: Any, mask: Any) -> Any:
        # The mask is made where `x` is; nothing else moves.
        return where(to(from_numpy(mask), x.device), x, 0)

    def total(self, stem: str, x: Any, axis: Any) -> Any:
        # Codes have no sum in another type; numbers keep theirs, as in a product.
        own = {} if x.dtype.kind == "quantized" else {"dtype": x.dtype}
        return sum_of(x, axis=axis, **own)


@composed
def einsum(equation: str, /, *operands: Any) -> Any:
    """Return the sums of products that an equation of labels describes.

    Each axis has a letter. The products of all operands are summed over the letters
    that the result does not have. Operands are combined from left to right.

    Args:
        equation: the terms of the operands and of the result, "bij,bjk->bik". `...`
            stands for any axes, which broadcast. Without an arrow the result has the
            letters that occur once, in alphabetical order. A letter that a term repeats
            selects the diagonal.
        operands: tensors, one for each term.

    Returns:
        The promoted type, as of products and sums: integers wrap, floats round as in
        `matmul`; codes give accumulators.

    Raises:
        OptionError: the equation is not a text, or does not fit the operands.
        ShapeError: axes with one letter differ in size.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1, 2], [3, 4]])
        >>> md.einsum("ij,kj->ik", x, x).tolist()
        [[5, 11], [11, 25]]
        >>> md.einsum("ii", x).tolist()
        5

    Source: NumPy, `einsum`; ONNX 1.23, `Einsum`.
    """
    call = describe("einsum", *operands)
    if not isinstance(equation, str):
        problem = f"the equation is {shown(equation)}, not a text"
        raise OptionError(problem, 'Give one such as "ij,jk->ik"', call)
    given = [as_tensor(x, "einsum") for x in operands]
    ranks = [x.ndim for x in given]
    terms, output = checked(
        "einsum", (*given,), lambda: parse_equation(equation, ranks)
    )
    _check_sizes([x.shape for x in given], terms, call)
    total, axes = contract_terms(_Calls(), given, terms, output)
    return permute_dims(total, axes)


def _check_sizes(shapes: list[Any], terms: list[Labels], call: str) -> None:
    """Raise if axes with one letter have different sizes."""
    known: dict[str, int] = {}
    for shape, labels in zip(shapes, terms, strict=True):
        for label, size in zip(labels, shape, strict=True):
            before = known.setdefault(label, size)
            # The axes of an ellipsis broadcast; those of a letter do not.
            if label.isdigit() and 1 in (before, size):
                known[label] = max(before, size)
            elif size != before:
                what = (
                    f"axis {label!r}" if label.isalpha() else "an axis of the ellipsis"
                )
                problem = f"{what} has the sizes {before} and {size}"
                raise ShapeError(problem, "Give axes of one size", call)
