"""Every pass: it finds its pattern, and computes what was computed before."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant import QUInt8Tensor
from mdtensor.quant.model.passes import simplify

RNG = np.random.default_rng(5)
FEATURES = md.TensorSpec(md.Float32Tensor, (2, 4, 5, 5))
ROWS = md.TensorSpec(md.Float32Tensor, (3, 4))
STACK = md.TensorSpec(md.Float32Tensor, (2, 6, 4))


def weights(*shape: int) -> Any:
    return md.asarray(RNG.standard_normal(shape, np.float32))


def number(value: float) -> Any:
    return md.asarray(np.float32(value))


def chain(x: md.TensorSpec, nodes: list[Node], **constants: Any) -> Graph:
    return Graph({"x": x}, tuple(nodes), constants, (nodes[-1].output,))


def node(operation: Any, inputs: str, output: str, **options: Any) -> Node:
    """`inputs` are names; a dash is an argument left out."""
    names = tuple(None if name == "-" else name for name in inputs.split())
    return Node(output, operation, names, output, options)


def same_results(before: Graph, after: Graph) -> None:
    (name, spec) = next(iter(before.inputs.items()))
    feeds = {name: RNG.standard_normal(spec.shape, np.float32) * 3}
    wanted, found = before.run(feeds), after.run(feeds)
    assert list(wanted) == list(found)
    for key, tensor in wanted.items():
        assert type(tensor) is type(found[key])
        np.testing.assert_allclose(
            np.asarray(found[key]), np.asarray(tensor), rtol=1e-5, atol=1e-5
        )


def names(graph: Graph) -> list[str]:
    return [n.operation.__name__ for n in graph.nodes]


BATCH_NORM = {
    "mean": weights(6),
    "var": md.asarray(np.abs(RNG.standard_normal(6, np.float32)) + 0.5),
    "gain": weights(6),
    "shift": weights(6),
}
CONV = node(md.conv2d, "x w -", "c", padding=1)
LINEAR = node(md.linear, "x w -", "c")
BIASED = node(md.conv2d, "x w b", "c", padding=1)
W = weights(6, 4, 3, 3)
B = weights(6)
NORM = node(md.batch_norm, "c mean var gain shift", "n", eps=1e-3)
ADD3, RAMP = node(md.add, "x three", "a"), node(md.relu6, "a", "r")
LIFTED = {"three": number(3), "six": md.asarray(np.full((1, 1, 1), 6, "f4"))}
HARD = {"three": number(3), "six": number(6), "sixth": number(1 / 6)}

#: pass, graph, names of the operations that are left
CASES: dict[str, tuple[Callable[[Graph], Graph], Graph, list[str]]] = {
    "constants": (
        simplify.fold_constants,
        chain(
            ROWS,
            [
                node(md.reshape, "w", "r", shape=(4, 2)),
                node(md.neg, "r", "n"),
                node(md.matmul, "x n", "y"),
            ],
            w=weights(2, 4),
        ),
        ["matmul"],
    ),
    "identity": (
        simplify.drop_identities,
        chain(
            ROWS,
            [
                Node("i", md.astype, ("x", md.float32), "i"),
                node(md.relu, "i", "r"),
                Node("o", md.astype, ("r", md.float32), "o"),
            ],
        ),
        ["relu"],
    ),
    "a cast that changes the type stays": (
        simplify.drop_identities,
        chain(ROWS, [Node("i", md.astype, ("x", md.float64), "i")]),
        ["astype"],
    ),
    "linear": (
        simplify.name_linear,
        chain(ROWS, [node(md.matmul, "x w", "y")], w=weights(4, 2)),
        ["linear"],
    ),
    "linear needs a matrix": (
        simplify.name_linear,
        chain(ROWS, [node(md.matmul, "x w", "y")], w=weights(4)),
        ["matmul"],
    ),
    "batch norm": (
        simplify.fold_batch_norms,
        chain(FEATURES, [CONV, NORM], w=W, **BATCH_NORM),
        ["conv2d"],
    ),
    "batch norm behind a bias": (
        simplify.fold_batch_norms,
        chain(FEATURES, [BIASED, NORM], w=W, b=B, **BATCH_NORM),
        ["conv2d"],
    ),
    "batch norm with another reader of the convolution": (
        simplify.fold_batch_norms,
        chain(FEATURES, [CONV, NORM, node(md.add, "c n", "y")], w=W, **BATCH_NORM),
        ["conv2d", "batch_norm", "add"],
    ),
    "batch norm behind a linear layer": (
        simplify.fold_batch_norms,
        chain(ROWS, [LINEAR, NORM], w=weights(6, 4), **BATCH_NORM),
        ["linear"],
    ),
    "no batch norm whose weights leave float32": (
        simplify.fold_batch_norms,
        chain(
            FEATURES,
            [CONV, NORM],
            w=md.asarray(np.asarray(W) * np.float32(1e20)),
            **{**BATCH_NORM, "gain": md.asarray(np.full(6, 1e20, "f4"))},
        ),
        ["conv2d", "batch_norm"],
    ),
    "batch norm of another axis than that of the outputs": (
        simplify.fold_batch_norms,
        chain(STACK, [LINEAR, NORM], w=weights(6, 4), **BATCH_NORM),
        ["linear", "batch_norm"],
    ),
    "batch norm of a transposed convolution": (
        simplify.fold_batch_norms,
        chain(
            FEATURES,
            [node(md.conv_transpose2d, "x w -", "c", stride=2), NORM],
            w=weights(4, 6, 2, 2),
            **BATCH_NORM,
        ),
        ["conv_transpose2d"],
    ),
    "batch norm of a transposed convolution in groups": (
        simplify.fold_batch_norms,
        chain(
            FEATURES,
            [node(md.conv_transpose2d, "x w -", "c", stride=2, groups=2), NORM],
            w=weights(4, 3, 2, 2),
            **BATCH_NORM,
        ),
        ["conv_transpose2d", "batch_norm"],
    ),
    "factor": (
        simplify.fold_factors,
        chain(FEATURES, [CONV, node(md.mul, "c k", "y")], w=W, k=weights(1)),
        ["conv2d"],
    ),
    "factor of each channel, on the left": (
        simplify.fold_factors,
        chain(FEATURES, [CONV, node(md.mul, "k c", "y")], w=W, k=weights(6, 1, 1)),
        ["conv2d"],
    ),
    "factor of a biased layer": (
        simplify.fold_factors,
        chain(
            FEATURES, [BIASED, node(md.mul, "c k", "y")], w=W, b=B, k=weights(6, 1, 1)
        ),
        ["conv2d"],
    ),
    "factor of a linear layer": (
        simplify.fold_factors,
        chain(
            ROWS,
            [node(md.linear, "x w -", "c"), node(md.mul, "c k", "y")],
            w=weights(2, 4),
            k=weights(2),
        ),
        ["linear"],
    ),
    "factor of a transposed convolution in groups": (
        simplify.fold_factors,
        chain(
            FEATURES,
            [
                node(md.conv_transpose2d, "x w b", "c", stride=2, groups=2),
                node(md.mul, "c k", "y"),
            ],
            w=weights(4, 3, 2, 2),
            b=B,
            k=weights(1, 6, 1, 1),
        ),
        ["conv_transpose2d"],
    ),
    "no factor along the width": (
        simplify.fold_factors,
        chain(FEATURES, [CONV, node(md.mul, "c k", "y")], w=W, k=weights(5)),
        ["conv2d", "mul"],
    ),
    "no factor that leaves float32": (
        simplify.fold_factors,
        chain(
            FEATURES,
            [CONV, node(md.mul, "c k", "y")],
            w=md.maximum(W, 0),  # 0 times an infinity is no number
            k=md.asarray([float("inf")], dtype=md.float32),
        ),
        ["conv2d", "mul"],
    ),
    "no factor so small that its digits are lost": (
        simplify.fold_factors,
        chain(
            FEATURES,
            [CONV, node(md.mul, "c k", "y")],
            w=W,
            k=md.asarray(np.float32([1, 1, 1, 1, 1, 1e-39])[:, None, None]),
        ),
        ["conv2d", "mul"],
    ),
    "no factor so small in a group of a transposed convolution": (
        simplify.fold_factors,
        chain(
            FEATURES,
            [
                node(md.conv_transpose2d, "x w -", "c", stride=2, groups=2),
                node(md.mul, "c k", "y"),
            ],
            w=weights(4, 3, 2, 2),
            k=md.asarray(np.float32([1, 1, 1, 1, 1e-39, 1])[:, None, None]),
        ),
        ["conv_transpose2d", "mul"],
    ),
    "a factor of 0": (
        simplify.fold_factors,
        chain(FEATURES, [CONV, node(md.mul, "c k", "y")], w=W, k=number(0)),
        ["conv2d"],
    ),
    "no factor of a layer with another reader": (
        simplify.fold_factors,
        chain(
            FEATURES,
            [CONV, node(md.mul, "c k", "n"), node(md.add, "c n", "y")],
            w=W,
            k=weights(1),
        ),
        ["conv2d", "mul", "add"],
    ),
    "bias": (
        simplify.fold_biases,
        chain(FEATURES, [CONV, node(md.add, "c k", "y")], w=W, k=weights(1, 6, 1, 1)),
        ["conv2d"],
    ),
    "bias of all channels": (
        simplify.fold_biases,
        chain(FEATURES, [CONV, node(md.add, "c k", "y")], w=W, k=weights(1)),
        ["conv2d"],
    ),
    "bias on the left": (
        simplify.fold_biases,
        chain(FEATURES, [CONV, node(md.add, "k c", "y")], w=W, k=weights(6, 1, 1)),
        ["conv2d"],
    ),
    "bias on a bias": (
        simplify.fold_biases,
        chain(
            FEATURES, [BIASED, node(md.add, "c k", "y")], w=W, b=B, k=weights(6, 1, 1)
        ),
        ["conv2d"],
    ),
    "bias of a transposed convolution": (
        simplify.fold_biases,
        chain(
            FEATURES,
            [
                node(md.conv_transpose2d, "x w -", "c", stride=2, groups=2),
                node(md.add, "c k", "y"),
            ],
            w=weights(4, 3, 2, 2),
            k=weights(1, 6, 1, 1),
        ),
        ["conv_transpose2d"],
    ),
    "no bias along the width": (
        simplify.fold_biases,
        chain(FEATURES, [CONV, node(md.add, "c k", "y")], w=W, k=weights(5)),
        ["conv2d", "add"],
    ),
    "no bias that adds an axis": (
        simplify.fold_biases,
        chain(
            FEATURES, [CONV, node(md.add, "c k", "y")], w=W, k=weights(1, 1, 6, 1, 1)
        ),
        ["conv2d", "add"],
    ),
    "bias of a linear layer": (
        simplify.fold_biases,
        chain(
            ROWS,
            [node(md.linear, "x w -", "c"), node(md.add, "c k", "y")],
            w=weights(2, 4),
            k=weights(1, 2),
        ),
        ["linear"],
    ),
    "relu": (
        simplify.name_activations,
        chain(ROWS, [node(md.clip, "x", "y", min=0.0, max=None)]),
        ["relu"],
    ),
    "relu up to the largest float": (
        simplify.name_activations,
        chain(ROWS, [node(md.clip, "x", "y", min=0.0, max=3.4028234663852886e38)]),
        ["relu"],
    ),
    "relu6": (
        simplify.name_activations,
        chain(ROWS, [node(md.clip, "x", "y", min=0.0, max=6.0)]),
        ["relu6"],
    ),
    "another clip": (
        simplify.name_activations,
        chain(ROWS, [node(md.clip, "x", "y", min=0.0, max=5.0)]),
        ["clip"],
    ),
    "hardsigmoid": (
        simplify.name_activations,
        chain(ROWS, [ADD3, RAMP, node(md.div, "r six", "y")], **HARD),
        ["hardsigmoid"],
    ),
    "no hardsigmoid that adds an axis": (
        simplify.name_activations,
        chain(
            ROWS,
            [ADD3, RAMP, node(md.div, "r six", "y")],
            **LIFTED,
        ),
        ["add", "relu6", "div"],
    ),
    "no hardswish that adds an axis": (
        simplify.name_hardswish,
        chain(
            ROWS,
            [ADD3, RAMP, node(md.mul, "x r", "m"), node(md.div, "m six", "y")],
            **LIFTED,
        ),
        ["add", "relu6", "mul", "div"],
    ),
    "product divided": (
        simplify.name_hardswish,
        chain(
            ROWS,
            [ADD3, RAMP, node(md.mul, "x r", "m"), node(md.div, "m six", "y")],
            **HARD,
        ),
        ["hardswish"],
    ),
    "product times a sixth": (
        simplify.name_hardswish,
        chain(
            ROWS,
            [ADD3, RAMP, node(md.mul, "r x", "m"), node(md.mul, "sixth m", "y")],
            **HARD,
        ),
        ["hardswish"],
    ),
    "times hardsigmoid": (
        simplify.name_hardswish,
        chain(
            ROWS,
            [
                node(md.hardsigmoid, "x", "h", alpha=1 / 6, beta=0.5),
                node(md.mul, "h x", "y"),
            ],
        ),
        ["hardswish"],
    ),
    "times a steeper hardsigmoid": (
        simplify.name_hardswish,
        chain(
            ROWS,
            [
                node(md.hardsigmoid, "x", "h", alpha=0.2, beta=0.5),
                node(md.mul, "h x", "y"),
            ],
        ),
        ["hardsigmoid", "mul"],
    ),
    "everything": (
        simplify.simplify,
        chain(
            FEATURES,
            [
                CONV,
                NORM,
                node(md.add, "n three", "a"),
                node(md.clip, "a", "r", min=0.0, max=6.0),
                node(md.mul, "n r", "m"),
                node(md.div, "m six", "h"),
                Node("o", md.astype, ("h", md.float32), "o"),
            ],
            w=W,
            **BATCH_NORM,
            **HARD,
        ),
        ["conv2d", "hardswish"],
    ),
}


@each("case", CASES.values())
def test_finds_and_keeps(case: Any) -> None:
    find, before, left = case
    after = find(before)
    assert names(after) == left
    same_results(before, after)


def test_a_small_factor_of_float16_takes_no_digits() -> None:
    """The products are 1e-7 and less, of which float16 has one digit."""
    w = RNG.standard_normal((2, 64, 1, 1)) * 1e-3
    x = np.abs(RNG.standard_normal((1, 64, 2, 2))).astype("f2") * np.float16(100)
    known = {"w": md.asarray(w.astype("f2")), "k": md.asarray(np.float16(1e-4))}
    nodes = [node(md.conv2d, "x w -", "c"), node(md.mul, "c k", "y")]
    before = chain(md.TensorSpec(md.Float16Tensor, x.shape), nodes, **known)
    ((_, found),) = simplify.simplify(before).run({"x": x}).items()
    exact = np.einsum("oc,nchw->nohw", w.astype("f2")[..., 0, 0].astype(float), x)
    exact *= float(np.float16(1e-4))
    np.testing.assert_allclose(np.asarray(found), exact, rtol=0.01, atol=1e-7)


def test_a_pass_that_finds_nothing_changes_nothing() -> None:
    plain = chain(ROWS, [node(md.softmax, "x", "y", axis=1)])
    for find in simplify.PASSES:
        assert find(plain) is plain


def test_the_name_of_an_output_is_kept() -> None:
    cast = Node("o", md.astype, ("x", md.float32), "o")
    assert names(simplify.simplify(chain(ROWS, [cast]))) == ["astype"]


def test_a_bound_below_the_largest_number_is_kept() -> None:
    """1e39 is more than any float32, but not more than any float64."""
    x = md.TensorSpec(md.Float64Tensor, (3,))
    before = chain(x, [node(md.clip, "x", "y", min=0.0, max=1e39)])
    after = simplify.simplify(before)
    found = after.run({"x": np.array([1e40, -1.0, 5.0])})["y"]
    assert found.tolist() == [1e39, 0.0, 5.0]


def test_folded_constants_are_in_row_major_order() -> None:
    nodes = [node(md.permute_dims, "w", "t", axes=(1, 0)), node(md.neg, "s", "n")]
    nodes += [node(md.matmul, "x t", "m"), node(md.mul, "m n", "y")]
    graph = chain(ROWS, nodes, w=weights(2, 4), s=number(2))
    after = simplify.fold_constants(graph)
    assert names(after) == ["matmul", "mul"]
    assert after.constants["t"].buffer.flags.c_contiguous
    assert after.constants["n"].shape == ()
    same_results(graph, after)


def test_a_quantized_constant_is_no_number() -> None:
    k = QUInt8Tensor(np.array(6, np.uint8), scale=1.0)
    graph = Graph({}, (), {"k": k}, ("k",))
    assert simplify.scalar(graph, "k") is None


UNARY = (md.relu, md.relu6, md.hardswish, md.sigmoid, md.neg, md.tanh)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Chains and diamonds of operations that the passes look for."""
    values, nodes = ["x"], []
    constants = {**HARD, "zero": number(0)}
    for count in range(draw(st.integers(1, 12))):
        output = f"v{count}"
        x, other = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        kind = draw(st.sampled_from(["unary", "binary", "scalar", "clip", "cast"]))
        if kind == "unary":
            nodes.append(node(draw(st.sampled_from(UNARY)), x, output))
        elif kind == "binary":
            operation = draw(st.sampled_from((md.add, md.mul)))
            nodes.append(node(operation, f"{x} {other}", output))
        elif kind == "scalar":
            operation = draw(st.sampled_from((md.add, md.mul)))
            scalar = draw(st.sampled_from(sorted(constants)))
            nodes.append(node(operation, f"{x} {scalar}", output))
        elif kind == "clip":
            nodes.append(node(md.clip, x, output, min=0.0, max=6.0))
        else:
            nodes.append(Node(output, md.astype, (x, md.float32), output))
        values.append(output)
    outputs = tuple(draw(st.sets(st.sampled_from(values[1:]), min_size=1)))
    return Graph({"x": ROWS}, tuple(nodes), constants, outputs)


