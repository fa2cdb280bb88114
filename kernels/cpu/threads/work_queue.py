"""Who does which piece of a job: claims on words that the threads of a crew share.

A job is pieces in groups: pieces of a group are independent, a group begins when all
pieces before it are done. One word, CLAIM, says how many pieces of the current group
are taken at its front, by the caller, and at its back, by helpers; so a thread tends to
stay in the same part of the images. A piece is taken by one compare-and-swap of that
word, which also holds the number of the job: what was read of an older job is never
acted upon. Who waits has claimed nothing, so nobody waits for a thread that sleeps.

DONE counts finished pieces, and one for each job that is published: all waiting is for
it to change, for a short time spinning, then asleep.
"""

import numpy as np
from numba.core import types

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.threads import atomics
from mdtensor.kernels.cpu.threads.atomics import GET_AFFINITY, SET_AFFINITY, system
from mdtensor.kernels.cpu.vectors import address_of

# Processors: threads that help stay off the one of the thread that they help.
#
# A scheduler wakes a thread near the one that woke it, on the same processor if it takes
# the other for busy, and parts the two after milliseconds: longer than most calls last.

#: Words of a set of processors; Linux has 8192 of them at most.
WORDS = 128
THIS_THREAD = 0

_sched_getcpu = types.ExternalFunction("sched_getcpu", types.int32())


@kernel
def processor():
    """The one that this thread runs on."""
    return _sched_getcpu()


# Workers are bound elsewhere, because a scheduler wakes a thread next to the one that
# woke it (decision 0044).
@kernel
def keep_off(here, threads):
    """Let threads run where this one may, but not on processor `here`.

    Args:
        here: from `processor`.
        threads: int64 1-D, as the system numbers them.

    Returns: False, and nothing has changed, where that leaves none or the system knows
        no such calls.
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


LINE = 16  # words apart, so that what is written often shares no cache line
CLAIM, DONE, ASLEEP, JOB = 0, LINE, 2 * LINE, 3 * LINE
#: Of the job: DONE before its first piece, its groups, and where its arrays lie.
BASE, GROUPS, ROWS, ROW_COUNT, PIECES, PIECE_COUNT = range(JOB, JOB + 6)
ARENA, ARENA_BYTES, CONSTANTS, CONSTANTS_BYTES = range(JOB + 6, JOB + 10)
HELPERS = JOB + 10  # how many may take part
FIRST = 4 * LINE  # number of the first piece of each group, and of all pieces
MOST_GROUPS = 1000
#: Where the caller was when helpers were last kept off; the helpers' numbers.
AT, THREADS = FIRST + MOST_GROUPS + 1, FIRST + MOST_GROUPS + 2
NOWHERE, MOST_HELPERS = -1, 1000
QUEUE_WORDS = THREADS + MOST_HELPERS

# CLAIM: job, group (16 bits), pieces taken at the front (12) and at the back (12)
MOST_PIECES = 1 << 12  # of a group
FRONT, GROUP, NUMBER = 1 << 12, 1 << 24, 1 << 40
CLOSED = -1
MOST_JOBS = 1 << 22

CALLER = 0
WAIT, OVER = -1, -2
#: Longer than what lies between two groups, or two calls in a row; much shorter than a
#: time slice. Waking who sleeps takes 40 us here, of which its caller works 15.
SPIN_NANOSECONDS = 200_000
PAUSES = 16  # between looks at the clock


@kernel
def publish(words, first, rows, pieces, arena, constants):
    """Offer a job to the helpers; the caller holds the crew, and no job is open."""
    atomics.exchange(words, CLAIM, CLOSED)
    here = processor()
    if here != words[AT]:
        are_off = keep_off(here, words[THREADS:][: words[HELPERS]])
        words[AT] = here if are_off else NOWHERE
    for group in range(len(first)):
        words[FIRST + group] = first[group]
    words[BASE] = atomics.load(words, DONE) + 1
    words[GROUPS] = len(first) - 1
    words[ROWS], words[ROW_COUNT] = address_of(rows, 0), rows.shape[0]
    words[PIECES], words[PIECE_COUNT] = address_of(pieces, 0), pieces.shape[0]
    words[ARENA], words[ARENA_BYTES] = address_of(arena, 0), len(arena)
    words[CONSTANTS], words[CONSTANTS_BYTES] = address_of(constants, 0), len(constants)
    atomics.exchange(words, CLAIM, words[BASE] % MOST_JOBS * NUMBER)
    finish(words)


@kernel
def finish(words):
    """A piece is done, or a job is there."""
    atomics.add(words, DONE, 1)
    if atomics.load(words, ASLEEP) != 0:
        atomics.wake(words, DONE)


# Caller and workers take from opposite ends, so that each stays in one part of the
# images (decision 0031).
@kernel
def claim(words, role):
    """The number of a piece that is now this thread's; or WAIT, or OVER."""
    while True:
        word = atomics.load(words, CLAIM)
        if word == CLOSED or role > atomics.load(words, HELPERS):
            return WAIT
        group, front, back = word // GROUP % 65536, word // FRONT % FRONT, word % FRONT
        first = atomics.load(words, FIRST + group)
        last = atomics.load(words, FIRST + group + 1)
        if first + front + back < last:
            if role == CALLER:
                piece, after = first + front, word + FRONT
            else:
                piece, after = last - 1 - back, word + 1
            if atomics.replace(words, CLAIM, word, after):
                return piece
        elif atomics.load(words, DONE) - atomics.load(words, BASE) < last:
            return WAIT
        elif group + 1 == atomics.load(words, GROUPS):
            return OVER
        else:
            atomics.replace(words, CLAIM, word, (word // GROUP + 1) * GROUP)


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
    """Close the job after the caller failed in a piece; wait for those of others."""
    word = atomics.exchange(words, CLAIM, CLOSED)
    if word == CLOSED:
        return
    group, front, back = word // GROUP % 65536, word // FRONT % FRONT, word % FRONT
    others = words[FIRST + group] + front + back - 1
    known = atomics.load(words, DONE)
    while known - words[BASE] < others:
        wait(words, known)
        known = atomics.load(words, DONE)
