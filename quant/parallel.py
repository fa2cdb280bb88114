"""How many threads run the compiled steps of a model."""

import os
from contextvars import ContextVar

from mdtensor import OptionError
from mdtensor.errors import describe, shown
from mdtensor.kernels.numpy.threads import MOST_THREADS
from mdtensor.quant.scopes import Scope

_CURRENT: ContextVar[int | None] = ContextVar("threads", default=None)
_THREAD_BLOCKS = Scope(_CURRENT)


def current() -> int:
    """The threads of this context: those chosen, else MDTENSOR_NUM_THREADS, else 1."""
    chosen = _CURRENT.get()
    if chosen is not None:
        return chosen
    wanted = os.environ.get("MDTENSOR_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted):
        return min(int(wanted), MOST_THREADS)
    return 1


class threads:
    """A context in which models run on up to `n` threads.

    Without it they run on MDTENSOR_NUM_THREADS, if that is set, else on one. The bytes
    are the same for any number. A plan says of each node into how many `pieces` it is
    cut; short ones are one. Where one thread is faster, because other processes have
    the cores or calls are short and come one by one, one is used; so it is for the
    calls of further threads meanwhile, and on systems other than Linux. The context
    holds for this thread, or this asynchronous task, and what is called from it.

    Nodes that stay float are no compiled steps: NumPy runs them, whose BLAS has threads
    of its own, as many as OPENBLAS_NUM_THREADS says.

    Args:
        n: the calling thread included.

    Raises:
        OptionError: n is no integer from 1 to 64.

    Example:
        >>> from mdtensor import quant
        >>> with quant.threads(2) as n:
        ...     print(n)
        2
    """

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_THREADS:
            raise OptionError(
                f"{shown(n)} is no number of threads",
                f"Use an integer from 1 to {MOST_THREADS}",
                describe("threads", n),
            )
        self.n = n

    def __enter__(self) -> int:
        _THREAD_BLOCKS.enter(self.n)
        return self.n

    def __exit__(self, *_: object) -> None:
        _THREAD_BLOCKS.leave()

    def __repr__(self) -> str:
        return f"threads({self.n})"
