"""State of a graph while its file is read: known values, and errors that name nodes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError, ModelError, written
from mdtensor.graph import Graph, Node, fresh_name, infer_spec, spec_of
from mdtensor.graph.inputs import shapes_example
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.decision_error import (
    DecisionError,
    is_decidable,
    sizes_of,
)
from mdtensor.quant.model.onnx.elements import CODES, Element, element_of, widen
from mdtensor.quant.model.size_error import SizeError

Array = npt.NDArray[Any]
#: Element types by their number in the file format, TensorProto.DataType.
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


#: The number of text in the file format, and what works in files that contain it.
TEXT = 8
WITHOUT_TEXT = "Name the results that you need: load(path, outputs=[...])"
#: Operators whose first output may be omitted.
RECURRENT = frozenset({"GRU", "LSTM", "RNN", "com.microsoft.DynamicQuantizeLSTM"})
#: Operators that read sequences and optional values; all others read tensors.
OF_LISTS = frozenset({"ConcatFromSequence", "Identity", "If", "Loop", "Optional"})
OF_LISTS |= {"OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceErase"}
OF_LISTS |= {"SequenceInsert", "SequenceLength", "SequenceMap"}

_CODES_OF_ELEMENTS = {dtype: code for code, dtype in ELEMENT_TYPES.items()}


def element_type(code: Any, where: str) -> md.DType:
    """Return the element type with number `code` in the file format.

    Raises:
        ModelError: the type is not supported.
    """
    if code == TEXT:
        raise ModelError(f"{where} is text, which cannot be a tensor", WITHOUT_TEXT)
    if code not in ELEMENT_TYPES:
        listed = ", ".join(map(str, ELEMENT_TYPES.values()))
        raise ModelError(
            f"{where} has element type {code} of ONNX, which is not supported",
            f"Supported are {listed}",
        )
    return ELEMENT_TYPES[code]


@dataclass(frozen=True)
class Operator:
    """A node of the file, before it becomes a node of a graph.

    Args:
        kind: the operator's name in the file format.
        name: the name of the node, or of its first output if the node is unnamed.
        inputs: names of values; None where an optional input is omitted.
        outputs: names of values; empty where an output is omitted.
        attributes: by name, as Python values; tensors as arrays.
        opset: version of the operator set of its domain.
        proto: the node in the file.
        shapes_example: the argument of `load` that fixes the sizes of its inputs.
        folder: the folder of the file, with its external data.
        scope: names of values in this graph, by the names that graphs inside of the
            node have for them.
        opsets: versions of the operator sets of the file, by domain.
    """

    kind: str
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    proto: Any = None
    shapes_example: str = ""
    folder: Path = Path()
    scope: Mapping[str, str] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def input(self, index: int) -> str | None:
        """Return the name of input number `index`; None if the input is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def get(self, attribute: str, default: Any = None) -> Any:
        """Return an attribute, or `default` if the node does not set it.

        A float `default` is rounded to float32, because files store attributes that
        way.
        """
        if isinstance(default, float):
            default = float(np.float32(default))
        return self.attributes.get(attribute, default)

    def require(self, attribute: str, *allowed: Any) -> None:
        """Require an attribute to be one of `allowed`; the first is the default.

        Raises:
            ModelError: the attribute has another value.
        """
        value = self.get(attribute, allowed[0])
        if value not in allowed:
            listed = " or ".join(map(str, allowed))
            raise self.error(f"has {attribute}={value}", f"Supported is {listed}")

    def error(self, problem: str, fix: str = "") -> ModelError:
        """Build a `ModelError` whose text starts with this operator."""
        return ModelError(f"{self} {problem}", fix)

    def size_error(self, problem: str, more: str = "") -> SizeError:
        """Build the error for an unknown size; `more` completes the suggestion."""
        way = self.shapes_example or written("input_shapes")
        return SizeError(f"{self} {problem}", f"Give {way}{more}")


