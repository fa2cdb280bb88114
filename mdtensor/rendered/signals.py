"""Convolution and correlation of two signals: sums over windows of the longer one.

    full[s] = Σ x1[s - (n - 1) + j] · x2[j], over the n elements of x2 that meet one

Sums are in ascending order of j. Elements that meet none are left out, and not
multiplied by 0: infinity times 0 is NaN.
"""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.generics.signals import convolve, correlate
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Loop, apply, cast, select
from mdtensor.rendered.composed import rounded, widened
from mdtensor.rendered.launches import NUMBERS, Operands, launch, types_of
from mdtensor.rendered.methods import add
from mdtensor.rendered.movement import filled, put, view
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    numbers: Any = Union[types_of(device, NUMBERS)]
    add(convolve, (numbers, numbers), _convolve)
    add(correlate, (numbers, numbers), _correlate)


def _convolve(x1: Tensor, x2: Tensor, /, *, mode: str) -> Any:
    spec = infer(convolve, x1, x2, mode=mode)
    longer, shorter = (x1, x2) if x1.size >= x2.size else (x2, x1)
    turned = view(shorter, lambda array: array[::-1])
    return _sums(spec, "convolve", longer, turned, mode)


def _correlate(x1: Tensor, x2: Tensor, /, *, mode: str) -> Any:
    spec = infer(correlate, x1, x2, mode=mode)
    if x1.size >= x2.size:
        return _sums(spec, "correlate", x1, x2, mode)
    # As NumPy does, which decides what is the middle of an even number of sums.
    found = _sums(spec, "correlate", x2, x1, mode)
    return view(found, lambda array: array[::-1])


def _sums(spec: Any, name: str, x1: Tensor, x2: Tensor, mode: str) -> Any:
    """Return the sums over the windows that a mode has; x1 is not the shorter one."""
    a, b = (widened(x, spec.dtype.name) for x in (x1, x2))
    window, (count,) = b.size, spec.shape
    complete = window - 1
    first = {"full": 0, "same": complete - window // 2, "valid": complete}[mode]

    def windows(array: Any) -> Any:
        found = np.lib.stride_tricks.sliding_window_view(array, window)
        return found[first : first + count]

    device, operands = spec.type.device, Operands(name, (x1, x2))
    element = operands.view(_bordered(device, a.buffer, window - 1).view(windows))
    product = apply("mul", element, operands.tensor(b))
    if mode != "valid":
        ones = filled(device, a.shape, np.ones((), bool))
        is_met = operands.view(_bordered(device, ones, window - 1).view(windows))
        zero = cast(ir.number(0, "int8"), product.type)
        product = select(is_met, product, zero)
    loop = Loop(tuple(operands.inputs), product, "add", is_serial=True, name=name)
    found = launch(device, loop, (count,), operands.buffers, (1,))
    return rounded(a.wrap(found), spec.dtype)


def _bordered(device: Device, x: Any, border: int) -> Any:
    """Return a buffer with zeros around its elements."""
    if not border:
        return x
    whole = filled(device, (x.size + 2 * border,), np.zeros((), x.dtype))
    inner = slice(border, border + x.size)
    return put(device, whole, lambda array: array[inner], x, x.dtype.name)
