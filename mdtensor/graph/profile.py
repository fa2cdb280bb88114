"""Profiles of plans: time, work and bytes of each node, and why it is float."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mdtensor.errors import ModelError
from mdtensor.files import write_problem, write_text
from mdtensor.graph.graph import Graph, Node
from mdtensor.graph.plan import (
    FLOAT_VALUES,
    NOT_QUANTIZED,
    Plan,
    PlannedNode,
    is_not_quantized,
)
from mdtensor.spec.options import file_path
from mdtensor.spec.spec import TensorSpec

#: The names of columns of a printed profile.
HEADS = ("node", "operation", "us", "share", "GMAC/s", "GB/s", "arithmetic", "kernel")
#: How many nodes a profile prints.
SHOWN = 20


@dataclass(frozen=True)
class ProfiledNode:
    """The cost of one node.

    Args:
        node: its name.
        operation: its operation.
        seconds: the shortest time of the node alone, on one thread.
        share: its part of the time of all nodes.
        kernel: the kernel that computes it.
        isa: the instruction set of the kernel.
        arithmetic: `integer`, `float` or `view`.
        why: the reason why it computes in float; empty if it does not.
        macs: the number of multiply-accumulates.
        bytes: the bytes of its arguments, weights and result.
        within: the node that does its work, or empty.
    """

    node: str
    operation: str
    seconds: float
    share: float
    kernel: str
    isa: str
    arithmetic: str
    why: str
    macs: int
    bytes: int
    within: str

    @property
    def macs_per_second(self) -> float:
        """Return the multiply-accumulates in a second; 0 if the node takes no time."""
        return self.macs / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Return the bytes read and written in a second; 0 without time."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """The cost of each node of a model; `print` shows the most expensive ones.

    Args:
        nodes: the nodes in the order of the plan.
        call_seconds: the shortest time of a whole call. It is more than the sum of the
            nodes: each node is measured by itself, with its data in the cache.
    """

    nodes: tuple[ProfiledNode, ...]
    call_seconds: float

    @property
    def float_share(self) -> float:
        """Return the part of the time of all nodes that is spent in float."""
        return sum(n.share for n in self.nodes if n.arithmetic == "float")

    def slowest(self, count: int = SHOWN) -> list[ProfiledNode]:
        """Return the nodes with the longest times, the slowest first."""
        return sorted(self.nodes, key=lambda node: -node.seconds)[:count]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        nodes = [asdict(node) for node in self.nodes]
        return {"call_seconds": self.call_seconds, "nodes": nodes}

    def trace_events(self) -> dict[str, Any]:
        """Return the nodes, one after the other, in Chrome's trace event format.

        Times are microseconds, as the format wants.
        """
        events: list[dict[str, Any]] = []
        start = 0.0
        for node in self.nodes:
            if not node.seconds:
                continue
            duration = 1e6 * node.seconds
            shown = ("operation", "kernel", "isa", "why", "macs", "bytes")
            events.append(
                {
                    "name": node.node,
                    "cat": node.arithmetic,
                    "ph": "X",
                    "ts": start,
                    "dur": duration,
                    "pid": 0,
                    "tid": 0,
                    "args": {name: getattr(node, name) for name in shown},
                }
            )
            start += duration
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that chrome://tracing, Perfetto and speedscope open.

        Raises:
            ModelError: the path is not writable.
            OptionError: `path` is neither a str nor a path.
        """
        path = file_path(path, "path")
        try:
            write_text(path, json.dumps(self.trace_events(), allow_nan=False))
        except OSError as error:
            raise ModelError(*write_problem(path, error)) from None

    def __str__(self) -> str:
        """Return the time of a call, the slowest nodes, and why nodes are float."""
        rows = [HEADS, *map(_cells, self.slowest())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
        took, floats = 1e3 * self.call_seconds, self.float_share
        lines = [f"call {took:.3f} ms, {floats:.0%} of the time of nodes in float"]
        for row in rows:
            pairs = zip(row, widths, strict=True)
            padded = [
                text.ljust(most) if i in (0, 1, 6, 7) else text.rjust(most)
                for i, (text, most) in enumerate(pairs)
            ]
            lines.append("  ".join(padded).rstrip())
        known = ""
        if is_not_quantized((n.arithmetic, n.why) for n in self.nodes):
            lines.append(f"  {NOT_QUANTIZED}")
            known = FLOAT_VALUES
        lines += [
            f"  {n.node} is {_kind(n)}: {n.why}"
            for n in self.slowest()
            if n.why not in ("", known) and n.share
        ]
        return "\n".join(lines)


def _kind(node: ProfiledNode) -> str:
    """Return what `why` gives the reason for: a call of codes is not compiled."""
    return "float" if node.arithmetic == "float" else "not compiled"


def _cells(node: ProfiledNode) -> tuple[str, ...]:
    kernel = f"in {node.within}" if node.within else f"{node.kernel} on {node.isa}"
    return (
        *(node.node, node.operation),
        *(f"{1e6 * node.seconds:.1f}", f"{node.share:.1%}"),
        f"{node.macs_per_second / 1e9:.1f}" if node.macs else "",
        f"{node.bytes_per_second / 1e9:.1f}" if node.seconds else "",
        *(node.arithmetic, kernel),
    )


def profile_plan(plan: Plan, graph: Graph, feeds: Any, repeat: int = 20) -> Profile:
    """Measure each node of a plan.

    Args:
        plan: the plan of `graph`.
        graph: a graph whose shapes are known.
        feeds: inputs, as for a call of the plan.
        repeat: how often each node runs; the shortest time counts.

    Raises:
        DataError: an input is missing, unknown, or of another type or shape.
        OptionError: `repeat` is not an integer of at least 1.
    """
    seconds = plan.profile(feeds, repeat)
    total = sum(seconds.values())
    specs, nodes = graph.specs(), {node.name: node for node in graph.nodes}
    found = [
        _profiled(one, seconds[one.node], total, _traffic(nodes[one.node], specs))
        for one in plan.nodes
    ]
    return Profile(tuple(found), _call_seconds(plan, feeds, repeat))


def _profiled(
    one: PlannedNode, seconds: float, total: float, traffic: int
) -> ProfiledNode:
    is_view = one.arithmetic == "view"
    return ProfiledNode(
        one.node,
        one.operation,
        seconds,
        seconds / total if total else 0.0,
        one.kernel,
        one.isa,
        one.arithmetic,
        one.why,
        one.macs,
        0 if is_view else traffic,
        one.within,
    )


def _traffic(node: Node, specs: Mapping[str, TensorSpec]) -> int:
    """Return the bytes of the arguments of a node and of its result."""
    bits = 0
    for name in (*node.values, node.output):
        spec = specs[name]
        size = 1
        for length in spec.shape:
            size *= int(length)
        bits += size * spec.dtype.bits
    return -(-bits // 8)


def _call_seconds(plan: Plan, feeds: Any, repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        plan(feeds)
        best = min(best, time.perf_counter() - start)
    return best
