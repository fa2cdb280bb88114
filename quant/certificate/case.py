"""Integers from a name: the same on every machine and for every version of NumPy.

Element i is the i-th 32-bit little-endian word of SHAKE-256 of the name, modulo the
size of the range. Source: FIPS 202.
"""

import hashlib
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[Any]
#: Part of every name: another number, another certificate.
EDITION = 1


# Inputs come from SHAKE-256, because the streams of `numpy.random` may change (decision
# 0027).
def integers(name: str, shape: tuple[int, ...], low: int, high: int) -> IntArray:
    """Integers in low .. high, both included.

    Example:
        >>> integers("an example", (2, 3), -8, 7).tolist()
        [[-2, -5, -7], [0, 3, -6]]
    """
    seed = f"mdtensor certificate {EDITION}: {name}".encode()
    stream = hashlib.shake_256(seed).digest(4 * prod(shape))
    words = np.frombuffer(stream, "<u4").astype(np.int64)
    return (low + words % (high - low + 1)).reshape(shape)


def ends(name: str, shape: tuple[int, ...], low: int, high: int) -> IntArray:
    """Either `low` or `high`, for sums that are as large as they can be."""
    return np.where(integers(name, shape, 0, 1) == 1, high, low)


#: How the codes of a case are chosen.
KINDS = {"any": integers, "ends": ends}


def unsigned(kind: str, name: str, shape: tuple[int, ...]) -> IntArray:
    """uint8 codes of one of `KINDS`."""
    return KINDS[kind](name, shape, 0, 255).astype(np.uint8)


def signed(kind: str, name: str, shape: tuple[int, ...]) -> IntArray:
    """int8 codes of one of `KINDS`."""
    return KINDS[kind](name, shape, -128, 127).astype(np.int8)


def ratios(name: str, count: int, taps: int, ties: bool) -> list[Fraction]:
    """Ratios that bring sums of `taps` products to 8 bits.

    Args:
        ties: powers of 2, with which many results lie between two codes.
    """
    shift = 6 + taps.bit_length() // 2
    mantissas = [0] * count if ties else integers(name, (count,), 0, 2**23 - 1).tolist()
    return [
        Fraction(2**23 + m, 2 ** (23 + shift + i % 3)) for i, m in enumerate(mantissas)
    ]
