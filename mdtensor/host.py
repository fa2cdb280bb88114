"""From Python values and NumPy arrays to the host buffers of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.dtypes import DType
from mdtensor.errors import CastError, MdtensorError, ShapeError


def host_array(values: Any, dtype: DType) -> npt.NDArray[Any]:
    """`values` as a NumPy array of the storage type of `dtype`.

    Raises:
        CastError: a value that `dtype` does not hold, or an array of another type.
        ShapeError: ragged sequences.
    """
    if isinstance(values, (np.ndarray, np.generic)):
        if values.dtype != dtype.storage:
            raise CastError(
                f"the array holds {values.dtype}, not {dtype}",
                f"Use astype(asarray(a), {dtype})",
            )
        return np.asarray(values)
    try:
        return _from_python(np.array(values), dtype)
    except MdtensorError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(
            "the values do not form an array of numbers",
            "Give numbers, or sequences of equal length",
        ) from error


def _from_python(found: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    if found.size == 0:
        return found.astype(dtype.storage)
    kind = found.dtype.kind
    if kind not in "biuf":
        raise CastError(f"{found.dtype} values are no elements of {dtype}")
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            return found.astype(dtype.storage)
    allowed = "b" if dtype.storage.kind == "b" else "biu"
    low, high = found.min(), found.max()
    if kind not in allowed or low < dtype.minimum or high > dtype.maximum:
        raise CastError(
            f"{dtype} represents {dtype.minimum} to {dtype.maximum}; cannot represent "
            f"{found.dtype} values from {low} to {high}",
            "Use a wider type, or astype with a casting policy",
        )
    return found.astype(dtype.storage)
