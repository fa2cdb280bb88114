"""Reductions and running sums of arrays of NumPy that have short rows or few columns.

NumPy calls a loop for each row. These kernels give the same bytes and do not. Libraries
hold the kernels of floats. Without numba, NumPy computes integers.
"""

from math import prod

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.float_calls import in_a_row
from mdtensor.kernels.numpy import empty

#: NumPy's functions, as `kernels/cpu/generic/axis_folds.py` counts them.
OPERATIONS = {np.add: 0, np.multiply: 1, np.maximum: 2, np.minimum: 3}
#: Elements from which on a kernel takes less time, even if it must be loaded.
LEAST = 1 << 15
#: The longest row of a sum, and of an extreme: NumPy's loop is as fast on longer ones.
LONGEST = {"add_rows": 128, "extreme_rows": 32}
#: The most columns of floats and of integers, whose maxima NumPy computes one by one.
MOST = {"f": 256, "i": 1 << 14, "u": 1 << 14}
#: The most columns of an extreme of floats.
FEW = 48
LARGE = 1 << 20


def _entries(name):
    """Return the entries of a kernel by type of the elements."""
    kinds = ("float32", "float64", *(f"{s}int{b}" for s in ("", "u") for b in BITS))
    module = "generic.axis_folds"
    return {np.dtype(kind): Entry(module, name, variant=kind) for kind in kinds}


BITS = (8, 16, 32, 64)
NAMES = ("add_rows", "extreme_rows", "fold_columns", "accumulate")
KERNELS = {name: _entries(name) for name in NAMES}


# NumPy calls a loop for each short row, with the same order of sums (decision 0106).
def reduce(ufunc, x, shape):
    """Return ufunc.reduce(x, axis 1) of [outer, length, inner] elements.

    Args:
        ufunc: of `OPERATIONS`.
        x: an array whose elements lie in order, of any shape.
        shape: outer, length and inner.

    Returns:
        A fresh array [outer, inner]; None where NumPy takes less time.
    """
    outer, length, inner = shape
    kind = x.dtype.kind
    if not outer * inner or not length or x.size < LEAST or kind not in MOST:
        return None
    if inner > 1:
        most = FEW if kind == "f" and OPERATIONS[ufunc] >= 2 else MOST[kind]
        if length < 4 or inner > most:
            return None
        return _run("fold_columns", x, outer * inner, OPERATIONS[ufunc], length, inner)
    is_sum = ufunc is np.add and kind == "f"
    name = "add_rows" if is_sum else "extreme_rows"
    # NumPy adds integers many at a time.
    if length > LONGEST[name] or (ufunc is np.add and not is_sum):
        return None
    options = () if is_sum else (OPERATIONS[ufunc],)
    return _run(name, x, outer, *options, rows=length)


def _run(name, x, size, *options, rows=None):
    """Return `size` results of a kernel, or None if it is not available.

    Options stand around the elements.
    """
    if not KERNELS[name][x.dtype].is_available:
        return None
    out = empty((size,), x.dtype, LARGE)
    before, after = options[:1], options[1:] if rows is None else (rows,)
    KERNELS[name][x.dtype].call(*before, in_a_row(x), *after, out)
    if observe.ACTIVE:
        observe.ran(name, "generic")
    return out


def accumulate(ufunc, x, axis, out):
    """Set out = ufunc.accumulate(x, axis), and return True; False where NumPy does it.

    Args:
        x: of the type of `out`, which is in order.
    """
    is_known = x.dtype == out.dtype and x.dtype in KERNELS["accumulate"]
    if not is_known or x.size < LEAST or not out.flags.carray:
        return False
    entry, inner = KERNELS["accumulate"][x.dtype], prod(x.shape[axis + 1 :])
    if not entry.is_available:
        return False
    entry.call(OPERATIONS[ufunc], in_a_row(x), x.shape[axis], inner, out.reshape(-1))
    if observe.ACTIVE:
        observe.ran("accumulate", "generic")
    return True
