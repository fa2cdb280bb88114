"""Integers that wrapped: every result modulo 2**bits is compared with the exact one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from mdtensor.checking.audits import Case, audit
from mdtensor.checking.log import Headroom, Lost
from mdtensor.device import cpu
from mdtensor.dtypes import float64
from mdtensor.generics.arithmetic import (
    abs,
    add,
    floor_divide,
    mul,
    neg,
    pow,
    square,
    sub,
)
from mdtensor.generics.conv import conv2d
from mdtensor.generics.conversion import astype
from mdtensor.generics.linalg import trace
from mdtensor.generics.matmul import (
    cross,
    linear,
    matmul,
    matrix_power,
    outer,
    tensordot,
    vecdot,
)
from mdtensor.generics.reduction import prod, sum
from mdtensor.generics.scan import cumulative_prod, cumulative_sum, diff
from mdtensor.kernels.numpy import overflow
from mdtensor.tensor import Tensor
from mdtensor.types import Float64Tensor, IntegerTensor, SignedTensor

UFUNCS = {add: np.add, sub: np.subtract, mul: np.multiply, pow: np.power}


def on_host(function: Callable[[Case], Any]) -> Callable[[Case], Any]:
    """An audit that is not asked about results on other devices."""

    def run(case: Case) -> Iterator[Lost | Headroom]:
        if case.result.device is cpu:
            yield from function(case)

    return run


def buffers(case: Case) -> list[Any]:
    """Arrays of the operands; a Python number has the type of the result."""
    storage = case.result.buffer.dtype
    return [
        x.buffer if isinstance(x, Tensor) else np.asarray(x, storage)
        for x in case.arguments
        if x is not None
    ]


def _elementwise(ufunc: np.ufunc, case: Case) -> Iterator[Lost]:
    yield Lost(
        "wrapped", overflow.elementwise(ufunc, buffers(case), case.result.buffer)
    )


for _operation, _ufunc in UFUNCS.items():
    audit(_operation, result=IntegerTensor)(on_host(partial(_elementwise, _ufunc)))


@audit(square, result=IntegerTensor)
@on_host
def squares(case: Case) -> Iterator[Lost]:
    (x,) = buffers(case)
    count = overflow.elementwise(np.multiply, [x, x], case.result.buffer)
    yield Lost("wrapped", count)


@audit(outer, result=IntegerTensor)
@on_host
def outer_products(case: Case) -> Iterator[Lost]:
    a, b = buffers(case)
    count = overflow.elementwise(np.multiply, [a[:, None], b], case.result.buffer)
    yield Lost("wrapped", count)


@audit(neg, result=IntegerTensor)
@on_host
def negatives(case: Case) -> Iterator[Lost]:
    (x,) = buffers(case)
    zero = np.zeros((), x.dtype)
    count = overflow.elementwise(np.subtract, [zero, x], case.result.buffer)
    yield Lost("wrapped", count)


@audit(abs, result=SignedTensor)
@on_host
def magnitudes(case: Case) -> Iterator[Lost]:
    """Only the smallest integer has none."""
    yield Lost("wrapped", int(np.count_nonzero(case.result.buffer < 0)))


@audit(floor_divide, result=SignedTensor)
@on_host
def quotients(case: Case) -> Iterator[Lost]:
    """Only the smallest integer by -1 has none."""
    a, b = buffers(case)
    smallest = np.iinfo(case.result.buffer.dtype).min
    yield Lost("wrapped", int(np.count_nonzero((a == smallest) & (b == -1))))


def _again(operation: Any, options: dict[str, Any], *arrays: Any) -> Any:
    """The same operation of float64."""
    return operation(*map(Float64Tensor.wrap, arrays), **options).buffer


def _linear(operation: Any, case: Case) -> Iterator[Lost | Headroom]:
    (x,) = buffers(case)
    if x.dtype.kind == "b":
        x = x.astype(np.int8)
    found = case.result.buffer
    if overflow.is_safe(x.size, [x], found):
        return _compared(found, case)
    options = {name: value for name, value in case.options.items() if name != "dtype"}
    return _compared(overflow.linear(partial(_again, operation, options), x), case)


for _operation in (sum, cumulative_sum, trace):
    audit(_operation, result=IntegerTensor)(on_host(partial(_linear, _operation)))


def _product(operation: Any, case: Case) -> Iterator[Lost | Headroom]:
    """In float64, which is an infinity where it is far too much."""
    (x,) = buffers(case)
    options = {name: value for name, value in case.options.items() if name != "dtype"}
    exact = _again(operation, options, x.astype(np.float64))
    yield Lost("wrapped", overflow.count(exact, case.result.buffer))


for _operation in (prod, cumulative_prod):
    audit(_operation, result=IntegerTensor)(on_host(partial(_product, _operation)))


@audit(diff, result=IntegerTensor)
@on_host
def differences(case: Case) -> Iterator[Lost]:
    (x,) = buffers(case)
    options = {
        name: astype(value, float64) if isinstance(value, Tensor) else value
        for name, value in case.options.items()
    }
    exact = _again(diff, options, x.astype(np.float64))
    yield Lost("wrapped", overflow.count(exact, case.result.buffer))


def _bilinear(compute: Any, case: Case) -> Iterator[Lost | Headroom]:
    a, b, *bias = buffers(case)
    found = case.result.buffer
    if overflow.is_safe(a.size, [a, b], found) and not bias:
        return _compared(found, case)
    options = {name: value for name, value in case.options.items() if name != "out"}
    exact = overflow.bilinear(partial(compute, **options), a, b)
    return _compared(exact + bias[0].astype(exact.dtype) if bias else exact, case)


for _operation, _compute in {
    matmul: np.matmul,
    vecdot: np.vecdot,
    tensordot: np.tensordot,
    cross: np.cross,
    linear: lambda a, b: a @ b.T,
}.items():
    audit(_operation, result=IntegerTensor)(on_host(partial(_bilinear, _compute)))


@audit(conv2d, result=IntegerTensor)
@on_host
def convolutions(case: Case) -> Iterator[Lost | Headroom]:
    """Of 64 bits in float64, which is off where sums cancel beyond 2**100."""
    a, b, *bias = buffers(case)
    if overflow.is_safe(b.size, [a, b], case.result.buffer) and not bias:
        return _compared(case.result.buffer, case)
    options = {name: value for name, value in case.options.items() if name != "out"}

    def compute(x: Any, w: Any) -> Any:
        return conv2d(*map(Float64Tensor.wrap, (x, w)), None, **options).buffer

    exact = overflow.digits(compute, a, b)
    if bias:
        exact = exact + bias[0].astype(np.float64)[:, None, None]
    return _compared(exact, case)


@audit(matrix_power, result=IntegerTensor)
@on_host
def powers(case: Case) -> Iterator[Lost]:
    x, n = case.arguments
    exact = np.linalg.matrix_power(x.buffer.astype(object), n)
    yield Lost("wrapped", overflow.count(np.asarray(exact, object), case.result.buffer))


def _compared(exact: Any, case: Case) -> Iterator[Lost | Headroom]:
    found = case.result.buffer
    yield Lost("wrapped", overflow.count(exact, found))
    width = 8 * found.dtype.itemsize - (found.dtype.kind == "i")
    yield Headroom(overflow.bits_left(exact, found), width)
