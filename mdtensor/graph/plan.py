"""Plans: for each node the selected method, the step or call that runs it, and why.

Methods are selected once, here, for the types that flow through the graph; a call
invokes what was selected.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import wrap
from typing import Any

from mdtensor.dispatch.settings import default_settings, run_under
from mdtensor.errors import OptionError, shown
from mdtensor.generics.conv import conv2d
from mdtensor.generics.dynamic_quantization import dynamic_conv2d, dynamic_matmul
from mdtensor.generics.dynamic_recurrent import dynamic_lstm
from mdtensor.generics.matmul import linear, matmul
from mdtensor.graph.bound import (
    BoundPlan,
    Called,
    Compiled,
    FloatLayer,
    Part,
    from_slot,
)
from mdtensor.graph.calls import spec_of
from mdtensor.graph.graph import Graph, Node
from mdtensor.graph.inputs import fed
from mdtensor.graph.lower import lower
from mdtensor.graph.narrow import widen
from mdtensor.graph.runs import joined
from mdtensor.graph.united import united
from mdtensor.kernels.cpu.program.steps import F32
from mdtensor.spec.spec import TensorSpec

#: Why a node of a model that is not quantized is float.
FLOAT_VALUES = "its values are floats"
#: Operations on floats that multiply integers, on grids of each call.
DYNAMIC = (dynamic_matmul, dynamic_conv2d, dynamic_lstm)
#: The line that replaces this reason for each node.
NOT_QUANTIZED = "all nodes are float: the model is not quantized"


def is_not_quantized(nodes: Iterable[tuple[str, str]]) -> bool:
    """Return whether all nodes compute in float because their values are floats.

    Args:
        nodes: `arithmetic` and `why` of each node.
    """
    found = set(nodes)
    has_integers = any(kind == "integer" for kind, _ in found)
    return ("float", FLOAT_VALUES) in found and not has_integers


@dataclass(frozen=True)
class PlannedNode:
    """One node of a plan: the method and kernel that run it, and its costs.

    Args:
        node: the name of the node.
        operation: the generic function.
        signature: the types of the arguments.
        method: the selected method: its signature and place in the source.
        kernel: the kernel that computes it.
        isa: the instruction set of the kernel.
        arithmetic: `integer`, `float` or `view`.
        why: the reason why the node is not one compiled integer step; empty if it is.
        macs: the number of multiply-accumulates.
        shape: the shape of the result.
        pieces: how many pieces threads may share, see `quant.threads`; 1 if not cut.
        weights: the type of the weights of a product and which of them share a scale;
            empty for other nodes.
        bits: the bits of a weight, including its share of the scales.
        within: the node whose lookup table contains this node and does its work; empty
            if the node does its own work.
    """

    node: str
    operation: str
    signature: str
    method: str
    kernel: str
    isa: str
    arithmetic: str
    why: str
    macs: int
    shape: tuple[int, ...]
    pieces: int
    weights: str
    bits: float
    within: str = ""

    @property
    def runway(self) -> str:
        """Return `isa`, under its former name."""
        return self.isa


#: Operations with weights, whose types and bits a plan shows.
PRODUCTS = (conv2d, linear, matmul)
#: The longest text of a cell in a plan that prints itself, and the number of nodes that
#: it lists for a reason. `UNBOUND` is the width without a terminal.
MOST, FEW, UNBOUND = {"node": 24, "kernel": 32, "types": 24, "weights": 24}, 3, 160
#: What a printed plan says of each node, here and in `mdtensor run --plan`.
COLUMNS = (
    *("node", "operation", "kernel", "ISA", "types", "result", "MACs"),
    *("weights", "bits", "pieces", "arithmetic", "why"),
)


def cells(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each of `COLUMNS` for a PlannedNode as a dictionary."""
    types = node["signature"].partition("(")[2].rstrip(")").replace("Tensor", "")
    types = types.replace("NoneType", "None")
    more = {
        "kernel": f"in {node['within']}" if node["within"] else node["kernel"],
        "ISA": node["isa"],
        "types": types,
        "result": "x".join(map(str, node["shape"])),
        "MACs": f"{node['macs']:,}" if node["macs"] else "",
        "bits": f"{node['bits']:.3g}" if node["bits"] else "",
    }
    return {head: more.get(head, str(node.get(head, ""))) for head in COLUMNS}


