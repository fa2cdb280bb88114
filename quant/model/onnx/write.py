"""From a graph to an ONNX file: float as it is, quantized as QDQ.

In QDQ every operator is float, and a quantized value is a pair of QuantizeLinear and
DequantizeLinear. Any runtime reads that, and `read` turns it back into the same graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import ModelError
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.graph import Graph, Node
from mdtensor.quant.model.onnx.elements import CODES, to_file_dtype, to_file_elements
from mdtensor.quant.model.onnx.files import onnx_package, properties, write_file
from mdtensor.quant.model.onnx.write_operators import (
    EMITTERS,
    SINCE,
    element_code,
    real_storage,
)
from mdtensor.quant.qparams import QParams

#: The operator set and the version of the format: HardSwish came with 14.
OLD = 14, 7
#: Codes of 4 and 16 bits, floats of 8, and blocks came with 21.
NEW = 21, 10
#: Convolutions, pools and activations of bfloat16 came with 22.
NEWEST = 22, 10
#: Floats that are computed in float32, and the number of that in the format.
NARROW, FLOAT = (md.float16, md.bfloat16), 1
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def write_graph(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as an ONNX file; an existing file is replaced in one step.

    Raises:
        ModelError: an operation without a counterpart, or a place that cannot be
            written.
    """
    write_file(path, serialize(graph))


def serialize(graph: Graph) -> bytes:
    """The bytes of the ONNX file of a graph, checked by the package of the format.

    Values inside a quantized graph get short names; nodes, inputs and outputs keep
    theirs.
    """
    onnx = onnx_package()
    model = _Writer(graph, onnx).model()
    try:
        onnx.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString()
    except Exception as error:  # of several types, of the format and of its parser
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"the graph is no valid ONNX model: {line}") from None
    return data


def _version(graph: Graph, specs: Mapping[str, TensorSpec]) -> tuple[int, int]:
    """The oldest operator set with all that a graph needs, and its format."""
    if any(spec.dtype is md.bfloat16 for spec in specs.values()):
        return NEWEST
    is_new = any(spec.qparams and _is_new(spec.qparams) for spec in specs.values())
    since = max((SINCE.get(node.operation, 0) for node in graph.nodes), default=0)
    return NEW if is_new or since > OLD[0] else OLD


