"""Graphs of float16 and bfloat16 as graphs of float32 that round each result once.

    y = conv2d(x, w)      y.sum = conv2d(x.wide, w.wide)
                          y.wide = reduce_precision(y.sum, float16)

Compiled steps compute float32. A value of a narrow type is held as the float32 with
the same number, so it is rounded where a call rounds its result, and no bytes change. A
node without a step stays what it is, between casts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mdtensor.dtypes import DType, bfloat16, float16, float32
from mdtensor.errors import MdtensorError
from mdtensor.generics.activation import relu
from mdtensor.generics.arithmetic import (
    abs,
    ceil,
    floor,
    maximum,
    minimum,
    neg,
    round,
    trunc,
)
from mdtensor.generics.conversion import astype, reduce_precision
from mdtensor.generics.indexing import getitem, take, take_along_axis
from mdtensor.generics.manipulation import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
)
from mdtensor.generics.pool import max_pool1d, max_pool2d
from mdtensor.generics.reduction import max, min
from mdtensor.generics.sorting import where
from mdtensor.graph.graph import Graph, Node, fresh_name
from mdtensor.graph.layouts import RESHAPES
from mdtensor.spec.spec import TensorSpec

NARROW = (float16, bfloat16)
#: A number too large becomes an infinity, as in the operation that rounded it.
WRAP = {"casting": "wrap"}
#: Operations whose result is one of their numbers, or another one of the same type.
EXACT = frozenset(
    (
        *(abs, neg, floor, ceil, trunc, round, relu, maximum, minimum, max, min),
        *(where, getitem, take, take_along_axis, concat, stack, reshape, squeeze),
        *(expand_dims, permute_dims, moveaxis, broadcast_to, flip, roll, repeat, tile),
        *(max_pool1d, max_pool2d),
    )
)
#: Operations that give the same number before and after a rounding of their argument.
COMMUTING = (relu, max_pool2d, reshape, permute_dims, squeeze, expand_dims)


@dataclass(frozen=True)
class Widened:
    """A graph that computes narrow floats in float32.

    Args:
        graph: the graph.
        names: the value of the graph that holds each result that has become float32.
        specs: the specs of the original graph.
    """

    graph: Graph
    names: Mapping[str, str]
    specs: Mapping[str, TensorSpec]

    def values(self, seen: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the original graph, in their own types.

        Args:
            seen: the values of `graph` by name.
        """
        if not self.names:
            return seen
        found = {name: x for name, x in seen.items() if name in self.specs}
        for name, wide in self.names.items():
            if wide in seen:
                found[name] = astype(seen[wide], self.specs[name].dtype, **WRAP)
        return found


# Calls of narrow floats compute in float32 and round once; so do plans (decision 0081).
def widen(graph: Graph) -> Widened:
    """Return the graph with float32 nodes for those of float16 and bfloat16.

    Inputs and outputs keep their types.
    """
    specs = graph.specs()
    if not any(spec.dtype in NARROW for spec in specs.values()):
        return Widened(graph, {}, specs)
    return _Widening(graph, specs).result()


