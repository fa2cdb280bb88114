"""From files to graphs: names, shapes, and what is refused."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mdtensor.cli import demo_data
from mdtensor.errors import ModelError
from mdtensor.graph import Graph
from mdtensor.quant.model.load import load
from mdtensor.quant.model.onnx.read import GRAPH_READERS, read_graph

ONES = {"w": np.ones((3,), np.float32)}


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, f"{kind}.1", **attributes)


def test_names_are_those_of_the_file(make_model: Any) -> None:
    graph = read_graph(
        make_model([node("Add", ["x", "w"], ["y"])], {"x": (2, 3)}, ONES)
    )
    assert [n.name for n in graph.nodes] == ["Add.1"]
    assert list(graph.inputs) == ["x"]
    assert graph.outputs == ("y",)
    assert list(graph.constants) == ["w"]


def test_new_names_are_none_of_the_file(make_model: Any) -> None:
    """Gemm needs a transpose, whose name a later node of the file has."""
    nodes = [
        node("Gemm", ["x", "w"], ["y"], transB=0),
        node("Relu", ["y"], ["y.w"]),
        helper.make_node("Neg", ["y.w"], ["z"]),
    ]
    w = np.float32([[1, 2], [3, -4]])
    path = make_model(nodes, {"x": (1, 2)}, {"w": w}, ("z", "y.w"))
    found = read_graph(path).run({"x": np.float32([[1, 1]])})
    assert {name: x.tolist() for name, x in found.items()} == {
        "z": [[-4, 0]],
        "y.w": [[4, 0]],
    }


def test_a_node_without_a_name_gets_that_of_its_output(make_model: Any) -> None:
    graph = read_graph(
        make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,)})
    )
    assert graph.nodes[0].name == "y"


def test_an_unknown_operator_names_the_nearest(make_model: Any) -> None:
    with pytest.raises(ModelError) as caught:
        read_graph(make_model([node("HardSwich", ["x"], ["y"])], {"x": (2,)}))
    assert str(caught.value) == (
        "operator 'HardSwich' of node 'HardSwich.1', operator set 17, is not "
        "supported. The nearest that is supported is 'HardSwish'."
    )


def test_an_operator_of_another_domain(make_model: Any) -> None:
    foreign = helper.make_node("Relu", ["x"], ["y"], "n", domain="com.example")
    named = r"operator 'com\.example\.Relu' of node 'n' is not supported"
    with pytest.raises(ModelError, match=named):
        read_graph(make_model([foreign], {"x": (2,)}))


def test_an_operator_in_a_definition_is_not_in_the_file(
    make_model: Any, monkeypatch: Any
) -> None:
    for kind in ("Bernoulli", "RandomUniformLike"):
        monkeypatch.delitem(GRAPH_READERS, kind)
    path = make_model([node("Bernoulli", ["x"], ["y"])], {"x": (2,)})
    with pytest.raises(ModelError) as caught:
        read_graph(path)
    assert str(caught.value).startswith(
        "operator 'Bernoulli' of node 'Bernoulli.1', operator set 17, is not "
        "supported, because it needs 'RandomUniformLike'. "
    )


@pytest.mark.parametrize("opset", [1, 6, 29])
def test_an_operator_set_that_is_not_supported(opset: int, make_model: Any) -> None:
    path = make_model([node("Relu", ["x"], ["y"])], {"x": (2,)}, opset=opset)
    with pytest.raises(ModelError, match=f"the operator set is {opset}. Export "):
        read_graph(path)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Relu", ["gone"], ["y"])], "Relu 'Relu.1' reads 'gone', which no earl"),
        ([node("Relu", ["x"], ["x"])], "value 'x' is written twice"),
        ([node("Relu", ["x"], ["w"])], "value 'w' is written twice"),
        ([node("Relu", ["x"], ["z"])], "no node writes the output 'y'"),
        ([node("Relu", [], ["y"])], "Relu 'Relu.1' has 0 inputs, expected 1"),
        ([node("Relu", ["x"], [""])], "does not have a first output"),
    ],
)
def test_missing_and_duplicate_names(nodes: Any, words: str, make_model: Any) -> None:
    with pytest.raises(ModelError) as caught:
        read_graph(make_model(nodes, {"x": (3,)}, ONES))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_second_result_that_is_not_supported(make_model: Any) -> None:
    nodes = [
        node("RMSNormalization", ["x", "x"], ["p", "where"]),
        node("Cast", ["where"], ["y"], to=1),
    ]
    with pytest.raises(ModelError, match="reads 'where', an output of RMSNorm"):
        read_graph(make_model(nodes, {"x": (4,)}))


def test_an_element_type_that_is_not_supported(make_model: Any) -> None:
    path = make_model([node("Relu", ["x"], ["y"])], {"x": (TensorProto.INT4, (2,))})
    with pytest.raises(ModelError, match="input 'x' has element type 22 of ONNX"):
        read_graph(path)


def test_inputs_of_two_types_name_the_node(make_model: Any) -> None:
    """As in the backend, though they might promote here."""
    nodes = [node("Add", ["x", "z"], ["y"])]
    path = make_model(nodes, {"x": (1, (2,)), "z": (7, (2,))})
    with pytest.raises(ModelError) as raised:
        load(path)
    assert str(raised.value) == (
        "Add 'Add.1' reads 'x' of float and 'z' of int64, which must be of one type. "
        "Add a Cast before it."
    )


def test_an_attribute_that_the_operator_set_does_not_know(make_model: Any) -> None:
    nodes = [node("Softmax", ["x"], ["y"], axes=1)]
    with pytest.raises(ModelError) as raised:
        load(make_model(nodes, {"x": (2, 3)}, opset=17))
    assert str(raised.value) == (
        "Softmax 'Softmax.1' has an attribute 'axes', which operator set 17 does not "
        "define. Its attributes are axis."
    )
    nodes = [node("Clip", ["x"], ["y"], max=6.0)]
    read_graph(make_model(nodes, {"x": (2, 3)}, opset=10))  # an input since
    with pytest.raises(ModelError, match="'max', which operator set 11 does not"):
        read_graph(make_model(nodes, {"x": (2, 3)}, opset=11))


def test_inputs_that_are_no_tensors(make_model: Any) -> None:
    path = make_model([node("Relu", ["x"], ["y"])], {"x": (2,)})
    model = onnx.load(path)
    model.graph.input[0].type.ClearField("tensor_type")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="input 'x' is not a tensor"):
        read_graph(path)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="input 'x' does not have a rank"):
        read_graph(path)


def test_old_files_list_initializers_as_inputs(make_model: Any) -> None:
    path = make_model([node("Add", ["x", "w"], ["y"])], {"x": (3,), "w": (3,)}, ONES)
    assert list(read_graph(path).inputs) == ["x"]


# --- shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes", [(4, 3, 8, 6), {"x": (4, 3, 8, 6)}, [4, 3, 8, 6], {"x": (4, -1, 8, 6)}]
)
def test_input_shapes_fix_dynamic_sizes(shapes: Any, make_model: Any) -> None:
    path = make_model([node("Relu", ["x"], ["y"])], {"x": ("n", 3, "h", "w")})
    assert read_graph(path).inputs["x"].shape == (-1, 3, -1, -1)
    assert read_graph(path, shapes).specs()["y"].shape == (4, 3, 8, 6)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ((4, 3, 8), "has shape"),
        ((4, 5, 8, 6), "Only sizes of -1 can be chosen"),
        ((True, 3, 8, 6), "Give 4 integers"),
        ({"z": (1,)}, "the model does not have an input 'z'. Inputs are 'x'"),
    ],
)
def test_input_shapes_that_do_not_fit(shapes: Any, words: str, make_model: Any) -> None:
    path = make_model([node("Relu", ["x"], ["y"])], {"x": ("n", 3, "h", "w")})
    with pytest.raises(ModelError, match=words):
        read_graph(path, shapes)


def test_one_shape_for_two_inputs(make_model: Any) -> None:
    path = make_model([node("Add", ["x", "z"], ["y"])], {"x": ("n",), "z": ("n",)})
    with pytest.raises(ModelError, match="got one shape, but the inputs are 'x', 'z'"):
        read_graph(path, (2,))


# --- a real network -------------------------------------------------------------------


def test_the_classifier_computes_what_onnxruntime_computes(
    literal_graph: Graph, float_graph: Graph, crops: Any, onnxruntime_of: Any
) -> None:
    for crop in crops[1][::4]:
        feeds = {"x": crop.pixels}
        wanted = onnxruntime_of(demo_data.classifier_path(), feeds)[0]
        for graph in (literal_graph, float_graph):
            found = np.asarray(graph.run(feeds)[graph.outputs[0]])
            assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_the_batch_of_the_classifier_may_stay_dynamic(float_graph: Graph) -> None:
    graph = read_graph(demo_data.classifier_path(), (-1, 3, 48, 192))
    assert graph.specs()[graph.outputs[0]].shape == (-1, 2)
    two = {"x": np.zeros((2, 3, 48, 192), np.float32)}
    one = {"x": two["x"][:1]}
    both = graph.run(two)[graph.outputs[0]].tolist()
    single = float_graph.run(one)[graph.outputs[0]].tolist()
    np.testing.assert_allclose(both, single * 2, rtol=1e-4)


def attention(query: Any, key: Any, value: Any) -> Any:
    """The formula, in float64."""
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ value


def test_an_operator_that_onnx_defines_is_read_as_its_definition(
    make_model: Any,
) -> None:
    """One that mdtensor has no function for; heads of keys are shared by two."""
    shapes = {"q": (1, 4, 5, 8), "k": (1, 2, 6, 8), "v": (1, 2, 6, 8)}
    rng = np.random.default_rng(3)
    given = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    path = make_model([node("Attention", ["q", "k", "v"], ["y"])], shapes, opset=23)
    q, k, v = (np.float64(given[n]) for n in "qkv")
    wanted = attention(q, k.repeat(2, axis=1), v.repeat(2, axis=1))
    model = load(path)
    np.testing.assert_allclose(np.asarray(model(**given)), wanted, rtol=2e-5, atol=1e-6)
    assert model.quantize(model.calibrate([given])).is_quantized


def test_a_definition_is_for_known_sizes(make_model: Any) -> None:
    shapes = dict.fromkeys("qkv", (1, 2, -1, 8))
    path = make_model([node("Attention", ["q", "k", "v"], ["y"])], shapes, opset=23)
    given = {name: np.ones((1, 2, 3, 8), np.float32) for name in "qkv"}
    np.testing.assert_allclose(np.asarray(load(path)(given)), 1)
    with pytest.raises(ModelError) as caught:
        _ = load(path).graph
    assert str(caught.value) == (
        "ConstantOfShape 'y/AttnBias' needs the shape as a constant. "
        "Give input_shapes={'q': (1, 2, 64, 8), 'k': (1, 2, 64, 8), "
        "'v': (1, 2, 64, 8)} if it is computed from sizes."
    )


def test_a_model_in_memory_is_read_as_its_file(make_model: Any) -> None:
    path = make_model([node("Add", ["x", "w"], ["y"])], {"x": ("n", 3)}, ONES)
    proto = onnx.load(path)
    before = proto.SerializeToString()
    model = load(proto, (2, 3))
    assert model.inputs["x"].shape == (2, 3)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert model(x).tolist() == load(path)(x).tolist()
    assert proto.SerializeToString() == before
    with pytest.raises(ModelError) as caught:
        load(onnx.ModelProto())
    assert (
        str(caught.value)
        == "the ModelProto does not contain an ONNX graph. Export it again."
    )


def test_chosen_outputs_need_only_their_part(make_model: Any) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("HardSwich", ["z"], ["b"]),
        node("Exp", ["a"], ["y"]),
    ]
    path = make_model(nodes, {"x": (2,), "z": (2,)}, {"unused": np.ones(3)})
    model = load(path, outputs=["y", "a"])
    assert list(model.inputs) == ["x"] and model.outputs == ("y", "a")
    assert model(np.float32([0, -1]))[1].tolist() == [0, 0]
    for names, words in (
        (["q"], "names 'q', which the file does not have"),
        ([["a"]], "does not have"),
        ("y", "Give a list of names"),
        ([], "Give a list of names"),
        (["a", "a"], "names a value twice"),
    ):
        with pytest.raises(ModelError, match=words):
            load(path, outputs=names)
