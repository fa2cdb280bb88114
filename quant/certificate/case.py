"""Integers from a name: the same on every machine and for every version of NumPy.

Element i is the i-th 32-bit little-endian word of SHAKE-256 of the name, modulo the
size of the range. Source: FIPS 202.
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


def uint8_codes(kind: str, name: str, shape: tuple[int, ...]) -> IntArray:
    """uint8 codes of one of `KINDS`."""
    return KINDS[kind](name, shape, 0, 255).astype(np.uint8)


def int8_codes(kind: str, name: str, shape: tuple[int, ...]) -> IntArray:
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


# A case, and the hash of the results of many.

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One computation that two ways must agree on.

    Args:
        kernel: what is tested; cases of one kernel are counted together.
        name: which case of it.
        computed: the result on this many threads, by this process's runway.
        expected: the result by the oracle.
        is_quick: it belongs to the part that compiles in seconds.
    """

    kernel: str
    name: str
    compute: Callable[[int], Array]
    oracle: Callable[[], Array]
    is_quick: bool = False

    @property
    def title(self) -> str:
        """What it is called, and ordered by."""
        return f"{self.kernel}: {self.name}"


def digest(results: Iterable[tuple[str, Array]]) -> str:
    """SHA-256 of arrays with their titles, in the order given."""
    text = hashlib.sha256()
    for title, array in results:
        portable = array.astype(array.dtype.newbyteorder("<"))
        shape = "x".join(map(str, array.shape))
        text.update(f"{title} {array.dtype.name} {shape}\n".encode())
        text.update(np.ascontiguousarray(portable).tobytes())
    return text.hexdigest()


# A step on some threads: the one place of the certificate that knows of threads.

#: What every kernel is run on.
THREADS = (1, 2)


# Even short steps are split, because the pieces matter here and not the threads
# (decision 0027).
def split_short_steps() -> None:
    """Share out steps among threads that are too short to gain by it."""
    split.PIECE_NANOSECONDS = 1


def run(step: Step, arrays: tuple[Any, ...], threads: int) -> Any:
    """The result of a step: on one thread as a call, on more as a program."""
    if threads == 1:
        return step(*arrays)
    program = Program()
    slots = [program.input(array.shape, array.dtype) for array in arrays]
    executable = program.build([program.append(step, *slots)])
    return executable(*arrays, threads=threads)[0]
