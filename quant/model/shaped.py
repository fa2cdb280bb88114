"""The plans of a model: one for each shape of its inputs, the last 64 are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from mdtensor.errors import DataError
from mdtensor.graph import Graph
from mdtensor.graph.inputs import Shapes, chosen, shapes_example
from mdtensor.graph.plan import Plan
from mdtensor.kernels.cpu import kernel_set
from mdtensor.quant.model.quantize.float_nodes import STAY_FLOAT
from mdtensor.quant.model.recent import Recent

#: Plans, and calls, that a model remembers; for a new one the oldest goes.
MOST = 64


def whole_shapes(graph: Graph, given: Shapes | None) -> dict[str, tuple[int, ...]]:
    """Return the shape of each input, for shapes as a user gives them.

    Raises:
        DataError: a size is still dynamic, or the shapes do not fit the inputs.
    """
    shapes = chosen(graph.inputs, given)
    for name, shape in shapes.items():
        if -1 in shape:
            example = shapes_example(sized(graph, shapes).inputs)
            raise DataError(
                f"input {name!r} has the dynamic shape {shape}",
                f"Give the sizes to plan for, such as {example}",
            )
    return dict(shapes)


def sized(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph whose inputs have these shapes."""
    inputs = graph.inputs.items()
    return replace(graph, inputs={n: spec.with_shape(shapes[n]) for n, spec in inputs})


class ShapedPlans:
    """Plans of one graph by the shapes of its inputs; the oldest of them go."""

    def __init__(self) -> None:
        self.on = kernel_set.CHOSEN.get()
        self.recent: Recent[tuple[tuple[int, ...], ...], Plan] = Recent(MOST)

    def made(self, graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Plan:
        """Return the plan for the shape of each input."""

        def make() -> Plan:
            whole = sized(graph, shapes)
            # With the instruction set of the model, not that of the caller's context.
            return cast(Plan, kernel_set.make_on(self.on, Plan, whole, STAY_FLOAT))

        return self.recent.get(tuple(shapes.values()), make)
