"""Processors: threads that help stay off the one of the thread that they help.

A scheduler wakes a thread near the one that woke it, on the same processor if it takes
the other for busy, and parts the two after milliseconds: longer than most calls last.
"""

import numpy as np
from numba.core import types

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.threads.atomics import GET_AFFINITY, SET_AFFINITY, system
from mdtensor.kernels.cpu.vectors import address_of

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
