"""From Python values and NumPy arrays to the host buffers of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.dtypes import DType
from mdtensor.errors import CastError, MdtensorError, ShapeError
from mdtensor.promotion import fit_scalar


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
        return _from_python(natural_array(values), dtype)
    except MdtensorError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(
            "the values do not form an array of numbers",
            "Give numbers, or sequences of equal length",
        ) from error


def natural_array(values: Any) -> npt.NDArray[Any]:
    """`values` as NumPy sees them, but integers of any size stay exact.

    NumPy makes floats of [1, 2**63]; here they are an array of Python integers.
    """
    found = np.array(values)
    if found.dtype.kind not in "fO" or found.size == 0:
        return found
    exact = np.array(values, object)
    is_integer = all(isinstance(value, (int, np.integer)) for value in exact.flat)
    return exact if is_integer else found


def _from_python(found: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    if found.size == 0:
        return found.astype(dtype.storage)
    kind = "i" if isinstance(found.flat[0], int) else found.dtype.kind
    if kind not in ("biufc" if dtype.is_complex else "biuf"):
        raise CastError(f"{found.dtype} values are no elements of {dtype}")
    if dtype.is_floating or dtype.is_complex:
        return _rounded(found, dtype)
    allowed = "b" if dtype.storage.kind == "b" else "biu"
    low, high = (int(n) if kind != "f" else n for n in (found.min(), found.max()))
    if kind not in allowed or low < dtype.minimum or high > dtype.maximum:
        shown = "integer" if found.dtype.kind == "O" else found.dtype
        raise CastError(
            f"{dtype} represents {dtype.minimum} to {dtype.maximum}; cannot represent "
            f"{shown} values from {low} to {high}",
            "Use a wider type, or astype with a casting policy",
        )
    return found.astype(dtype.storage)


def _rounded(found: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    if found.dtype.kind == "O":
        found = np.vectorize(lambda n: fit_scalar(n, dtype), otypes=[object])(found)
    with np.errstate(over="ignore"):
        return found.astype(dtype.storage)
