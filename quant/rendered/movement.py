"""Movement of codes on devices: codes move as integers, and their grid with them."""

from functools import partial
from typing import Any, Union

import numpy as np

import mdtensor as md
from mdtensor import Device, cpu
from mdtensor.extend import infer
from mdtensor.quant.generics import requantize
from mdtensor.quant.grids import combine
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rendered.types import AFFINE, add, is_exact, no_method, types_on

#: Operations of one tensor that choose places, and compute nothing.
MOVES = (
    *(md.reshape, md.permute_dims, md.squeeze, md.expand_dims, md.broadcast_to),
    *(md.flip, md.unstack),
)


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    codes: Any = Union[types_on(device, AFFINE)]
    for operation in MOVES:
        add(device, operation, (codes,), partial(_moved, operation))
    add(device, md.moveaxis, (codes, object, object), partial(_moved, md.moveaxis))
    add(device, md.tile, (codes, object), partial(_moved, md.tile))
    getitem = md.getitem
    add(device, getitem, (codes,), partial(_moved, getitem))
    add(device, md.pad, (codes,), _pad)
    # One type for all parts, as the host requires.
    for kind in types_on(device, AFFINE):
        add(device, md.concat, (kind,), _concat)
        add(device, md.stack, (kind,), partial(_joined, md.stack))


def _moved(operation: Any, x: Any, /, *more: Any, **options: Any) -> Any:
    spec = infer(operation, x, *more, **options)
    found = operation(x.codes, *more, **options)
    if isinstance(found, tuple):
        return tuple(_on(x, s, f) for s, f in zip(spec, found, strict=True))
    return _on(x, spec, found)


def _on(x: Any, spec: Any, codes: Any) -> Any:
    """Return codes on the grid of a spec, with the rounding rule of x."""
    return spec.type.wrap(codes.buffer, spec.qparams.rounded(x.rounding))


def _pad(x: Any, /, *, pad_width: Any, value: Any) -> Any:
    spec = infer(md.pad, x, pad_width=pad_width, value=value)
    if x.qparams.axis is not None:
        raise no_method("pad", x)
    # The host finds the code of the value, on a tensor of one element.
    kind: Any = type(x).with_device(cpu)
    one = kind.from_codes(np.zeros((1,), x.dtype.storage), x.qparams)
    code = md.pad(one, [(1, 0)], value=value).codes.buffer[0].item()
    return _on(x, spec, md.pad(x.codes, pad_width, value=code))


def _concat(*arrays: Any, axis: int | None, out: QParams | None = None) -> Any:
    infer(md.concat, arrays, axis=axis, out=out)
    if out is None:
        return _joined(md.concat, *arrays, axis=axis)
    if not is_exact(out):
        raise no_method("concat", *arrays)
    # Joining does not compute, so rounding each part once rounds the result once.
    return md.concat([requantize(x, out=out) for x in arrays], axis=axis)


def _joined(operation: Any, *arrays: Any, axis: Any) -> Any:
    spec = infer(operation, arrays, axis=axis)
    codes = operation([x.codes for x in arrays], axis=axis)
    grid = spec.qparams.rounded(combine.shared_rule(arrays))
    return spec.type.wrap(codes.buffer, grid)
