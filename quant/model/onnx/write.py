"""Writing of graphs as ONNX files: quantized operations become QDQ.

In QDQ every operator is float, and a quantized value is a pair of QuantizeLinear and
DequantizeLinear. Any runtime can run such a file, and `read` turns it back into the
same graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant.generics import dequantize, quantize, requantize
from mdtensor.quant.model.onnx import (
    write_compound as write_compound,
    write_fourier as write_fourier,
    write_integers as write_integers,
    write_recurrent as write_recurrent,
    write_selection as write_selection,
    write_trees as write_trees,
)
from mdtensor.quant.model.onnx.elements import CODES, to_file_dtype, to_file_elements
from mdtensor.quant.model.onnx.files import (
    onnx_package,
    properties,
    require_onnx_name,
    write_file,
)
from mdtensor.quant.model.onnx.write_operators import (
    EMITTERS,
    SINCE,
    element_code,
    real_storage,
)
from mdtensor.quant.qparams import QParams

#: The operator set and the version of the format: HardSwish needs 14.
OLD = 14, 7
#: The last set before codes got new types. From 21 on ONNX Runtime 1.32 writes the type
#: of codes into the nodes that it moves, and makes uint8 of int8 on AVX2 without it.
BEFORE_NEW = 20, 9
#: 4-bit and 16-bit codes, 8-bit floats and block scales need 21.
NEW = 21, 10
#: Convolutions, pools and activations in bfloat16 need 22.
NEWEST = 22, 10
#: RMSNormalization needs 23.
LATEST = 23, 11
#: Floats whose operations compute in float32; the number of float32 in the format.
NARROW, FLOAT = (md.float16, md.bfloat16), 1
#: Operator sets of other domains that a file may need.
DOMAINS = {
    write_trees.DOMAIN: write_trees.VERSION,
    write_recurrent.MICROSOFT: write_recurrent.VERSION,
}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def write_graph(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as an ONNX file; an existing file is replaced in one step.

    Raises:
        ModelError: an operation does not have a counterpart in ONNX, or the path cannot
            be written, or its name ends in .tflite.
    """
    require_onnx_name(path)
    write_file(path, serialize(graph))


def serialize(graph: Graph) -> bytes:
    """Return the bytes of the ONNX file of a graph, checked by the package onnx.

    Values inside a quantized graph get short names. Nodes, inputs and outputs keep
    their names.
    """
    onnx = onnx_package()
    model = _Writer(graph, onnx).model()
    try:
        onnx.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString()
    # The checker, shape inference and the parser raise types of their own.
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"the graph is not a valid ONNX model: {line}") from None
    return data


def _version(graph: Graph, specs: Mapping[str, TensorSpec]) -> tuple[int, int]:
    """Return the oldest operator set that the graph fits, and its format version."""
    since = max((SINCE.get(node.operation, 0) for node in graph.nodes), default=0)
    if since > NEWEST[0]:
        return LATEST
    if any(spec.dtype is md.bfloat16 for spec in specs.values()):
        return NEWEST
    is_new = any(spec.qparams and _is_new(spec.qparams) for spec in specs.values())
    if is_new or since > BEFORE_NEW[0]:
        return NEW
    return BEFORE_NEW if since > OLD[0] else OLD


