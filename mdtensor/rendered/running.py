"""Running sums and products as rendered scans: one thread for each line, in order.

The order is the host's, so floats have its bytes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mdtensor.device import Device
from mdtensor.generics import reduction
from mdtensor.generics.conversion import astype
from mdtensor.infer import infer
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Input, Loop, cast, load, scalar
from mdtensor.rendered.launches import REAL, blank, no_method, written
from mdtensor.rendered.methods import unary
from mdtensor.rendered.movement import picked
from mdtensor.tensor import Tensor


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    for name, fold in (("cumulative_sum", "add"), ("cumulative_prod", "mul")):
        operation = getattr(reduction, name)
        unary(device, operation, REAL, partial(_running, operation, fold))


def _running(
    operation: Any,
    fold: str,
    x: Tensor,
    /,
    *,
    axis: int | None,
    dtype: Any,
    include_initial: bool,
) -> Any:
    options = {"axis": axis, "dtype": dtype, "include_initial": include_initial}
    spec = infer(operation, x, **options)
    if spec.dtype.is_complex:
        raise no_method(operation.__name__, x)
    if spec.dtype.is_integer and x.dtype.is_floating:
        # Each element is checked and cut off as in `astype`, as on the host.
        x = astype(x, spec.dtype)
    at, type = reduction.running_axis(x.shape, axis), spec.dtype.name
    out = blank(x.device, spec.shape, spec.dtype.storage)
    before = (slice(None),) * at
    if include_initial:
        identity = np.array(fold == "mul", spec.dtype.storage)
        start = Loop((Input(type, True),), scalar(0, type), name="fill")
        first = partial(picked, (*before, slice(1)))
        out = written(x.device, start, out, first, [identity])
    value = cast(load(0, x.dtype.name), ir.widen(load(0, type)).type)
    finish = cast(ir.total(value.type), type)
    name = operation.__name__
    loop = Loop((Input(x.dtype.name),), value, fold, finish, is_scan=True, name=name)
    rest = slice(int(include_initial), None)
    part = partial(picked, (*before, rest))
    return spec.type.wrap(written(x.device, loop, out, part, [x.buffer], (at,)))
