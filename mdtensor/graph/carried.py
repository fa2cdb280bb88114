"""Plans whose last results are their last inputs at the next call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from mdtensor.graph.bound import BoundPlan, Compiled, from_slot
from mdtensor.graph.layouts import slot_shape
from mdtensor.spec.spec import TensorSpec

States = tuple[Any, ...]


class Carried(Protocol):
    """A plan that takes states with its inputs, and returns them with its results."""

    def first(self, states: States) -> States:
        """Return states as a call takes them, from tensors."""
        ...

    def tensors(self, states: States) -> States:
        """Return the states as tensors."""
        ...

    def __call__(self, inputs: States, states: States) -> tuple[States, States]:
        """Return the results, and the states for the next call."""
        ...


def carry(plan: BoundPlan, states: Mapping[str, TensorSpec]) -> Carried:
    """Return a call that carries states from result to input.

    Args:
        plan: its last inputs and its last results are the states, in one order.
        states: spec of each, by the name of its input.
    """
    inputs = [name for name, _ in plan.inputs]
    outputs = [name for name, _, _ in plan.outputs]
    if len(plan.parts) == 1 and isinstance(plan.parts[0], Compiled):
        part = plan.parts[0]
        is_whole = len({*outputs}) == len(outputs) and part.writes.keys() >= {*outputs}
        if is_whole and part.reads.keys() == {*inputs}:
            return CarriedPart(part, plan.inputs, outputs, states)
    return CarriedTensors(plan, len(states))


class CarriedTensors:
    """A plan of several parts, whose states are tensors.

    Args:
        plan: see `carry`.
        count: the number of states.
    """

    def __init__(self, plan: BoundPlan, count: int) -> None:
        self._plan, self._count = plan, len(plan.outputs) - count

    def first(self, states: States) -> States:
        """Return states as a call takes them, from tensors."""
        return states

    tensors = first

    def __call__(self, inputs: States, states: States) -> tuple[States, States]:
        """Return the results, and the states for the next call."""
        found = self._plan(*inputs, *states)
        return found[: self._count], found[self._count :]


# In a small network, wrapping a state as a tensor takes longer than computing it
# (decision 0087).
class CarriedPart:
    """A plan of one compiled part, whose states are the arrays that it holds.

    Args:
        part: the part.
        inputs: the name and type of each input; the last ones are states.
        outputs: the name of each result; the last ones are states.
        states: see `carry`.
    """

    def __init__(
        self,
        part: Compiled,
        inputs: tuple[tuple[str, Any], ...],
        outputs: list[str],
        states: Mapping[str, TensorSpec],
    ) -> None:
        self._part, count = part, len(states)
        order = {name: (at, kind) for at, (name, kind) in enumerate(inputs)}
        self._readers = [(read, *order[name]) for name, read in part.readers]
        places = {name: at for at, name in enumerate(part.writes)}
        answers, results = outputs[: len(outputs) - count], outputs[-count:]
        writers = dict(part.writers)
        self._answers = [(writers[name], places[name]) for name in answers]
        self._turns = [
            (_turn(part, spec, result, name), places[result])
            for result, (name, spec) in zip(results, states.items(), strict=True)
        ]
        readers = dict(part.readers)
        self._states = [
            (readers[name], spec, part.is_in_rows(name, spec))
            for name, spec in states.items()
        ]
        self._count = len(inputs) - count

    def first(self, states: States) -> States:
        """Return states as a call takes them, from tensors."""
        pairs = zip(self._states, states, strict=True)
        return tuple(np.array(read(x), order="C") for (read, _, _), x in pairs)

    def tensors(self, states: States) -> States:
        """Return the states as tensors."""
        pairs = zip(self._states, states, strict=True)
        return tuple(
            from_slot(x.copy(), spec, in_rows) for (_, spec, in_rows), x in pairs
        )

    def __call__(self, inputs: States, states: States) -> tuple[States, States]:
        """Return the results, and the states for the next call."""
        arrays: list[Any] = []
        for read, at, kind in self._readers:
            if at >= self._count:
                arrays.append(states[at - self._count])
            else:
                x = inputs[at]
                arrays.append(read(x if type(x) is kind else kind.wrap(x)))
        found = self._part.compute(arrays)
        answers = tuple([write(found[at]) for write, at in self._answers])
        kept = [
            found[at] if turn is None else turn(found[at]) for turn, at in self._turns
        ]
        return answers, tuple(kept)


def _turn(
    part: Compiled, spec: TensorSpec, result: str, name: str
) -> Callable[[Any], Any] | None:
    """Return what turns the array of a result into that of the next input.

    Returns:
        None if both have the same shape and layout.
    """
    of_rows, to_rows = (part.is_in_rows(x, spec) for x in (result, name))
    own, shape = slot_shape(spec, of_rows), slot_shape(spec, to_rows)
    if of_rows == to_rows:
        slot = part.executable.outputs[list(part.writes).index(result)]
        return None if slot.shape == shape else lambda array: array.reshape(shape)
    axes = (0, 3, 1, 2) if to_rows else (0, 2, 3, 1)
    return lambda array: np.ascontiguousarray(array.reshape(own).transpose(axes))