class _Widening:
    """A walk over a graph; each narrow value gets its float32 or itself on demand."""

    def __init__(self, graph: Graph, specs: Mapping[str, TensorSpec]) -> None:
        self._graph, self._specs = graph, specs
        self._nodes: list[Node] = []
        self._constants = dict(graph.constants)
        self._taken = {*specs, *(node.name for node in graph.nodes)}
        self._counts: dict[str, int] = {}
        #: The names of values as float32: narrow ones, and those cast from them. Then
        #: the names of narrow values as they are.
        self._wide: dict[str, str] = {}
        self._narrow = {name: name for name in (*graph.inputs, *graph.constants)}
        #: Values that their only reader rounds.
        self._unrounded: set[str] = set()

    def result(self) -> Widened:
        for node in self._graph.nodes:
            self._add(node)
        for name in self._graph.outputs:
            self._narrowed(name)
        nodes, constants = tuple(self._nodes), self._constants
        made = replace(self._graph, nodes=nodes, constants=constants)
        results = self._graph.producers
        names = {name: wide for name, wide in self._wide.items() if name in results}
        return Widened(made, names, self._specs)

    def _add(self, node: Node) -> None:
        """Append the nodes that compute what `node` computes."""
        if self._is_same(node):
            self._wide[node.output] = self._widened(node.values[0])
            return
        wide = self._as_float32(node)
        if wide is None:
            inputs = tuple(map(self._narrowed, node.inputs))
            self._nodes.append(node.rewired(inputs=inputs))
            self._narrow[node.output] = node.output
            return
        name, dtype = node.output, self._type(node.output)
        if dtype not in NARROW:
            self._nodes.append(wide)
            return
        made = self._fresh(f"{name}.wide")
        self._nodes.append(wide.rewired(output=made))
        reads_unrounded = not self._unrounded.isdisjoint(node.values)
        if wide.operation is not reduce_precision and (
            node.operation not in EXACT or reads_unrounded
        ):
            if self._is_rounded_later(node):
                self._unrounded.add(name)
            else:
                made = self._append(reduce_precision, f"{name}.rounded", made, dtype)
        self._wide[name] = made

    def _as_float32(self, node: Node) -> Node | None:
        """Return the node on float32; None if it stays as it is."""
        if not any(map(self._is_narrow, (*node.values, node.output))):
            return node.rewired(inputs=tuple(map(self._widened, node.inputs)))
        if node.operation is astype:
            return self._cast(node)
        options = {key: _wide_type(x) for key, x in node.options.items()}
        found = replace(node, options=options)
        given = [self._spec(x) for x in node.inputs]
        try:
            # A reshape of a compiled part needs no step.
            prepare = found.select(*given).method.prepare
            if prepare is None and found.operation not in RESHAPES:
                return None
            after = found.infer(*given)
        except MdtensorError:
            return None
        wanted = self._specs[node.output]
        if after != _widened_spec(wanted):
            return None
        return replace(found, inputs=tuple(map(self._widened, node.inputs)))

    def _is_same(self, node: Node) -> bool:
        """Return whether a node casts a narrow value to its own type, or to float32."""
        if node.operation is not astype or not self._is_narrow(node.values[0]):
            return False
        own, after = self._type(node.values[0]), self._type(node.output)
        # A result of the graph has a name and a type of its own.
        return after in (own, float32) and node.output not in self._graph.outputs

    def _cast(self, node: Node) -> Node | None:
        """Return a cast of floats to a narrow type as a rounding; None for others.

        Policies other than `wrap` look at the numbers.
        """
        x = node.values[0]
        before, after = self._type(x), self._type(node.output)
        is_wrapped = node.options.get("casting") == "wrap"
        if before not in (*NARROW, float32) or after not in NARROW or not is_wrapped:
            return None
        return Node(node.name, reduce_precision, (self._widened(x), after), node.output)

    def _is_rounded_later(self, node: Node) -> bool:
        """Return whether the only reader can round in place of this node."""
        reader = self._graph.only_consumer(node.output)
        if reader is None or reader.operation not in COMMUTING:
            return False
        return self._is_narrow(reader.output)

    def _type(self, name: str) -> DType:
        return self._specs[name].dtype

    def _is_narrow(self, name: Any) -> bool:
        return isinstance(name, str) and self._type(name) in NARROW

    def _spec(self, given: Any) -> Any:
        """Return the spec of an argument on float32, or what is no value."""
        if not isinstance(given, str):
            return given
        return _widened_spec(self._specs[given])

    def _widened(self, name: Any) -> Any:
        """Return the name of a value that holds the numbers of `name` as float32."""
        if isinstance(name, str) and name in self._wide:
            return self._wide[name]
        if not self._is_narrow(name):
            return _wide_type(name)
        constant = self._graph.constants.get(name)
        if constant is None:
            found = self._append(astype, f"{name}.wide", name, float32)
        else:
            found = self._fresh(f"{name}.wide")
            self._constants[found] = astype(constant, float32)
        self._wide[name] = found
        return found

    def _narrowed(self, name: Any) -> Any:
        """Return the name of a value of the type of `name`."""
        if not self._is_narrow(name):
            return self._wide.get(name, name) if isinstance(name, str) else name
        if name in self._narrow:
            return name
        made, given = self._fresh(f"{name}.narrow"), self._wide[name]
        self._nodes.append(Node(made, astype, (given, self._type(name)), name, WRAP))
        self._narrow[name] = name
        return name

    def _append(self, operation: Any, stem: str, *inputs: Any) -> str:
        """Append a node that is called like its result; return the name."""
        name = self._fresh(stem)
        self._nodes.append(Node(name, operation, inputs, name))
        return name

    def _fresh(self, stem: str) -> str:
        return fresh_name(stem, self._taken, self._counts)


def _wide_type(given: Any) -> Any:
    """Return float32 for a narrow type, and any other argument as it is."""
    return float32 if given in NARROW else given


def _widened_spec(spec: TensorSpec) -> TensorSpec:
    return spec.with_dtype(float32) if spec.dtype in NARROW else spec
