"""How many threads work on large arrays."""

from mdtensor.errors import OptionError, describe, shown
from mdtensor.kernels.numpy.threads import MOST_THREADS, TEAM
from mdtensor.spec.shapes import is_size


def set_num_threads(n: int) -> None:
    """Let elementwise operations on large arrays use up to `n` threads.

    The default is MDTENSOR_NUM_THREADS, else the cores that the process may use.
    Results are the same bytes for any number.

    Raises:
        OptionError: n is no integer from 1 to 64.

    Example:
        >>> import mdtensor as md
        >>> before = md.get_num_threads()
        >>> md.set_num_threads(1)
        >>> md.get_num_threads()
        1
        >>> md.set_num_threads(before)
    """
    if not is_size(n) or not 1 <= n <= MOST_THREADS:
        raise OptionError(
            f"{shown(n)} is no number of threads",
            f"Use an integer from 1 to {MOST_THREADS}",
            describe("set_num_threads", n),
        )
    TEAM.size = int(n)


def get_num_threads() -> int:
    """How many threads elementwise operations on large arrays may use."""
    return TEAM.size
