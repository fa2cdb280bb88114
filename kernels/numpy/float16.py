"""Narrow floats, of 16 bits or less: computed in float32 and rounded once.

float16 and bfloat16 have compiled kernels. Every other float that NumPy can cast to
float32 and back, such as the 8-bit floats of ml_dtypes, is computed the same way.
NumPy casts small arrays, so they do not load the compiler. For large arrays, unary
functions look each element up in a table of all results; so do casts of 8-bit floats
and functions of two 8-bit operands. Arithmetic, comparisons and casts of float16 and
bfloat16 are compiled kernels over the bits. All ways give the same numbers (decision
0007).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mdtensor.kernels.numpy import empty, float8, joint_shape, quietly
from mdtensor.kernels.numpy.threads import POOL

Array = npt.NDArray[Any]
DType = np.dtype[Any]

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FLOAT32, UINT16 = np.dtype(np.float32), np.dtype(np.uint16)
#: The narrow floats that have compiled kernels.
OURS = frozenset({FLOAT16, BFLOAT16})

#: Elements from which compiled kernels are worth loading the compiler for.
LARGE = 1 << 13
#: Elements of one kernel call; a single number is repeated this many times.
BLOCK = 1 << 16
COMPARISONS = frozenset(
    {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}
)
EXTREMES = frozenset({np.minimum, np.maximum})
COMPILED = COMPARISONS | EXTREMES | {np.add, np.subtract, np.multiply, np.divide}
#: Functions of one operand that are kernels over bfloat16.
ROUNDINGS = frozenset({np.floor, np.ceil, np.trunc, np.rint})
#: Functions that change the sign bit only, as a ufunc and a mask of the bits.
BITS = {
    np.negative: (np.bitwise_xor, np.uint16(0x8000)),
    np.absolute: (np.bitwise_and, np.uint16(0x7FFF)),
}


# Test the NumPy type instead of a list of our types, so that third-party narrow floats
# get arithmetic too (decision 0013).
class _Narrow(dict[DType, bool]):
    """Cache of `is_narrow`, filled when a type is first looked up."""

    def __missing__(self, dtype: DType) -> bool:
        found = self[dtype] = dtype.itemsize < FLOAT32.itemsize and _is_float(dtype)
        return found


def _is_float(dtype: DType) -> bool:
    """Compute whether a type is a real float; `_Narrow` stores the result by type."""
    if dtype.isbuiltin != 2:  # 2: a type that another package has added to NumPy
        return dtype.kind == "f"
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


#: Whether a type is a float that is computed in float32 and rounded once.
is_narrow: Callable[[DType], bool] = _Narrow().__getitem__


def is_floating(dtype: DType) -> bool:
    """Return whether a type is a real float, of NumPy or of another package."""
    return dtype.kind == "f" or is_narrow(dtype)


@cache
def _kernel(dtype: DType, name: str) -> Callable[..., Any]:
    """Return a compiled kernel of a type."""
    # Import late: `import mdtensor` must not choose kernels (decision 0002).
    from mdtensor.kernels.cpu.entry import Entry

    return Entry(f"generic.{dtype.name}", name)


@cache
def _look_up(table: DType) -> Callable[..., Any]:
    """Return the compiled look-up of 16-bit codes in a table of a type."""
    from mdtensor.kernels.cpu.entry import Entry

    return Entry("generic.elementwise", "lookup_u16", variant=table.name)


def widen(x: Array) -> Array:
    """Convert narrow floats to float32, exactly; return other types unchanged."""
    if not is_narrow(x.dtype):
        return x
    if x.size >= LARGE and x.dtype.itemsize == 1:
        return float8.widen(x)
    # NumPy's cast of bfloat16 is a shift too, so a compiled kernel would gain nothing.
    if x.size < LARGE or x.dtype != FLOAT16:
        return quietly(x.astype, FLOAT32)
    out = empty(x.shape, FLOAT32)
    _run(_kernel(x.dtype, "to_float32"), [_flat(x)], out.reshape(-1))
    return out


def round_to(x: Any, dtype: DType) -> Array:
    """Round x half to even to `dtype`, a narrow float."""
    x = np.asarray(x)
    if x.size < LARGE or x.dtype != FLOAT32:
        return quietly(x.astype, dtype)
    if dtype.itemsize == 1:
        return float8.round_to(x, dtype)
    if dtype not in OURS:
        return quietly(x.astype, dtype)
    out = empty(x.shape, dtype)
    _run(_kernel(dtype, "from_float32"), [x.reshape(-1)], _flat(out))
    return out


def cast(x: Array, dtype: DType) -> Array:
    """Return x.astype(dtype), through float32 where a compiled cast exists."""
    if x.dtype == dtype:
        return x.copy()
    wide = widen(x)
    if is_narrow(dtype) and wide.dtype == FLOAT32:
        return round_to(wide, dtype)
    return wide if wide.dtype == dtype else quietly(wide.astype, dtype)


def binary(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """Compute ufunc(x1, x2) of one type, rounded once to it; comparisons give bools."""
    dtype = x1.dtype
    shape = x1.shape
    if shape != x2.shape:
        shape = joint_shape(shape, x2.shape)
    if prod(shape) >= LARGE and dtype.itemsize == 1:
        return float8.look_up_pairs(_pairs(ufunc, dtype), x1, x2)
    if prod(shape) < LARGE or ufunc not in COMPILED or dtype not in OURS:
        is_extreme = dtype in OURS and ufunc in EXTREMES
        return (_extreme if is_extreme else _in_float32)(ufunc, x1, x2)
    out = empty(shape, bool if ufunc in COMPARISONS else dtype)
    operands = [_repeat(x, shape) for x in (x1, x2)]
    kernel = _kernel(dtype, ufunc.__name__)
    _run(kernel, operands, _flat(out) if out.dtype == dtype else out.reshape(-1))
    return out


def _in_float32(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """Compute ufunc(x1, x2) in float32 and round floats to the narrow type."""
    found = np.asarray(quietly(ufunc, widen(x1), widen(x2)))
    return round_to(found, x1.dtype) if found.dtype == FLOAT32 else found


def _extreme(ufunc: np.ufunc, x1: Array, x2: Array) -> Array:
    """Compute the minimum or maximum with the order of the compiled kernels.

    In it -0 is below 0, and a NaN of either sign is beyond all numbers.
    """
    infinity = int(np.array(np.inf, x1.dtype).view(np.int16))
    turned = np.int32(0x7FFF - infinity if ufunc is np.minimum else infinity - 0x7FFF)
    places = [(_rank(x.view(np.int16)) + turned).astype(np.int16) for x in (x1, x2)]
    found = np.asarray(ufunc(*places)).astype(np.int32) - turned
    return np.asarray(_rank(found.astype(np.int16)).astype(np.int16)).view(x1.dtype)


def _rank(bits: Array) -> Array:
    """Map bits to integers in the order of the numbers; the map is its own inverse."""
    return np.asarray(bits ^ ((bits >> 15) & 0x7FFF), np.int32)


@lru_cache(maxsize=64)
def _pairs(ufunc: np.ufunc, dtype: DType) -> Array:
    """Return the results of all pairs of 8-bit values, the first slowest: 64 KiB."""
    numbers = float8.everything(dtype)
    return _in_float32(ufunc, numbers[:, None], numbers).reshape(-1)


# A 16-bit float has only 65,536 values, so a table beats computing each element
# (decision 0007).
def unary(function: Callable[..., Any], x: Array, *options: Any) -> Array:
    """Compute function(x, *options) element by element, in the type of x or as bools.

    Args:
        function: takes a row of float32; returns floats, which are rounded, or bools.
            Each element of its result depends on the same element of x only.
        options: numbers.
    """
    if x.size < LARGE:
        return _compute(function, x, options)
    if x.dtype.itemsize == 1:
        return _table(function, x.dtype, options).take(x.view(np.uint8))
    if function in BITS:
        return _change_bits(*BITS[function], x)
    if function in ROUNDINGS and x.dtype == BFLOAT16:
        out = empty(x.shape, x.dtype)
        _run(_kernel(x.dtype, function.__name__), [_flat(x)], _flat(out))
        return out
    table = _table(function, x.dtype, options)
    out = empty(x.shape, table.dtype)
    bits = np.dtype(f"u{table.itemsize}")

    def look_up(x: Array, out: Array) -> None:
        _look_up(bits)(x, table.view(bits), out)

    _run(look_up, [_flat(x)], out.reshape(-1).view(bits))
    return out


def _change_bits(ufunc: np.ufunc, mask: Any, x: Array) -> Array:
    """Compute ufunc(bits of x, mask), for functions that change the sign only."""
    out = empty(x.shape, x.dtype)
    ufunc(x.view(np.uint16), mask, out=out.view(np.uint16))
    return out


@lru_cache(maxsize=256)
def _table(function: Callable[..., Any], dtype: DType, options: Any) -> Array:
    """Return the results for all values of a type, in the order of their bits.

    The table of a 16-bit type takes 128 KiB.
    """
    bits = np.dtype(f"u{dtype.itemsize}")
    numbers = np.arange(np.iinfo(bits).max + 1, dtype=bits).view(dtype)
    return _compute(function, numbers, options)


def _compute(function: Callable[..., Any], x: Array, options: Any) -> Array:
    """Compute function(x, *options) in float32 and round floats to the type of x."""
    row = quietly(x.reshape(-1).astype, FLOAT32)
    found = np.asarray(quietly(function, row, *options)).reshape(x.shape)
    return quietly(found.astype, x.dtype) if found.dtype.kind == "f" else found


def _flat(x: Array) -> Array:
    """Return the bits of x in one row that starts at a multiple of 4 bytes."""
    row = np.ascontiguousarray(x).view(UINT16).reshape(-1)
    # The kernels read pairs of elements as 32-bit words, which must be aligned.
    return row.copy() if x.base is not None and row.ctypes.data % 4 else row


def _repeat(x: Array, shape: tuple[int, ...]) -> Array:
    """Return the `_flat` bits of x broadcast to `shape`; one number fills one block."""
    # One block serves every call of the kernel, so a single number is not repeated for
    # all elements.
    if x.size == 1:
        return np.full(BLOCK, x.view(np.uint16).reshape(()))
    return _flat(x if x.shape == shape else np.broadcast_to(x, shape))


def _run(kernel: Callable[..., Any], operands: list[Array], out: Array) -> None:
    """Run kernel(*operands, out); an operand shorter than `out` is a repeated block."""
    size = len(out)
    whole = min(map(len, operands)) == size
    if whole and POOL.is_alone(size):
        quietly(kernel, *operands, out)
        return
    step = size if whole else BLOCK

    def work(start: int, stop: int) -> None:
        for at in range(start, stop, step):
            end = min(at + step, stop)
            ins = [x[at:end] if len(x) == size else x[: end - at] for x in operands]
            quietly(kernel, *ins, out[at:end])

    POOL.spread(work, size)
