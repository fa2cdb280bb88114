"""Results of a size that the arguments only name: they may not fit into memory."""

from collections.abc import Callable
from typing import Any

from mdtensor.errors import ShapeError, describe


def allocated(make: Callable[[], Any], name: str, *arguments: Any) -> Any:
    """`make()`, an array.

    Raises:
        ShapeError: there is not enough memory, or not as many addresses.
    """
    try:
        return make()
    except (MemoryError, ValueError):
        raise ShapeError(
            "the result does not fit into memory",
            "Ask for fewer elements",
            describe(name, *arguments),
        ) from None
