"""How many elements wrapped: as `kernels.numpy.overflow`, without temporaries.

All arrays are 1-D, of one length and of any integer types. Of 8 and 16 bits the exact
results are int32, without a limit to compare with.
"""

import numpy as np

from mdtensor.kernels.cpu.jit import kernel


@kernel
def off(exact, found, limit):
    """Whether `found` is not the integer that is about `exact`."""
    return abs(exact - np.float64(found)) >= limit


@kernel
def add(a, b, found, limit):
    """How many of `found` are not a + b."""
    count = 0
    for i in range(np.uintp(len(found))):
        exact = np.float64(a[i]) + np.float64(b[i])
        count += off(exact, found[i], limit)
    return count


@kernel
def add_narrow(a, b, found, _):
    """As `add`, of at most 16 bits."""
    count = np.int32(0)
    for i in range(np.uintp(len(found))):
        exact = np.int32(np.int32(a[i]) + np.int32(b[i]))
        count = np.int32(count + np.int32(exact != np.int32(found[i])))
    return count


@kernel
def subtract(a, b, found, limit):
    """How many of `found` are not a - b."""
    count = 0
    for i in range(np.uintp(len(found))):
        exact = np.float64(a[i]) - np.float64(b[i])
        count += off(exact, found[i], limit)
    return count


@kernel
def subtract_narrow(a, b, found, _):
    """As `subtract`, of at most 16 bits."""
    count = np.int32(0)
    for i in range(np.uintp(len(found))):
        exact = np.int32(np.int32(a[i]) - np.int32(b[i]))
        count = np.int32(count + np.int32(exact != np.int32(found[i])))
    return count


@kernel
def multiply(a, b, found, limit):
    """How many of `found` are not a · b."""
    count = 0
    for i in range(np.uintp(len(found))):
        exact = np.float64(a[i]) * np.float64(b[i])
        count += off(exact, found[i], limit)
    return count


@kernel
def multiply_narrow(a, b, found, _):
    """As `multiply`, of at most 16 bits."""
    count = np.int32(0)
    for i in range(np.uintp(len(found))):
        exact = np.int32(np.int32(a[i]) * np.int32(b[i]))
        count = np.int32(count + np.int32(exact != np.int32(found[i])))
    return count


@kernel
def differ(x, found):
    """How many of `found` are not x; their types are not int64 beside uint64."""
    count = 0
    for i in range(np.uintp(len(found))):
        count += x[i] != found[i]
    return count
