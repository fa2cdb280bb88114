"""Results of a size that the arguments only name: they may not fit into memory."""

from collections.abc import Callable
from typing import Any

from mdtensor.errors import ShapeError


def allocated(make: Callable[[], Any], call: str) -> Any:
    """`make()`, an array.

    Raises:
        ShapeError: there is not enough memory, or not as many addresses.
    """
    try:
        return make()
    except (MemoryError, OverflowError, ValueError):
        problem = "the result does not fit into memory"
        raise ShapeError(problem, "Ask for fewer elements", call) from None
