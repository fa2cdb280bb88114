"""The error of a file that can only be read if values of the data are known."""

from __future__ import annotations

from math import prod

from mdtensor import TensorSpec
from mdtensor.graph import Graph
from mdtensor.quant.model.size_error import SizeError

#: The most elements of a value that a call may compute before the file is read on.
MOST_ELEMENTS = 64


class DecisionError(SizeError):
    """A graph that can only be read if a value is known that depends on the data.

    Attributes:
        value: its name.
        question: the graph that computes it; None if an input has an open size.
        of_sizes: whether only the sizes of the value must be known, not its elements.
    """

    question: Graph | None = None

    def __init__(
        self, problem: str, fix: str, value: str, *, of_sizes: bool = False
    ) -> None:
        super().__init__(problem, fix)
        self.value, self.of_sizes = value, of_sizes


def sizes_of(value: str) -> str:
    """Return the key under which the sizes of a value are known, not its elements."""
    return f"sizes of {value}"


def is_decidable(spec: TensorSpec) -> bool:
    """Return whether a value can be known before the rest of the file is read.

    It holds a few integers or bools, as conditions, numbers of turns and shapes do.
    """
    is_whole = spec.dtype.kind in ("bool", "signed integer", "unsigned integer")
    return is_whole and -1 not in spec.shape and prod(spec.shape) <= MOST_ELEMENTS
