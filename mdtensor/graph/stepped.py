"""Calls of a plan as steps, for plans that run without mdtensor.

A stored plan has no calls. Those that have steps, see `plain_steps.py`, are joined with
small compiled parts, or become a program of their own if their values are large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.generics.indexing import take
from mdtensor.graph import plain_moves, plain_values
from mdtensor.graph.bound import Called, Part
from mdtensor.graph.graph import Graph
from mdtensor.graph.grouped import CALLS, Group
from mdtensor.graph.layouts import is_codes
from mdtensor.graph.united import SmallGroup
from mdtensor.kernels.cpu.program import plain
from mdtensor.spec.spec import TensorSpec

#: The most elements of a value: a step that moves some has a table of their places.
MOST_ELEMENTS = 1 << 20


# A runner knows no call; a plan itself calls NumPy for large values (decision 0125).
@dataclass(frozen=True)
class Stepped:
    """Neighbouring calls as a program, with compiled parts between them.

    Args:
        executable: computes their values, which are stored in rows, in their own type.
        reads, writes: the names and specs of the values that go in and come out.
        outside: the place in the arena of the bool that tells whether an index was
            outside; None without one. It is the last result of the executable then.
    """

    executable: Any
    reads: Mapping[str, TensorSpec]
    writes: Mapping[str, TensorSpec]
    outside: int | None


def stepped(parts: Sequence[Part], graph: Graph) -> tuple[Any, ...]:
    """Return the parts of a plan, with a `Stepped` in place of calls that have steps.

    Args: graph: what the parts compute.
    """
    # What is small is one program with the compiled parts beside it, as in a plan.
    joined = _grouped(parts, lambda: _Joined(graph))
    return tuple(_grouped(joined, lambda: _Calls(graph, MOST_ELEMENTS)))


def _grouped(parts: Sequence[Any], begin: Callable[[], _Tables]) -> list[Any]:
    """Return the parts, with groups of neighbours as one part each."""
    found: list[Any] = []
    group = begin()
    for at, part in enumerate(parts):
        if group.add(part):
            continue
        found += group.close(parts[at:])
        group = begin()
        if not group.add(part):
            found.append(part)
    return [*found, *group.close([])]


class _Tables(Group):
    """A group that also reads constant tables of any size, since a file has them."""

    def _append_part(self, part: Part) -> None:
        if not isinstance(part, CALLS) or not self._is_table(part):
            super()._append_part(part)
            return
        output = part.node.output
        small = [self.specs[name] for name in (part.node.values[1], output)]
        plain_values.require_few(self, small)
        self._slots[output] = plain_moves.take(self, part, self.specs[output])
        self._made.append(output)

    def _is_table(self, part: Called) -> bool:
        """Return whether a call takes rows of a constant table of floats or codes."""
        node = part.node
        if node.operation is not take or len(node.values) != 2:
            return False
        first, after = self.specs[node.values[0]], self.specs[node.output]
        if node.values[0] not in self.constants or node.values[1] in self.constants:
            return False
        return self._is_own(part) or (
            is_codes(first) and first.qparams == after.qparams
        )

    def close(self, later: Sequence[Any]) -> list[Any]:
        """Return the parts as one, if there are enough."""
        kept = self._kept(later)
        outputs = [self._slots[name] for name in kept]
        if self._flag is not None:
            outputs.append(self._flag)
        executable = self._program.build(outputs)
        has_flag = self._flag is not None
        outside = executable.contents.outputs[-1][0] if has_flag else None
        reads, writes = (
            {name: self.specs[name] for name in names} for names in (self._reads, kept)
        )
        return [Stepped(executable, reads, writes, outside)]


class _Joined(_Tables, SmallGroup):
    """Small calls and small compiled parts that become one program."""

    def close(self, later: Sequence[Any]) -> list[Any]:
        """Return the parts as one, or as they are if one is all there is."""
        is_alone = len(self._parts) < 2
        if is_alone or not any(isinstance(part, CALLS) for part in self._parts):
            return self._parts
        return super().close(later) if self._program.steps else self._parts


class _Calls(_Tables):
    """Calls that become one program."""

    def close(self, later: Sequence[Any]) -> list[Any]:
        """Return the parts as one, if there are some."""
        if not self._parts:
            return []
        if not self._program.steps:
            # A program without steps has nothing to run.
            for name in self._kept(later):
                self._slots[name] = self._copied(self._slots[name])
        return super().close(later)

    def _copied(self, slot: Any) -> Any:
        places = np.arange(int(np.prod(slot.shape))).reshape(slot.shape)
        return self.append(plain.pick(slot.dtype, places, (places.size,)), slot)
