"""Values as statements of a language: one variable for each distinct node."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mdtensor.kernels.loops.ir import Value, locals_of


class Statements(ABC):
    """Statements that compute values, one for each distinct node.

    Args:
        indent: of each line.
        place: where the element of operand `{0}` is.
        letter: the first of the names.
        locals: the local values of the loop.
    """

    def __init__(
        self,
        indent: str,
        place: str,
        letter: str = "v",
        locals: tuple[Value, ...] = (),
    ) -> None:
        self._indent, self._place, self._letter = indent, place, letter
        self._locals, self._found = locals, dict[int, str]()
        self._names: dict[tuple[str, str], str] = {}
        #: The inputs whose elements are read.
        self.loaded: dict[int, None] = {}

    @property
    def text(self) -> str:
        lines = [
            self._indent + self._statement(type, name, code)
            for (type, code), name in self._names.items()
        ]
        return "\n".join(lines)

    def add(self, value: Value) -> str:
        """Add what computes a value, and return the name of its variable."""
        if value.name == "local":
            return self._local(value)
        if value.name == "folded":
            return f"t{value.detail}"
        names = [self.add(x) for x in value.arguments]
        key = value.type, self._expression(value, names)
        return self._names.setdefault(key, f"{self._letter}{len(self._names)}")

    def _local(self, value: Value) -> str:
        # In order, so that each finds what it reads: a chain of them is not nested.
        for number in locals_of(value, self._locals):
            if number not in self._found:
                self._found[number] = self.add(self._locals[number])
        return self._found[value.detail]

    @abstractmethod
    def _expression(self, value: Value, names: list[str]) -> str:
        """Return what computes a value, given the variables of its arguments."""

    @abstractmethod
    def _statement(self, type: str, name: str, code: str) -> str:
        """Return the statement that gives a variable of an element type its value."""
