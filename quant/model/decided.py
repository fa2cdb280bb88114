"""Models whose files can only be read once a call has computed some of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import Device, cpu
from mdtensor.errors import ModelError
from mdtensor.extend import find_device
from mdtensor.quant.model.automatic import AUTO
from mdtensor.quant.model.budget import Budget, Spending
from mdtensor.quant.model.decision_error import (
    DecisionError,
    is_decidable,
    sizes_of,
)
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.passes import simplify
from mdtensor.quant.model.recent import Recent
from mdtensor.quant.model.reread import RereadModel

Array = npt.NDArray[Any]
Key = tuple[bytes, ...]

#: Values that one call may compute before it knows its graph.
MOST_DECISIONS = 128


@dataclass(frozen=True)
class Question:
    """A value that decides how the file is read on, and the model that computes it.

    Args:
        value: its name.
        model: has the inputs that the value depends on.
        of_sizes: whether its sizes decide, not its elements.
    """

    value: str
    model: Model
    of_sizes: bool = False
    _answers: Recent[Key, Array] = field(default_factory=Recent)

    @property
    def key(self) -> str:
        """Return the name under which the file is read with the answer."""
        return sizes_of(self.value) if self.of_sizes else self.value

    def changed(self, change: Callable[[Model], Model]) -> Question:
        """Return the question to a changed model, as the result of a call has it."""
        return Question(self.value, change(self.model), self.of_sizes)

    def answer(self, feeds: Mapping[str, Any]) -> Array:
        """Return the value for these inputs."""
        given = {name: feeds[name] for name in self.model.inputs}
        # A sampling rate is the same in each call.
        if not all(map(is_decidable, self.model.inputs.values())):
            return self._compute(given)
        key = tuple(np.asarray(one).tobytes() for one in given.values())
        return self._answers.get(key, lambda: self._compute(given))

    def _compute(self, given: Mapping[str, Any]) -> Array:
        result = self.model(given)
        return np.asarray(result.shape if self.of_sizes else result)


# A graph does not have branches, so the value that chooses one is computed first, and
# the file is read for it (decision 0099).
class DecidedModel(RereadModel):
    """A model that is read for what the inputs of each call decide.

    `load` returns it for a file where the condition of an If or a Loop, or the shape of
    a value, depends on the data. A call computes such a value first, by the nodes
    before it, and reads the file on with it. The graphs for the 8 decisions that were
    used last are kept. What needs one graph, such as `save`, is a method of the model
    that `at(inputs)` returns.

    Args:
        read: returns the model for the values that are known, by name.
        error: the error of reading the file without any.
        budget: how long one call may read.
    """

    known = "inputs"

    def __init__(
        self,
        read: Callable[[Mapping[str, Array]], Model],
        error: DecisionError,
        budget: Budget | None = None,
    ) -> None:
        super().__init__(error)
        self._first = error
        self._read, self._budget = read, budget
        self._models: Recent[Key, Model] = Recent()
        self._questions: Recent[Key, Question] = Recent(MOST_DECISIONS)
        self._change: Callable[[Model], Model] | None = None
        self._sized: Recent[Key, Question] = Recent(MOST_DECISIONS)

    def _needs_more(self) -> ModelError:
        fix = "Use model.at(inputs), the model for what these inputs decide"
        return ModelError(self._error.problem, fix)

    def at(self, /, *inputs: Any, **named: Any) -> Model:
        """Return the model for what these inputs decide; a call takes the same inputs.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
            ModelError: the file cannot be read for these decisions, or there are more
                than 128 of them, or reading takes longer than the budget allows.
        """
        return self._for(self.fed(*inputs, **named))

    def _for(self, feeds: Mapping[str, Any]) -> Model:
        known: dict[str, Array] = {}
        spending = Spending(self._budget)
        while len(known) < MOST_DECISIONS:
            found = self._next(known)
            if isinstance(found, Model):
                return found
            spending.check_time(f"the value {found.value!r}")
            # Otherwise the same question would come back for ever.
            if found.key in known:
                raise ModelError(
                    f"{found.key!r} was computed, and the file still needs it",
                    "Fix the inputs that decide it with constants= of load",
                )
            known[found.key] = found.answer(feeds)
        raise ModelError(
            f"{MOST_DECISIONS} values that depend on the data did not decide the graph",
            "Export loops with a fixed number of turns",
        )

    def _next(self, known: Mapping[str, Array]) -> Model | Question:
        """Return the model for known values, or what must be known before."""
        # The same values ask the same question, so that the values alone are a key.
        key = tuple(value.tobytes() for value in known.values())
        if (model := self._models.found(key)) is not None:
            return model
        question = self._questions.found(key)
        if question is None:
            try:
                return self._models.get(key, lambda: self._read(known))
            except DecisionError as error:
                asked = _question(error)
            question = self._questions.get(key, lambda: asked)
        change = self._change
        if change is None or not question.of_sizes:
            return question
        # Another model may find another number of objects, which must fit its graph.
        return self._sized.get(key, lambda: question.changed(change))

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the model; return its result, or a tuple if it has several.

        Args:
            inputs: tensors or NumPy arrays in the order of `inputs`; or pass them by
                name, as keywords or in one dict.

        Raises:
            DataError, ModelError: as `at`.
        """
        feeds = self.fed(*inputs, **named)
        return self._for(feeds)(feeds)

    def to(self, device: Device | str) -> Model:
        """Return the model itself on the host; elsewhere it has no graph to move.

        Raises:
            DeviceError: there is no such device.
            ModelError: the device is not the host, or is to be chosen.
        """
        if device == AUTO or find_device(device) is not cpu:
            raise self._needs_more()
        return self

    def _changed(self, change: Callable[[Model], Model]) -> DecidedModel:
        """Return the model that is changed for each decision; floats decide."""

        def read(known: Mapping[str, Array]) -> Model:
            return change(self._model_for(known))

        made = DecidedModel(read, self._first, self._budget)
        made._questions = self._questions
        before = self._change
        made._change = change if before is None else lambda one: change(before(one))
        # Wrong options raise now, for the decisions that were used last.
        last = self._models.last
        model = None if last is None else self._models.found(last)
        if last is not None and model is not None:
            made._models.get(last, lambda: change(model))
        return made

    def _model_for(self, known: Mapping[str, Array]) -> Model:
        key = tuple(value.tobytes() for value in known.values())
        return self._models.get(key, lambda: self._read(known))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        return f"DecidedModel({given}; {len(self._models)} graphs)"


def _question(error: DecisionError) -> Question:
    """Return what an error asks, ready to run.

    Raises:
        DecisionError: an input has an open size.
    """
    if error.question is None:
        raise error
    graph = simplify.simplify(error.question)
    used = {name for node in graph.nodes for name in node.values} | {*graph.outputs}
    inputs = {name: spec for name, spec in graph.inputs.items() if name in used}
    return Question(error.value, Model(replace(graph, inputs=inputs)), error.of_sizes)
