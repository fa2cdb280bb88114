"""Searches, sorts and sums of few elements along an axis, see `plain_steps.py`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from mdtensor.generics import indexing
from mdtensor.graph.bound import Called
from mdtensor.graph.plain_values import (
    INT32,
    INT64,
    Refused,
    Rule,
    Values,
    axes_of,
    widened,
)
from mdtensor.kernels.cpu.generic import plain_codes as run
from mdtensor.kernels.cpu.program import plain as steps
from mdtensor.spec.shapes import normalize_axes, normalize_axis
from mdtensor.spec.spec import TensorSpec

#: The most floats that NumPy adds in order, and those that it adds eight at a time.
FEW, MOST_ADDED = 7, 128


def order(code: int) -> Rule:
    """Return the rule of a search, a sort or running sums along an axis."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        name, axis, code_ = part.node.inputs[0], part.options["axis"], code
        spec = values.specs[name]
        dtype = spec.dtype.storage
        if code == run.ADD_UP:
            is_same = dtype == after.dtype.storage and dtype.kind in "if"
            if not is_same or part.options["include_initial"] or dtype == INT32:
                raise Refused
        if code == run.ARGSORT and part.options["descending"]:
            code_ = run.ARGSORT_DOWN
        if axis is None and spec.ndim != 1:
            raise Refused
        at = normalize_axis(axis or 0, spec.ndim)
        slot = values.slot(name)
        wide = slot if dtype.kind == "f" else widened(values, slot, INT64)
        size, inner = spec.shape[at], prod(spec.shape[at + 1 :])
        count = prod(spec.shape)
        step = steps.order(code_, wide.dtype, count, after.shape, size, inner)
        return values.append(step, wide)

    return rule


def search(values: Values, part: Called, after: TensorSpec) -> Any:
    ascending, name = part.node.inputs
    side, sorter = part.options["side"], part.options["sorter"]
    if ascending not in values.constants or not isinstance(name, str):
        raise Refused
    table, dtype = values.constants[ascending].buffer, values.specs[name].dtype.storage
    is_sorted = bool(np.all(table[1:] >= table[:-1]))
    known = dtype in (steps.FLOAT32, steps.FLOAT64, INT64)
    if sorter is not None or table.dtype != dtype or not (known and is_sorted):
        raise Refused
    code = run.SEARCH_RIGHT if side == "right" else run.SEARCH
    count, table = prod(after.shape), np.ascontiguousarray(table)
    step = steps.order(code, dtype, count, after.shape, count, 1, table)
    return values.append(step, values.slot(name))


def truths(is_all: bool) -> Rule:
    """Return the rule of `all` or `any`."""

    def rule(values: Values, part: Called, after: TensorSpec) -> Any:
        name, spec, length, inner = axes_of(values, part)
        if spec.dtype.storage != steps.BOOL:
            raise Refused
        count = prod(spec.shape)
        step = steps.truths(is_all, count, after.shape, length, inner)
        return values.append(step, values.slot(name))

    return rule


def add_up(values: Values, part: Called, after: TensorSpec) -> Any:
    name, spec, length, inner = axes_of(values, part)
    dtype, count = spec.dtype.storage, prod(spec.shape)
    if dtype != after.dtype.storage or dtype == INT32 or dtype.kind not in "if":
        raise Refused
    # NumPy adds neighbours in memory, and a view has others. Few are added in order.
    is_new = values.operations.get(name) is indexing.take
    is_one = len(normalize_axes(part.options["axis"], spec.ndim)) == 1
    if dtype.kind == "f" and length > (MOST_ADDED if is_new else FEW * is_one):
        raise Refused
    step = steps.order(run.TOTAL, dtype, count, after.shape, length, inner)
    return values.append(step, values.slot(name))
