"""Indexing of tensors: views of integers and slices, writes into them, and masks."""

from __future__ import annotations

from typing import Any, Union

import numpy as np

from mdtensor.device import Device
from mdtensor.errors import WriteError, checked, describe
from mdtensor.generics.indexing import check_value, getitem, setitem
from mdtensor.infer import infer
from mdtensor.kernels.loops.ir import select
from mdtensor.ops.operands import number
from mdtensor.registry import refuse_devices
from mdtensor.rendered.launches import ALL, Operands, launch, no_method, types_of
from mdtensor.rendered.methods import add, unary
from mdtensor.rendered.movement import copied, fill, view, write
from mdtensor.rendered.places import picked, require_here
from mdtensor.spec.indices import is_mask, is_pick
from mdtensor.tensor import Tensor, announce_write, from_numpy

#: Types of indices that give views.
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    unary(device, getitem, ALL, _getitem)
    add(setitem, (Union[types_of(device, ALL)],), _setitem)


def _part(name: str, x: Tensor, key: Any) -> Any:
    """Return the view x[key] of integers and slices."""
    keys = key if isinstance(key, tuple) else (key,)
    infer(getitem, x, key=key)
    if not _BASIC.issuperset(map(type, keys)):
        raise no_method(name, x)
    return view(
        x, lambda array: array[(*keys, ...)] if Ellipsis not in keys else array[keys]
    )


# As on the host, an element is a copy (decision 0107).
def _getitem(x: Tensor, /, *, key: object) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    if any(is_pick(one) or is_mask(one) for one in keys):
        return picked(x, key)
    part = _part("getitem", x, key)
    return part if part.shape or Ellipsis in keys else copied(part)


def _setitem(x: Tensor, /, *, key: object, value: Any) -> Any:
    # A NumPy scalar is a number; an array is on the host.
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = from_numpy(value)
    if isinstance(value, Tensor) and value.device is not x.device:
        refuse_devices("setitem", x, value)
    if is_mask(key) and not isinstance(value, Tensor):
        return _fill_where(x, key, value)
    part = _part("setitem", x, key)
    checked("setitem", (x, value), lambda: check_value(x.dtype, part.shape, value))
    _require_writable(part, x, value)
    announce_write(x.buffer)
    if not isinstance(value, Tensor):
        fill(x.device, part.buffer, number(value, x.dtype))
        return x
    if value.dtype.is_complex != x.dtype.is_complex:
        raise no_method("setitem", x, value)
    # The value is read before anything is written.
    shares = value.buffer.memory is x.buffer.memory
    write(part.buffer, copied(value) if shares else value, x.dtype.name)
    return x


def _require_writable(part: Tensor, x: Tensor, value: Any) -> None:
    if not part.buffer.is_writable:
        call = describe("setitem", x, value)
        raise WriteError("the buffer is read-only", "Write into a copy", call)


def _fill_where(x: Tensor, mask: Any, value: Any) -> Tensor:
    """Write a number where a mask is true."""
    require_here("setitem", x, [mask])
    infer(getitem, x, key=mask)
    checked("setitem", (x, value), lambda: check_value(x.dtype, (), value))
    _require_writable(x, x, value)
    if 0 in mask.shape:
        # It masks nothing, whatever the sizes of its axes.
        return x
    operands, rest = Operands("setitem", (x, value)), x.ndim - mask.ndim
    apart = mask.buffer.view(lambda array: array[(..., *[None] * rest)])
    chosen = operands.view(apart), operands.number(value, x.dtype), operands.tensor(x)
    # A copy first, since not every language lets a kernel read what it writes.
    found = launch(x.device, operands.loop(select(*chosen)), x.shape, operands.buffers)
    announce_write(x.buffer)
    write(x.buffer, x.wrap(found), x.dtype.name)
    return x
