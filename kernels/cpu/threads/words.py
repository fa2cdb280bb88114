"""Layout of the words that all threads of the pool share; `work_queue` uses them."""

import sys

from mdtensor.kernels.cpu.isa import IS_JIT_DISABLED, MACHINE

#: Numbers of system calls; little-endian machines of 64 bits.
FUTEX, SET_AFFINITY, GET_AFFINITY = {
    "x86_64": (202, 203, 204),
    "aarch64": (98, 122, 123),
}.get(MACHINE, (-1, -1, -1))
#: Whether threads can wait for each other in compiled code.
CAN_WAIT = sys.platform == "linux" and FUTEX > 0 and not IS_JIT_DISABLED

# Words that are written often lie so far apart that they do not share a cache line.
LINE = 16
TAKEN, DONE, ASLEEP, JOB = 0, LINE, 2 * LINE, 3 * LINE
#: Words of the job: DONE before its first piece, its groups, addresses of its arrays.
BASE, GROUPS, ROWS, ROW_COUNT, PIECES, PIECE_COUNT = range(JOB, JOB + 6)
ARENA, ARENA_BYTES, CONSTANTS, CONSTANTS_BYTES = range(JOB + 6, JOB + 10)
#: How many workers may take part.
WORKERS = JOB + 10
#: Number of the first piece of each group, followed by the number of all pieces.
FIRST = 4 * LINE
MOST_GROUPS = 1000
#: Processor of the caller when workers last moved away; thread numbers of the workers.
AT, THREADS = FIRST + MOST_GROUPS + 1, FIRST + MOST_GROUPS + 2
NOWHERE, MOST_WORKERS = -1, 1000
QUEUE_WORDS = THREADS + MOST_WORKERS
#: What TAKEN holds while there is no job.
CLOSED = -1

#: Roles of a thread: alone without the pool, or the caller; workers count from 1.
ALONE, CALLER = -1, 0
#: Longer than the pause between two groups or two consecutive calls, but much shorter
#: than a time slice. Waking a sleeping thread takes 40 us, 15 of them in its caller.
SPIN_NANOSECONDS = 200_000


def describe():
    """Return the words that a runner of stored plans needs, by name."""
    return {
        "can_wait": CAN_WAIT,
        "words": QUEUE_WORDS,
        "taken": TAKEN,
        "asleep": ASLEEP,
        "workers": WORKERS,
        "most_workers": MOST_WORKERS,
        "at": AT,
        "threads": THREADS,
        "most_groups": MOST_GROUPS,
    }
