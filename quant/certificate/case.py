"""Cases of the certificate: fixed integers as input, the hash of results, and runs.

Element i of an input is the i-th 32-bit little-endian word of SHAKE-256 of a name,
modulo the size of the range. So it is the same on every machine and with every version
of NumPy. Source: FIPS 202.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.step import Step
from mdtensor.kernels.cpu.threads import split

IntArray = npt.NDArray[Any]
Pair = tuple[int, int]
#: Padding: top, left, bottom, right.
Sides = tuple[int, int, int, int]
#: Part of every name; another number gives another certificate.
EDITION = 1


# Inputs come from SHAKE-256, because the streams of `numpy.random` may change (decision
# 0027).
def integers(name: str, shape: tuple[int, ...], low: int, high: int) -> IntArray:
    """Return integers in low .. high, both included, derived from `name`.

    Example:
        >>> integers("an example", (2, 3), -8, 7).tolist()
        [[-2, -5, -7], [0, 3, -6]]
    """
    seed = f"mdtensor certificate {EDITION}: {name}".encode()
    stream = hashlib.shake_256(seed).digest(4 * prod(shape))
    words = np.frombuffer(stream, "<u4").astype(np.int64)
    return (low + words % (high - low + 1)).reshape(shape)


def ends(name: str, shape: tuple[int, ...], low: int, high: int) -> IntArray:
    """Return only `low` and `high`, so that sums become as large as possible."""
    return np.where(integers(name, shape, 0, 1) == 1, high, low)


#: How the codes of a case are chosen.
KINDS = {"any": integers, "ends": ends}


def uint8_codes(kind: str, name: str, shape: tuple[int, ...]) -> IntArray:
    """Return uint8 codes of one of `KINDS`."""
    return KINDS[kind](name, shape, 0, 255).astype(np.uint8)


def int8_codes(kind: str, name: str, shape: tuple[int, ...]) -> IntArray:
    """Return int8 codes of one of `KINDS`."""
    return KINDS[kind](name, shape, -128, 127).astype(np.int8)


def ratios(name: str, count: int, taps: int, ties: bool) -> list[Fraction]:
    """Return a ratio for each channel that scales sums of `taps` products to 8 bits.

    Args:
        ties: use powers of 2, so that many results lie half-way between two codes.
    """
    # Sums of random products grow with the square root of their number.
    shift = 6 + taps.bit_length() // 2
    mantissas = [0] * count if ties else integers(name, (count,), 0, 2**23 - 1).tolist()
    return [
        Fraction(2**23 + m, 2 ** (23 + shift + i % 3)) for i, m in enumerate(mantissas)
    ]


# A case, and the hash of the results of many cases.

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One computation on which the kernels and the oracle must agree.

    Args:
        kernel: the tested kernel; cases of one kernel are counted together.
        name: the name of the case, unique for the kernel.
        compute: return the result on a number of threads, with the ISA of this process.
        oracle: return the result of the oracle.
        is_quick: whether the case belongs to the part that compiles in seconds.
    """

    kernel: str
    name: str
    compute: Callable[[int], Array]
    oracle: Callable[[], Array]
    is_quick: bool = False

    @property
    def title(self) -> str:
        """Return the name of the case, by which cases are ordered."""
        return f"{self.kernel}: {self.name}"


def digest(results: Iterable[tuple[str, Array]]) -> str:
    """Return the SHA-256 of arrays with their titles, in the order given."""
    text = hashlib.sha256()
    for title, array in results:
        # Bytes must not depend on the byte order of the machine.
        portable = array.astype(array.dtype.newbyteorder("<"))
        shape = "x".join(map(str, array.shape))
        text.update(f"{title} {array.dtype.name} {shape}\n".encode())
        text.update(np.ascontiguousarray(portable).tobytes())
    return text.hexdigest()


# Steps on several threads. No other part of the certificate knows about threads.

#: The numbers of threads for every kernel.
THREADS = (1, 2)


# Even short steps are split, because the pieces matter here and not the threads
# (decision 0027).
def split_short_steps() -> None:
    """Split all steps among threads, also steps too short to gain from it."""
    split.PIECE_NANOSECONDS = 1


def run(step: Step, arrays: tuple[Array, ...], threads: int) -> Array:
    """Run a step: directly on one thread, as a program on several."""
    if threads == 1:
        found: Array = step(*arrays)
        return found
    program = Program()
    slots = [program.input(array.shape, array.dtype) for array in arrays]
    executable = program.build([program.append(step, *slots)])
    result: Array = executable(*arrays, threads=threads)[0]
    return result