def all_inputs(operation: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `inputs`, padded with None for each omitted operand of the operation."""
    declared = operation.operation
    missing = 0 if declared.sequence else len(declared.dispatched) - len(inputs)
    return inputs + (None,) * missing


def _read_nothing(g: Any, op: Operator) -> None:
    """Raise for a node inside of another node, if no reader for inner nodes is set."""
    raise op.error("is inside of another node, which is not supported")


# Readers call a builder instead of making nodes, so that the backend can run the same
# calls (decision 0026).
@dataclass
class Builder:
    """The part of a model that has been read so far.

    Args:
        inputs: specs of the model's inputs.
        specs: the spec of every value so far.
        constants: tensors by name.
        nodes: the nodes, in the order of the file.
        sizes: integers computed from partly dynamic shapes, by name: arrays of Python
            integers, with None for each dynamic size.
        unsupported: outputs that are not supported, with the operator that writes them.
        texts: outputs that are text, with the operator that writes them.
        lists: the elements of sequences, by name; None for an absent optional value.
        elements: element types of the values that are stored in a wider type.
        narrow: names of values whose codes have a narrow range, without the smallest
            code.
        steps: for plain integers that are codes, by name: the float value of code minus
            zero point, and the scale and zero point.
        decided: values that a call has computed before, by name, and sizes of values,
            by `sizes_of` their name.
        spending: what loading has used of its budget.
        reserved: names that the file uses, so that new values do not get them.
        read: reads one operator; for the nodes of graphs inside of nodes.
    """

    inputs: dict[str, TensorSpec] = field(default_factory=dict)
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    sizes: dict[str, Array] = field(default_factory=dict)
    unsupported: dict[str, Operator] = field(default_factory=dict)
    texts: dict[str, Operator] = field(default_factory=dict)
    lists: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    elements: dict[str, Element] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    steps: dict[str, tuple[str, Any, Any]] = field(default_factory=dict)
    decided: Mapping[str, Array] = field(default_factory=dict)
    spending: Spending = field(default_factory=Spending)
    reserved: frozenset[str] = frozenset()
    read: Callable[[Any, Operator], None] = _read_nothing
    # Readers fetch the same constant several times; each conversion costs 10 us.
    _arrays: dict[str, Array] = field(default_factory=dict, init=False, repr=False)
    # The nodes whose inputs all are known, by their output.
    _fixed: dict[str, Node] = field(default_factory=dict, init=False, repr=False)
    _computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _node_names: set[str] = field(default_factory=set, init=False, repr=False)
    _counts: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _node_counts: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _taken: set[str] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        self._taken |= self.reserved

    def input(self, name: str, spec: TensorSpec) -> None:
        """Add an input of the model."""
        self._define(name)
        self.inputs[name] = self.specs[name] = spec

    def constant(self, name: str, tensor: Any) -> str:
        """Add a tensor under a name of the file."""
        self._define(name)
        self.constants[name], self.specs[name] = tensor, spec_of(tensor)
        return name

    def enter(self, name: str, array: Array) -> None:
        """Add an array under a name of the file, and record its element type there."""
        self.constant(name, md.asarray(widen(array)))
        element = element_of(array)
        if element is not None:
            self.elements[name] = element

    def size(self, name: str, values: Array, dtype: md.DType) -> None:
        """Add integers: as a constant, unless some of them are dynamic.

        Integers outside the range of `dtype` wrap around.
        """
        if is_dynamic(values):
            self._define(name)
            self.sizes[name] = values
            self.specs[name] = TensorSpec(md.leaf(dtype), values.shape)
        else:
            # NumPy raises for Python integers that do not fit a narrow type; from int64
            # they wrap around, as the operators of ONNX do.
            numbers = values.astype(np.int64) if values.dtype == object else values
            self.constant(name, md.asarray(numbers.astype(dtype.storage)))

    def new_constant(self, op: Operator, stem: str, values: Array) -> str:
        """Add a tensor that the file does not contain, and return its new name."""
        name = self.fresh(f"{op.outputs[0]}.{stem}")
        return self.constant(name, md.asarray(values))

    def fresh(self, stem: str) -> str:
        """Return an unused name that begins with `stem`."""
        return fresh_name(stem, self._taken, self._counts)

    def keep(self, name: str) -> None:
        """Keep a name from `fresh` for a value that is added later."""
        self._taken.add(name)

    def reserve(self, op: Operator, *shape: int) -> None:
        """Count the elements of an array that a reader is about to make.

        Raises:
            ModelError: a size is negative, or the budget does not allow so many.
        """
        if min(shape, default=0) < 0:
            raise op.error(f"makes a tensor of shape {shape}", "Use sizes of 0 or more")
        self.spending.add_computed(str(op), prod(shape))

    def list(self, name: str, elements: tuple[str, ...] | None) -> None:
        """Add a sequence of values that exist, or an absent optional value."""
        self._define(name)
        self.lists[name] = elements

    def _define(self, name: str) -> None:
        if name in self.specs or name in self.lists:
            raise ModelError(f"value {name!r} is written twice")
        self._taken.add(name)

    def check(self, op: Operator) -> None:
        """Raise if an operator reads a value that no earlier node writes.

        Raises:
            ModelError: no node writes an input, or the first output is missing.
        """
        for name in filter(None, op.inputs):
            if name in self.texts:
                raise op.error(f"reads {name!r}, which is text", WITHOUT_TEXT)
            if name in self.unsupported:
                raise op.error(
                    f"reads {name!r}, an output of {self.unsupported[name]} that is "
                    "not supported"
                )
            if name in self.lists:
                self._check_list(op, name)
            elif name not in self.specs:
                raise op.error(f"reads {name!r}, which no earlier node writes")
        if not any(op.outputs[: None if op.kind in RECURRENT else 1]):
            raise op.error(
                "does not have a first output", "Export it with a name for the output"
            )

    def _check_list(self, op: Operator, name: str) -> None:
        """Raise if an operator that reads tensors reads a sequence."""
        if op.kind not in OF_LISTS:
            what = "an absent value" if self.lists[name] is None else "a sequence"
            raise op.error(f"reads {name!r}, which is {what}", "Give it a tensor")

    def call(self, op: Operator, operation: Any, *inputs: Any, **options: Any) -> str:
        """Add the node that computes the first output of the operator."""
        # Further outputs count as unsupported until `call_output` adds them, so the
        # error comes only if a later node reads one.
        for extra in filter(None, op.outputs[1:]):
            self.unsupported[extra] = op
        return self._add(op.name, operation, inputs, op.outputs[0], options)

    def call_output(
        self, op: Operator, index: int, operation: Any, *inputs: Any, **options: Any
    ) -> None:
        """Add the node of output `index`, after `call`, if the file names it."""
        output = op.outputs[index] if index < len(op.outputs) else ""
        if output:
            del self.unsupported[output]
            self._add(self.fresh(output), operation, inputs, output, options)

    def step(
        self, op: Operator, stem: str, operation: Any, *inputs: Any, **options: Any
    ) -> str:
        """Add a node for an intermediate value of the operator."""
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
        """Add a node; the sizes of its result are those that a call has computed."""
        sizes = self.decided.get(sizes_of(output))
        if sizes is None:
            return self._add_node(name, operation, inputs, output, options)
        found = self.fresh(f"{output}.found")
        self._add_node(name, operation, inputs, found, options)
        shape = {"shape": tuple(sizes.tolist())}
        return self._add_node(f"{name}.sized", md.reshape, (found,), output, shape)

    def _add_node(
        self,
        name: str,
        operation: Any,
        inputs: tuple[Any, ...],
        output: str,
        options: dict[str, Any],
    ) -> str:
        self._require_static(inputs)
        self.spending.check_nodes(f"node {name!r}", len(self.nodes) + 1)
        given = all_inputs(operation, inputs)
        # Files may repeat node names, but reports and plans identify nodes by name.
        name = fresh_name(name, self._node_names, self._node_counts)
        node = Node(name, operation, given, output, options)
        self._define(output)
        self.specs[output] = infer_spec(node, self.specs)
        self.nodes.append(node)
        if all(name in self.constants or name in self._fixed for name in node.values):
            self._fixed[output] = node
        self._node_names.add(name)
        return output

    def _require_static(self, names: tuple[Any, ...]) -> None:
        """Raise if an operand is a dynamic size: graphs cannot compute with sizes."""
        for name in names:
            if name in self.sizes:
                raise SizeError(
                    f"{name!r} depends on a size that is dynamic",
                    f"Give {shapes_example(self.inputs)}",
                )

    def alias(self, op: Operator, output: str, source: str) -> None:
        """Give a value of the graph a second name, `output`."""
        if source in self.lists:
            self.list(output, self.lists[source])
        elif source in self.sizes:
            self._define(output)
            self.sizes[output], self.specs[output] = (
                self.sizes[source],
                self.specs[source],
            )
        elif source in self.constants:
            self.constant(output, self.constants[source])
        else:
            dtype = self.specs[source].dtype
            self._add(self.fresh(op.name), md.astype, (source, dtype), output, {})
        if source in self.elements:
            self.elements[output] = self.elements[source]

    def array(self, name: str | None) -> Array | None:
        """Return the elements of a value if the file fixes them, otherwise None.

        A value that nodes compute from constants is computed here, as folding does
        later; the graph does not change.

        A value computed from a partly dynamic shape (in `sizes`) has None for each size
        that is not known.
        """
        if name in self.sizes:
            return self.sizes[name]
        if name is not None and name in self.decided:
            return self.decided[name]
        if name not in self.constants and name not in self._fixed:
            return None
        if name not in self._arrays:
            tensor = self._tensor(str(name))
            is_coded = self.specs[name].qparams is not None
            self._arrays[name] = np.asarray(tensor.codes if is_coded else tensor)
        return self._arrays[name]

    def _tensor(self, name: str) -> Any:
        """Return a constant, or compute it from constants."""
        known, waiting = ChainMap(self._computed, self.constants), [name]
        # Not by recursion: a file may have chains of any length.
        while waiting:
            if waiting[-1] in known:
                waiting.pop()
                continue
            node = self._fixed[waiting[-1]]
            if missing := [n for n in node.values if n not in known]:
                waiting += missing
                continue
            size = max(prod(self.specs[node.output].shape), 0)
            self.spending.add_computed(f"node {node.name!r}", size)
            self._computed[node.output] = node(*node.arguments(known))
        return known[name]

    def require_array(self, op: Operator, index: int, what: str) -> Array:
        """Return the elements of an input that must be known while reading.

        Raises:
            ModelError: the input is omitted, or depends on the data.
        """
        name = op.input(index)
        found = self.array(name)
        if found is None or is_dynamic(found):
            error = op.size_error(
                f"needs {what} as a constant", " if it is computed from sizes"
            )
            raise error if name is None else self.undecided(name, error)
        return found

    def undecided(self, name: str, error: ModelError) -> ModelError:
        """Return the error of a value that must be known, and depends on the data.

        It asks for the value if a call can compute it, and is `error` otherwise.
        """
        if name not in self.specs or name in self.sizes:
            return error
        if not is_decidable(self.specs[name]):
            return error
        return DecisionError(error.problem, error.fix, name)

    def unsized(self) -> str | None:
        """Return the first value whose sizes the data decides, as of a NonZero."""
        nodes = self.nodes
        known = {n.values[0] for n in nodes if sizes_of(n.output) in self.decided}
        for node in nodes:
            inputs = (size for name in node.values for size in self.shape(name))
            is_open = -1 in self.shape(node.output) and node.output not in known
            if is_open and -1 not in inputs:
                return node.output
        return None

    def integers(self, op: Operator, index: int, what: str) -> tuple[int, ...]:
        """Return an input that must be known while reading, as Python integers.

        Raises:
            ModelError: the input depends on the data, or does not hold integers.
        """
        found = self.require_array(op, index, what)
        # Sizes computed from shapes are Python integers, in an array of objects.
        if found.dtype.kind not in "iuO":
            problem = f"needs {what} as integers, not {found.dtype}"
            raise op.error(problem, "Export the model again")
        return tuple(map(int, found.reshape(-1)))

    def code(self, name: Any) -> int:
        """Return the number of a value's element type in the file format."""
        if name in self.elements:
            return self.elements[name].code
        dtype = self.specs[name].dtype
        if dtype in CODES:
            return CODES[dtype]
        return _CODES_OF_ELEMENTS[dtype]

    def shape(self, name: Any) -> tuple[int, ...]:
        """Return the shape of a value."""
        return self.specs[name].shape

    def graph(self, outputs: tuple[str, ...]) -> Graph:
        """Return the graph, without the nodes that no output depends on.

        A sequence is as many results as it has elements.
        """
        found = tuple(one for name in outputs for one in self._parts(name))
        self._require_static(found)
        for name in found:
            if name in self.texts:
                problem = f"writes {name!r}, which is text and cannot be a tensor"
                raise self.texts[name].error(problem, WITHOUT_TEXT)
        made = Graph(self.inputs, tuple(self.nodes), self.constants, found)
        return made.pruned()

    def _parts(self, output: str) -> tuple[str, ...]:
        """Return the tensors of an output: itself, or the elements of a sequence."""
        parts = self.lists.get(output, (output,))
        if not parts:
            what = "absent" if parts is None else "a sequence of 0"
            problem = f"the output {output!r} is {what}, and a result is a tensor"
            raise ModelError(problem, WITHOUT_TEXT)
        return parts


def is_dynamic(values: Array) -> bool:
    """Return whether an array contains None, which stands for a dynamic size.

    Only arrays of dtype object can contain None.
    """
    return values.dtype == object and None in values.reshape(-1).tolist()


def as_model_error(where: str, error: Exception) -> ModelError:
    """Convert an error raised while reading to one that names the place in the file."""
    if isinstance(error, MdtensorError):
        return ModelError(f"{where}: {error.problem}", error.fix, error.call)
    if isinstance(error, MemoryError):
        return ModelError(f"{where} does not fit into memory", "Use smaller sizes")
    # Some packages write several lines; the first one has the reason.
    reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    return ModelError(f"{where} is malformed: {reason}", "Export it again")


@contextmanager
def errors_of(op: Operator) -> Iterator[None]:
    """Convert any error inside the block to a ModelError that names the operator.

    Readers raise better errors where they check arguments. A damaged file can make
    readers, NumPy and the package onnx fail in many other ways; this block catches
    these errors.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise as_model_error(str(op), error) from None