@given(graphs())
def test_any_graph_keeps_its_meaning(graph: Graph) -> None:
    simple = simplify.simplify(graph)
    assert len(simple.nodes) <= len(graph.nodes)
    assert simple.outputs == graph.outputs
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    wanted, found = graph.run({"x": x}), simple.run({"x": x})
    for name in graph.outputs:
        np.testing.assert_allclose(
            np.asarray(found[name]), np.asarray(wanted[name]), rtol=1e-4, atol=1e-4
        )


def test_the_classifier_becomes_125_operations(
    literal_graph: Graph, float_graph: Graph
) -> None:
    assert len(literal_graph.nodes) == 252
    assert Counter(names(float_graph)) == {
        "conv2d": 53,
        "hardswish": 18,
        "relu": 15,
        "global_avg_pool2d": 10,
        "hardsigmoid": 9,
        "mul": 9,
        "add": 7,
        "max_pool2d": 1,
        "reshape": 1,
        "linear": 1,
        "softmax": 1,
    }


def test_each_pass_keeps_what_the_classifier_computes(
    literal_graph: Graph, crops: Any
) -> None:
    feeds = {"x": crops[1][0].pixels}
    output = literal_graph.outputs[0]
    wanted = np.asarray(literal_graph.run(feeds)[output])
    graph = literal_graph
    for find in simplify.PASSES:
        graph = find(graph)
        found = np.asarray(graph.run(feeds)[output])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, err_msg=find.__name__)
