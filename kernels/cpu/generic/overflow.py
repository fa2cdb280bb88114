"""Counts of wrapped elements, as in `kernels.numpy.overflow`, without temporaries.

All arrays are 1-D, of one length and of any integer types. Exact results of 8-bit and
16-bit operands are int32, so those kernels do not need a limit.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel


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
def add_narrow(a, b, found, _):
    """Count as `add` does, for operands of at most 16 bits."""
    count = np.int32(0)
    for i in range(np.uintp(len(found))):
        exact = np.int32(np.int32(a[i]) + np.int32(b[i]))
        count = np.int32(count + np.int32(exact != np.int32(found[i])))
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
def subtract_narrow(a, b, found, _):
    """Count as `subtract` does, for operands of at most 16 bits."""
    count = np.int32(0)
    for i in range(np.uintp(len(found))):
        exact = np.int32(np.int32(a[i]) - np.int32(b[i]))
        count = np.int32(count + np.int32(exact != np.int32(found[i])))
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
def multiply_narrow(a, b, found, _):
    """Count as `multiply` does, for operands of at most 16 bits."""
    count = np.int32(0)
    for i in range(np.uintp(len(found))):
        exact = np.int32(np.int32(a[i]) * np.int32(b[i]))
        count = np.int32(count + np.int32(exact != np.int32(found[i])))
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
