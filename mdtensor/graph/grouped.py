"""Neighbouring parts of a plan whose steps become one program; see `united.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.graph.bound import Called, Direct, Part, Viewed
from mdtensor.graph.graph import Graph
from mdtensor.graph.layouts import is_plain

#: Calls that may have steps.
CALLS = (Called, Direct, Viewed)


class Group:
    """Parts that become one program; `add` says whether a part fits behind them.

    Args:
        graph: of the plan.
        most_elements: the largest number of elements of a value; by default that
            of small networks.
    """

    def __init__(self, graph: Graph, most_elements: int | None = None) -> None:
        # Imported on use, because numba takes long to import.
        from mdtensor.graph import plain_steps, plain_values
        from mdtensor.kernels.cpu.program.program import Program

        self._rules, self._graph = plain_steps, graph
        self._held, self._refused = plain_values.held, plain_values.Refused
        self.most_elements = most_elements or plain_values.MOST_ELEMENTS
        self.constants, self.specs = graph.constants, graph.specs()
        made = {node.output: node.operation for node in graph.nodes}
        self.operations: Mapping[str, Any] = made
        self._program, self._parts = Program(), list[Any]()
        self._slots: dict[str, Any] = {}
        self._reads: list[str] = []
        self._made: list[str] = []
        self._flag: Any = None

    def add(self, part: Part) -> bool:
        """Append the steps of a part; return whether it has some."""
        program = self._program
        before = dict(self._slots), list(self._reads), self._flag
        counts = len(program.steps), len(program.inputs), len(program.sizes)
        try:
            self._append_part(part)
        except self._refused:
            self._slots, self._reads, self._flag = before
            del program.steps[counts[0] :]
            del program.inputs[counts[1] :]
            del program.sizes[counts[2] :]
            return False
        self._parts.append(part)
        return True

    def _append_part(self, part: Part) -> None:
        """Append the steps of a part.

        Raises:
            Refused: it has none.
        """
        if not isinstance(part, CALLS) or not self._is_own(part):
            raise self._refused
        output = part.node.output
        self._slots[output] = self._rules.append_steps(self, part)
        self._made.append(output)

    def _is_own(self, part: Called) -> bool:
        """Return whether a call runs a method of this package on plain tensors."""
        names = (*part.node.values, part.node.output)
        source = part.selection.method.implementation.__module__
        plain = all(is_plain(self.specs[name]) for name in names)
        return plain and source.startswith("mdtensor.ops.")

    def _kept(self, later: Sequence[Part]) -> list[str]:
        """Return the values that the parts write, and others read."""
        wanted = {name for part in later for name in part.reads}
        wanted.update(self._graph.outputs)
        return [name for name in self._made if name in wanted]

    # What rules read and write, see `plain_values.Values`.

    def slot(self, name: str) -> Any:
        """Return the slot of a value, in rows and of its own type."""
        if name in self._slots:
            return self._slots[name]
        if name in self.constants:
            found = self._held(self, self.constants[name].buffer)
        else:
            spec = self.specs[name]
            found = self._program.input(spec.shape, spec.dtype.storage)
            self._reads.append(name)
        self._slots[name] = found
        return found

    def any_slot(self) -> Any:
        """Return a slot that exists.

        Raises:
            Refused: there is none yet.
        """
        if not self._program.inputs:
            raise self._refused
        return self._program.inputs[0]

    def append(self, step: Any, *slots: Any) -> Any:
        """Append a step; return the slot of its result."""
        return self._program.append(step, *slots)

    def watch(self, indices: Any, size: int) -> None:
        """Let a call fail if an index is outside [-size, size)."""
        from mdtensor.kernels.cpu.program import plain

        has_flag = self._flag is not None
        step = plain.outside(int(np.prod(indices.shape)), size, has_flag)
        given = (indices, self._flag) if has_flag else (indices,)
        self._flag = self.append(step, *given)
