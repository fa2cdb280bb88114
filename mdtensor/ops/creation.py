"""Tensors from values, sizes and arrays."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from mdtensor import dtypes
from mdtensor.device import cpu, device as find_device
from mdtensor.dtypes import DType
from mdtensor.errors import OptionError, ShapeError
from mdtensor.generics.conversion import astype, to
from mdtensor.generics.shapes import integers
from mdtensor.host import natural_array
from mdtensor.promotion import DEFAULT_COMPLEX, DEFAULT_FLOAT, DEFAULT_INTEGER
from mdtensor.tensor import Tensor, from_numpy, leaf

#: The element type of Python values that NumPy sees as of this kind.
_NATURAL = {
    "b": dtypes.bool_,
    "i": DEFAULT_INTEGER,
    "u": dtypes.uint64,
    "c": DEFAULT_COMPLEX,
}


def asarray(values: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of `values`.

    Args:
        values: Python numbers, nested sequences of them, a NumPy array or scalar
            (shared, not copied), anything with `__dlpack__`, or a tensor.
        dtype: element type; otherwise the array's own, or bool, int64 or float32
            for Python values.
        device: cpu unless given.

    Raises:
        CastError: a value does not fit `dtype`; nothing is rounded silently except
            Python floats to the nearest element.
        ShapeError: ragged sequences.

    Example:
        >>> import mdtensor as md
        >>> md.asarray([1, 2]), md.asarray([1.0]), md.asarray([300], dtype=md.int16)
        (Int64Tensor[2], Float32Tensor[1], Int16Tensor[1])

    Source: array API 2024.12, `asarray`.
    """
    made = _as_tensor(values, None if dtype is None else dtypes.dtype(dtype))
    return made if device is None else to(made, find_device(device))


def _as_tensor(values: Any, dtype: DType | None) -> Tensor:
    if isinstance(values, Tensor):
        return values if dtype in (None, values.dtype) else astype(values, dtype)
    if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray):
        values = np.from_dlpack(values)
    if isinstance(values, (np.ndarray, np.generic)):
        found = from_numpy(values)
        return found if dtype in (None, found.dtype) else astype(found, dtype)
    return leaf(dtype or _natural(values))(values)


def _natural(values: Any) -> DType:
    try:
        found = natural_array(values)
    except ValueError:  # ragged: the constructor says so
        return DEFAULT_FLOAT
    if found.dtype.kind == "O" and isinstance(found.flat[0], int):
        return dtypes.uint64 if found.min() >= 0 else dtypes.int64
    return _NATURAL.get(found.dtype.kind, DEFAULT_FLOAT)


def full(shape: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """A tensor of `shape` with every element `fill_value`.

    Raises:
        ShapeError: a negative size.
        CastError: `dtype` does not hold the value.

    Example:
        >>> import mdtensor as md
        >>> md.full((2,), 7, dtype=md.int8).tolist()
        [7, 7]

    Source: array API 2024.12, `full`.
    """
    one = asarray(fill_value, dtype=dtype)
    return one.wrap(np.full(_sizes("full", shape), one.buffer, one.dtype.storage))


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    sizes = integers(shape, "shape", "Use sizes from 0")
    if min(sizes, default=0) < 0:
        raise ShapeError(f"shape {sizes} has a negative size", "Use sizes from 0", name)
    return sizes


def zeros(shape: Any, *, dtype: Any = DEFAULT_FLOAT) -> Any:
    """A tensor of zeros.

    Example:
        >>> import mdtensor as md
        >>> md.zeros((2, 2))
        Float32Tensor[2,2]

    Source: array API 2024.12, `zeros`.
    """
    return full(shape, False, dtype=dtype)


def ones(shape: Any, *, dtype: Any = DEFAULT_FLOAT) -> Any:
    """A tensor of ones.

    Example:
        >>> import mdtensor as md
        >>> md.ones((2,), dtype=md.int32).tolist()
        [1, 1]

    Source: array API 2024.12, `ones`.
    """
    return full(shape, True, dtype=dtype)


def empty(shape: Any, *, dtype: Any = DEFAULT_FLOAT) -> Any:
    """A tensor with undefined elements.

    Example:
        >>> import mdtensor as md
        >>> md.empty((3,)).shape
        (3,)

    Source: array API 2024.12, `empty`.
    """
    found = dtypes.dtype(dtype)
    return leaf(found).wrap(cpu.alloc(_sizes("empty", shape), found.storage))


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Numbers from `start` up to, not including, `stop`.

    Example:
        >>> import mdtensor as md
        >>> md.arange(3).tolist(), md.arange(1, 2, 0.5).tolist()
        ([0, 1, 2], [1.0, 1.5])

    Source: array API 2024.12, `arange`.
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if not all(isinstance(value, Real) for value in (start, stop, step)):
        raise OptionError("a bound is no number", "Give Python numbers", "arange")
    if step == 0:
        raise OptionError("a step of 0 never arrives", "Use another step", "arange")
    is_whole = all(isinstance(value, Integral) for value in (start, stop, step))
    wanted = dtype or (DEFAULT_INTEGER if is_whole else DEFAULT_FLOAT)
    return asarray(np.arange(start, stop, step).tolist(), dtype=wanted)
