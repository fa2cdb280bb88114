"""If, Loop and Scan whose course is known while the file is read."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant import Budget, load, onnx_backend
from mdtensor.quant.model.onnx.read import read_graph

I64 = np.int64
X = np.random.default_rng(5).standard_normal((3, 4), np.float32)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """An operator; names of values with spaces between."""
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def body(nodes: list[Any], inputs: str, outputs: str, **constants: np.ndarray) -> Any:
    """A graph inside of a node."""

    def values(names: str) -> list[Any]:
        return [onnx.ValueInfoProto(name=name) for name in names.split()]

    given = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    return helper.make_graph(nodes, "body", values(inputs), values(outputs), given)


def agrees(
    path: Path,
    feeds: dict[str, Any],
    onnxruntime_of: Any,
    is_simple: bool = True,
    **options: Any,
):
    """The loaded model, after its results agree with both other implementations.

    The reference of the package joins the results of a Loop along their first axis,
    not a new one, and its Scan has neither axes nor directions: `is_simple` is False.
    """
    wanted = onnxruntime_of(path, feeds)
    reference = wanted
    if is_simple:
        reference = ReferenceEvaluator(str(path)).run(None, feeds)
    model = load(path, **options)
    left = {name: x for name, x in feeds.items() if name in model.graph.inputs}
    found = model.graph.run(left)
    for name, want, second in zip(found, wanted, reference, strict=True):
        np.testing.assert_allclose(np.asarray(found[name]), want, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(second, want, rtol=1e-6, atol=1e-6)
    return model


def choice(condition: str) -> Any:
    """y = x + w or x · w, where w is of the branch, and an unused value of its own."""
    branches = {
        f"{side}_branch": body(
            [node(kind, "x w", "out"), node("Neg", "w", "own")],
            "",
            "out",
            w=np.float32(factor),
        )
        for side, kind, factor in (("then", "Add", 2), ("else", "Mul", 3))
    }
    return node("If", condition, "y", **branches)


RANK = [node("Shape", "x", "s"), node("Shape", "s", "r")]


@pytest.mark.parametrize("rank", [2, 3])
def test_a_branch_chosen_by_a_shape(
    rank: int, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [*RANK, node("Equal", "r n", "e"), node("Squeeze", "e", "c"), choice("c")]
    path = make_model(nodes, {"x": (3, 4)}, {"n": np.array([rank])})
    model = agrees(path, {"x": X}, onnxruntime_of)
    assert [n.operation for n in model.graph.nodes] == [md.add if rank == 2 else md.mul]
    (found,) = onnx_backend.run_model(onnx.load(path), [X])
    assert found.tolist() == np.asarray(model(X)).tolist()


@pytest.mark.parametrize("rate", [8000, 16000])
def test_a_branch_chosen_by_an_input(
    rate: int, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [node("Less", "sr n", "c"), choice("c")]
    inputs = {"x": (3, 4), "sr": (TensorProto.INT64, ())}
    path = make_model(nodes, inputs, {"n": np.array(9000)})
    feeds = {"x": X, "sr": np.array(rate)}
    model = agrees(path, feeds, onnxruntime_of, constants={"sr": rate})
    assert [*model.graph.inputs] == ["x"]


@pytest.mark.parametrize("size", [1, 0])
def test_a_branch_chosen_by_the_data(
    size: int, make_model: Any, onnxruntime_of: Any
) -> None:
    """Both branches run, and the condition chooses between their results."""
    nodes = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m n", "c")]
    nodes.append(choice("c"))
    limit = np.full((1,) * size, 2, np.float32)
    path = make_model(nodes, {"x": (3, 4)}, {"n": limit})
    for factor in (1, 100, -100):
        model = agrees(path, {"x": X * np.float32(factor)}, onnxruntime_of)
    assert md.where in [n.operation for n in model.graph.nodes]
    model.save(path)
    assert load(path)(X).tolist() == model(X).tolist()


@pytest.mark.parametrize("shape", [(3, 4), (3, "n")])
def test_branches_with_other_shapes(
    shape: Any, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m n", "c")]
    same = body([node("Neg", "x", "a")], "", "a")
    other = body([node("ReduceSum", "x", "a")], "", "a") if shape[1] == 4 else same
    nodes.append(node("If", "c", "y", then_branch=same, else_branch=other))
    path = make_model(nodes, {"x": shape}, {"n": np.float32(2)})
    model = load(path)
    for x in (X, 100 * X):
        wanted = onnxruntime_of(path, {"x": x})[0]
        np.testing.assert_allclose(np.asarray(model(x)), wanted, rtol=1e-6)
    with pytest.raises(ModelError, match=r"branches with results .* 'c' depends"):
        _ = model.graph


@pytest.mark.parametrize("is_inner", [False, True])
def test_a_branch_that_does_not_fit_the_inputs(is_inner: bool, make_model: Any) -> None:
    """A model for two rates has a branch for each, which need other sizes."""
    wrong = body([node("Reshape", "x five", "a")], "", "a", five=np.array([5]))
    same = body([node("Neg", "x", "a")], "", "a")
    if is_inner:
        inside = node("If", "c", "out", then_branch=wrong, else_branch=same)
        wrong = body([inside], "", "out")
    nodes = [node("Less", "sr n", "c")]
    nodes.append(node("If", "c", "y", then_branch=wrong, else_branch=same))
    inputs = {"x": (3, 4), "sr": (TensorProto.INT64, ())}
    path = make_model(nodes, inputs, {"n": np.array(9000)})
    model = load(path)
    with pytest.raises(ModelError, match=r"cannot use its then_branch \("):
        _ = model.graph
    assert model(X, np.array(16000)).tolist() == (-X).tolist()
    with pytest.raises(ModelError, match="12 elements do not fill shape"):
        model(X, np.array(8000))
    assert load(path, constants={"sr": 16000})(X).tolist() == (-X).tolist()


def test_an_if_inside_of_an_if(make_model: Any, onnxruntime_of: Any) -> None:
    """The inner one reads values of both graphs around it."""
    inner = node(
        "If",
        "no",
        "out",
        then_branch=body([node("Neg", "x", "a")], "", "a"),
        else_branch=body([node("Add", "t x", "a")], "", "a"),
    )
    outer = body([node("Not", "yes", "no"), node("Exp", "x", "t"), inner], "", "out")
    same = body([node("Identity", "x", "a")], "", "a")
    nodes = [node("If", "yes", "y", then_branch=outer, else_branch=same)]
    path = make_model(nodes, {"x": (3, 4)}, {"yes": np.array(True)})
    agrees(path, {"x": X}, onnxruntime_of)
    nodes[0].attribute[1].g.CopyFrom(body([], "", "x"))
    path = make_model(nodes, {"x": (3, 4)}, {"yes": np.array(False)})
    assert load(path)(X).tolist() == X.tolist()


def loop(count: int, go: str = "") -> list[Any]:
    """s = 2 s + turn, and each s squared; the body also reads w from outside."""
    inner = [
        node("Cast", "turn", "real", to=TensorProto.FLOAT),
        node("Mul", "s w", "twice"),
        node("Add", "twice real", "next"),
        node("Mul", "next next", "square"),
        node("Identity", "more", "again"),
    ]
    graph = body(inner, "turn more s", "again next square")
    for value, kind, shape in zip(
        graph.input, (7, 9, 1), ((), (), (3, 4)), strict=True
    ):
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    for value, kind in zip(graph.output, (9, 1, 1), strict=True):
        value.type.tensor_type.elem_type = kind
    names = ["count", go, "x"]
    return [helper.make_node("Loop", names, ["y", "all"], "turns", body=graph)]


@pytest.mark.parametrize("count", [1, 4])
def test_a_loop_with_a_known_number_of_turns(
    count: int, make_model: Any, onnxruntime_of: Any
) -> None:
    constants = {"count": np.array(count), "w": np.float32(2)}
    path = make_model(loop(count), {"x": (3, 4)}, constants, ("y", "all"))
    model = agrees(path, {"x": X}, onnxruntime_of, False)
    assert model.graph.specs()["all"].shape == (count, 3, 4)
    constants["go"] = np.array(True)
    path = make_model(loop(count, "go"), {"x": (3, 4)}, constants, ("y", "all"))
    agrees(path, {"x": X}, onnxruntime_of, False)


def test_a_loop_that_ends_by_its_condition(
    make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [node("Add", "turn one", "n"), node("Less", "n end", "again")]
    nodes.append(node("Add", "s s", "next"))
    graph = body(nodes, "turn more s", "again next", one=np.array(1), end=np.array(3))
    for value, kind, shape in zip(
        graph.input, (7, 9, 1), ((), (), (3, 4)), strict=True
    ):
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    for value, kind in zip(graph.output, (9, 1), strict=True):
        value.type.tensor_type.elem_type = kind
    turns = helper.make_node("Loop", ["", "go", "x"], ["y"], body=graph)
    path = make_model([turns], {"x": (3, 4)}, {"go": np.array(True)})
    agrees(path, {"x": X}, onnxruntime_of)
    assert load(path)(X).tolist() == (X * 8).tolist()


def test_a_loop_is_limited(make_model: Any) -> None:
    constants = {"count": np.array(2**62), "w": np.float32(2)}
    path = make_model(loop(0), {"x": (3, 4)}, constants, ("y",))
    with pytest.raises(ModelError, match="more than 500 nodes"):
        load(path, budget=Budget(nodes=500))
    # Nor if its turns do not add nodes.
    graph = body([node("Identity", "more", "again")], "turn more s", "again s")
    turns = helper.make_node("Loop", ["count", "", "x"], ["y"], body=graph)
    path = make_model([turns], {"x": (3, 4)}, constants)
    with pytest.raises(ModelError, match="more than 500 nodes"):
        load(path, budget=Budget(nodes=500))


def test_a_loop_by_data(make_model: Any) -> None:
    inputs = {"x": (3, 4), "count": (TensorProto.INT64, ())}
    path = make_model(loop(0), inputs, {"w": np.float32(2)}, ("y",))
    model = load(path)
    with pytest.raises(ModelError, match="its number of turns 'count' depends"):
        _ = model.graph
    for count in (2, 3, 2):
        wanted = load(path, constants={"count": count})(X)
        assert model(X, np.array(count)).tolist() == wanted.tolist()


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan(backward: int, make_model: Any, onnxruntime_of: Any) -> None:
    """Running sums along an axis, stacked along another, in both directions."""
    nodes = [node("Add", "s part", "next"), node("Mul", "next w", "out")]
    graph = body(nodes, "s part", "next out")
    for value in (*graph.input, *graph.output):
        value.CopyFrom(helper.make_tensor_value_info(value.name, 1, (3,)))
    scan = node(
        "Scan",
        "zero x",
        "last y",
        body=graph,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[backward],
        scan_output_directions=[backward],
    )
    constants = {"zero": np.zeros(3, np.float32), "w": np.float32(2)}
    path = make_model([scan], {"x": (3, 4)}, constants, ("last", "y"))
    agrees(path, {"x": X}, onnxruntime_of, False)
    path = make_model([scan], {"x": (3, "t")}, constants, ("last", "y"))
    for name, found in zip(("last", "y"), load(path)(X), strict=True):
        wanted = dict(zip(("last", "y"), onnxruntime_of(path, {"x": X}), strict=True))
        np.testing.assert_allclose(np.asarray(found), wanted[name], rtol=1e-6)
    with pytest.raises(ModelError, match="scans axes of sizes -1"):
        load(path).plan()


INPUT = {"x": (1, 2), "sr": (TensorProto.INT64, (1,)), "n": (TensorProto.INT64, (2,))}


@pytest.mark.parametrize(
    ("constants", "wanted"),
    [
        ({"no": 1}, "the model does not have an input 'no'"),
        ({"sr": 1.5}, "which int64 does not represent"),
        ({"sr": 2**64}, "Give numbers of int64"),
        ({"sr": "fast"}, "Give numbers of int64"),
        ({"sr": [1, 2]}, r"of shape \(2,\); the input has shape \(1,\)"),
        ({"n": 1}, r"of shape \(\); the input has shape \(2,\)"),
        ([("sr", 1)], "Give a dict"),
    ],
)
def test_constants_that_do_not_fit(
    constants: Any, wanted: str, make_model: Any
) -> None:
    path = make_model([node("Relu", "x", "y")], INPUT)
    with pytest.raises(ModelError, match=wanted):
        load(path, constants=constants)


def test_constants_have_the_type_of_their_input(make_model: Any) -> None:
    nodes = [node("Cast", "sr", "r", to=1), node("Add", "x r", "y")]
    path = make_model(nodes, {**INPUT, "x": (1, 2)})
    for value in (3, 3.0, [3], np.float32(3)):
        graph = read_graph(path, constants={"sr": value, "n": [1, 2]})
        assert graph.run({"x": np.float32([[1, 2]])})["y"].tolist() == [[4, 5]]
