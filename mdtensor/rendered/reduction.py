"""Reductions as rendered folds.

Sums of integers wrap, and are equal on every device. Sums of floats have one order,
which depends on the number n of elements only: up to 8192 of them, thread t of 64 adds
elements t, t + 64, ..., and a tree adds the 64 sums. More are pieces of 8192, and the
sums of the pieces are added in the same way. Sums differ from the host's pairwise ones
in the last bits: |error| ≤ (n / 64 + 6) · u · Σ|x| for one piece, 134 · u · Σ|x| and
that of n / 8192 sums for several, with u = 2⁻²⁴ in float32 and 2⁻⁵³ in float64.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import reduction, sorting
from mdtensor.generics.conversion import astype
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load
from mdtensor.rendered.launches import ALL, NUMBERS, REAL, launch, no_method
from mdtensor.rendered.methods import unary
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axes
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for name, fold in (("sum", "add"), ("prod", "mul")):
        operation = getattr(reduction, name)
        unary(device, operation, REAL, partial(_accumulate, operation, fold))
    for name, fold in (("max", "maximum"), ("min", "minimum")):
        operation = getattr(reduction, name)
        unary(device, operation, NUMBERS, partial(_extreme, operation, fold))
    for name, fold in (("any", "bit_or"), ("all", "bit_and")):
        operation = getattr(reduction, name)
        unary(device, operation, ALL, partial(_extreme, operation, fold))
    unary(device, reduction.mean, NUMBERS, mean)
    for name in ("var", "std"):
        operation = getattr(reduction, name)
        unary(device, operation, NUMBERS, partial(_spread, operation))
    for name in ("argmax", "argmin"):
        operation = getattr(sorting, name)
        unary(device, operation, NUMBERS, partial(_place, operation, name))
    unary(device, sorting.count_nonzero, ALL, _count)


def fold(
    operation: str,
    spec: Any,
    x: Tensor,
    value: Value,
    name: str,
    finish: Value | None,
    axis: Any,
) -> Any:
    """Return the tensor of a spec: a fold of a value of x over axes."""
    loop = Loop((Input(x.dtype.name),), value, name, finish, name=operation)
    axes = normalize_axes(axis, x.ndim)
    return spec.type.wrap(launch(x.device, loop, spec.shape, [x.buffer], axes))


def _element(x: Tensor, type: str) -> Value:
    """Return the element as what is computed for results of a type."""
    return cast(load(0, x.dtype.name), ir.widen(load(0, type)).type)


def _accumulate(
    operation: Any, name: str, x: Tensor, /, *, axis: Any, dtype: Any, keepdims: bool
) -> Any:
    spec = infer(operation, x, axis=axis, dtype=dtype, keepdims=keepdims)
    type = spec.dtype.name
    if spec.dtype.is_complex:
        raise no_method(operation.__name__, x)
    if spec.dtype.is_integer and x.dtype.is_floating:
        # Each element is checked and cut off as in `astype`, as on the host.
        x = astype(x, spec.dtype)
    value = _element(x, type)
    finish = cast(ir.total(value.type), type)
    return fold(operation.__name__, spec, x, value, name, finish, axis)


def _extreme(
    operation: Any, name: str, x: Tensor, /, *, axis: Any, keepdims: bool
) -> Any:
    spec = infer(operation, x, axis=axis, keepdims=keepdims)
    value = _element(x, spec.dtype.name)
    finish = cast(ir.total(value.type), spec.dtype.name)
    return fold(operation.__name__, spec, x, value, name, finish, axis)


def mean(x: Tensor, /, *, axis: Any, keepdims: bool) -> Any:
    """Return the mean over axes: the sum, divided once."""
    spec = infer(reduction.mean, x, axis=axis, keepdims=keepdims)
    # float64 holds the sums of narrow integers, whatever the type of the mean.
    type = "float64" if x.dtype.is_integer else spec.dtype.name
    value = _element(x, type)
    share = apply("div", ir.total(value.type), cast(ir.count(), value.type))
    finish = cast(share, spec.dtype.name)
    return fold("mean", spec, x, value, "add", finish, axis)


def _spread(
    operation: Any, x: Tensor, /, *, axis: Any, correction: Any, keepdims: bool
) -> Any:
    """Return `var`, the mean square of what differs from the mean, or its root."""
    options = {"axis": axis, "correction": correction, "keepdims": keepdims}
    spec = infer(operation, x, **options)
    type = "float64" if x.dtype.is_integer else spec.dtype.name
    value, axes, name = _element(x, type), normalize_axes(axis, x.ndim), x.dtype.name
    storage = np.dtype(value.type)
    freedom = prod(x.shape[a] for a in axes) - number(correction, "correction")
    # Nothing is free of the mean: the quotient by NaN is NaN.
    free = np.array(freedom if freedom > 0 else np.nan, storage)
    share = apply("div", ir.total(value.type), cast(ir.count(), value.type))
    loop = Loop((Input(name),), value, "add", share, name="mean")
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    center = launch(x.device, loop, shape, [x.buffer], axes)
    away = apply("sub", value, load(1, value.type))
    total = apply("div", ir.total(value.type), ir.scalar(2, value.type))
    if operation is reduction.std:
        total = apply("sqrt", total)
    inputs = (Input(name), Input(value.type), Input(value.type, is_number=True))
    square, finish = apply("mul", away, away), cast(total, spec.dtype.name)
    loop = Loop(inputs, square, "add", finish, name=operation.__name__)
    buffers = [x.buffer, center, free]
    return spec.type.wrap(launch(x.device, loop, spec.shape, buffers, axes))


def _place(
    operation: Any, name: str, x: Tensor, /, *, axis: Any, keepdims: bool
) -> Any:
    spec = infer(operation, x, axis=axis, keepdims=keepdims)
    value = ir.widen(load(0, x.dtype.name))
    return fold(name, spec, x, value, name, None, axis)


def _count(x: Tensor, /, *, axis: Any, keepdims: bool) -> Any:
    spec = infer(sorting.count_nonzero, x, axis=axis, keepdims=keepdims)
    value = cast(cast(load(0, x.dtype.name), "bool"), "int64")
    finish = cast(ir.total("int64"), spec.dtype.name)
    return fold("count_nonzero", spec, x, value, "add", finish, axis)
