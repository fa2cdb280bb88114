"""Plans of float16 and bfloat16: compiled, with the bytes of the nodes' calls."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.bound import Compiled
from mdtensor.graph.plan import Plan

TYPES = {md.float16: md.Float16Tensor, md.bfloat16: md.BFloat16Tensor}
each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def spec(dtype: Any, *shape: int) -> Any:
    return md.TensorSpec(TYPES[dtype], shape)


def values(dtype: Any, *shape: int, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.astype(md.asarray(numbers), dtype)


def same(x: Any, y: Any) -> bool:
    a, b = (np.asarray(md.astype(one, md.float32)) for one in (x, y))
    both = np.isnan(a) & np.isnan(b)
    return bool((both | (a.view(np.uint32) == b.view(np.uint32))).all())


def chain(dtype: Any, calls: list[Any], *shape: int) -> Graph:
    """Nodes one after the other; each is (operation, further inputs, options)."""
    constants: dict[str, Any] = {}
    nodes, value = [], "x"
    for i, (operation, more, options) in enumerate(calls):
        names = [f"k{i}.{at}" for at in range(len(more))]
        constants |= zip(names, more, strict=True)
        nodes.append(Node(f"n{i}", operation, (value, *names), f"v{i}", options))
        value = f"v{i}"
    return Graph({"x": spec(dtype, *shape)}, tuple(nodes), constants, (value,))


UNARY = (
    *(md.relu, md.sigmoid, md.tanh, md.exp, md.hardswish, md.abs, md.sqrt, md.square),
    *(md.gelu, md.silu, md.neg, md.floor, md.reciprocal, md.relu6, md.erf),
)


@each_type
@settings(max_examples=60)
@given(data=st.data())
def test_elementwise_chains_have_the_bytes_of_their_calls(
    dtype: Any, data: Any
) -> None:
    calls: list[Any] = []
    for seed in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            calls.append((data.draw(st.sampled_from(UNARY)), (), {}))
        else:
            operation = data.draw(st.sampled_from((md.add, md.mul, md.sub, md.maximum)))
            shape = data.draw(st.sampled_from([(1,), (8,), (4, 8)]))
            calls.append((operation, (values(dtype, *shape, seed=seed),), {}))
    graph = chain(dtype, calls, 4, 8)
    x = md.mul(values(dtype, 4, 8, seed=9), md.astype(md.asarray([3.0]), dtype))
    plan = Plan(graph)
    with np.errstate(all="ignore"):
        wanted = graph.run({"x": x})[graph.outputs[0]]
        found = plan({"x": x})[graph.outputs[0]]
    assert type(found) is type(wanted)
    assert same(found, wanted)
    seen = plan.values({"x": x})
    assert {node.output for node in graph.nodes} == set(seen)
    assert all(type(one) is TYPES[dtype] for one in seen.values())


def network(dtype: Any) -> Graph:
    w = [
        values(dtype, *s, seed=i)
        for i, s in enumerate(((8, 3, 3, 3), (8, 8, 1, 1), (5, 8)))
    ]
    b = values(dtype, 8, seed=5)
    nodes = (
        Node("conv", md.conv2d, ("x", "w0", "b"), "y0", {"padding": 1}),
        Node("act", md.hardswish, ("y0",), "y1"),
        Node("point", md.conv2d, ("y1", "w1", None), "y2"),
        Node("sum", md.add, ("y2", "y1"), "y3"),
        Node("relu", md.relu, ("y3",), "y4"),
        Node("pool", md.global_avg_pool2d, ("y4",), "y5"),
        Node("flat", md.reshape, ("y5",), "y6", {"shape": (1, 8)}),
        Node("linear", md.linear, ("y6", "w2", None), "y7"),
        Node("soft", md.softmax, ("y7",), "y8", {"axis": 1}),
    )
    constants = {"w0": w[0], "w1": w[1], "w2": w[2], "b": b}
    return Graph({"x": spec(dtype, 1, 3, 9, 9)}, nodes, constants, ("y8",))


@each_type
def test_a_network_is_one_part_and_each_value_rounds_once(dtype: Any) -> None:
    graph = network(dtype)
    plan, x = Plan(graph), values(dtype, 1, 3, 9, 9, seed=7)
    assert [type(part) is Compiled for part in plan.parts] == [False, True, False]
    seen = {"x": x, **graph.constants, **plan.values({"x": x})}
    for node in graph.nodes:
        # The oracle computes each node of the plan's own arguments in float64.
        exact = [
            md.astype(seen[v], md.float64) if isinstance(v, str) else v
            for v in node.inputs
        ]
        wide = node.operation(*exact, **node.options)
        low, high = (
            md.astype(md.mul(wide, md.asarray(1 + sign * 2e-6)), dtype, casting="wrap")
            for sign in (-1, 1)
        )
        found = np.asarray(seen[node.output], np.float32)
        ends = np.sort([np.asarray(e, np.float32) for e in (low, high)], axis=0)
        assert ((ends[0] <= found) & (found <= ends[1])).all(), node.name


@each_type
def test_an_overflow_becomes_infinity_and_returns_so(dtype: Any) -> None:
    graph = chain(dtype, [(md.exp, (), {}), (md.relu, (), {})], 4)
    x = md.astype(md.asarray([100.0, -100.0, 11.0, float("nan")]), dtype)
    with np.errstate(all="ignore"):
        wanted = graph.run({"x": x})["v1"]
    assert same(Plan(graph)({"x": x})["v1"], wanted)


def test_casts_between_floats_stay_inside() -> None:
    calls = [
        (md.astype, (), {}),
        (md.mul, (md.asarray([1.001], dtype=md.float32),), {}),
    ]
    graph = chain(md.float16, calls, 8)
    first = Node("n0", md.astype, ("x", md.float32), "v0")
    last = Node("n2", md.astype, ("v1", md.float16), "v2", {"casting": "wrap"})
    end = Node("n3", md.exp, ("v2",), "v3")
    nodes = (first, graph.nodes[1], last, end)
    graph = Graph(graph.inputs, nodes, graph.constants, ("v3",))
    plan, x = Plan(graph), values(md.float16, 8)
    assert [type(part) is Compiled for part in plan.parts] == [False, True, False]
    assert same(plan({"x": x})["v3"], graph.run({"x": x})["v3"])


def test_a_node_without_a_step_gets_its_own_type() -> None:
    graph = chain(
        md.float16, [(md.exp, (), {}), (md.sort, (), {}), (md.exp, (), {})], 6
    )
    plan, x = Plan(graph), values(md.float16, 6)
    assert same(plan({"x": x})["v2"], graph.run({"x": x})["v2"])
    assert (
        next(n for n in plan.nodes if n.node == "n1").signature == "sort(Float16Tensor)"
    )


def test_float32_graphs_are_left_alone() -> None:
    graph = Graph(
        {"x": md.TensorSpec(md.Float32Tensor, (3,))},
        (Node("n", md.exp, ("x",), "y"),),
        {},
        ("y",),
    )
    assert [node.node for node in Plan(graph).nodes] == ["n"]
