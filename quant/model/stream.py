"""Models whose states stay with them from call to call.

stream = quant.Stream(model)            # or Stream(model, {"h": "h_next"})
for sound in chunks:
    answer = stream(sound)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

from mdtensor import TensorSpec, zeros
from mdtensor.errors import DataError, OptionError, shown
from mdtensor.extend import LOGS
from mdtensor.graph import spec_of
from mdtensor.graph.bound import in_order, key_of
from mdtensor.graph.carried import Carried, carry
from mdtensor.graph.inputs import by_name, checked_feeds
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.passes.states import keep_codes
from mdtensor.quant.model.shaped import MOST
from mdtensor.quant.tensor import QuantizedTensor


class Stream:
    """A model that keeps its states between calls.

    A call takes the inputs without the states, and returns the results without them. It
    gives the bytes of calls of the model that pass each state on. States that are
    quantized stay codes, so a call neither dequantizes nor quantizes them. An error
    leaves the states as they were. One stream serves one caller at a time; streams of
    one model do not share anything that changes.

    Args:
        model: the model, float or quantized.
        states: the result that is the next value of each state, by the name of its
            input. By default the variables of the file, see `Model.states`.
        initial: first values of states, by the name of the input. By default a state
            begins with the value in the file, or with zeros; if it has a dynamic size,
            its first value is required.

    Raises:
        OptionError: the model does not have states; an input or a result does not
            exist; or the type or the shape of a state and of its next value differ.
        DataError: a first value is missing or does not fit.

    Example:
        >>> import numpy as np
        >>> import mdtensor as md
        >>> from mdtensor import quant
        >>> from mdtensor.graph import Graph, Node
        >>> one = md.TensorSpec(md.Float32Tensor, (1,))
        >>> total = Node("add", md.add, ("x", "sum"), "total")
        >>> half = Node("half", md.div, ("total", 2), "half")
        >>> inputs, outputs = {"x": one, "sum": one}, ("half", "total")
        >>> model = quant.Model(Graph(inputs, (total, half), {}, outputs))
        >>> stream = quant.Stream(model, {"sum": "total"})
        >>> [float(stream(np.float32([x]))[0]) for x in (1, 2, 3)]
        [0.5, 1.5, 3.0]
    """

    def __init__(
        self,
        model: Model,
        states: Mapping[str, str] | None = None,
        *,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise OptionError(
                f"model must be a Model, got {shown(model)}",
                "Load it with quant.load",
                "Stream",
            )
        self._model, self.pairs = model, _pairs(model, states)
        graph = keep_codes(model.graph, self.pairs)
        given = {n: s for n, s in graph.inputs.items() if n not in self.pairs}
        kept = {name: graph.inputs[name] for name in self.pairs}
        self.inputs: Mapping[str, TensorSpec] = given
        places = dict(zip(model.outputs, graph.outputs, strict=True))
        #: The names of the results without states.
        self.outputs = tuple(n for n in model.outputs if n not in self.pairs.values())
        outputs = [places[n] for n in (*self.outputs, *self.pairs.values())]
        self._step = Model(
            replace(graph, inputs=given | kept, outputs=tuple(outputs), states={})
        )
        self._first = self._initial({} if initial is None else initial)
        self._specs = {n: spec_of(x) for n, x in zip(kept, self._first, strict=True)}
        self._calls: dict[Hashable, Carried] = {}
        self._call: Carried | None = None
        self.reset()

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the model on the next inputs; return its result, or a tuple of several.

        Args:
            inputs: tensors or NumPy arrays in the order of `inputs`; or pass them by
                name, as keywords or in one dict.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
        """
        if LOGS.get():
            return self._logged(self.fed(*inputs, **named))
        ordered = in_order(self.inputs, inputs, named)
        key = None if ordered is None else key_of(ordered)
        call = self._calls.get(key)
        if ordered is None or call is None:
            feeds = self.fed(*inputs, **named)
            ordered, call = self._bind(key, ordered, feeds)
        if call is not self._call:
            self._states = call.first(self._tensors())
            self._call = call
        # Nothing is kept before all is computed: an error leaves the states.
        found, self._states = call(ordered, self._states)
        return found[0] if len(found) == 1 else found

    def fed(self, /, *inputs: Any, **named: Any) -> dict[str, Any]:
        """Return a validated tensor for each input, by name, in the order of `inputs`.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
        """
        return checked_feeds(self.inputs, by_name(self.inputs, inputs, named))

    # `md.checked` counts the losses of each call, and a plan runs many in one kernel.
    def _logged(self, feeds: Mapping[str, Any]) -> Any:
        """Run each node as a call of its own."""
        states = dict(zip(self.pairs, self._tensors(), strict=True))
        results = self._step.graph.run({**feeds, **states})
        found = tuple(results[name] for name in self._step.outputs)
        count = len(self.outputs)
        self._call, self._states = None, found[count:]
        return found[0] if count == 1 else found[:count]

    def _bind(
        self,
        key: Hashable,
        inputs: tuple[Any, ...] | None,
        feeds: Mapping[str, Any],
    ) -> tuple[tuple[Any, ...], Carried]:
        """Return the validated inputs in order, and the call for their shapes.

        Args:
            key: types and shapes of the inputs; None if the call is not remembered.
            inputs: the arguments in the order of `inputs`; None if some were named.
            feeds: the validated inputs by name.
        """
        tensors = tuple(feeds.values())
        specs = {n: spec_of(x) for n, x in feeds.items()} | self._specs
        plan = self._step.plan({n: spec.shape for n, spec in specs.items()})
        call = carry(plan.bound, self._specs)
        # An array that had to be converted must be converted at the next call as well.
        pairs = zip(inputs or (), tensors, strict=False)
        if key is not None and all(x is y or x is y.buffer for x, y in pairs):
            while len(self._calls) >= MOST:
                del self._calls[next(iter(self._calls))]
            self._calls[key] = call
        return tensors, call

    @property
    def states(self) -> dict[str, Any]:
        """Return the value of each state for the next call, by the name of its input.

        They are the model's inputs: `Stream(model, pairs, initial=stream.states)` goes
        on where this stream is.
        """
        pairs = zip(self.pairs, self._tensors(), strict=True)
        return {
            name: dequantize(x) if isinstance(x, QuantizedTensor) else deepcopy(x)
            for name, x in pairs
        }

    def reset(self) -> None:
        """Give all states their first values."""
        self._call, self._states = None, self._first

    def _tensors(self) -> tuple[Any, ...]:
        return self._call.tensors(self._states) if self._call else self._states

    def _initial(self, initial: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the first value of each state, as the step takes it.

        Raises:
            DataError: a value is missing, unknown or does not fit.
        """
        if not isinstance(initial, Mapping):
            raise DataError(
                f"initial must be a dict of first values, got {shown(initial)}",
                "Give initial={'h': value}",
            )
        specs = {name: self._model.inputs[name] for name in self.pairs}
        first = {**self._model.states, **initial}
        for name, spec in specs.items():
            if name not in first and -1 in spec.shape:
                raise DataError(
                    f"state {name!r} has the dynamic shape {spec.shape}",
                    f"Give its first value: initial={{{name!r}: ...}}",
                )
            if name not in first:
                first[name] = zeros(spec.shape, dtype=spec.dtype)
        feeds = checked_feeds(
            specs, {n: x for n, x in first.items() if n in specs or n in initial}
        )
        steps = self._step.inputs
        return tuple(
            quantize(x, steps[name].qparams)
            if steps[name].qparams is not None
            else deepcopy(x)
            for name, x in feeds.items()
        )

    def __deepcopy__(self, memo: Any) -> Stream:
        """Return a stream that goes on from here on its own."""
        made = copy(self)
        # What a call computed is never changed, only replaced.
        made._calls = dict(self._calls)
        return made

    def __repr__(self) -> str:
        return f"Stream({', '.join(map(repr, self.inputs))}; {len(self.pairs)} states)"


def _pairs(model: Model, states: Mapping[str, str] | None) -> dict[str, str]:
    """Return the result that is the next value of each state, by its input.

    Raises:
        OptionError: no states are named, a name is unknown, or a spec does not fit.
    """
    if states is None:
        count = len(model.states)
        states = dict(zip(model.states, model.outputs[-count:], strict=False))
    if not isinstance(states, Mapping) or not states:
        raise OptionError(
            f"states must be a dict of names, got {shown(states)}"
            if states
            else "the file of the model does not name states",
            "Name the result that each takes: states={'h': 'h_next'}",
            "Stream",
        )
    for names, known, what in (
        (states, model.inputs, "an input"),
        (states.values(), model.outputs, "a result"),
    ):
        for name in names:
            if not isinstance(name, str) or name not in known:
                raise OptionError(
                    f"the model does not have {what} {shown(name)}",
                    f"It has {', '.join(map(repr, known))}",
                    "Stream",
                )
    _check_specs(model, states)
    return dict(states)


def _check_specs(model: Model, states: Mapping[str, str]) -> None:
    """Require that each result has the type and shape of its input.

    Raises:
        OptionError: one differs.
    """
    if len({*states.values()}) < len(states):
        raise OptionError(
            "two states take one result", "Name another result for each", "Stream"
        )
    specs = model.graph.specs()
    for name, result in states.items():
        own, new = specs[name], specs[result]
        sizes = zip(own.shape, new.shape, strict=False)
        fits = len(own.shape) == len(new.shape) and all(
            a == b or -1 in (a, b) for a, b in sizes
        )
        if own.type is not new.type or not fits:
            raise OptionError(
                f"the state {name!r} is {own}, but its next value {result!r} is {new}",
                "Name a result of the type and shape of the input",
                "Stream",
            )
