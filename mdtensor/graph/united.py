"""Neighbouring parts of a plan as one compiled call.

In a small network a call of a compiled part takes 5 us, and one of NumPy 2 us or more,
while their work takes a tenth of that. `united` makes one program of compiled parts and
of calls that have steps on few elements of any type, see `plain_steps.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.graph.bound import Compiled, Part, Values, Viewed, wrap
from mdtensor.graph.graph import Graph
from mdtensor.graph.grouped import CALLS, Group
from mdtensor.graph.layouts import is_plain, to_images, to_rows
from mdtensor.graph.storage import AS_FLOATS, FLOATS, storage_of
from mdtensor.spec.spec import TensorSpec

#: Bytes of the values of a compiled part that others join. With more, calls are short
#: beside the work.
MOST_BYTES = 1 << 22


def united(parts: Sequence[Part], graph: Graph) -> tuple[Any, ...]:
    """Return the parts of a plan, with a `United` in place of neighbours that fit."""
    found: list[Any] = []
    group = SmallGroup(graph)
    for at, part in enumerate(parts):
        if group.add(part):
            continue
        found += group.close(parts[at:])
        group = SmallGroup(graph)
        if not group.add(part):
            found.append(part)
    found += group.close([])
    return tuple(found)


class SmallGroup(Group):
    """Parts that become one program, also compiled ones."""

    def _append_part(self, part: Part) -> None:
        if isinstance(part, Compiled):
            self._add_compiled(part)
        else:
            super()._append_part(part)

    def close(self, later: Sequence[Part]) -> list[Any]:
        """Return the parts as one, or as they are if one is all there is."""
        if len(self._parts) < 2 or all(isinstance(x, Viewed) for x in self._parts):
            return self._parts
        kept = self._kept(later)
        outputs = [self._slots[name] for name in kept]
        if self._flag is not None:
            outputs.append(self._flag)
        executable = self._program.build(outputs)
        writes = [(name, self.specs[name].type) for name in kept]
        has_flag = self._flag is not None
        calls = [part for part in self._parts if isinstance(part, CALLS)]
        names = {name for part in calls for name in part.node.values}
        packed = [self.constants[n].buffer for n in names if n in self.constants]
        given = (self._parts, executable, self._reads, writes, has_flag, packed)
        return [United(*given)]

    # Programs of compiled parts are copied step by step.

    def _add_compiled(self, part: Compiled) -> None:
        executable = part.executable
        specs = {**part.reads, **part.writes}
        is_small = executable.arena_bytes < MOST_BYTES
        has_one_piece = max(executable.pieces, default=1) == 1
        is_whole = all(_is_float_or_short(spec) for spec in specs.values())
        if part.rounded or not (is_small and has_one_piece and is_whole):
            raise self._refused
        if any(name in self.constants for name in specs):
            raise self._refused
        program = executable.program
        slots = {
            slot.storage: self._read(part, name, slot)
            for slot, name in zip(program.inputs, part.reads, strict=True)
        }
        places = self._program.copy_steps(program, slots)
        for slot, (name, spec) in zip(
            executable.outputs, part.writes.items(), strict=True
        ):
            found = slot._replace(storage=places[slot.storage])
            self._slots[name] = self._written(part, name, spec, found)
            self._made.append(name)

    def _read(self, part: Compiled, name: str, wanted: Any) -> Any:
        """Return the slot of a value as a compiled part reads it."""
        from mdtensor.kernels.cpu.program import plain

        slot, spec = self.slot(name), part.reads[name]
        if slot.dtype != wanted.dtype:
            slot = self.append(plain.cast(slot.dtype, wanted.dtype, slot.shape), slot)
        if spec.ndim == 4 and not part.is_in_rows(name, spec):
            slot = self.append(to_images(wanted.dtype), slot)
        return slot

    def _written(self, part: Compiled, name: str, spec: TensorSpec, slot: Any) -> Any:
        """Return the slot of a value in rows, for one that a compiled part wrote."""
        from mdtensor.kernels.cpu.program import plain

        if spec.ndim == 4 and not part.is_in_rows(name, spec):
            slot = self.append(to_rows(slot.dtype), slot)
        if slot.dtype != spec.dtype.storage:
            step = plain.cast(slot.dtype, spec.dtype.storage, slot.shape)
            slot = self.append(step, slot)
        return slot._replace(shape=spec.shape)


def _is_float_or_short(spec: TensorSpec) -> bool:
    """Return whether a part holds a value as float32, and a step can cast it."""
    found = storage_of(spec.type)
    if found is None or not is_plain(spec):
        return False
    is_short = spec.type in AS_FLOATS and spec.dtype.storage in (np.bool_, np.int8)
    return found.read is FLOATS or is_short


# Most of the time of a small network went into the calls between its steps (decision
# 0117).
class United:
    """Neighbouring parts that run in one compiled call.

    Args:
        parts: the parts, which say what is wrong if an index is outside.
        executable: computes their values.
        reads: the names of its inputs.
        writes: the name and type of each result.
        has_flag: whether one more result tells that an index is outside.
        packed: constants of calls; if one was written since, the parts run.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        executable: Any,
        reads: Sequence[str],
        writes: Sequence[tuple[str, Any]],
        has_flag: bool,
        packed: Sequence[Any] = (),
    ) -> None:
        self._packed = [(array, array.tobytes()) for array in packed]
        self.parts, self._run, self._names = parts, executable, tuple(reads)
        self._writes, self._has_flag = writes, has_flag

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the names of the values that come in."""
        return self._names

    def run(self, values: Values) -> None:
        """Add what later parts read to `values`."""
        if any(array.tobytes() != before for array, before in self._packed):
            # A call sees writes into constants.
            for part in self.parts:
                part.run(values)
            return
        try:
            found = self._run(*[values[name].buffer for name in self._names])
        except MemoryError:
            found = None
        if found is None or (self._has_flag and found[-1][0]):
            # The parts name the node and the argument in their errors.
            for part in self.parts:
                part.run(values)
            return
        for (name, kind), array in zip(self._writes, found, strict=False):
            values[name] = wrap(kind, array)
