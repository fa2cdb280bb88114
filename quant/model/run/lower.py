"""Lowering of nodes to compiled steps; neighbouring integer nodes become one call.

A node becomes a step if the method that dispatch selected for it can `prepare` one.
Every other node runs as an ordinary call between the compiled parts, and its plan says
why. If a product of floats has constant codes, the codes are packed once. Inside a
compiled part, codes of images are stored channels last.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.kernels.cpu.program.program import Program, Slot
from mdtensor.kernels.cpu.program.steps import Concat
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.quantize.float_nodes import STAY_FLOAT
from mdtensor.quant.model.run.bound import Called, Compiled, FloatLayer, Part
from mdtensor.quant.ops.weight_only import PackedLayer
from mdtensor.quant.tensor import NarrowTensor

VIEWS = (md.reshape, md.squeeze, md.expand_dims)
#: Why what reads the last axis of four, or moves it, is not compiled.
REORDERED = "linear reads the last axis of an image, and compiled steps reorder axes"


# A node without a step stays an ordinary call, so that a plan runs exactly the methods
# that dispatch selects (decision 0004).
def lower(graph: Graph) -> tuple[Part, ...]:
    """Return the parts of `graph` in the order in which they run; shapes are known."""
    return _Lowering(graph).parts()


class _Lowering:
    """A walk over a graph; `_slots` are the values of the part that is being built."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._specs = graph.specs()
        self._done: list[Part] = []
        self._begin()

    def _begin(self) -> None:
        self._program, self._placed = Program(), 0
        self._slots: dict[str, Slot] = {}
        self._nodes: list[Node] = []
        self._steps: list[Any] = []
        self._places: list[range] = []
        self._reads: dict[str, TensorSpec] = {}

    def parts(self) -> tuple[Part, ...]:
        for index, node in enumerate(self._graph.nodes):
            try:
                self._compile(node)
            except MdtensorError as error:
                self._flush(index)
                self._done.append(self._called(node, error.problem))
        self._flush(len(self._graph.nodes))
        return tuple(self._done)

    def _called(self, node: Node, reason: str) -> Called:
        selection = node.select(*node.arguments(self._specs))
        options = selection.operation.fill(dict(node.options))
        return Called(
            node, selection, options, self._graph.notes.get(node.name, reason)
        )

    def _compile(self, node: Node) -> None:
        arguments = [self._argument(x) for x in node.inputs]
        if node.operation in VIEWS and self._is_view(node, arguments[0]):
            slot = self._slot(node.inputs[0])
            after = slot_shape(self._specs[node.output])
            self._add(node, None, self._program.reshape(slot, after))
            return
        if node.operation in (md.add, md.mul) and _smaller(*arguments):
            node = replace(node, inputs=node.inputs[::-1])
            arguments.reverse()
        self._refuse_rows_of_images(node)
        selection = node.select(*node.arguments(self._specs))
        prepare = selection.method.prepare
        if prepare is None:
            problem = f"{selection.method} does not have a compiled step"
            is_float = self._specs[node.output].qparams is None
            known = STAY_FLOAT if is_float else {}
            raise OptionError(known.get(node.operation, problem))
        step = prepare(*arguments, **selection.operation.fill(dict(node.options)))
        if isinstance(step, PackedLayer):
            self._flush(self._graph.nodes.index(node))
            self._done.append(FloatLayer(node, selection, step))
            return
        moving = [x for x in node.values if x not in self._graph.constants]
        if not _takes(step, len(moving)):
            raise OptionError("a compiled step does not take constant codes here")
        self._add(node, step, self._appended(step, *map(self._slot, moving)))

    def _appended(self, step: Any, first: Slot, *rest: Slot) -> Slot:
        """Add `step` on these values, for Concat two at a time; return the result."""
        result: Slot = first
        if not rest:
            result = self._program.append(step, first)
        for slot in rest:
            result = self._program.append(step, result, slot)
        return result

    def _refuse_rows_of_images(self, node: Node) -> None:
        """Raise for a product of images, whose last axis is the channels in here."""
        spec = self._specs[node.values[0]] if node.values else None
        if node.operation is md.linear and spec and spec.qparams and spec.ndim == 4:
            raise OptionError(REORDERED)

    def _argument(self, given: Any) -> Any:
        """Return the tensor of a constant, the spec of a value, or `given` itself."""
        if not isinstance(given, str):
            return given
        return self._graph.constants.get(given, self._specs[given])

    def _is_view(self, node: Node, spec: Any) -> bool:
        """Return whether the node leaves the bytes of its codes as they are."""
        if not isinstance(spec, TensorSpec) or not issubclass(spec.type, NarrowTensor):
            return False
        return _orderless(spec) and _orderless(self._specs[node.output])

    def _slot(self, name: str) -> Slot:
        """Return the slot of a value; a value from outside becomes an input."""
        if name not in self._slots:
            spec = self._specs[name]
            codes = issubclass(spec.type, NarrowTensor)
            shape = slot_shape(spec) if codes else spec.shape
            dtype = np.uint8 if codes else np.float32
            self._slots[name] = self._program.input(shape, dtype)
            self._reads[name] = spec
        return self._slots[name]

    def _add(self, node: Node, step: Any, slot: Slot) -> None:
        self._nodes.append(node)
        self._steps.append(step)
        self._places.append(range(self._placed, len(self._program.steps)))
        self._placed = len(self._program.steps)
        self._slots[node.output] = slot

    def _flush(self, upto: int) -> None:
        """Close the part being built; later nodes read its results by name."""
        if self._nodes:
            written = [node.output for node in self._nodes]
            later = {v for node in self._graph.nodes[upto:] for v in node.values}
            kept = [n for n in written if n in later or n in self._graph.outputs]
            self._done.append(
                Compiled(
                    tuple(self._nodes),
                    tuple(self._steps),
                    tuple(self._places),
                    self._program.build(
                        [self._slots[name] for name in kept], refuses_nan=True
                    ),
                    self._reads,
                    {name: self._specs[name] for name in kept},
                )
            )
        self._begin()


def _takes(step: Any, count: int) -> bool:
    """Return whether a step takes `count` values that are not constants."""
    return len(step.input_types) == count or (isinstance(step, Concat) and count > 1)


def slot_shape(spec: TensorSpec) -> tuple[int, ...]:
    """Return the shape of codes in a compiled part, where images are channels last."""
    if spec.ndim != 4:
        return spec.shape
    n, c, h, w = spec.shape
    return n, h, w, c


def _orderless(spec: TensorSpec) -> bool:
    """Return whether channels first and channels last give the same bytes."""
    return spec.ndim != 4 or spec.shape[2:] == (1, 1) or spec.shape[1] == 1


def _smaller(x1: Any, x2: Any) -> bool:
    return _size(x1) < _size(x2)


def _size(x: Any) -> int:
    return math.prod(getattr(x, "shape", ()))  # of a Python number: 1
