"""What recorded calls compute, apart from the tensors that they compute it of.

Graphs of equal keys make the same calls of the same operations, on leaves of the same
types, shapes and grids. So what was planned for one of them runs the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.errors import OptionError
from mdtensor.graph.calls import Call, Output, replace, spec_of, visit
from mdtensor.graph.keys import PLAIN, add_constant, parts_of
from mdtensor.tensor import Tensor

_LEAVES = (Output, Tensor)


class Content:
    """The key and the leaves of calls that have not run.

    Args:
        calls: in an order in which they can run.
        wanted: the calls whose results are asked for.

    Raises:
        OptionError: an argument is known by no key, or a call runs right now.
    """

    def __init__(self, calls: Sequence[Call], wanted: Sequence[Call]) -> None:
        self.calls, self.wanted = tuple(calls), tuple(wanted)
        self._given = [(call.arguments, call.options) for call in calls]
        # A call drops its arguments once it has run, in another thread.
        if any(call.results is not None for call in calls):
            raise OptionError("a call has run")
        self._places = {call.number: at for at, call in enumerate(calls)}
        #: The host tensors that the calls read, each once.
        self.leaves: list[Any] = []
        self._leaves: dict[int, int] = {}
        #: The calls that others may ask for later: a variable holds a result.
        self.held = tuple(
            call for call in calls if call.is_held and call not in self.wanted
        )
        key: list[Any] = []
        for call, (arguments, options) in zip(calls, self._given, strict=True):
            key += call.operation, call.settings, len(arguments)
            for value in arguments:
                self._add(value, key)
            for name, value in options.items():
                key.append(name)
                self._add(value, key)
        for some in (self.wanted, self.held):
            key += len(some), *(self._places[call.number] for call in some)
        self.key = tuple(key)

    def _add(self, value: Any, key: list[Any]) -> None:
        kind = type(value)
        if kind is Output:
            place = self._places.get(value.call.number)
            if place is None:
                self._add_leaf(value.result, key)
            else:
                key += Output, place, value.index
        elif kind in PLAIN:
            key += kind, value
        elif issubclass(kind, Tensor):
            self._add_leaf(value, key)
        elif issubclass(kind, np.ndarray):
            raise OptionError("an array may be written without notice")
        elif (parts := parts_of(value)) is not None:
            key += kind, len(parts), *(value if kind is dict else ())
            for part in parts:
                self._add(part, key)
        else:
            add_constant(value, key, set())

    def _add_leaf(self, x: Any, key: list[Any]) -> None:
        at = self._leaves.get(id(x))
        if at is None:
            at = self._leaves[id(x)] = len(self.leaves)
            self.leaves.append(x)
            key += type(x), x.shape
            if type(x).dtype.kind == "quantized":
                key += x.qparams.trace_key, getattr(x, "rounding", None)
        key += Tensor, at

    def leaves_of(self, at: int) -> frozenset[int]:
        """Return the places of the leaves that a call reads, itself."""
        found: list[int] = []

        def note(x: Any) -> None:
            leaf = x.result if isinstance(x, Output) else x
            if leaf is not None:
                found.append(self._leaves[id(leaf)])

        visit(self._given[at], _LEAVES, note)
        return frozenset(found)

    def copied(self) -> tuple[tuple[Call, ...], dict[int, Call]]:
        """Return inputs for the leaves, and copies of the calls, by their numbers.

        The copies read the inputs, so they do not keep a tensor of the user alive.
        """
        inputs = tuple(Call(None, (), {}, (spec_of(x),)) for x in self.leaves)
        made: dict[int, Call] = {}

        def moved(x: Any) -> Output:
            known = made.get(x.call.number) if isinstance(x, Output) else None
            if known is not None:
                return Output(known, x.index)
            leaf = x.result if isinstance(x, Output) else x
            return Output(inputs[self._leaves[id(leaf)]])

        for call, given in zip(self.calls, self._given, strict=True):
            arguments, options = replace(given, _LEAVES, moved)
            made[call.number] = copy = Call(
                call.operation, arguments, options, call.specs
            )
            copy.settings, copy.place = call.settings, call.place
        return inputs, made
