"""Counts of wrapped elements, as in `kernels.numpy.overflow`, without temporaries.

All arrays are 1-D, of one length and of any integer types. The kernels of narrow
operands compute in the type of an array, in which a sum, difference or product modulo
2**bits tells which elements wrapped: int16 for 8 bits, int32 for 16.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel

#: Elements whose count fits in int16, so that it adds up in vectors of the operands.
BLOCK = 1 << 14


@kernel
def is_off(exact, found, limit):
    """Return whether `found` differs from `exact` by `limit` or more.

    `exact` is a float64 near the exact result.
    """
    return abs(exact - np.float64(found)) >= limit


@kernel
def add(a, b, found, limit):
    """Count the elements of `found` that differ from a + b."""
    count = 0
    for i in range(np.uintp(len(found))):
        exact = np.float64(a[i]) + np.float64(b[i])
        count += is_off(exact, found[i], limit)
    return count


@kernel
def add_narrow(a, b, found, like):
    """Count as `add` does, in the type of the array `like`."""
    wide, count = like.dtype.type, 0
    for start in range(0, len(found), BLOCK):
        part = wide(0)
        for i in range(np.uintp(start), np.uintp(min(start + BLOCK, len(found)))):
            exact = wide(np.int64(a[i]) + np.int64(b[i]))
            part = wide(part + wide(exact != wide(found[i])))
        count += part
    return count


@kernel
def subtract(a, b, found, limit):
    """Count the elements of `found` that differ from a - b."""
    count = 0
    for i in range(np.uintp(len(found))):
        exact = np.float64(a[i]) - np.float64(b[i])
        count += is_off(exact, found[i], limit)
    return count


@kernel
def subtract_narrow(a, b, found, like):
    """Count as `subtract` does, in the type of the array `like`."""
    wide, count = like.dtype.type, 0
    for start in range(0, len(found), BLOCK):
        part = wide(0)
        for i in range(np.uintp(start), np.uintp(min(start + BLOCK, len(found)))):
            exact = wide(np.int64(a[i]) - np.int64(b[i]))
            part = wide(part + wide(exact != wide(found[i])))
        count += part
    return count


@kernel
def multiply(a, b, found, limit):
    """Count the elements of `found` that differ from a · b."""
    count = 0
    for i in range(np.uintp(len(found))):
        exact = np.float64(a[i]) * np.float64(b[i])
        count += is_off(exact, found[i], limit)
    return count


@kernel
def multiply_narrow(a, b, found, like):
    """Count as `multiply` does, in the type of the array `like`."""
    wide, count = like.dtype.type, 0
    for start in range(0, len(found), BLOCK):
        part = wide(0)
        for i in range(np.uintp(start), np.uintp(min(start + BLOCK, len(found)))):
            exact = wide(np.int64(a[i]) * np.int64(b[i]))
            part = wide(part + wide(exact != wide(found[i])))
        count += part
    return count


@kernel
def differ(x, found):
    """Count the elements of `found` that differ from x.

    The types are not int64 with uint64: numba would compare these as float64.
    """
    count = 0
    for i in range(np.uintp(len(found))):
        count += x[i] != found[i]
    return count
