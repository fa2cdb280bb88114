"""Functions that read the coordinates of tensors, to select from a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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

#: Work limit of NumPy's exact overlap test; beyond it, views count as overlapping.
_OVERLAP_WORK = 10_000


def device_type(*tensors: Any) -> CoordinateType:
    """Return the device that all `tensors` are on.

    Raises:
        DeviceError: the tensors are on several devices.

    Example:
        >>> import mdtensor as md
        >>> device_type(md.asarray([1.0]))
        <Cpu>
    """
    _require_tensors("device_type", *tensors)
    places = list(dict.fromkeys(x.device for x in tensors))
    if len(places) != 1:
        listed = " and ".join(map(str, places)) or "no device"
        call = describe("device_type", *tensors)
        raise DeviceError(
            f"the tensors are on {listed}", "Move all to one with to(device)", call
        )
    return DeviceType[places[0]]


def element_type(*tensors: Any) -> CoordinateType:
    """Return the element type of all `tensors`.

    Raises:
        PromotionError: the tensors have several element types.

    Example:
        >>> import mdtensor as md
        >>> element_type(md.asarray([1.0]))
        <Float32>
    """
    _require_tensors("element_type", *tensors)
    types = list(dict.fromkeys(x.dtype for x in tensors))
    if len(types) != 1:
        listed = " and ".join(map(str, types)) or "nothing"
        call = describe("element_type", *tensors)
        raise PromotionError(f"elements of {listed}", "Use astype first", call)
    return ElementType[types[0]]


def contiguity(*tensors: Any) -> CoordinateType:
    """Return `Contiguous` if all tensors are contiguous, else `Strided`.

    A buffer without strides counts as contiguous.

    Example:
        >>> import mdtensor as md
        >>> x = md.zeros((2, 3))
        >>> contiguity(x), contiguity(x, x.T)
        (<Contiguous>, <Strided>)

    Source: fVDB, `combined_contiguity`.
    """
    _require_tensors("contiguity", *tensors)
    for x in tensors:
        flags = getattr(x.buffer, "flags", None)
        if flags is not None and not flags.c_contiguous:
            return Strided
    return Contiguous


def placement(x: Tensor, out: Tensor | None = None) -> CoordinateType:
    """Return `InPlace` if `out` is the memory of `x`, element for element.

    Args:
        x: the operand.
        out: the tensor to write; None if the operation makes a new one.

    Raises:
        OptionError: `out` overlaps a part of `x`, or all of it in another order.
            Both algorithms would then read elements that are already overwritten.

    Example:
        >>> import mdtensor as md
        >>> x = md.zeros(3)
        >>> placement(x), placement(x, x), placement(x, md.zeros(3))
        (<OutOfPlace>, <InPlace>, <OutOfPlace>)
    """
    _require_tensors("placement", *((x,) if out is None else (x, out)))
    if out is None:
        return OutOfPlace
    mine, theirs = x.buffer, out.buffer
    if mine is theirs:
        return InPlace
    # Only NumPy's arrays show whether they share memory.
    if not isinstance(mine, np.ndarray) or not isinstance(theirs, np.ndarray):
        return OutOfPlace
    # Two array objects may be views of the same elements in the same order.
    if _layout(mine) == _layout(theirs):
        return InPlace
    if _overlap(mine, theirs):
        call = describe("placement", x, out)
        problem = "out shares memory with x but not element for element"
        raise OptionError(problem, "Pass out=x, or a tensor with its own memory", call)
    return OutOfPlace


def _require_tensors(name: str, *tensors: Any) -> None:
    for x in tensors:
        if not isinstance(x, Tensor):
            fix = "Use asarray(a) to make it a tensor"
            call = describe(name, *tensors)
            raise DispatchError(f"{type(x).__name__} is not a tensor", fix, call)


def _layout(array: npt.NDArray[Any]) -> tuple[Any, ...]:
    return array.ctypes.data, array.shape, array.strides, array.dtype


def _overlap(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    # An undecided overlap must count as one, since in-place results would be wrong.
    except np.exceptions.TooHardError:
        return True
