"""Host arrays made from a few numbers: ranges, diagonals, triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy.conversion import nearest

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def whole_range(start: int, step: int, count: int, dtype: DType) -> Array:
    """Return start + i · step for i < count, in an integer `dtype` that holds them all.

    The computation is modulo the number of values of `dtype`, so it is exact however
    large `start` and `step` are.
    """
    values = 256**dtype.itemsize
    bits = np.dtype(f"u{dtype.itemsize}")
    i = np.arange(count, dtype=bits if count <= values else np.uint64)
    i = i.astype(bits, copy=False)
    if step != 1:
        i *= bits.type(step % values)
    if start:
        i += bits.type(start % values)
    return i.view(dtype)


def float_range(start: float, step: float, count: int, dtype: DType) -> Array:
    """Return start + i · step for i < count, in float64 and then rounded to `dtype`."""
    with np.errstate(all="ignore"):
        i = np.arange(count, dtype=np.float64)
        i *= step
        i += start
    return nearest(i, dtype)


def linspace(
    start: complex, stop: complex, num: int, parts: int, dtype: DType
) -> Array:
    """Return start + i · (stop - start) / parts for i < num: float64, then rounded.

    Both ends are exact, and every element is between them.
    """
    real = _between(complex(start).real, complex(stop).real, num, parts)
    if dtype.kind != "c":
        return nearest(real, dtype)
    made = np.empty(num, np.complex128)
    made.real = real
    made.imag = _between(complex(start).imag, complex(stop).imag, num, parts)
    return nearest(made, dtype)


def whole_between(start: int, stop: int, num: int, parts: int, dtype: DType) -> Array:
    """Return floor(start + i · (stop - start) / parts) for i < num, as integers.

    The result is exact: it is computed in integers that wrap, and `dtype` holds both
    ends.
    """
    step, rest = divmod(stop - start, max(parts, 1))
    extra = (
        np.arange(num, dtype=np.uint64) * np.uint64(rest) // np.uint64(max(parts, 1))
    )
    return whole_range(start, step, num, dtype) + extra.astype(dtype)


def _between(start: float, stop: float, num: int, parts: int) -> Array:
    # Scaling by a power of two is exact, and keeps the products below from overflowing.
    """Return start + i · (stop - start) / parts for i < num, inside both ends."""
    scale = 2.0**-64 if max(abs(start), abs(stop)) > 2.0**900 else 1.0
    first, last = start * scale, stop * scale
    y = np.arange(num, dtype=np.float64)
    with np.errstate(all="ignore"):
        y *= last - first
        y /= max(parts, 1)
        y += first
        if scale != 1:
            y /= scale
    # Rounding may carry an element past an end, and the last one next to it.
    np.clip(y, min(start, stop), max(start, stop), out=y)
    y[:1] = start
    if num > parts:
        y[parts : parts + 1] = stop if parts else start
    return y


def eye(rows: int, columns: int, k: int, dtype: DType) -> Array:
    """Return ones on diagonal k, zeros elsewhere."""
    return np.eye(rows, columns, _diagonal(k, rows, columns), dtype)


def tril(x: Array, k: int) -> Array:
    """Return x with zeros above diagonal k of each matrix."""
    return np.tril(x, _diagonal(k, *x.shape[-2:]))


def triu(x: Array, k: int) -> Array:
    """Return x with zeros below diagonal k of each matrix."""
    return np.triu(x, _diagonal(k, *x.shape[-2:]))


def _diagonal(k: int, rows: int, columns: int) -> int:
    """Return k, limited to the nearest number beyond the diagonals of the matrix."""
    return min(max(int(k), -rows), columns)
