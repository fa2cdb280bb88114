"""Pools and reductions of codes on devices."""

from functools import partial
from typing import Any, Union

import numpy as np

import mdtensor as md
from mdtensor import Device
from mdtensor.extend import (
    contract,
    infer,
    normalize_axes,
    pool_counts,
    pool_taps,
    pool_window,
    reshaped,
)
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import apply, cast
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rendered.rounding import Inputs
from mdtensor.quant.rendered.types import SHORT, add, is_exact, no_method, types_on

#: Means of more codes have units with too many digits to decide ties in float64.
MOST_COUNT = 2**12


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    codes: Any = Union[types_on(device, SHORT)]
    for operation in (md.max_pool2d, md.max, md.min):
        add(device, operation, (codes,), partial(_of_codes, operation))
    for search in (md.argmax, md.argmin):
        add(device, search, (codes,), partial(_place, search))
    add(device, md.avg_pool2d, (codes,), _avg_pool2d)
    add(device, md.global_avg_pool2d, (codes,), _global_avg_pool2d)
    add(device, md.mean, (codes,), _mean)
    add(device, md.sum, (codes,), _sum)


def _of_codes(operation: Any, x: Any, /, **options: Any) -> Any:
    """Return the largest codes: they have the order of their numbers."""
    spec = infer(operation, x, **options)
    found = operation(x.codes, **options)
    return spec.type.wrap(found.buffer, spec.qparams)


def _place(operation: Any, x: Any, /, **options: Any) -> Any:
    infer(operation, x, **options)
    return operation(x.codes, **options)


def _avg_pool2d(
    x: Any, /, *, count_include_pad: bool, out: Any = None, **options: Any
) -> Any:
    more = {**options, "count_include_pad": count_include_pad}
    spec = infer(md.avg_pool2d, x, out=out, **more)
    names = ("kernel_size", "stride", "padding")
    window = pool_window(*(options[name] for name in names))
    _require_mean("avg_pool2d", x, out, int(np.prod(window.kernel)))
    size = spec.shape[2:]
    # Codes of zero around the image add nothing.
    border = np.array(x.qparams.zero_point.item(), x.buffer.dtype)
    taken = pool_taps(x.device, x.buffer, window, size, border)
    many = pool_counts(x.device, x.buffer, window, size, count_include_pad)
    inputs = Inputs(x.device)
    steps = inputs.steps(taken, x.qparams.zero_point, "int64")
    count = cast(inputs.element(many), "float64")
    unit = apply("mul", inputs.field(out.scale), count)
    return _mean_of(inputs, steps, spec, x, unit, out, "avg_pool2d", (2, 3))


def _global_avg_pool2d(x: Any, /, *, out: QParams | None = None) -> Any:
    infer(md.global_avg_pool2d, x, out=out)
    return md.mean(x, axis=(2, 3), keepdims=True, out=out)


def _mean(x: Any, /, *, axis: Any, keepdims: bool, out: Any = None) -> Any:
    spec = infer(md.mean, x, axis=axis, keepdims=keepdims, out=out)
    axes = normalize_axes(axis, x.ndim)
    count = int(np.prod([x.shape[at] for at in axes]))
    _require_mean("mean", x, out, count)
    inputs = Inputs(x.device)
    steps = inputs.steps(x.buffer, x.qparams.zero_point, "int64")
    unit = inputs.number(out.scale.item() * count)
    return _mean_of(inputs, steps, spec, x, unit, out, "mean", axes)


def _require_mean(name: str, x: Any, out: Any, count: int) -> None:
    """Raise for a mean that the device cannot round exactly."""
    if not is_exact(out) or x.qparams.axis is not None or count > MOST_COUNT:
        raise no_method(name, x)


def _mean_of(
    inputs: Inputs,
    steps: Any,
    spec: Any,
    x: Any,
    unit: Any,
    out: Any,
    name: str,
    axes: tuple[int, ...],
) -> Any:
    """Return the sum of steps over axes, divided by a unit and rounded once."""
    total = cast(ir.total("int64"), "float64")
    rounded = apply("rescale", total, inputs.field(x.qparams.scale), unit)
    finish = inputs.codes(rounded, out, ())
    loop = inputs.loop(name, steps, fold="add", finish=finish, is_serial=len(axes) == 2)
    found = contract(x.device, loop, inputs.buffers, axes)
    return spec.type.wrap(reshaped(found, spec.shape), out)


def _sum(x: Any, /, *, axis: Any, dtype: Any, keepdims: bool, out: Any = None) -> Any:
    """Return sums, exact or rounded once."""
    spec = infer(md.sum, x, axis=axis, dtype=dtype, keepdims=keepdims, out=out)
    axes = normalize_axes(axis, x.ndim)
    count, grid = int(np.prod([x.shape[at] for at in axes])), x.qparams
    # Steps of codes have at most 17 bits.
    if not is_exact(out) or grid.axis is not None or count > 2**14:
        raise no_method("sum", x)
    inputs = Inputs(x.device)
    steps = inputs.steps(x.buffer, grid.zero_point, "int64")
    total = ir.total("int64")
    if out is None:
        finish = cast(total, "int32")
    else:
        exact = cast(total, "float64")
        finish = inputs.codes(inputs.rounded(exact, grid.scale, out.scale), out, ())
    loop = inputs.loop("sum", steps, fold="add", finish=finish)
    found = contract(x.device, loop, inputs.buffers, axes)
    return spec.type.wrap(reshaped(found, spec.shape), spec.qparams)
