"""Which function writes an operation, and what a writer offers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mdtensor import TensorSpec
from mdtensor.quant.model.graph import Node


class Sink(Protocol):
    """What a writer offers to the functions below."""

    specs: Mapping[str, TensorSpec]
    #: The version of the operator set.
    opset: int

    def emit(
        self, kind: str, inputs: list[str], name: str = "", **attributes: Any
    ) -> str:
        """Add an operator on the way to the result; the name of what it writes."""

    def result(
        self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any
    ) -> None:
        """Add the operator that writes the node's result; called as the node is."""

    def constant(self, values: Any) -> str:
        """The name of an initializer with these values."""


Emitter = Callable[[Sink, Node, list[str]], None]
EMITTERS: dict[Any, Emitter] = {}


def emits(*operations: Any) -> Callable[[Emitter], Emitter]:
    """Enter a function in the table of operations."""

    def enter(emitter: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(operations, emitter))
        return emitter

    return enter
