"""Calls of a graph whose plan exists: the parts of the plan, ready to run.

    key     the type and shape of each input, as the caller passes it
    hit     the `BoundPlan` for the key runs its parts on a dict of values
    miss    the caller converts and validates the inputs, and makes or finds a plan

A plan has three kinds of parts: compiled steps, calls of a function that dispatch
selected when the plan was made, and layers whose constants are packed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mdtensor.dispatch.settings import run_under
from mdtensor.errors import AllocationError, CastError, MdtensorError
from mdtensor.graph.graph import Graph, Node, name_node
from mdtensor.graph.layouts import is_plain, slot_shape, storage
from mdtensor.graph.storage import FLOATS
from mdtensor.kernels.cpu.program.program import Executable, HasNaN
from mdtensor.kernels.numpy.threads import chosen, of_steps
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

Values = dict[str, Any]
_new = object.__new__
_OF_BUFFER = Tensor.shape


# Rounding, instruction set and threads are not part of the key: a plan has its own
# rules and kernels, and the number of threads is read when steps run (decision 0048).
def key_of(inputs: tuple[Any, ...]) -> Hashable:
    """Return types and shapes of inputs; None if an input must be converted first."""
    key: list[Any] = []
    for x in inputs:
        kind = type(x)
        if kind is np.ndarray:
            key += kind, x.dtype, x.shape
        elif getattr(kind, "shape", None) is _OF_BUFFER:
            key += kind, x.buffer.shape
        else:
            return None
    return tuple(key)


def in_order(
    names: Mapping[str, Any], inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """Return the inputs of a call in the order of `names`.

    Args: inputs, named: the arguments; the only one of `inputs` may be a dict by name.

    Returns: None if some are given by name, and not each once.
    """
    given = named
    if len(inputs) == 1 and not named and type(inputs[0]) is dict:
        given = inputs[0]
    elif not named:
        return inputs
    elif inputs:
        return None
    if given.keys() != names.keys():
        return None
    return tuple([given[name] for name in names])


class BoundPlan:
    """The parts of a plan, for inputs of fixed types and shapes.

    Args:
        graph: the graph that the parts compute; all of its shapes are known.
        parts: the parts of the plan, in order.
        joined: the same, with neighbours as one part; None for `parts`.
    """

    __slots__ = ("_joined", "call", "constants", "inputs", "outputs", "parts", "reads")

    def __init__(
        self,
        graph: Graph,
        parts: tuple[Part, ...],
        joined: tuple[Any, ...] | None = None,
    ) -> None:
        self._joined = parts if joined is None else joined
        self.inputs = tuple((name, spec.type) for name, spec in graph.inputs.items())
        # A compiled part copies its results out of its memory, each once.
        fresh = {n for part in parts if isinstance(part, Compiled) for n in part.writes}
        is_first = (
            name not in graph.outputs[:i] for i, name in enumerate(graph.outputs)
        )
        self.outputs = tuple(
            (name, name in fresh and first, name in graph.producers)
            for name, first in zip(graph.outputs, is_first, strict=True)
        )
        read = {*graph.outputs, *(name for part in parts for name in part.reads)}
        self.reads = tuple(read.intersection(graph.constants))
        self.constants, self.parts = graph.constants, parts
        #: What a steady call runs: this plan, or its only part.
        self.call = self._found_alone() or self._run

    def _found_alone(self) -> Callable[..., tuple[Any, ...]] | None:
        """Return the call of the only part, if all it reads comes in."""
        is_own = all(is_fresh for _, is_fresh, _ in self.outputs)
        if len(self.parts) != 1 or not is_own or self.reads:
            return None
        (part,) = self.parts
        names = [name for name, _ in self.inputs]
        if not isinstance(part, Compiled) or not part.reads.keys() <= {*names}:
            return None
        return Alone(part, self.inputs, [name for name, _, _ in self.outputs])

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the outputs in order.

        Args:
            inputs: in order: tensors of the types and shapes of the plan, or arrays
                that are the buffers of such tensors.
        """
        return self.call(*inputs)

    def _run(self, *inputs: Any) -> tuple[Any, ...]:
        # Constants are read at each call, because a call sees writes into those that
        # no step has packed.
        values = {name: self.constants[name] for name in self.reads}
        for (name, kind), x in zip(self.inputs, inputs, strict=True):
            values[name] = x if type(x) is kind else wrap(kind, x)
        for part in self._joined:
            part.run(values)
        results = []
        for name, is_fresh, is_made in self.outputs:
            found = values[name]
            # A result must not share bytes with a constant or an input.
            is_own = is_fresh or (is_made and found.buffer.base is None)
            results.append(found if is_own else deepcopy(found))
        return tuple(results)


def wrap(kind: type[Tensor], buffer: Any) -> Tensor:
    """Return `kind.wrap(buffer)`, without a call into another file."""
    tensor = _new(kind)
    tensor.buffer = buffer
    return tensor


