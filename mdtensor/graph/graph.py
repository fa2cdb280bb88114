"""Graphs of operations: the form of a model between its file and its plan.

A node is a call of a generic function, so running a graph is a series of dispatched
calls, with the methods and the guarantees of the library. Graphs are immutable: a
rewrite returns a new graph.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from mdtensor.dispatch.settings import default_settings, run_under
from mdtensor.errors import MdtensorError, ModelError
from mdtensor.graph.calls import spec_of
from mdtensor.graph.inputs import checked_feeds
from mdtensor.spec.spec import TensorSpec

#: A function of the name and the tensor of a value, called while a graph runs.
Observe = Callable[[str, Any], None]


@dataclass(frozen=True)
class Node:
    """One call of an operation.

    Args:
        name: a name that is unique in the graph; the name in the model file, if any.
        operation: the generic function.
        inputs: names of values; any other entry (None, an element type) is passed
            to the operation unchanged.
        output: name of the result.
        options: keyword arguments of the call.
    """

    name: str
    operation: Any
    inputs: tuple[Any, ...]
    output: str
    options: Mapping[str, Any] = field(default_factory=dict)
    # Rewrites leave most nodes unchanged and infer all specs again after each change,
    # so each node remembers its last inference.
    _inferred: tuple[tuple[Any, ...], TensorSpec] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Return the inputs that are values of the graph."""
        return tuple(name for name in self.inputs if isinstance(name, str))

    def arguments(self, known: Mapping[str, Any]) -> list[Any]:
        """Return the inputs, each name replaced by its value in `known`."""
        return [known[x] if isinstance(x, str) else x for x in self.inputs]

    def rewired(
        self, inputs: tuple[Any, ...] | None = None, output: str | None = None
    ) -> Node:
        """Return the same call with other names for the values it reads or writes."""
        made = replace(
            self,
            inputs=self.inputs if inputs is None else inputs,
            output=self.output if output is None else output,
        )
        # The inferred spec depends on the specs of the inputs, not on their names. The
        # dataclass is frozen, hence `object.__setattr__`.
        object.__setattr__(made, "_inferred", self._inferred)
        return made

    def with_spec(self, spec: TensorSpec, *specs: Any) -> Node:
        """Return the node with the known spec of its result, for arguments `specs`."""
        made = replace(self)
        object.__setattr__(made, "_inferred", (specs, spec))
        return made

    def __call__(self, *arguments: Any) -> Any:
        if self.operation.operation.sequence:
            return self.operation(arguments, **self.options)
        return self.operation(*arguments, **self.options)

    def select(self, *specs: Any) -> Any:
        """Return the method that runs for arguments of these specs."""
        types = [x.type if isinstance(x, TensorSpec) else type(x) for x in specs]
        return self.operation.select(*types)

    def infer(self, *specs: Any) -> TensorSpec:
        """Return the spec of the result without computing any data.

        The spec for the last arguments is cached, so graphs that share a node infer it
        once.
        """
        if self._inferred is not None and self._inferred[0] == specs:
            return self._inferred[1]
        # The blocks around a caller, such as `rounding(...)`, must not change a model.
        deduce = self.select(*specs).deduce
        found: TensorSpec = run_under(
            default_settings(), deduce, *specs, **self.options
        )
        object.__setattr__(self, "_inferred", (specs, found))
        return found

    def __str__(self) -> str:
        given = [str(x) for x in self.inputs if x is not None]
        given += [f"{key}={value}" for key, value in self.options.items()]
        return f"{self.output} = {self.operation.__name__}({', '.join(given)})"


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes, in an order in which they can run.

    Args:
        inputs: spec of each input by name; a size of -1 stands for any size.
        nodes: each reads inputs, constants and results of nodes before it.
        constants: tensors by name.
        outputs: names of the results.
        notes: the reasons why nodes stay float, by the name of the node. `fold_grids`
            leaves such a node between dequantize and quantize.
        rounding: the rounding rule that the grids of all quantized nodes carry.
        states: the first value of each input that is the state of a stream, by name. As
            many results, the last ones, are the values for the next call.

    Raises:
        ModelError: a value is written twice, or is read but never written; two nodes
            have the same name.
    """

    inputs: Mapping[str, TensorSpec]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Any]
    outputs: tuple[str, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    rounding: str = "exact"
    states: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {**self.inputs, **self.constants}
        # The union of two dicts hides a name that both have; its length shows it.
        if len(known) < len(self.inputs) + len(self.constants):
            both = sorted(set(self.inputs) & set(self.constants))[0]
            raise ModelError(
                f"{both!r} is an input and a constant", "Rename one of them"
            )
        names: set[str] = set()
        for node in self.nodes:
            _check_node(node, known, names)
            known[node.output] = node
            names.add(node.name)
        for name in self.outputs:
            if name not in known:
                raise ModelError(
                    f"no node writes the output {name!r}",
                    "Name an output that a node writes",
                )

    @cached_property
    def producers(self) -> dict[str, Node]:
        """Return the node that writes each value, by the name of the value."""
        return {node.output: node for node in self.nodes}

    @cached_property
    def consumers(self) -> dict[str, list[Node]]:
        """Return the nodes that read each value; a value without readers has []."""
        found: dict[str, list[Node]] = {name: [] for name in self._values()}
        for node in self.nodes:
            # `x * x` reads x twice; it is one reader, not two.
            for name in dict.fromkeys(node.values):
                found[name].append(node)
        return found

    def _values(self) -> list[str]:
        return [*self.inputs, *self.constants, *(node.output for node in self.nodes)]

    def only_consumer(self, value: str) -> Node | None:
        """Return the only node that reads `value`; None unless there is exactly one."""
        readers = self.consumers[value]
        if len(readers) != 1 or value in self.outputs:
            return None
        return readers[0]

    def specs(self) -> Mapping[str, TensorSpec]:
        """Return type, shape and grid of every value, inferred once, without data.

        Raises:
            ModelError: a node does not accept its arguments.
        """
        # All callers share the cache, so they get a view that they cannot change.
        return MappingProxyType(self._specs)

    @cached_property
    def _specs(self) -> dict[str, TensorSpec]:
        found = dict(self.inputs)
        found |= {name: spec_of(tensor) for name, tensor in self.constants.items()}
        for node in self.nodes:
            found[node.output] = infer_spec(node, found)
        return found

    def run(
        self, feeds: Mapping[str, Any], observe: Observe | None = None
    ) -> dict[str, Any]:
        """Compute the outputs for these inputs, one dispatched call after the other.

        Args:
            feeds: a tensor or NumPy array for each input; calls of lazy tensors are
                recorded, as everywhere.
            observe: called with the name and the tensor of every input and result.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
            MdtensorError: an operation raises it; it names the node.
        """
        given = checked_feeds(self.inputs, feeds, records=True)
        known, alone = {**self.constants, **given}, default_settings()
        if observe:
            for name in given:
                observe(name, known[name])
        for node, dead in zip(self.nodes, self._dead_after, strict=True):
            # The blocks around a caller must not change the results of a model.
            try:
                arguments = node.arguments(known)
                known[node.output] = run_under(alone, node, *arguments)
            except MdtensorError as error:
                raise name_node(error, node) from None
            if observe:
                observe(node.output, known[node.output])
            # Release intermediate tensors early: a network has hundreds of them.
            for name in dead:
                del known[name]
        return {name: known[name] for name in self.outputs}

    @cached_property
    def _dead_after(self) -> list[list[str]]:
        """Return for each node the values that no later node reads."""
        needed = set(self.outputs)
        dead: list[list[str]] = []
        for node in reversed(self.nodes):
            names = {*node.values, node.output} - needed
            dead.append(sorted(names))
            needed |= names
        return dead[::-1]

    def rewritten(
        self,
        nodes: Mapping[str, Node | None] | None = None,
        constants: Mapping[str, Any] | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> Graph:
        """Replace some nodes, then remove nodes and constants that no output needs.

        Args:
            nodes: new nodes, by the output of the node that each replaces; None drops
                the node.
            constants: additional constants; a node that wrote one of these values is
                dropped.
            renames: old name to new name: readers of the old value read the new one.
        """
        added, alias = constants or {}, renames or {}
        changed = {**(nodes or {}), **dict.fromkeys(added)}
        places = [changed.get(node.output, node) for node in self.nodes]
        remaining = [_rename_inputs(node, alias) for node in places if node]
        joint = {**self.constants, **added}
        outputs = tuple(_resolve(name, alias) for name in self.outputs)
        return prune(self, remaining, joint, outputs)

    def pruned(self) -> Graph:
        """Remove the nodes and constants that no output needs."""
        return prune(self, self.nodes, self.constants, self.outputs)

    def fresh(self, stem: str) -> str:
        """Return a name, made from `stem`, that no value and no node has yet."""
        return fresh_name(stem, self._names)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset({*self._values(), *(node.name for node in self.nodes)})

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        return f"Graph({given}; {len(self.nodes)} nodes)"

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"  {node}" for node in self.nodes)])


def prune(
    graph: Graph,
    nodes: Sequence[Node],
    constants: Mapping[str, Any],
    outputs: tuple[str, ...],
) -> Graph:
    """Return `graph` with the nodes and constants that `outputs` need."""
    needed = set(outputs)
    remaining: list[Node] = []
    # Backwards: a node is needed only if a later node or an output reads its result.
    for node in reversed(nodes):
        if node.output in needed:
            needed.update(node.values)
            remaining.append(node)
    names = {node.name for node in remaining}
    return replace(
        graph,
        nodes=tuple(remaining[::-1]),
        constants={n: t for n, t in constants.items() if n in needed},
        outputs=outputs,
        notes={n: text for n, text in graph.notes.items() if n in names},
    )


def name_node(error: MdtensorError, node: Node) -> MdtensorError:
    """Return the error of a call with the name of the node that made the call."""
    problem = f"{error.problem}, in node {node.name!r}"
    return type(error)(problem, *error.args[1:])


def infer_spec(node: Node, specs: Mapping[str, TensorSpec]) -> TensorSpec:
    """Return the spec of a node's result.

    Raises:
        ModelError: the node does not accept its arguments; the error names the node.
    """
    try:
        return node.infer(*node.arguments(specs))
    except MdtensorError as error:
        raise ModelError(
            f"node {node.name!r} cannot take its arguments: {error.problem}",
            error.fix,
            _signature(node, specs),
        ) from None


def _signature(node: Node, specs: Mapping[str, TensorSpec]) -> str:
    given = ", ".join(map(str, (x for x in node.arguments(specs) if x is not None)))
    return f"{node.operation.__name__}({given})"


def _check_node(node: Node, known: Mapping[str, Any], names: set[str]) -> None:
    for name in node.values:
        if name not in known:
            raise ModelError(
                f"node {node.name!r} reads {name!r}, which no earlier node writes",
                "Order nodes so that each reads only inputs, constants and earlier "
                "results",
            )
    if node.output in known:
        raise ModelError(
            f"{node.output!r} is written twice, the second time by {node.name!r}",
            "Give each result a name of its own",
        )
    if node.name in names:
        raise ModelError(f"two nodes are called {node.name!r}", "Rename one of them")


def fresh_name(
    stem: str, taken: Container[str], last: dict[str, int] | None = None
) -> str:
    """Return `stem`, or `stem` with the first number that makes the name new.

    Args:
        stem: the start of the name.
        taken: the names that exist; they must only grow if you pass `last`.
        last: the last number for each stem so far, updated. Without it, thousands of
            names with one stem would each count from 1.
    """
    numbers = {} if last is None else last
    name, count = stem, numbers.get(stem, 0)
    if count:
        name = f"{stem}.{count}"
    while name in taken:
        count += 1
        name = f"{stem}.{count}"
    numbers[stem] = count
    return name


def _rename_inputs(node: Node, alias: Mapping[str, str]) -> Node:
    if alias.keys().isdisjoint(node.values):
        return node  # the same object keeps its cached inference
    inputs = tuple(_resolve(x, alias) if isinstance(x, str) else x for x in node.inputs)
    return node.rewired(inputs)


def _resolve(name: str, alias: Mapping[str, str]) -> str:
    # A rewrite may drop several identities in a row, so follow the whole chain.
    while name in alias:
        name = alias[name]
    return name
