"""Launches of compiled kernels on the CPU, in a chosen order of threads."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from mdtensor.kernels.emulated.compiler import FAILURES, EmulationError, entry
from mdtensor.kernels.loops.arguments import packed
from mdtensor.kernels.loops.kernel import Kernel, Launch

#: Orders in which the threads of a block, and the blocks of a grid, run.
ORDERS = ("ascending", "descending", "random")
#: The header keeps a launch in static variables of its library.
_ONE_AT_A_TIME = Lock()


def run(
    kernel: Kernel,
    launch: Launch,
    addresses: Sequence[int],
    order: str = "ascending",
    seed: int = 0,
) -> None:
    """Run a launch to its end.

    Args:
        addresses: of the first element of each operand; those of numbers are ignored.
        order: one of `ORDERS`.
        seed: of the random order.

    Raises:
        EmulationError: there is no g++, the text does not compile, or a thread traps
            or waits at a barrier that others do not reach.
    """
    function = entry(kernel)
    table, _alive = packed(launch, addresses)
    at = ORDERS.index(order)
    with _ONE_AT_A_TIME:
        failed = function(table, launch.grid, launch.block, at, seed)
    if failed:
        raise EmulationError(f"{kernel.name}: {FAILURES[failed]}.")