class Plan:
    """A graph with known shapes, ready to run.

    Args:
        graph: what the plan computes.
        reasons: why operations without a compiled step run as calls, if there is more
            to say about them.

    Raises:
        ModelError: a node cannot take its arguments.
        DispatchError: a node has no method for its types.
    """

    def __init__(self, graph: Graph, reasons: Mapping[Any, str] | None = None) -> None:
        self._wide = widen(graph)
        self._graph, steps = graph, self._wide.graph
        self._specs = steps.specs()
        # The blocks around the caller must not change a plan, which is kept.
        self._parts: tuple[Part, ...] = run_under(
            default_settings(), lower, steps, reasons
        )
        whole = joined(united(self._parts, steps), steps.outputs)
        self.bound = BoundPlan(steps, self._parts, whole)
        self.nodes = tuple(self._planned())

    @property
    def graph(self) -> Graph:
        """Return the graph, with the shapes of the plan."""
        return self._graph

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        """Return type, shape and grid of every value."""
        return self._graph.specs()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts in the order in which they run."""
        return self._parts

    def stepped(self) -> tuple[Any, ...]:
        """Return the parts, with calls as steps where they have some.

        A stored plan has such parts, see `stepped.py`.
        """
        # Imported late: only a stored plan needs it.
        from mdtensor.graph.stepped import stepped

        return stepped(self._parts, self._wide.graph)

    def __call__(self, feeds: Any) -> dict[str, Any]:
        """Return the outputs by name.

        Args:
            feeds: a tensor or NumPy array for the only input, or one for each by name.

        Raises:
            DataError: an input is missing, unknown, or of another type or shape.
        """
        return self.run(fed(self._graph.inputs, feeds))

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for inputs that are validated already."""
        results = self.bound(*map(feeds.__getitem__, self._graph.inputs))
        return dict(zip(self._graph.outputs, results, strict=True))

    def values(self, feeds: Any) -> dict[str, Any]:
        """Return the result of every node by name, for comparisons.

        Args:
            feeds: as for a call.

        Raises:
            DataError: an input is missing, unknown, or of another type or shape.
        """
        values = self._fed(feeds)
        seen: dict[str, Any] = {}
        for part in self._parts:
            if isinstance(part, Compiled):
                seen |= self._inside(part, values)
            part.run(values)
            if not isinstance(part, Compiled):
                seen[part.node.output] = values[part.node.output]
        return self._wide.values(seen)

    def _inside(self, part: Compiled, values: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for node, array in zip(part.nodes, part.intermediate(values), strict=True):
            if array is not None:
                spec, in_rows = self._specs[node.output], node.output in part.in_rows
                made = from_slot(array, spec, in_rows)
            else:
                made = node({**values, **found}[node.values[0]])
            found[node.output] = made
        return found

    def profile(self, feeds: Any, repeat: int = 20) -> dict[str, float]:
        """Return a dictionary from node name to shortest time, in seconds.

        Each node runs `repeat` times. Compiled nodes run on one thread. Views take 0
        seconds, and so do nodes that run as a part of another node. The sum is less
        than the time of a call: each node is repeated by itself, with its data in the
        cache, and copies into and out of compiled parts are not counted.

        Args:
            feeds: as for a call.
            repeat: runs of each node, after one that compiles.

        Raises:
            DataError: an input is missing, unknown, or of another type or shape.
            OptionError: `repeat` is not an integer of at least 1.
        """
        if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
            raise OptionError(
                f"repeat is {shown(repeat)}", "Use an integer of 1 or more", "profile"
            )
        values = self._fed(feeds)
        seconds: dict[str, float] = {}
        for part in self._parts:
            part.run(values)
            if isinstance(part, Compiled):
                names = [node.name for node in part.nodes]
                seconds |= zip(names, part.profile(values, repeat), strict=True)
            else:
                seconds[part.node.name] = _least(part, values, repeat)
        return seconds

    def _fed(self, feeds: Any) -> dict[str, Any]:
        """Return the values that the parts read: constants and validated inputs."""
        return {**self._wide.graph.constants, **fed(self._graph.inputs, feeds)}

    def _planned(self) -> Iterator[PlannedNode]:
        for part in self._parts:
            if isinstance(part, Called):
                yield self._called(part)
            elif isinstance(part, FloatLayer):
                yield self._float_layer(part)
            else:
                shares = part.macs, part.pieces, part.done_by
                for each in zip(part.nodes, part.steps, *shares, strict=True):
                    yield self._compiled(*each)

    def _called(self, part: Called) -> PlannedNode:
        node, method = part.node, part.selection.method
        return self._describe(
            node,
            part.selection,
            kernel=method.location,
            isa="numpy",
            arithmetic="integer" if self._is_integer(node) else "float",
            why=part.reason,
            macs=0,
        )

    def _float_layer(self, part: FloatLayer) -> PlannedNode:
        layer = part.layer.layer
        return self._describe(
            part.node,
            part.selection,
            layer.kernel,
            layer.runway,
            "float",
            "its activations are floats",
            layer.macs(self._specs[part.node.values[0]].shape),
        )

    def _is_integer(self, node: Any) -> bool:
        """Return whether a node computes with codes, integers and bools only.

        Products with dynamic grids read and write floats, and multiply integers.
        """
        if node.operation in DYNAMIC:
            return True
        specs = [self._specs[name] for name in (*node.values, node.output)]
        plain = [spec.dtype for spec in specs if spec.qparams is None]
        return not any(dtype.is_floating or dtype.is_complex for dtype in plain)

    def _compiled(
        self, node: Node, step: Any, macs: int, pieces: int, by: Node
    ) -> PlannedNode:
        selection = node.select(*node.arguments(self._specs))
        if step is None:
            return self._describe(node, selection, "view", "none", "view", "", 0)
        is_float = {*step.input_types, step.output_type} == {F32}
        is_float = is_float and node.operation not in DYNAMIC
        why = self._graph.notes.get(node.name, FLOAT_VALUES)
        planned = self._describe(
            node,
            selection,
            step.kernel,
            step.runway,
            "float" if is_float else "integer",
            why if is_float else "",
            macs,
            pieces,
        )
        return planned if by is node else replace(planned, within=by.name)

    def _describe(
        self,
        node: Any,
        selection: Any,
        kernel: str,
        isa: str,
        arithmetic: str,
        why: str,
        macs: int,
        pieces: int = 1,
    ) -> PlannedNode:
        types = ", ".join(t.__name__ for t in selection.types)
        method = f"{selection.method} at {selection.method.location}"
        return PlannedNode(
            node.name,
            node.operation.__name__,
            f"{node.operation.__name__}({types})",
            method,
            kernel,
            isa,
            arithmetic,
            why,
            macs,
            self._specs[node.output].shape,
            pieces,
            *self._weights(node),
        )

    def _weights(self, node: Any) -> tuple[str, float]:
        """Return the type of a node's weights and their bits; empty without weights."""
        is_product = node.operation in PRODUCTS
        found = self._wide.graph.constants.get(node.inputs[1]) if is_product else None
        return ("", 0.0) if found is None else describe_weights(found)

    @property
    def float_nodes(self) -> tuple[PlannedNode, ...]:
        """Return the nodes that compute in floating point."""
        return tuple(n for n in self.nodes if n.arithmetic == "float")

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the nodes as plain data, for JSON; `runway` is the former `isa`."""
        return [asdict(node) | {"runway": node.isa} for node in self.nodes]

    def __repr__(self) -> str:
        compiled = sum(n.arithmetic != "float" for n in self.nodes)
        return f"Plan({len(self.nodes)} nodes, {compiled} without floats)"

    def __str__(self) -> str:
        """Return a line for each node, no wider than the terminal, then the reasons.

        Long texts are shortened, and columns that do not fit are left out; `as_dicts`
        has everything.
        """
        # A pipe, a notebook or a file does not have a width.
        width = shutil.get_terminal_size((UNBOUND, 1)).columns
        return "\n".join(
            [*_table(self.as_dicts(), width), *_reasons(self.nodes, width)]
        )


def describe_weights(weights: Any) -> tuple[str, float]:
    """Return a description of weights, and the bits of each weight, scales included.

    Descriptions are `qint4, blocks of 32 on axis 1`, `qint8, axis 0` or `float32`.
    """
    bits = 8 * weights.nbytes / max(weights.size, 1)
    grid = spec_of(weights).qparams
    if grid is None or grid.axis is None:
        return str(weights.dtype), bits
    blocks = f"blocks of {grid.block_size} on " if grid.block_size else ""
    return f"{weights.dtype}, {blocks}axis {grid.axis}", bits


def _table(nodes: list[dict[str, Any]], width: int) -> list[str]:
    """Return the lines of a table with the first columns that fit into `width`."""
    shown = [{n: _short(n, x) for n, x in cells(node).items()} for node in nodes]
    lines = [""] * (len(nodes) + 1)
    for head in COLUMNS[:-1]:
        column = [head, *(row[head] for row in shown)]
        most = max(map(len, column))
        wider = [
            f"{line}  {text:<{most}}"[2 if not line else 0 :]
            for line, text in zip(lines, column, strict=True)
        ]
        if len(wider[0]) > width and head not in COLUMNS[:4]:
            break
        lines = wider
    return [line.rstrip()[:width] for line in lines]


def _short(head: str, text: str) -> str:
    """Return the text of a cell, without its start or end if it is long."""
    most = MOST.get(head, len(text))
    if len(text) <= most:
        return text
    # The end of a name or a path tells it from its neighbours.
    is_tail = head in ("node", "kernel")
    return f"...{text[3 - most :]}" if is_tail else f"{text[: most - 3]}..."


def _reasons(nodes: Sequence[PlannedNode], width: int) -> Iterator[str]:
    """Yield each reason of `why`, with the nodes that it applies to."""
    known = ""
    if is_not_quantized((node.arithmetic, node.why) for node in nodes):
        yield f"  {NOT_QUANTIZED}"
        known = FLOAT_VALUES
    found: dict[str, list[str]] = {}
    for node in nodes:
        if node.why not in ("", known):
            found.setdefault(node.why, []).append(node.node)
    for why, names in found.items():
        more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        text = f"{why}: {', '.join(names[:FEW])}{more}"
        yield from wrap(text, width, initial_indent="  ", subsequent_indent="    ")


def _least(part: Part, values: dict[str, Any], repeat: int) -> float:
    """Return the shortest time of a part in `repeat` runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        part.run(values)
        best = min(best, time.perf_counter() - start)
    return best
