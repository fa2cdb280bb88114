"""Results of a size that the arguments only name: they may not fit into memory."""

from collections.abc import Callable
from typing import Any

from mdtensor.errors import ShapeError, describe


def allocated(make: Callable[[], Any], name: str, *arguments: Any) -> Any:
    """`make()`, an array; the operation `name` is called with `arguments`.

    Raises:
        ShapeError: there is not enough memory, or not as many addresses.
    """
    try:
        return make()
    except (MemoryError, OverflowError, ValueError):
        problem, call = (
            "the result does not fit into memory",
            describe(name, *arguments),
        )
        raise ShapeError(problem, "Ask for fewer elements", call) from None
