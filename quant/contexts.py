"""Contexts that choose how quantized code runs: `runway` (the ISA) and `threads`.

Neither changes a result by a bit.
"""

from mdtensor import OptionError
from mdtensor.errors import describe, shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.kernels.cpu import isa, kernel_set as kernels_of
from mdtensor.kernels.numpy.threads import MOST_THREADS, THREADS
from mdtensor.quant.rules import Scope

# The variable is the one that `kernels` reads, and is a part of the key of bound calls.
_BLOCKS = Scope(kernels_of.CHOSEN)


# Objects keep the ISA that they were made on, so that nothing is packed or compiled
# twice (decision 0037).
@explain_wrong_calls
class runway:
    """A context that chooses the ISA (instruction set) of quantized operations.

    Results are bit-identical on every ISA; use this context to check that. For speed,
    leave the choice to the process; `mdtensor info` shows its ISA. Kernels of another
    ISA are compiled at their first call and run on one thread. A model keeps the ISA
    that was chosen when it was made: leaving or entering a block does not change it.
    The context applies to this thread, or asynchronous task, and to the code that it
    calls.

    Args:
        name: "generic", "avx2", "avxvnni", "avx512", "vnni" or "neon", if the CPU has
            its instructions. A process can use only one of the last four; the variable
            MDTENSOR_ISA, read at the start of the process, selects another one.

    Raises:
        OptionError: this process cannot use the ISA.

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
            raise OptionError(*_problem_and_fix(name), f"runway({shown(name)})")
        self.name = name

    def __enter__(self) -> str:
        own = kernels_of.kernels(self.name.removesuffix(isa.EMULATED))
        _BLOCKS.enter(own)
        return self.name

    def __exit__(self, *_: object) -> None:
        _BLOCKS.leave()

    def __repr__(self) -> str:
        return f"runway({self.name!r})"


def _problem_and_fix(name: object) -> tuple[str, str]:
    """Return the problem and the fix for an ISA that this process cannot use."""
    fix = f"Use one of {', '.join(isa.here())}"
    if not isinstance(name, str) or name not in isa.ISAS:
        return "no such runway", fix
    # Before the CPU's features: without a compiler only one ISA can run on any CPU.
    if isa.IS_JIT_DISABLED:
        return "NUMBA_DISABLE_JIT is set", fix
    if lacks := isa.lacking(name, isa.FEATURES):
        return f"this CPU lacks {', '.join(lacks)}", fix
    other = f"Start one with MDTENSOR_ISA={name}, or {fix[0].lower()}{fix[1:]}"
    return f"this process has {isa.DOT_ISA}", other


_THREAD_BLOCKS = Scope(THREADS)


@explain_wrong_calls
class threads:
    """A context in which models and compiled calls run on up to `n` threads.

    Compiled calls are calls of quantized tensors and convolutions of float32 that take
    0.3 ms or longer on one thread. Outside of such a block, models and compiled calls
    use MDTENSOR_NUM_THREADS threads, or one if the variable is not set. Results are
    bit-identical for any number.

    `pieces` in a plan shows into how many parts a node is split; short nodes are not
    split. A model uses one thread where that is faster: if other processes use the
    cores, or for short calls with pauses between them. It also uses one thread while
    another thread's call has the thread pool, and on systems other than Linux. The
    context applies to this thread, or asynchronous task, and to the code that it calls.

    Nodes that run as calls of NumPy use the threads of its BLAS; OPENBLAS_NUM_THREADS
    sets their number.

    Args:
        n: the number of threads, which includes the calling thread.

    Raises:
        OptionError: n is not an integer from 1 to 64.

    Example:
        >>> from mdtensor import quant
        >>> with quant.threads(2) as n:
        ...     print(n)
        2
    """

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_THREADS:
            raise OptionError(
                f"the number of threads is {shown(n)}",
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
