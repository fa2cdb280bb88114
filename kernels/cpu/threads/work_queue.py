"""Distribution of the pieces of a job, through words that all threads share.

A job consists of groups of pieces. The pieces of a group are independent; a group
begins when all pieces before it are done. One word, TAKEN, says how many pieces of the
current group the caller has taken from the front and the workers from the back. So each
thread tends to stay in one part of the images. A thread takes a piece by one compare-
and-swap of that word. TAKEN also holds the number of the job, so a thread that read the
word of an older job takes nothing. A waiting thread has not taken a piece, so no thread
waits for one that sleeps.

DONE counts finished pieces, and one more for each published job. Threads wait for it to
change: first spinning, for a short time, then asleep.
"""

import numpy as np
from numba.core import types

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.threads import atomics
from mdtensor.kernels.cpu.threads.atomics import system
from mdtensor.kernels.cpu.threads.words import (
    ARENA,
    ARENA_BYTES,
    ASLEEP,
    AT,
    BASE,
    CALLER,
    CLOSED,
    CONSTANTS,
    CONSTANTS_BYTES,
    DONE,
    FIRST,
    GET_AFFINITY,
    GROUPS,
    NOWHERE,
    PIECE_COUNT,
    PIECES,
    ROW_COUNT,
    ROWS,
    SET_AFFINITY,
    SPIN_NANOSECONDS,
    TAKEN,
    THREADS,
    WORKERS,
)
from mdtensor.kernels.cpu.vectors import address_of

#: Words of a set of processors; Linux knows 8192 processors at most.
WORDS = 128
THIS_THREAD = 0

_sched_getcpu = types.ExternalFunction("sched_getcpu", types.int32())


@kernel
def processor():
    """Return the processor that this thread runs on."""
    return _sched_getcpu()


# Workers are bound elsewhere, because a scheduler wakes a thread next to the one that
# woke it (decision 0044).
@kernel
def keep_off(here, threads):
    """Let threads run where this thread may, but not on processor `here`.

    Args:
        here: from `processor`.
        threads: int64 1-D, as the system numbers them.

    Returns: False, with nothing changed, if no processor would be left or if the
        operating system does not have these calls.
    """
    others = np.zeros(WORDS, np.int64)
    others_at = address_of(others, 0)
    if here < 0 or system(GET_AFFINITY, THIS_THREAD, 8 * WORDS, others_at, 0, 0, 0) < 0:
        return False
    others[here // 64] &= ~(1 << (here % 64))
    if not others.any():
        return False
    for thread in threads:
        system(SET_AFFINITY, thread, 8 * WORDS, others_at, 0, 0, 0)
    return True


# TAKEN holds: job, group (16 bits), pieces taken at the front (12) and the back (12).
# So a group may have 4,095 pieces; a step is cut into far fewer, a few for each thread.
FRONT, GROUP, NUMBER = 1 << 12, 1 << 24, 1 << 40
MOST_JOBS = 1 << 22

WAIT, OVER = -1, -2
# Reading the clock costs more than a pause, so many pauses share one reading.
PAUSES = 16


@kernel
def publish(words, first, rows, pieces, arena, constants):
    """Offer a job to the workers.

    The calling thread owns the pool, and no other job is open.
    """
    atomics.exchange(words, TAKEN, CLOSED)
    here = processor()
    if here != words[AT]:
        are_off = keep_off(here, words[THREADS:][: words[WORKERS]])
        words[AT] = here if are_off else NOWHERE
    for group in range(len(first)):
        words[FIRST + group] = first[group]
    words[BASE] = atomics.load(words, DONE) + 1
    words[GROUPS] = len(first) - 1
    words[ROWS], words[ROW_COUNT] = address_of(rows, 0), rows.shape[0]
    words[PIECES], words[PIECE_COUNT] = address_of(pieces, 0), pieces.shape[0]
    words[ARENA], words[ARENA_BYTES] = address_of(arena, 0), len(arena)
    words[CONSTANTS], words[CONSTANTS_BYTES] = address_of(constants, 0), len(constants)
    atomics.exchange(words, TAKEN, words[BASE] % MOST_JOBS * NUMBER)
    finish(words)


@kernel
def finish(words):
    """Count a finished piece or a new job, and wake sleeping threads."""
    atomics.add(words, DONE, 1)
    if atomics.load(words, ASLEEP) != 0:
        atomics.wake(words, DONE)


# Caller and workers take from opposite ends, so that each stays in one part of the
# images (decision 0031).
@kernel
def take_item(words, role):
    """Take a piece for this thread and return its number, or WAIT, or OVER."""
    while True:
        word = atomics.load(words, TAKEN)
        if word == CLOSED or role > atomics.load(words, WORKERS):
            return WAIT
        group, front, back = word // GROUP % 65536, word // FRONT % FRONT, word % FRONT
        first = atomics.load(words, FIRST + group)
        last = atomics.load(words, FIRST + group + 1)
        if first + front + back < last:
            if role == CALLER:
                piece, after = first + front, word + FRONT
            else:
                piece, after = last - 1 - back, word + 1
            if atomics.replace(words, TAKEN, word, after):
                return piece
        # The next group may read what the pieces still in work write.
        elif atomics.load(words, DONE) - atomics.load(words, BASE) < last:
            return WAIT
        elif group + 1 == atomics.load(words, GROUPS):
            return OVER
        else:
            atomics.replace(words, TAKEN, word, (word // GROUP + 1) * GROUP)


@kernel
def wait(words, known):
    """Return once DONE is not `known` any more."""
    stop = atomics.now() + SPIN_NANOSECONDS
    while atomics.now() < stop:
        for _ in range(PAUSES):
            if atomics.load(words, DONE) != known:
                return
            atomics.pause()
    atomics.add(words, ASLEEP, 1)
    while atomics.load(words, DONE) == known:
        atomics.sleep_while(words, DONE, known)
    atomics.add(words, ASLEEP, -1)


@kernel
def withdraw(words):
    """Close the job after the caller failed in a piece, and wait for the others."""
    word = atomics.exchange(words, TAKEN, CLOSED)
    if word == CLOSED:
        return
    group, front, back = word // GROUP % 65536, word // FRONT % FRONT, word % FRONT
    others = words[FIRST + group] + front + back - 1
    known = atomics.load(words, DONE)
    while known - words[BASE] < others:
        wait(words, known)
        known = atomics.load(words, DONE)
