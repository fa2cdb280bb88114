"""A step on some threads: the one place of the certificate that knows of threads."""

from typing import Any

from mdtensor.kernels.cpu import jobs
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.step import Step

#: What every kernel is run on.
THREADS = (1, 2)


# Even short steps are split, because the pieces matter here and not the threads
# (decision 0027).
def cut_short_steps() -> None:
    """Share out steps among threads that are too short to gain by it."""
    jobs.PIECE_NANOSECONDS = 1


def run(step: Step, arrays: tuple[Any, ...], threads: int) -> Any:
    """The result of a step: on one thread as a call, on more as a program."""
    if threads == 1:
        return step(*arrays)
    program = Program()
    slots = [program.input(array.shape, array.dtype) for array in arrays]
    executable = program.build([program.append(step, *slots)])
    return executable(*arrays, threads=threads)[0]
