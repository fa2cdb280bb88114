"""A graph while a file is read: the values known so far, errors that name nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError, ModelError, written
from mdtensor.quant.model.graph import Graph, Node, fresh_name, infer_spec, spec_of
from mdtensor.quant.model.onnx.elements import CODES, Element, element_of, widen

Array = npt.NDArray[Any]
#: TensorProto.DataType of ONNX.
ELEMENT_TYPES = {
    1: md.float32,
    2: md.uint8,
    3: md.int8,
    4: md.uint16,
    5: md.int16,
    6: md.int32,
    7: md.int64,
    9: md.bool,
    10: md.float16,
    11: md.float64,
    12: md.uint32,
    13: md.uint64,
    14: md.complex64,
    15: md.complex128,
    16: md.bfloat16,
}


_CODES_OF_ELEMENTS = {dtype: code for code, dtype in ELEMENT_TYPES.items()}


def element_type(code: Any, where: str) -> md.DType:
    """The element type with this number in the file format.

    Raises:
        ModelError: it is not supported.
    """
    if code not in ELEMENT_TYPES:
        listed = ", ".join(map(str, ELEMENT_TYPES.values()))
        raise ModelError(
            f"{where} has element type {code} of ONNX, which is not supported",
            f"Supported are {listed}",
        )
    return ELEMENT_TYPES[code]


@dataclass(frozen=True)
class Operator:
    """A node of the file, before it is a node of a graph.

    Args:
        kind: the operator's name in the file format.
        name: the node's name, or that of its first output.
        inputs: names of values; None where an optional one is left out.
        outputs: names of values; empty where one is left out.
        attributes: by name, as Python values; tensors as arrays.
        opset: version of the operator set.
        proto: the node in the file.
    """

    kind: str
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    proto: Any = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def input(self, index: int) -> str | None:
        """Input number `index`; None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def get(self, attribute: str, default: Any = None) -> Any:
        """An attribute; of floats, as a default too, a float32."""
        if isinstance(default, float):
            default = float(np.float32(default))
        return self.attributes.get(attribute, default)

    def require(self, attribute: str, *allowed: Any) -> None:
        """Refuse an attribute whose value is none of `allowed`, the first the default.

        Raises:
            ModelError: it has another value.
        """
        value = self.get(attribute, allowed[0])
        if value not in allowed:
            listed = " or ".join(map(str, allowed))
            raise self.error(f"has {attribute}={value}", f"Supported is {listed}")

    def error(self, problem: str, fix: str = "") -> ModelError:
        return ModelError(f"{self} {problem}", fix)

    def size_error(self, problem: str, more: str = "") -> ModelError:
        """A refusal of sizes that are not known; `more` ends what would work."""
        return self.error(problem, f"Give {written('input_shapes')}{more}")


