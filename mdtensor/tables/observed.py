"""The coordinates of given tensors: what a table is asked for in a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdtensor.errors import (
    DeviceError,
    DispatchError,
    OptionError,
    PromotionError,
    describe,
)
from mdtensor.tables.coordinate import (
    Contiguous,
    CoordinateType,
    DeviceType,
    ElementType,
    InPlace,
    OutOfPlace,
    Strided,
)
from mdtensor.tensor import Tensor

#: Steps by which two views of one buffer are told apart, or taken to overlap.
_STEPS = 10_000


def device_type(*tensors: Any) -> CoordinateType:
    """The device that all `tensors` are on.

    Raises:
        DeviceError: they are on several.

    Example:
        >>> import mdtensor as md
        >>> device_type(md.asarray([1.0]))
        <Cpu>
    """
    _check("device_type", *tensors)
    places = list(dict.fromkeys(x.device for x in tensors))
    if len(places) != 1:
        listed = " and ".join(map(str, places)) or "no device"
        call = describe("device_type", *tensors)
        raise DeviceError(f"on {listed}", "Move all to one with to(device)", call)
    return DeviceType[places[0]]


def element_type(*tensors: Any) -> CoordinateType:
    """The type of the elements of all `tensors`.

    Raises:
        PromotionError: they are of several.

    Example:
        >>> import mdtensor as md
        >>> element_type(md.asarray([1.0]))
        <Float32>
    """
    _check("element_type", *tensors)
    types = list(dict.fromkeys(x.dtype for x in tensors))
    if len(types) != 1:
        listed = " and ".join(map(str, types)) or "nothing"
        call = describe("element_type", *tensors)
        raise PromotionError(f"elements of {listed}", "Use astype first", call)
    return ElementType[types[0]]


def contiguity(*tensors: Any) -> CoordinateType:
    """`Contiguous` if all are: one kernel for dense operands, one for all others.

    A buffer that knows no strides is dense.

    Example:
        >>> import mdtensor as md
        >>> x = md.zeros((2, 3))
        >>> contiguity(x), contiguity(x, x.T)
        (<Contiguous>, <Strided>)

    Source: fVDB, `combined_contiguity`.
    """
    _check("contiguity", *tensors)
    for x in tensors:
        flags = getattr(x.buffer, "flags", None)
        if flags is not None and not flags.c_contiguous:
            return Strided
    return Contiguous


def placement(x: Any, out: Any = None) -> CoordinateType:
    """`InPlace` if `out` is the memory of `x`, element for element.

    Args:
        x: the operand.
        out: where the result goes; None for a tensor that is not there yet.

    Raises:
        OptionError: `out` lies over a part of `x`, or over its elements in another
            order: neither algorithm would be right.

    Example:
        >>> import mdtensor as md
        >>> x = md.zeros(3)
        >>> placement(x), placement(x, x), placement(x, md.zeros(3))
        (<OutOfPlace>, <InPlace>, <OutOfPlace>)
    """
    _check("placement", *((x,) if out is None else (x, out)))
    if out is None:
        return OutOfPlace
    mine, theirs = x.buffer, out.buffer
    if mine is theirs:
        return InPlace
    if not isinstance(mine, np.ndarray) or not isinstance(theirs, np.ndarray):
        return OutOfPlace
    if _layout(mine) == _layout(theirs):
        return InPlace
    if _overlap(mine, theirs):
        call = describe("placement", x, out)
        problem = "out shares memory with x and does not lie on it"
        raise OptionError(problem, "Use x itself, or a tensor of its own", call)
    return OutOfPlace


def _check(name: str, *tensors: Any) -> None:
    for x in tensors:
        if not isinstance(x, Tensor):
            fix = "Use asarray(a) to make it a tensor"
            call = describe(name, *tensors)
            raise DispatchError(f"{type(x).__name__} is no tensor", fix, call)


def _layout(array: Any) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides, array.dtype


def _overlap(a: Any, b: Any) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_STEPS)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
