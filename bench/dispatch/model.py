"""What one more node costs in a loaded model, beside loops that dispatch each node.

A chain of nodes on four elements, whose kernels take next to nothing: the time of a
long chain less that of a short one, over the nodes between, in each round.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper

import mdtensor as md
from bench.harness import Contender, Reading, Row, Samples, interleave
from bench.harness.machine import pinned
from bench.harness.reading import timed
from bench.harness.turns import Effort
from bench.rivals import NAMES, enums
from mdtensor.cli import demo
from mdtensor.graph import Graph, Node
from mdtensor.graph.plan import Plan
from mdtensor.quant import QUInt8Tensor

SHORT, LONG = 20, 1020
NODES = LONG - SHORT
NODE = "one node of a model"
Run = Callable[[], Any]


def planned(count: int) -> Run:
    """A compiled plan of relu after relu on codes."""
    codes = np.arange(98, 102, dtype=np.uint8).reshape(1, 4, 1, 1)
    x = QUInt8Tensor(codes, scale=0.05, zero_point=100)
    names = ["x", *(f"y{at}" for at in range(count))]
    nodes = tuple(
        Node(f"n{at}", md.relu, (names[at],), names[at + 1], {}) for at in range(count)
    )
    inputs = {"x": md.TensorSpec(type(x), x.shape, x.qparams)}
    plan = Plan(Graph(inputs, nodes, {}, (names[-1],)))
    found = np.asarray(plan({"x": x})[names[-1]].codes)
    assert found.ravel().tolist() == [100, 100, 100, 101]
    return partial(plan, {"x": x})


def looped(dtypes: Any, make: Callable[[str], Any], count: int) -> Run:
    """A loop over nodes; each looks its kernel up, which returns its argument."""
    table = {dtypes[name.upper()]: lambda x: x for name in NAMES}
    nodes, start = [table] * count, make(NAMES[0])

    def run() -> Any:
        value = start
        for kernels in nodes:
            value = kernels[value.dtype](value)
        return value

    return run


def in_runtime(count: int) -> Run:
    """ONNX Runtime on a chain of Sigmoid, which it does not fuse."""
    names = [f"y{at}" for at in range(count + 1)]
    info = partial(
        helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=[4]
    )
    nodes = [
        helper.make_node("Sigmoid", [names[at]], [names[at + 1]]) for at in range(count)
    ]
    graph = helper.make_graph(nodes, "chain", [info(names[0])], [info(names[-1])])
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = demo.start_session(model.SerializeToString(), 1)
    x = {names[0]: np.ones(4, np.float32)}
    return lambda: session.run(None, x)


WAYS: dict[str, Callable[[int], Run]] = {
    "mdtensor": planned,
    "loop, dict of Enum": partial(looped, enums.DType, enums.tagged),
    "loop, dict of IntEnum": partial(looped, enums.IntDType, enums.int_tagged),
    "onnxruntime": in_runtime,
}


@dataclass(frozen=True)
class PerNode:
    """Seconds of a node: what a long chain takes more than a short one."""

    name: str

    def read(self, effort: Effort) -> list[Reading]:
        ends = [
            Contender(f"{name} {count}", make(count))
            for name, make in WAYS.items()
            for count in (SHORT, LONG)
        ]
        with pinned(1):
            found = interleave(ends, effort.of(0.25).rounds, 0.01 / effort.haste)
        samples: Samples = {}
        for name in WAYS:
            pairs = zip(found[f"{name} {LONG}"], found[f"{name} {SHORT}"], strict=True)
            samples[name] = [(long - short) / NODES for long, short in pairs]
        return timed("In a loaded model", self.name, samples, "mdtensor", {})


def rows(quick: bool) -> Iterator[Row]:
    yield PerNode(NODE)