def all_inputs(operation: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """`inputs`, and None for each operand of the operation that is left out."""
    declared = operation.operation
    missing = 0 if declared.sequence else len(declared.dispatched) - len(inputs)
    return inputs + (None,) * missing


# Readers call a builder instead of making nodes, so that the backend can run the same
# calls (decision 0026).
@dataclass
class Builder:
    """What is known of a model up to the operator that is read now.

    Args:
        inputs: specs of the model's inputs.
        specs: of every value so far.
        constants: tensors by name.
        nodes: in the order of the file.
        sizes: integers computed from shapes of which some are dynamic, by name: arrays
            of Python integers, with None for what is dynamic.
        left_out: results that are not supported, with the operator that has them.
        elements: of the values whose element type is held by a wider one.
        narrow: names of codes that leave out the smallest.
    """

    inputs: dict[str, TensorSpec] = field(default_factory=dict)
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    sizes: dict[str, Array] = field(default_factory=dict)
    unsupported: dict[str, Operator] = field(default_factory=dict)
    elements: dict[str, Element] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    # Operators ask for one constant several times, and each conversion costs 10 us.
    _arrays: dict[str, Array] = field(default_factory=dict, init=False, repr=False)
    _node_names: set[str] = field(default_factory=set, init=False, repr=False)

    def input(self, name: str, spec: TensorSpec) -> None:
        self._define(name)
        self.inputs[name] = self.specs[name] = spec

    def constant(self, name: str, tensor: Any) -> str:
        """Add a tensor under a name of the file."""
        self._define(name)
        self.constants[name], self.specs[name] = tensor, spec_of(tensor)
        return name

    def enter(self, name: str, array: Array) -> None:
        """Add an array under a name of the file, with what its elements are there."""
        self.constant(name, md.asarray(widen(array)))
        element = element_of(array)
        if element is not None:
            self.elements[name] = element

    def size(self, name: str, values: Array, dtype: md.DType) -> None:
        """Add integers: a constant, unless some of them are dynamic.

        Those that `dtype` does not hold wrap around.
        """
        if is_dynamic(values):
            self._define(name)
            self.sizes[name] = values
            self.specs[name] = TensorSpec(md.leaf(dtype), values.shape)
        else:
            numbers = values.astype(np.int64) if values.dtype == object else values
            self.constant(name, md.asarray(numbers.astype(dtype.storage)))

    def new_constant(self, op: Operator, stem: str, values: Array) -> str:
        """Add a tensor that is not in the file."""
        name = self.fresh(f"{op.outputs[0]}.{stem}")
        return self.constant(name, md.asarray(values))

    def fresh(self, stem: str) -> str:
        return fresh_name(stem, self.specs)

    def _define(self, name: str) -> None:
        if name in self.specs:
            raise ModelError(f"value {name!r} is written twice")

    def check(self, op: Operator) -> None:
        """Refuse an operator that reads what nothing before it writes.

        Raises:
            ModelError: it does.
        """
        for name in filter(None, op.inputs):
            if name in self.unsupported:
                raise op.error(
                    f"reads {name!r}, a result of {self.unsupported[name]} that is not "
                    "supported"
                )
            if name not in self.specs:
                raise op.error(f"reads {name!r}, which nothing before it writes")
        if not op.outputs or not op.outputs[0]:
            raise op.error("has no output")

    def call(self, op: Operator, operation: Any, *inputs: Any, **options: Any) -> str:
        """Add the node that computes the operator's result."""
        for extra in filter(None, op.outputs[1:]):
            self.unsupported[extra] = op
        return self._add(op.name, operation, inputs, op.outputs[0], options)

    def call_output(
        self, op: Operator, index: int, operation: Any, *inputs: Any, **options: Any
    ) -> None:
        """Add the node of a further result, after `call`, if the file names it."""
        output = op.outputs[index] if index < len(op.outputs) else ""
        if output:
            del self.unsupported[output]
            self._add(self.fresh(output), operation, inputs, output, options)

    def step(
        self, op: Operator, stem: str, operation: Any, *inputs: Any, **options: Any
    ) -> str:
        """Add a node on the way to the operator's result."""
        name = self.fresh(f"{op.outputs[0]}.{stem}")
        return self._add(name, operation, inputs, name, options)

    def _add(
        self,
        name: str,
        operation: Any,
        inputs: tuple[Any, ...],
        output: str,
        options: dict[str, Any],
    ) -> str:
        self._require_static(inputs)
        given = all_inputs(operation, inputs)
        name = fresh_name(name, self._node_names)
        node = Node(name, operation, given, output, options)
        self._define(output)
        self.specs[output] = infer_spec(node, self.specs)
        self.nodes.append(node)
        self._node_names.add(name)
        return output

    def _require_static(self, names: tuple[Any, ...]) -> None:
        """Refuse dynamic sizes as numbers to calculate with."""
        for name in names:
            if name in self.sizes:
                raise ModelError(
                    f"{name!r} depends on a size that is dynamic",
                    f"Give {written('input_shapes')} with all sizes",
                )

    def array(self, name: str | None) -> Array | None:
        """Return the elements of a value known while reading; None for any other.

        Elements of `sizes` may be None.
        """
        if name in self.sizes:
            return self.sizes[name]
        if name not in self.constants:
            return None
        if name not in self._arrays:
            tensor = self.constants[name]
            is_coded = self.specs[name].qparams is not None
            self._arrays[name] = np.asarray(tensor.codes if is_coded else tensor)
        return self._arrays[name]

    def require_array(self, op: Operator, index: int, what: str) -> Array:
        """The elements of an input that must be known while reading.

        Raises:
            ModelError: it is left out, or depends on the data.
        """
        found = self.array(op.input(index))
        if found is None or is_dynamic(found):
            raise op.size_error(
                f"needs {what} as a constant", " if it is computed from sizes"
            )
        return found

    def integers(self, op: Operator, index: int, what: str) -> tuple[int, ...]:
        """An input that must be known while reading, as Python integers."""
        return tuple(map(int, self.require_array(op, index, what).reshape(-1)))

    def code(self, name: Any) -> int:
        """The number of a value's element type in the file format."""
        if name in self.elements:
            return self.elements[name].code
        dtype = self.specs[name].dtype
        if dtype in CODES:
            return CODES[dtype]
        return _CODES_OF_ELEMENTS[dtype]

    def shape(self, name: Any) -> tuple[int, ...]:
        return self.specs[name].shape

    def graph(self, outputs: tuple[str, ...]) -> Graph:
        self._require_static(outputs)
        made = Graph(self.inputs, tuple(self.nodes), self.constants, outputs)
        return made.pruned()


def is_dynamic(values: Array) -> bool:
    """Whether an array has None for a dynamic size; any other has a type of numbers."""
    return values.dtype == object and None in values.reshape(-1).tolist()


def as_model_error(where: str, error: MdtensorError) -> ModelError:
    """An error of ours met while reading, with its place in the file."""
    return ModelError(f"{where}: {error.problem}", error.fix, error.call)