class _Writer:
    """The state of one file while it is written.

    Args:
        graph: the graph to write.
        onnx: the package onnx.
    """

    def __init__(self, graph: Graph, onnx: Any) -> None:
        self.graph, self.onnx = graph, onnx
        self.specs: Mapping[str, TensorSpec] = graph.specs()
        self.values: Mapping[str, Any] = graph.constants
        self.nodes: list[Any] = []
        self.initializers: dict[Any, Any] = {}
        self.reals: dict[str, str] = {}
        self.is_compact = any(spec.qparams for spec in self.specs.values())
        self.opset, self.ir_version = _version(graph, self.specs)
        # Callers use the names of inputs and outputs, so these stay as they are.
        public = {*graph.inputs, *graph.outputs}
        self.names = {name: name for name in public}
        self.taken = set(public) if self.is_compact else set(self.specs)
        self.node, self.is_mixed = Node("", None, (), ""), False

    def model(self) -> Any:
        """Return the ModelProto of the graph."""
        helper = self.onnx.helper
        # First, because nodes may read such a constant.
        for name in self.graph.outputs:
            self._constant_output(name)
        for node in self.graph.nodes:
            self._write(node)
        proto = helper.make_graph(
            self.nodes,
            "mdtensor",
            [self._value_info(name) for name in self.graph.inputs],
            [self._value_info(name) for name in self.graph.outputs],
            self._read_initializers(),
        )
        opsets = [helper.make_opsetid("", self.opset)]
        used = {node.domain for node in self.nodes}
        for domain, version in DOMAINS.items():
            if domain in used:
                opsets.append(helper.make_opsetid(domain, version))
        made = helper.make_model(
            proto,
            opset_imports=opsets,
            ir_version=self.ir_version,
            producer_name="mdtensor",
            producer_version=md.__version__,
        )
        narrow = self._narrow()
        if notes := properties(self.graph.rounding, narrow, self.graph.notes):
            helper.set_model_props(made, notes)
        return made

    def _read_initializers(self) -> list[Any]:
        """Return the constants that the file needs: trees become attributes."""
        read = {name for node in self.nodes for name in node.input}
        read.update(self._name(name) for name in self.graph.outputs)
        return [one for one in self.initializers.values() if one.name in read]

    def _narrow(self) -> list[str]:
        """Return the names, in the file, of codes with a narrow range."""
        grids = {value: spec.qparams for value, spec in self.specs.items()}
        return [
            name
            for value, name in self.names.items()
            if grids[value] is not None and grids[value].narrow_range
        ]

    def _write(self, node: Node) -> None:
        """Write one node of the graph."""
        self.node = node
        self.is_mixed = self._reads_codes_and_narrow_floats(node)
        if node.operation is dequantize:
            self._dequantize(node.inputs[0], self._name(node.output), node.name)
        elif node.operation in (quantize, requantize):
            # Before operator set 23, numbers and scales must be of one type.
            self._quantize(self._wide(node.inputs[0]), node.output, node.name)
        elif node.operation in EMITTERS and self._has_parts(node):
            given = [self._argument(x) for x in node.inputs if x is not None]
            operands = [name for name in given if name]
            EMITTERS[node.operation](self, node, operands)
        else:
            raise self._unwritable(node)

    def _has_parts(self, node: Node) -> bool:
        """Return whether each complex value of a node is a pair of parts in the file.

        Constants, inputs and results of the graph are none.
        """
        own = {*self.graph.constants, *self.graph.inputs, *self.graph.outputs}
        names = {*node.values, node.output}
        complex_ = {name for name in names if self.specs[name].dtype.is_complex}
        is_known = node.operation in write_fourier.OF_PAIRS
        return not complex_ or (is_known and not complex_ & own)

    def _unwritable(self, node: Node) -> ModelError:
        """Return the error for an operation without operators, with the reason."""
        problem = f"{node.operation.__name__} of node {node.name!r} cannot be written"
        names = (*node.values, node.output)
        complex_ = [name for name in names if self.specs[name].dtype.is_complex]
        if complex_:
            problem += f": operators of ONNX do not take {complex_[0]!r}, which is "
            problem += f"{self.specs[complex_[0]].dtype}"
        else:
            problem += ": ONNX lacks such an operator"
        fix = "Save the parts before and after it, or see docs/reference/onnx.md"
        return ModelError(problem, fix)

    def _reads_codes_and_narrow_floats(self, node: Node) -> bool:
        """Return whether the node reads codes and also float16 or bfloat16.

        Such a node computes in float32 and rounds once; the file needs Casts for that.
        """
        specs = [self.specs[name] for name in node.values]
        is_narrow = any(spec.dtype in NARROW for spec in specs)
        return is_narrow and any(spec.qparams for spec in specs)

    def _argument(self, value: Any) -> str:
        """Return the name of a float argument; empty if the file has an attribute."""
        if isinstance(value, str):
            return self._wide(value) if self.is_mixed else self._real(value)
        if isinstance(value, int | float):
            # A number past the largest of a type becomes infinite, as in the call.
            with np.errstate(over="ignore"):
                return self.constant(self._storage().type(value))
        return ""

    def _storage(self) -> Any:
        """Return the NumPy dtype for constants next to values: the dtype of the result.

        If the result is bool, return the dtype of the first argument.
        """
        spec = self.specs[self.node.output]
        is_choice = spec.dtype is md.bool
        return real_storage(self.specs[self.node.values[0]] if is_choice else spec)

    def _wide(self, value: str) -> str:
        """Return the name of a value in float32, the type that dequantize gives."""
        if self.specs[value].dtype not in NARROW:
            return self._real(value)
        if (constant := self.graph.constants.get(value)) is not None:
            return self.constant(md.astype(constant, md.float32).buffer)
        return self.emit("Cast", [self._name(value)], to=FLOAT)

    def emit(
        self, kind: str, inputs: list[str], name: str = "", **attributes: Any
    ) -> str:
        """Write an operator for an intermediate value; return the name of the value."""
        output = self._fresh()
        self._operator(kind, inputs, output, name, attributes)
        return output

    def parts(
        self, kind: str, inputs: list[str], count: int, **attributes: Any
    ) -> list[str]:
        """Write an operator of several outputs; return the names of the values."""
        outputs = [self._fresh() for _ in range(count)]
        self._operator(kind, inputs, outputs, "", attributes)
        return outputs

    def result(
        self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any
    ) -> None:
        """Write the operator of the node's result, and round the result to its type."""
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
        self,
        kind: str,
        inputs: list[str],
        output: str | list[str],
        name: str,
        attributes: Any,
    ) -> None:
        """Write one operator."""
        outputs = output if isinstance(output, list) else [output]
        made = self.onnx.helper.make_node(
            kind, inputs, outputs, name=name, **attributes
        )
        self.nodes.append(made)

    def _quantize(self, source: str, value: str, name: str) -> None:
        """Write QuantizeLinear from the name `source` to a value of the graph."""
        grid = self.specs[value].qparams
        inputs = [source, *self._grid(grid, True)]
        where = _granularity(grid)
        self._operator("QuantizeLinear", inputs, self._name(value), name, where)

    def _dequantize(self, value: str, output: str, name: str = "") -> None:
        """Write DequantizeLinear from a value of the graph to the name `output`."""
        grid = self.specs[value].qparams
        # 0 is the default, and a constant with many scales would store it many times.
        has_zero = value not in self.graph.constants or bool(grid.zero_point.any())
        inputs = [self._name(value), *self._grid(grid, has_zero)]
        where = _granularity(grid)
        self._operator("DequantizeLinear", inputs, output, name, where)
        self.reals[value] = output

    def _grid(self, grid: QParams, has_zero: bool) -> list[str]:
        """Return the names of the scale and, if wanted, the zero point of a grid."""
        names = [self.constant(grid.scale.astype(np.float32))]
        if has_zero:
            names.append(self.constant(to_file_dtype(grid.zero_point, grid.dtype)))
        return names

    def _real(self, value: str) -> str:
        """Return the name of a value as floats; codes are dequantized once."""
        if self.specs[value].qparams is None:
            return self._name(value)
        if value not in self.reals:
            self._dequantize(value, self._fresh())
        return self.reals[value]

    def _name(self, value: str) -> str:
        """Return the name of a value in the file; write it if it is a constant."""
        if value not in self.names:
            self.names[value] = self._fresh() if self.is_compact else value
            if value in self.graph.constants:
                array = to_file_elements(self.graph.constants[value])
                self._initializer(self.names[value], array)
        return self.names[value]

    def _initializer(self, name: str, array: Any) -> None:
        """Write an array as a constant of the file."""
        made = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        # ascontiguousarray gives a scalar the shape (1,), so write the shape again.
        made.ClearField("dims")
        made.dims.extend(array.shape)
        self.initializers[name] = made

    def constant(self, values: Any) -> str:
        """Return the name of a constant with these values; equal ones are shared."""
        # Compare bytes: 0.0 and -0.0 are equal, but different constants.
        array = np.asarray(values)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self.initializers:
            name = self._fresh()
            self.initializers[key] = self.onnx.numpy_helper.from_array(array, name)
        return str(self.initializers[key].name)

    def _constant_output(self, name: str) -> None:
        """Copy an output that is a constant, because an operator must write it."""
        # ONNX lets an output be an input of the same name, as the graph here does.
        if name in self.graph.producers or name in self.graph.inputs:
            return
        source = self._fresh()
        self.names[name] = source
        self._initializer(source, to_file_elements(self.graph.constants[name]))
        self._operator("Identity", [source], name, "", {})

    def _fresh(self) -> str:
        """Return an unused short name."""
        # Start near the first unused number, so that a large graph takes linear time.
        number = len(self.taken)
        while (name := _short(number)) in self.taken:
            number += 1
        self.taken.add(name)
        return name

    def _value_info(self, name: str) -> Any:
        """Return the name, type and shape of an input or output."""
        spec = self.specs[name]
        shape = [None if size < 0 else size for size in spec.shape]
        code = CODES[spec.dtype] if spec.qparams else element_code(spec.dtype)
        make: Callable[..., Any] = self.onnx.helper.make_tensor_value_info
        return make(name, code, shape)


def _is_new(grid: QParams) -> bool:
    """Return whether older operator sets lack the codes or scales of a grid."""
    return grid.block_size is not None or CODES[grid.dtype] not in (2, 3, 6)


def _short(number: int) -> str:
    """Spell a number in as few letters and digits as possible."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def _granularity(grid: QParams) -> dict[str, int]:
    """Return the axis and the block size of the scales, as attributes."""
    where = {"axis": grid.axis, "block_size": grid.block_size}
    return {name: size for name, size in where.items() if size is not None}
