"""A model that is run as it is read: operator by operator, on the tensors at hand.

Reading a graph, `Builder` records the calls of operations; here they are made at once,
by the same functions, so an operator has one meaning. All values are known then: what
a graph needs as a constant, such as a scale, may be computed by the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import DataError, MdtensorError, ModelError, type_and_shape
from mdtensor.quant.model.definitions import definition, is_defined
from mdtensor.quant.model.graph import Node
from mdtensor.quant.model.onnx.build import Builder, Operator, all_inputs
from mdtensor.quant.model.onnx.operators import READERS
from mdtensor.quant.model.onnx.operators.table import Reader
from mdtensor.quant.model.onnx.read import (
    apply,
    initial_arrays,
    operator,
    operators_of,
    reader_of,
)
from mdtensor.quant.model.onnx.schemas import check_attributes, check_types
from mdtensor.quant.model.onnx.sizes import shape
from mdtensor.quant.rules import rounding

Array = npt.NDArray[Any]
#: Operators whose results have the elements of their first input, moved about.
MOVES = frozenset({"Concat", "Expand", "Flatten", "Gather", "Identity", "Pad"})
MOVES |= {"Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}


# The backend runs the readers of graphs, so that ONNX's suite tests what the library
# runs (decision 0026).
class Evaluator(Builder):
    """A builder all of whose values are known."""

    def _add(
        self,
        name: str,
        operation: Any,
        inputs: tuple[Any, ...],
        output: str,
        options: dict[str, Any],
    ) -> str:
        node = Node(name, operation, all_inputs(operation, inputs), output, options)
        return self.constant(output, node(*node.arguments(self.constants)))

    def enter(self, name: str, array: Any) -> None:
        """Add an array from outside.

        Raises:
            DataError: no tensor holds its elements.
        """
        try:
            if not isinstance(array, (np.ndarray, np.generic)):
                raise TypeError
            super().enter(name, np.asarray(array))
        except (MdtensorError, TypeError, ValueError):
            given = type_and_shape(array)
            raise DataError(
                f"{name!r} is {given}, which no tensor holds",
                "Give an array of numbers",
            ) from None

    def result(self, name: str) -> Array:
        """A value as an array of the element type of the file."""
        array = np.asarray(self.constants[name])
        element = self.elements.get(name)
        return array if element is None else array.astype(element.dtype)

    def apply(self, op: Operator, readers: dict[str, Reader]) -> None:
        """Compute the results of one operator, if need be by its definition."""
        self.check(op)
        check_types(self, op)
        if op.kind not in readers and is_defined(op):
            for node, opset in definition(self, op):
                self.apply(operator(node, opset, Path()), readers)
            return
        apply(reader_of(op, readers), self, op)
        first = self.elements.get(op.inputs[0] or "") if op.inputs else None
        if first is not None and op.kind in MOVES:
            self.elements |= dict.fromkeys(filter(None, op.outputs), first)


class Evaluation:
    """A model, ready to run on any inputs.

    Args:
        model: the ModelProto.
        folder: where its external data lies.
        readers: what an operator means, where that is not what it means in a graph.

    Raises:
        ModelError: an operator that is not supported, or an attribute that it has not;
            the error names it, its node and the operator set.
    """

    def __init__(
        self, model: Any, readers: dict[str, Reader], folder: Path | None = None
    ) -> None:
        place = Path() if folder is None else folder
        self.readers = {**READERS, "Shape": shape, **readers}
        self.operators = operators_of(model, place)
        for op in self.operators:
            check_attributes(op)
            if not is_defined(op):
                reader_of(op, self.readers)
        self.arrays = initial_arrays(model.graph, place)
        names = [value.name for value in model.graph.input]
        self.inputs = [name for name in names if name not in self.arrays]
        self.outputs = [value.name for value in model.graph.output]

    def __call__(self, arrays: Sequence[Any]) -> list[Array]:
        """The outputs, in the order of the file, for inputs in its order."""
        if len(arrays) != len(self.inputs):
            listed = ", ".join(map(repr, self.inputs)) or "none"
            raise DataError(
                f"the model has the inputs {listed}, given are {len(arrays)}",
                "Give an array for each, in this order",
            )
        g = Evaluator()
        given = zip(self.inputs, arrays, strict=True)
        for name, array in [*self.arrays.items(), *given]:
            g.enter(name, array)
        with rounding("onnx"):
            for op in self.operators:
                g.apply(op, self.readers)
        for name in self.outputs:
            if name not in g.constants:
                raise ModelError(f"no node writes the output {name!r}")
        return [g.result(name) for name in self.outputs]
