"""The first elements of sorted lines of NumPy's arrays, by kernels that do not sort."""

from math import prod

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.float_calls import in_a_row

#: Elements from which on a kernel takes less time, even if it must be loaded.
LEAST = 1 << 12
#: The most elements of a line that are kept in order.
MOST = 64
KINDS = (
    "float32",
    "float64",
    *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)),
)
KERNELS = {
    name: {
        np.dtype(kind): Entry("generic.leading", name, variant=kind) for kind in KINDS
    }
    for name in ("leading_rows", "leading_columns")
}


def leading(x, axis, count, descending):
    """Return the int64 places along `axis` of the first `count` elements in order.

    Returns: None if sorting takes less time, or if no kernel is available for the type.
    """
    length, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    is_known = x.dtype in KERNELS["leading_rows"] and x.size >= LEAST
    # Lines that are sorted already move all places at each element.
    if not is_known or not 0 < count <= min(MOST, length // 4):
        return None
    name = "leading_rows" if inner == 1 else "leading_columns"
    entry = KERNELS[name][x.dtype]
    if not entry.is_available:
        return None
    out = np.empty((*x.shape[:axis], count, *x.shape[axis + 1 :]), np.int64)
    sizes = (length, count) if inner == 1 else (length, inner, count)
    entry.call(int(descending), in_a_row(x), *sizes, out.reshape(-1))
    if observe.ACTIVE:
        observe.ran(name, "generic")
    return out
