"""Reductions as rendered folds.

Sums of integers wrap, and are equal on every device. Sums of floats have one order,
which depends on the number of elements only: thread t of 64 adds elements t, t + 64,
..., and a tree adds the 64 sums. They differ from the host's pairwise sums in the last
bits: |error| ≤ (n / 64 + 6) · u · Σ|x|, with u = 2⁻²⁴ in float32 and 2⁻⁵³ in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mdtensor.device import Device
from mdtensor.generics import reduction, sorting
from mdtensor.generics.conversion import astype
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, Value, apply, cast, load
from mdtensor.rendered.launches import ALL, NUMBERS, REAL, launch, no_method
from mdtensor.rendered.methods import unary
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
