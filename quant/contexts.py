"""Which instructions the kernels of what is made in a block use."""

import os
from contextvars import ContextVar

from mdtensor import OptionError
from mdtensor.errors import describe, shown
from mdtensor.kernels.cpu import isa, kernel_set as kernels_of
from mdtensor.kernels.numpy.threads import MOST_THREADS
from mdtensor.quant.rules import Scope

_BLOCKS = Scope(kernels_of.CHOSEN)


# Objects keep the ISA that they were made on, so that nothing is packed or compiled
# twice (decision 0037).
class runway:
    """A context in which integer operations, and models made in it, run on a runway.

    The bytes are the same on each: that is what to see by it. For speed leave the
    choice to the process, whose own runway `mdtensor info` names. Kernels of another
    one are compiled when they are first called, and run on one thread. A model that is
    made in the block stays on its runway, and one made before it on its own. The
    context holds for this thread, or this asynchronous task, and what is called in it.

    Args:
        name: "generic", "avx2", "avxvnni", "avx512", "vnni" or "neon", if the CPU has
            its instructions. Of the last four a process has one: MDTENSOR_ISA, when
            it starts, chooses another.

    Raises:
        OptionError: the process cannot have it.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor import quant
        >>> x = quant.QInt8Tensor([1, 2, 3], scale=0.5)
        >>> w = quant.QInt8Tensor([[1, -1, 2]], scale=0.25)
        >>> with quant.runway("generic"):
        ...     print(md.linear(x, w, out=quant.QParams(0.5)).codes)
        Int8Tensor[1]([1])
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or name not in isa.here():
            raise OptionError(*_refusal(name), f"runway({shown(name)})")
        self.name = name

    def __enter__(self) -> str:
        own = kernels_of.kernels(self.name.removesuffix(isa.EMULATED))
        _BLOCKS.enter(own)
        return self.name

    def __exit__(self, *_: object) -> None:
        _BLOCKS.leave()

    def __repr__(self) -> str:
        return f"runway({self.name!r})"


def _refusal(name: object) -> tuple[str, str]:
    """(problem, what would work) for a runway that this process has not."""
    fix = f"Use one of {', '.join(isa.here())}"
    if not isinstance(name, str) or name not in isa.ISAS:
        return "no such runway", fix
    if isa.IS_JIT_DISABLED:
        return "NUMBA_DISABLE_JIT is set", fix
    if lacks := isa.lacking(name, isa.FEATURES):
        return f"this CPU lacks {', '.join(lacks)}", fix
    other = f"Start one with MDTENSOR_ISA={name}, or {fix[0].lower()}{fix[1:]}"
    return f"this process has {isa.DOT_ISA}", other


# How many threads run the compiled steps of a model.

#: The threads that a block chose; a steady call of a model reads it itself.
THREADS: ContextVar[int | None] = ContextVar("threads", default=None)
#: The environment variable that counts outside of blocks.
VARIABLE = "MDTENSOR_NUM_THREADS"
_THREAD_BLOCKS = Scope(THREADS)


def current() -> int:
    """The threads of this context: those chosen, else MDTENSOR_NUM_THREADS, else 1."""
    chosen = THREADS.get()
    if chosen is not None:
        return chosen
    wanted = os.environ.get(VARIABLE, "")
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