class _Writer:
    """One file while it is written.

    Args:
        graph: to write.
        onnx: the package of the format.
    """

    def __init__(self, graph: Graph, onnx: Any) -> None:
        self.graph, self.onnx = graph, onnx
        self.specs: Mapping[str, TensorSpec] = graph.specs()
        self.nodes: list[Any] = []
        self.initializers: dict[Any, Any] = {}
        self.reals: dict[str, str] = {}
        self.is_compact = any(spec.qparams for spec in self.specs.values())
        self.opset, self.ir_version = _version(graph, self.specs)
        kept = {*graph.inputs, *graph.outputs}
        self.names = {name: name for name in kept}
        self.taken = set(kept) if self.is_compact else set(self.specs)
        self.node, self.is_mixed = Node("", None, (), ""), False

    def model(self) -> Any:
        helper = self.onnx.helper
        for node in self.graph.nodes:
            self._write(node)
        for name in self.graph.outputs:
            self._constant_output(name)
        proto = helper.make_graph(
            self.nodes,
            "mdtensor",
            [self._value_info(name) for name in self.graph.inputs],
            [self._value_info(name) for name in self.graph.outputs],
            list(self.initializers.values()),
        )
        made = helper.make_model(
            proto,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=self.ir_version,
            producer_name="mdtensor",
            producer_version=md.__version__,
        )
        if said := properties(self.graph.rounding, self._narrow(), self.graph.notes):
            helper.set_model_props(made, said)
        return made

    def _narrow(self) -> list[str]:
        """The names in the file of codes without the smallest."""
        grids = {value: spec.qparams for value, spec in self.specs.items()}
        return [
            name
            for value, name in self.names.items()
            if grids[value] is not None and grids[value].narrow_range
        ]

    def _write(self, node: Node) -> None:
        self.node = node
        self.is_mixed = self._reads_codes_and_narrow_floats(node)
        if node.operation is dequantize:
            self._dequantize(node.inputs[0], self._name(node.output), node.name)
        elif node.operation in (quantize, requantize):
            self._quantize(self._real(node.inputs[0]), node.output, node.name)
        elif node.operation in EMITTERS:
            given = [self._argument(x) for x in node.inputs if x is not None]
            operands = [name for name in given if name]
            EMITTERS[node.operation](self, node, operands)
        else:
            raise ModelError(
                f"{node.operation.__name__} of node {node.name!r} is not written yet",
                f"Written are {', '.join(sorted(f.__name__ for f in EMITTERS))}",
            )

    def _reads_codes_and_narrow_floats(self, node: Node) -> bool:
        """Whether it is computed in float32 and rounded once, which a file spells."""
        specs = [self.specs[name] for name in node.values]
        is_narrow = any(spec.dtype in NARROW for spec in specs)
        return is_narrow and any(spec.qparams for spec in specs)

    def _argument(self, value: Any) -> str:
        """The name of a float argument; empty for what is an attribute in the file."""
        if isinstance(value, str):
            return self._wide(value) if self.is_mixed else self._real(value)
        if isinstance(value, int | float):
            return self.constant(self._storage().type(value))
        return ""

    def _storage(self) -> Any:
        """The NumPy type of numbers beside values: theirs, if the result has none."""
        spec = self.specs[self.node.output]
        is_choice = spec.dtype is md.bool
        return real_storage(self.specs[self.node.values[0]] if is_choice else spec)

    def _wide(self, value: str) -> str:
        """The name of the numbers of a value in float32, as dequantized ones are."""
        if self.specs[value].dtype not in NARROW:
            return self._real(value)
        if (constant := self.graph.constants.get(value)) is not None:
            return self.constant(md.astype(constant, md.float32).buffer)
        return self.emit("Cast", [self._name(value)], to=FLOAT)

    def emit(
        self, kind: str, inputs: list[str], name: str = "", **attributes: Any
    ) -> str:
        output = self._fresh()
        self._operator(kind, inputs, output, name, attributes)
        return output

    def result(
        self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any
    ) -> None:
        node = self.node
        name = node.name if name is None else name
        spec = self.specs[node.output]
        is_rounded = self.is_mixed and spec.dtype in NARROW
        if spec.qparams is None and not is_rounded:
            self._operator(kind, inputs, self._name(node.output), name, attributes)
            return
        real = self._fresh()
        self._operator(kind, inputs, real, name, attributes)
        if is_rounded:
            to = {"to": element_code(spec.dtype)}
            self._operator("Cast", [real], self._name(node.output), "", to)
        else:
            self._quantize(real, node.output, "")

    def _operator(
        self, kind: str, inputs: list[str], output: str, name: str, attributes: Any
    ) -> None:
        made = self.onnx.helper.make_node(
            kind, inputs, [output], name=name, **attributes
        )
        self.nodes.append(made)

    def _quantize(self, source: str, value: str, name: str) -> None:
        grid = self.specs[value].qparams
        inputs = [source, *self._grid(grid, True)]
        where = _granularity(grid)
        self._operator("QuantizeLinear", inputs, self._name(value), name, where)

    def _dequantize(self, value: str, output: str, name: str = "") -> None:
        grid = self.specs[value].qparams
        has_zero = value not in self.graph.constants or bool(grid.zero_point.any())
        inputs = [self._name(value), *self._grid(grid, has_zero)]
        where = _granularity(grid)
        self._operator("DequantizeLinear", inputs, output, name, where)
        self.reals[value] = output

    def _grid(self, grid: QParams, has_zero: bool) -> list[str]:
        names = [self.constant(grid.scale.astype(np.float32))]
        if has_zero:
            names.append(self.constant(to_file_dtype(grid.zero_point, grid.dtype)))
        return names

    def _real(self, value: str) -> str:
        """The name of the numbers of a value; dequantized, once, if it needs to be."""
        if self.specs[value].qparams is None:
            return self._name(value)
        if value not in self.reals:
            self._dequantize(value, self._fresh())
        return self.reals[value]

    def _name(self, value: str) -> str:
        if value not in self.names:
            self.names[value] = self._fresh() if self.is_compact else value
            if value in self.graph.constants:
                array = to_file_elements(self.graph.constants[value])
                self._initializer(self.names[value], array)
        return self.names[value]

    def _initializer(self, name: str, array: Any) -> None:
        made = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        made.ClearField("dims")
        made.dims.extend(array.shape)
        self.initializers[name] = made

    def constant(self, values: Any) -> str:
        """The name of an initializer with these values; equal ones are shared."""
        array = np.asarray(values)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self.initializers:
            name = self._fresh()
            self.initializers[key] = self.onnx.numpy_helper.from_array(array, name)
        return str(self.initializers[key].name)

    def _constant_output(self, name: str) -> None:
        """An output that is a constant or an input is copied, for want of a node."""
        if name in self.graph.producers:
            return
        source = self._fresh()
        if name in self.graph.inputs:
            raise ModelError(f"output {name!r} is an input", "Add an operation")
        self.names[name] = source
        self._initializer(source, to_file_elements(self.graph.constants[name]))
        self._operator("Identity", [source], name, "", {})

    def _fresh(self) -> str:
        number = len(self.taken)
        while (name := _short(number)) in self.taken:
            number += 1
        self.taken.add(name)
        return name

    def _value_info(self, name: str) -> Any:
        spec = self.specs[name]
        shape = [None if size < 0 else size for size in spec.shape]
        code = CODES[spec.dtype] if spec.qparams else element_code(spec.dtype)
        make: Callable[..., Any] = self.onnx.helper.make_tensor_value_info
        return make(name, code, shape)


def _is_new(grid: QParams) -> bool:
    """Whether older operator sets have no such codes or scales."""
    return grid.block_size is not None or CODES[grid.dtype] not in (2, 3, 6)


def _short(number: int) -> str:
    """A number in as few letters and digits as there are."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def _granularity(grid: QParams) -> dict[str, int]:
    """Along which axis scales lie, and how many indices share one, as attributes."""
    where = {"axis": grid.axis, "block_size": grid.block_size}
    return {name: size for name, size in where.items() if size is not None}
