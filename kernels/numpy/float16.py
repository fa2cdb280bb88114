"""Narrow floats, of 16 bits or less: computed in float32 and rounded once.

float16 and bfloat16 are ours; any other that NumPy can cast to float32 and back, such
as those of 8 bits in ml_dtypes, is computed alike. Small arrays are cast by NumPy, and
need no compiler. Of large ones, functions of one operand look each element up in a
table of all results, and so do casts and functions of two operands of 8 bits;
arithmetic, comparisons and casts of our two are kernels over the bits. All ways give
the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import float8
from mdtensor.kernels.numpy.runtime import empty, joint_shape, quietly
from mdtensor.kernels.numpy.threads import TEAM

Array = npt.NDArray[Any]
DType = np.dtype[Any]

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FLOAT32, UINT16 = np.dtype(np.float32), np.dtype(np.uint16)
#: Those that have compiled kernels.
OURS = frozenset({FLOAT16, BFLOAT16})

#: Elements from which compiled kernels are worth loading the compiler for.
LARGE = 1 << 13
#: Elements of a call of a kernel; a lone number is repeated for so many.
BLOCK = 1 << 16
COMPARISONS = frozenset(
    {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}
)
EXTREMES = frozenset({np.minimum, np.maximum})
COMPILED = COMPARISONS | EXTREMES | {np.add, np.subtract, np.multiply, np.divide}
#: Functions of one operand that are kernels over bfloat16.
ROUNDINGS = frozenset({np.floor, np.ceil, np.trunc, np.rint})
#: Functions that touch the sign only.
BITS = {
    np.negative: (np.bitwise_xor, np.uint16(0x8000)),
    np.absolute: (np.bitwise_and, np.uint16(0x7FFF)),
}


# The NumPy type is tested instead of a list of ours, so third-party narrow floats get
# arithmetic too (decision 0013).
class _Narrow(dict[DType, bool]):
    """The answers of `is_narrow`, each found when it is first asked for."""

    def __missing__(self, dtype: DType) -> bool:
        found = self[dtype] = dtype.itemsize < FLOAT32.itemsize and _is_float(dtype)
        return found


def _is_float(dtype: DType) -> bool:
    if dtype.isbuiltin != 2:  # 2 is what others have added to NumPy
        return dtype.kind == "f"
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


#: Whether a type is a float that is computed in float32 and rounded once.
is_narrow: Callable[[DType], bool] = _Narrow().__getitem__


def is_floating(dtype: DType) -> bool:
    """Whether it is a real floating type, those that are not NumPy's own included."""
    return dtype.kind == "f" or is_narrow(dtype)


@cache
def _kernels(dtype: DType) -> ModuleType:
    """The compiled kernels; imported late, because numba takes its time."""
    return import_module(f"mdtensor.kernels.cpu.generic.{dtype.name}")


def widened(x: Array) -> Array:
    """x, narrow floats in float32, which is exact."""
    if not is_narrow(x.dtype):
        return x
    if x.size >= LARGE and x.dtype.itemsize == 1:
        return float8.widened(x)
    if x.size < LARGE or x.dtype != FLOAT16:  # of bfloat16 it is a shift in NumPy, too
        return quietly(x.astype, FLOAT32)
    out = empty(x.shape, FLOAT32)
    _run(_kernels(x.dtype).to_float32, [_flat(x)], out.reshape(-1))
    return out


def rounded(x: Any, dtype: DType) -> Array:
    """x rounded half to even to `dtype`, a narrow float."""
    x = np.asarray(x)
    if x.size < LARGE or x.dtype != FLOAT32:
        return quietly(x.astype, dtype)
    if dtype.itemsize == 1:
        return float8.rounded(x, dtype)
    if dtype not in OURS:
        return quietly(x.astype, dtype)
    out = empty(x.shape, dtype)
    _run(_kernels(dtype).from_float32, [x.reshape(-1)], _flat(out))
    return out


def cast(x: Array, dtype: DType) -> Array:
    """x.astype(dtype), through float32 where that is a compiled cast."""
    if x.dtype == dtype:
        return x.copy()
    wide = widened(x)
    if is_narrow(dtype) and wide.dtype == FLOAT32:
        return rounded(wide, dtype)
    return wide if wide.dtype == dtype else quietly(wide.astype, dtype)


