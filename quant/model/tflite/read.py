"""Reading of TFLite files as graphs of operations."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import DataError, ModelError
from mdtensor.graph import Graph
from mdtensor.graph.inputs import (
    Shapes,
    chosen,
    constant_inputs,
    shapes_example,
)
from mdtensor.quant.generics import quantize
from mdtensor.quant.model.budget import Spending
from mdtensor.quant.model.onnx.build import Builder, Operator, errors_of
from mdtensor.quant.model.onnx.outputs import check_outputs
from mdtensor.quant.model.size_error import SizeError
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.calls import call_of, names_of
from mdtensor.quant.model.tflite.elements import element_type, grid_of
from mdtensor.quant.model.tflite.file import (
    FileGraph,
    FileTensor,
    read_file,
)
from mdtensor.quant.model.tflite.operators import READERS
from mdtensor.quant.model.tflite.operators.table import Reader
from mdtensor.quant.model.tflite.operators.variables import WITHOUT_RESULT
from mdtensor.quant.model.tflite.states import initial_values


# A TFLite file becomes the graph of an ONNX file, so that rewrites, plans, rules and
# saving have one path (decision 0057).
def read_tflite(
    path: Any,
    input_shapes: Shapes | None = None,
    spending: Spending | None = None,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
) -> Graph:
    """Read the graph in a TFLite file, operator by operator, without simplifying it.

    Args:
        path: the file.
        input_shapes: shape of each input by name, or of the only input. Sizes of -1
            and inputs without an entry stay as in the file.
        spending: the budget to read within; by default a new one.
        constants: inputs that become constants, by name.
        outputs: the values to compute; by default the outputs of the file.

    Returns:
        A graph whose values have the names of the file. An input of codes is an input
        of numbers, which are quantized first; a result of codes stays one.

    Raises:
        ModelError: the file is not a model, is damaged, or has parts that are not
            supported; the error names the part.
    """
    main, *others = read_file(path)
    reader = _Reader(main, others, spending or Spending(), outputs)
    return reader.graph(input_shapes, constants)


class _Reader:
    """The conversion of the first graph of a file."""

    def __init__(
        self,
        main: FileGraph,
        others: list[FileGraph],
        spending: Spending,
        outputs: Sequence[str] | None,
    ) -> None:
        self._main = main
        self._names = names_of(main)
        self._outputs = list(main.outputs)
        if outputs is not None:
            own = [self._names[at] for at in main.outputs]
            check_outputs(outputs, self._names, own)
            self._outputs = [self._names.index(name) for name in outputs]
        builder = Builder(spending=spending, reserved=frozenset(self._names))
        tensors = dict(zip(self._names, main.tensors, strict=True))
        graphs = (main, *others)
        self._reading = Reading(builder, tensors, graphs=graphs, read=read_operator)

    def graph(
        self, shapes: Shapes | None, constants: Mapping[str, Any] | None
    ) -> Graph:
        g = self._reading
        public = [self._names[at] for at in self._main.inputs]
        self._add_inputs(dict.fromkeys(public), shapes, constants)
        example = shapes_example(g.builder.inputs)
        names = [self._names[at] for at in self._outputs]
        for operator in self._main.operators:
            call = call_of(operator, self._main, self._names, example)
            try:
                read_operator(g, call)
            except SizeError as error:
                # Variables are inputs, which later operators may add.
                if g.variables:
                    raise
                raise error.of(g.builder.inputs, names) from None
        outputs = tuple(self._output(at) for at in self._outputs)
        graph = g.builder.graph(outputs + self._left_states())
        return replace(graph, states=self._initial_states())

    def _add_inputs(
        self,
        names: Mapping[str, Any],
        shapes: Shapes | None,
        constants: Mapping[str, Any] | None,
    ) -> None:
        """Add the inputs of the model, with the shapes that the caller gives."""
        g, tensors = self._reading, self._reading.tensors
        specs = {name: _input_spec(name, tensors[name]) for name in names}
        try:
            fixed = constant_inputs(specs, constants)
            left = {name: spec for name, spec in specs.items() if name not in fixed}
            wanted = chosen(left, shapes)
        except DataError as error:
            raise ModelError(error.problem, error.fix) from None
        for name in names:
            if name in fixed:
                g.builder.spending.add_stored(fixed[name].size)
                g.builder.enter(name, fixed[name])
            else:
                # LiteRT, too, starts with the sizes of the file.
                pairs = zip(wanted[name], tensors[name].shape, strict=True)
                shape = tuple(own if size < 0 else size for size, own in pairs)
                g.builder.input(name, specs[name].with_shape(shape))
            self._quantize_input(name, tensors[name])

    def _quantize_input(self, name: str, tensor: FileTensor) -> None:
        """Let operators read the codes of an input of codes."""
        grid, g = grid_of(tensor), self._reading
        if grid is None:
            return
        codes = g.builder.fresh(f"{name}.codes")
        op = Operator("QUANTIZE", f"{name}.quantize", (name,), (codes,), {}, 0)
        g.builder.call(op, quantize, name, qparams=grid)
        at = self._names.index(name)
        self._names[at] = codes
        g.tensors[codes] = tensor

    def _output(self, at: int) -> str:
        name = self._names[at]
        if not self._reading.enter(name):
            raise ModelError(f"no node writes the output {name!r}", "Export it again")
        return self._reading.rows(name)

    def _left_states(self) -> tuple[str, ...]:
        """Return the results that are the variables after the call."""
        g, found = self._reading, []
        for key, name in g.states.items():
            value = g.real(g.rows(g.variables[key]))
            output = g.builder.fresh(f"{name}.next")
            op = Operator("ASSIGN_VARIABLE", output, (value,), (output,), {}, 0)
            found.append(g.builder.call(op, md.astype, value, g.dtype(value)))
        return tuple(found)

    def _initial_states(self) -> dict[str, Any]:
        """Return the first tensor of each variable, by the name of its input."""
        g = self._reading
        known = initial_values(g.graphs, g.builder.spending)
        found = {}
        for key, name in g.states.items():
            spec = g.builder.inputs[name]
            value = known.get(key, np.zeros(spec.shape, spec.dtype.storage))
            found[name] = md.asarray(value)
            if found[name].shape != spec.shape or type(found[name]) is not spec.type:
                raise ModelError(
                    f"variable {key!r} is {spec}, but begins as "
                    f"{type(found[name]).__name__} of shape {found[name].shape}",
                    "Export it again",
                )
        return found


def _input_spec(name: str, tensor: FileTensor) -> TensorSpec:
    """Return the spec of an input; -1 for each size that the caller may choose."""
    dtype = element_type(tensor.kind, f"input {name!r}")
    if grid_of(tensor) is not None:
        dtype = md.float32
    shape = tensor.signature or (-1,) * len(tensor.shape)
    if len(shape) != len(tensor.shape):
        raise ModelError(
            f"input {name!r} has {len(tensor.shape)} sizes, and {len(shape)} in its "
            "signature",
            "Export it again",
        )
    pairs = zip(shape, tensor.shape, strict=True)
    return TensorSpec(md.leaf(dtype), tuple(-1 if n < 0 else own for n, own in pairs))


def read_operator(g: Reading, op: Call) -> None:
    """Add the calls that one operator of the file stands for.

    Raises:
        ModelError: the operator is not supported, or does not fit its inputs.
    """
    try:
        with errors_of(op):
            _require_values(g, op)
            _reader_of(op)(g, op)
    except ModelError as error:
        if str(op) in error.problem:
            raise
        raise ModelError(f"{op}: {error.problem}", error.fix, error.call) from None


def _reader_of(op: Call) -> Reader:
    """Return the function that reads the operator.

    Raises:
        ModelError: such a function does not exist.
    """
    if op.kind in READERS:
        return READERS[op.kind]
    near = difflib.get_close_matches(op.kind, READERS, n=1, cutoff=0.7)
    known = f"The nearest that is supported is {near[0]}. " if near else ""
    raise op.error(
        "is not supported",
        f"{known}docs/reference/tflite.md lists the supported operators",
    )


def _require_values(g: Reading, op: Call) -> None:
    """Raise for an operator that reads or writes other values than it may.

    Raises:
        ModelError: an output is missing or exists already, or an input does not exist.
    """
    _reader_of(op)
    if not op.outputs and op.kind not in WITHOUT_RESULT:
        raise op.error("does not have an output", "Export it again")
    for name in op.outputs:
        if g.has_value(name):
            raise op.error(f"writes {name!r} a second time", "Export it again")
    for name in filter(None, op.inputs):
        if not g.enter(name):
            raise op.error(f"reads {name!r}, which no earlier node writes")
