"""What a rule set answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mdtensor.dtypes import DType


# A rule set is one object, so that its identity can be part of the key of every cache
# (decision 0008).
class RuleSet(ABC):
    """What element types become when they meet.

    There is one object a rule set, hashed by identity, so that it can key a cache.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<promotion rules {self.name!r}>"

    @abstractmethod
    def join(self, types: tuple[DType, ...]) -> DType | None:
        """What different types become; None where that is undefined."""

    @abstractmethod
    def weak(self, tensor: DType, scalar: str) -> DType | None:
        """What a tensor of type `tensor` and a Python `scalar` become.

        Args:
            tensor: the element type.
            scalar: `bool`, `int`, `float` or `complex`.
        """