@dataclass(frozen=True)
class Compiled:
    """Nodes that run in one compiled call.

    Args:
        nodes: the nodes in order; a view does not have a step.
        steps: the step of each node, or None.
        places: for each node the numbers of its steps in the program; the last step
            writes its result.
        macs: the multiply-accumulates of each node.
        reads, writes: the names and specs of the values that go in and come out.
        in_rows: the names of values of four axes that are row-major; others of four
            axes are channels last.
        rounded: the node that rounds each value in which the program refuses NaN.
    """

    nodes: tuple[Node, ...]
    steps: tuple[Any, ...]
    places: tuple[range, ...]
    macs: tuple[int, ...]
    executable: Executable
    reads: Mapping[str, TensorSpec]
    writes: Mapping[str, TensorSpec]
    in_rows: frozenset[str]
    rounded: tuple[Node, ...] = ()

    def run(self, values: Values) -> None:
        """Run the nodes, and add their results to `values`."""
        arrays = [read(values[name]) for name, read in self.readers]
        results = self.compute(arrays)
        for (name, write), array in zip(self.writers, results, strict=True):
            values[name] = write(array)

    def compute(self, arrays: list[Any]) -> Any:
        """Return an array for each result, given one for each input."""
        return self._call(self.executable, arrays, threads=of_steps())

    @cached_property
    def readers(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        """Return for each input its name, and the function that reads its elements."""
        return tuple(
            (name, _reader(spec, self.is_in_rows(name, spec)))
            for name, spec in self.reads.items()
        )

    @cached_property
    def writers(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        """Return for each result its name, and the function that makes its tensor."""
        return tuple(
            (name, _writer(spec, self.is_in_rows(name, spec)))
            for name, spec in self.writes.items()
        )

    def is_plain(self, name: str) -> bool:
        """Return whether the buffer of an input is what the part reads."""
        spec = self.reads[name]
        is_float = storage(spec).read is FLOATS and is_plain(spec)
        return is_float and (spec.ndim != 4 or self.is_in_rows(name, spec))

    def is_in_rows(self, name: str, spec: TensorSpec) -> bool:
        """Return whether a value that goes in or out does so in rows, as floats do."""
        return name in self.in_rows or not storage(spec).has_images

    def _call(self, act: Callable[..., Any], arrays: list[Any], **options: Any) -> Any:
        try:
            return act(*arrays, **options)
        except HasNaN as error:
            node = self.rounded[error.args[0]]
            problem = f"cannot quantize NaN, in node {node.name!r}"
            raise CastError(problem, "Replace NaNs first", "quantize") from None
        except MemoryError:
            raise too_large(self.nodes, self.executable.arena_bytes) from None

    def intermediate(self, values: Values) -> list[Any]:
        """Return the result of every node, in order; None for a view."""
        arrays = [read(values[name]) for name, read in self.readers]
        found = self._call(self.executable.values, arrays, threads=chosen())
        return [found[place[-1]] if place else None for place in self.places]

    @property
    def pieces(self) -> list[int]:
        """Return the number of pieces into which each node is cut, in order."""
        found = self.executable.pieces
        return [found[place[-1]] if place else 1 for place in self.places]

    @property
    def done_by(self) -> list[Node]:
        """Return for each node the node whose step does its work, most often itself."""
        owners = [n for n, p in zip(self.nodes, self.places, strict=True) for _ in p]
        by = self.executable.done_by
        pairs = zip(self.nodes, self.places, strict=True)
        return [owners[by[place[-1]]] if place else node for node, place in pairs]

    @property
    def kernels(self) -> list[str]:
        """Return the kernel and ISA of each node that does its own work, in order."""
        rows = zip(self.nodes, self.steps, self.done_by, strict=True)
        own = [step for node, step, by in rows if step is not None and node is by]
        return [f"{step.kernel} on {step.runway}" for step in own]

    def profile(self, values: Values, repeat: int) -> list[float]:
        """Return the shortest time of each node in `repeat` runs, in seconds."""
        arrays = [read(values[name]) for name, read in self.readers]
        found = self._call(self.executable.profile, arrays, repeat=repeat)
        return [float(sum(found[i] for i in place)) for place in self.places]


# In a small network a dict of values takes as long as the numbers (decision 0113).
class Alone:
    """The call of a compiled part that is all of a plan.

    Args:
        part: the part.
        inputs: the name and type of each input of the plan; the part may not read all.
        outputs: the names of the results.
    """

    __slots__ = ("_part", "_read", "_write")

    def __init__(
        self, part: Compiled, inputs: Iterable[tuple[str, Any]], outputs: list[str]
    ) -> None:
        given = {name: (i, kind) for i, (name, kind) in enumerate(inputs)}
        self._part = part
        self._read = [
            (*given[name], None if part.is_plain(name) else read)
            for name, read in part.readers
        ]
        places = {name: (i, write) for i, (name, write) in enumerate(part.writers)}
        self._write = [places[name] for name in outputs]

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the outputs in order, given tensors or the buffers of tensors."""
        arrays = []
        for i, kind, read in self._read:
            x = inputs[i]
            if read is None:
                arrays.append(x if type(x) is np.ndarray else x.buffer)
            else:
                arrays.append(read(x if type(x) is kind else wrap(kind, x)))
        results = self._part.compute(arrays)
        return tuple([write(results[i]) for i, write in self._write])


@dataclass(frozen=True)
class Called:
    """One node that runs as a call of the function that was selected for its types."""

    node: Node
    selection: Any
    options: Mapping[str, Any]
    reason: str
    settings: tuple[Any, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the names of the values that the node reads."""
        return self.node.values

    def run(self, values: Values) -> None:
        """Add what the node writes to `values`."""
        arguments = [values[x] if isinstance(x, str) else x for x in self.node.inputs]
        # The blocks around the caller must not change the results of a plan.
        act = self.selection.function
        try:
            found = run_under(self.settings, act, *arguments, **self.options)
        except MdtensorError as error:
            raise name_node(error, self.node) from None
        except MemoryError:
            raise too_large((self.node,)) from None
        values[self.node.output] = found


@dataclass(frozen=True)
class Viewed(Called):
    """A `reshape` or the like, whose result is a view of a known shape."""

    spec: TensorSpec

    def run(self, values: Values) -> None:
        """Add what the node writes to `values`."""
        buffer = values[self.node.inputs[0]].buffer
        found = buffer.reshape(self.spec.shape)
        values[self.node.output] = wrap(self.spec.type, found)


# Types, shapes and options were checked when the plan was made (decision 0083).
@dataclass(frozen=True)
class Direct(Called):
    """A call whose method has a function of buffers for types and shapes that fit.

    Args:
        spec: of the result.
        act: returns the buffer of the result, given those of the tensor arguments. It
            raises IndexError where the method raises an error.
    """

    spec: TensorSpec
    act: Callable[..., Any]

    def run(self, values: Values) -> None:
        """Add what the node writes to `values`."""
        try:
            found = self.act(*[values[name].buffer for name in self.node.values])
        except (IndexError, MemoryError):
            # The method names the argument in its error.
            super().run(values)
        else:
            values[self.node.output] = wrap(self.spec.type, found)


class Layer(Protocol):
    """A function of one tensor, with constants that are packed for its kernel.

    `layer` has the name of the kernel, its ISA, and the multiply-accumulates.
    """

    layer: Any

    def __call__(self, x: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class FloatLayer:
    """A node that computes in float and whose constants are packed once.

    Args:
        layer: a function that returns the node's result for its first argument.
    """

    node: Node
    selection: Any
    layer: Layer

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the names of the values that the node reads."""
        return self.node.values

    def run(self, values: Values) -> None:
        """Add what the node writes to `values`."""
        try:
            values[self.node.output] = self.layer(values[self.node.values[0]])
        except MdtensorError as error:
            raise name_node(error, self.node) from None
        except MemoryError:
            raise too_large((self.node,)) from None


Part = Compiled | Called | FloatLayer


def too_large(nodes: tuple[Node, ...], size: int | None = None) -> AllocationError:
    """Return the error of nodes whose values need too much memory.

    Args:
        nodes: the nodes of one part.
        size: the bytes of their values, if known.
    """
    first, last = nodes[0].name, nodes[-1].name
    of = f"node {first!r}" if len(nodes) == 1 else f"nodes {first!r} to {last!r}"
    needed = "" if size is None else f": they need {size:,} bytes"
    return AllocationError(
        f"the values of {of} do not fit into memory{needed}", "Use smaller inputs"
    )


def _reader(spec: TensorSpec, in_rows: bool) -> Callable[[Any], Any]:
    """Return the function that reads a tensor in the order of a compiled part."""
    found = storage(spec)
    if spec.ndim != 4 or in_rows:
        return found.read
    return lambda x: found.read(x).transpose(0, 2, 3, 1)


def _writer(spec: TensorSpec, in_rows: bool) -> Callable[[Any], Any]:
    """Return the function from the bytes of a compiled part to a tensor of `spec`."""
    # Elementwise steps see the first two of four axes as one.
    kind, shape, made = spec.type, slot_shape(spec, in_rows), storage(spec).wrap
    is_image = spec.ndim == 4 and not in_rows

    def write(array: Any) -> Any:
        if array.shape != shape:
            array = array.reshape(shape)
        if is_image:
            array = array.transpose(0, 3, 1, 2)
        return wrap(kind, array) if made is None else made(array, spec)

    return write


def from_slot(array: Any, spec: TensorSpec, in_rows: bool = False) -> Any:
    """Return the tensor of `spec` whose bytes a compiled part wrote."""
    return _writer(spec, in_rows)(array)