def binary(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """ufunc(x1, x2) of one type, rounded once to it; comparisons give truth values."""
    dtype = x1.dtype
    shape = x1.shape
    if shape != x2.shape:
        shape = joint_shape(shape, x2.shape)
    if prod(shape) >= LARGE and dtype.itemsize == 1:
        return float8.looked_up(_pairs(ufunc, dtype), x1, x2)
    if prod(shape) < LARGE or ufunc not in COMPILED or dtype not in OURS:
        is_extreme = dtype in OURS and ufunc in EXTREMES
        return (_extreme if is_extreme else _in_float32)(ufunc, x1, x2)
    out = empty(shape, bool if ufunc in COMPARISONS else dtype)
    operands = [_repeated(x, shape) for x in (x1, x2)]
    kernel = getattr(_kernels(dtype), ufunc.__name__)
    _run(kernel, operands, _flat(out) if out.dtype == dtype else out.reshape(-1))
    return out


def _in_float32(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    found = np.asarray(quietly(ufunc, widened(x1), widened(x2)))
    return rounded(found, x1.dtype) if found.dtype == FLOAT32 else found


def _extreme(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """The kernel's order of bits: -0 below 0, and every NaN outermost."""
    infinity = int(np.array(np.inf, x1.dtype).view(np.int16))
    turned = np.int32(0x7FFF - infinity if ufunc is np.minimum else infinity - 0x7FFF)
    places = [(_rank(x.view(np.int16)) + turned).astype(np.int16) for x in (x1, x2)]
    found = np.asarray(ufunc(*places)).astype(np.int32) - turned
    return np.asarray(_rank(found.astype(np.int16)).astype(np.int16)).view(x1.dtype)


def _rank(bits: Array) -> Array:
    """Integers in the order of the numbers; its own inverse."""
    return np.asarray(bits ^ ((bits >> 15) & 0x7FFF), np.int32)


@lru_cache(maxsize=64)
def _pairs(ufunc: np.ufunc, dtype: DType) -> Array:
    """The results of all pairs of 8 bits, the first one slowest: 64 KiB."""
    numbers = float8.everything(dtype)
    return _in_float32(ufunc, numbers[:, None], numbers).reshape(-1)


# A 16-bit float has only 65,536 values, so a table beats computing each element
# (decision 0007).
def unary(function: Callable[..., Any], x: Array, *options: Any) -> Array:
    """function(x, *options) element by element, in the type of x or truth values.

    Args:
        function: of float32 in a row, to floats that are rounded or to truth values;
            each element of its result depends on that element of x only.
        options: numbers.
    """
    if x.size < LARGE:
        return _computed(function, x, options)
    if x.dtype.itemsize == 1:
        return _table(function, x.dtype, options).take(x.view(np.uint8))
    if function in BITS:
        return _of_bits(*BITS[function], x)
    if function in ROUNDINGS and x.dtype == BFLOAT16:
        out = empty(x.shape, x.dtype)
        _run(getattr(_kernels(x.dtype), function.__name__), [_flat(x)], _flat(out))
        return out
    from mdtensor.kernels.cpu.generic.elementwise import lookup_u16

    table = _table(function, x.dtype, options)
    out = empty(x.shape, table.dtype)
    bits = np.dtype(f"u{table.itemsize}")

    def look_up(x: Array, out: Array) -> None:
        lookup_u16(x, table.view(bits), out)

    _run(look_up, [_flat(x)], out.reshape(-1).view(bits))
    return out


def _of_bits(ufunc: np.ufunc, mask: Any, x: Array) -> Array:
    out = empty(x.shape, x.dtype)
    ufunc(x.view(np.uint16), mask, out=out.view(np.uint16))
    return out


@lru_cache(maxsize=256)
def _table(function: Callable[..., Any], dtype: DType, options: Any) -> Array:
    """The results for all numbers, in the order of their bits: 128 KiB of 16."""
    bits = np.dtype(f"u{dtype.itemsize}")
    numbers = np.arange(np.iinfo(bits).max + 1, dtype=bits).view(dtype)
    return _computed(function, numbers, options)


def _computed(function: Callable[..., Any], x: Array, options: Any) -> Array:
    row = quietly(x.reshape(-1).astype, FLOAT32)
    found = np.asarray(quietly(function, row, *options)).reshape(x.shape)
    return quietly(found.astype, x.dtype) if found.dtype.kind == "f" else found


def _flat(x: Array) -> Array:
    """The bits of x in one row that starts at a multiple of 4 bytes."""
    row = np.ascontiguousarray(x).view(UINT16).reshape(-1)
    return row.copy() if x.base is not None and row.ctypes.data % 4 else row


def _repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """`_flat` of x broadcast to `shape`; a lone number fills one block."""
    if x.size == 1:
        return np.full(BLOCK, x.view(np.uint16).reshape(()))
    return _flat(x if x.shape == shape else np.broadcast_to(x, shape))


def _run(kernel: Callable[..., Any], operands: list[Array], out: Array) -> None:
    """kernel(*operands, out); an operand shorter than `out` is one repeated block."""
    size = len(out)
    whole = min(map(len, operands)) == size
    if whole and TEAM.is_alone(size):
        quietly(kernel, *operands, out)
        return
    step = size if whole else BLOCK

    def work(start: int, stop: int) -> None:
        for at in range(start, stop, step):
            end = min(at + step, stop)
            ins = [x[at:end] if len(x) == size else x[: end - at] for x in operands]
            quietly(kernel, *ins, out[at:end])

    TEAM.spread(work, size)
