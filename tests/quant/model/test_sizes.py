"""Shape arithmetic is gone once a model is read."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant.model.budget import Budget, Spending
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.onnx.read import read_graph

INT = {"dtype": np.int64}


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, [output], output, **attributes)


CONSTANTS = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array([2]),
    "first": np.array(0),
    "second": np.array(1),
    "rest": np.array([-1]),
}
#: Ways in which exporters compute (n, everything else).
CHAINS = {
    "slice": [
        node("Shape", ["x"], "s"),
        node("Cast", ["s"], "c", to=6),
        node("Slice", ["c", "zero", "one", "zero", "one"], "n"),
        node("Cast", ["n"], "n64", to=7),
        node("Concat", ["n64", "rest"], "shape", axis=0),
    ],
    "gather": [
        node("Shape", ["x"], "s"),
        node("Gather", ["s", "first"], "n"),
        node("Unsqueeze", ["n", "zero"], "n1"),
        node("Concat", ["n1", "rest"], "shape", axis=0),
    ],
    "part of the shape": [
        node("Shape", ["x"], "s", start=0, end=1),
        node("Squeeze", ["s", "zero"], "n"),
        node("Reshape", ["n", "one"], "n1"),
        node("Identity", ["n1"], "n2"),
        node("Concat", ["n2", "rest"], "shape", axis=0),
    ],
}
LAST = node("Reshape", ["x", "shape"], "y")


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_known_sizes_fold(chain: Any, make_model: Any) -> None:
    path = make_model([*chain, LAST], {"x": (2, 3, 4)}, CONSTANTS)
    graph = read_graph(path)
    assert [n.operation for n in graph.nodes] == [md.reshape]
    assert graph.specs()["y"].shape == (2, 12)
    assert graph.constants == {}


def test_a_dynamic_batch_may_be_moved_about(make_model: Any) -> None:
    chain = [*CHAINS["gather"][:3], node("Concat", ["n1", "two"], "shape", axis=0)]
    path = make_model([*chain, LAST], {"x": ("n", 2)}, CONSTANTS)
    graph = read_graph(path)
    assert graph.nodes[0].options["shape"] == (-1, 2)
    assert graph.run({"x": np.ones((5, 2), np.float32)})["y"].shape == (5, 2)


def test_two_sizes_to_work_out_need_input_shapes(make_model: Any) -> None:
    path = make_model([*CHAINS["gather"], LAST], {"x": ("n", 2, 3)}, CONSTANTS)
    with pytest.raises(ModelError, match="more than one unknown size"):
        read_graph(path)
    assert read_graph(path, (4, 2, 3)).specs()["y"].shape == (4, 6)


def test_a_dynamic_size_cannot_be_calculated_with(make_model: Any) -> None:
    chain = [*CHAINS["gather"][:3], node("Mul", ["n1", "two"], "m")]
    chain.append(node("Concat", ["m", "rest"], "shape", axis=0))
    path = make_model([*chain, LAST], {"x": ("n", 2)}, CONSTANTS)
    with pytest.raises(ModelError, match="Mul 'm' calculates with a dynamic size"):
        read_graph(path)
    assert read_graph(path, (4, 2)).specs()["y"].shape == (8, 1)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("Add", 6), ("Sub", 2), ("Mul", 8), ("Div", 2), ("Mod", 0)]
)
def test_calculates(kind: str, wanted: int, make_model: Any) -> None:
    nodes = [node("Shape", ["x"], "s"), node(kind, ["s", "two"], "y")]
    graph = read_graph(make_model(nodes, {"x": (4,)}, CONSTANTS))
    assert graph.run({"x": np.zeros(4, np.float32)})["y"].tolist() == [wanted]


@pytest.mark.parametrize("size", [3, 4, 6])
def test_decides(size: int, make_model: Any, onnxruntime_of: Any) -> None:
    """What exporters choose sizes by is evaluated as well, and no node is left."""
    nodes = [
        node("Shape", ["x"], "s"),
        node("Mod", ["s", "two"], "odd"),
        node("Equal", ["odd", "zero"], "even"),
        node("Equal", ["s", "four"], "is four"),
        node("Not", ["is four"], "other"),
        node("And", ["even", "other"], "both"),
        node("Where", ["both", "one", "s"], "shape"),
        node("Expand", ["row", "shape"], "y"),
    ]
    constants = {**CONSTANTS, "four": np.array([4]), "row": np.float32([[7]])}
    path = make_model(nodes, {"x": (size,)}, constants)
    graph = read_graph(path)
    assert [n.operation for n in graph.nodes] == [md.broadcast_to]
    feeds = {"x": np.ones(size, np.float32)}
    assert graph.run(feeds)["y"].tolist() == onnxruntime_of(path, feeds)[0].tolist()


def test_remainders_have_the_sign_that_is_asked_for(make_model: Any) -> None:
    constants = {"a": np.array([-7, 7, -7]), "b": np.array([2, -2, -2])}
    for fmod, wanted in ((0, [1, -1, -1]), (1, [-1, 1, -1])):
        nodes = [node("Mod", ["a", "b"], "y", fmod=fmod)]
        graph = read_graph(make_model(nodes, {}, constants))
        assert graph.run({})["y"].tolist() == wanted
        assert graph.nodes == ()


def test_integer_division_truncates(make_model: Any) -> None:
    constants = {"a": np.array([-7, 7, -7]), "b": np.array([2, -2, -2])}
    graph = read_graph(make_model([node("Div", ["a", "b"], "y")], {}, constants))
    assert graph.run({})["y"].tolist() == [-3, -3, 3]


WRAPPING = ("Add", "Sub", "Mul", "Div", "Neg", "Cast")
CODES = {np.int32: 6, np.int64: 7, np.uint8: 2, np.int8: 3}


# The format has no Neg of unsigned integers.
@pytest.mark.parametrize(
    ("kind", "source"),
    [(k, s) for k in WRAPPING for s in CODES if (k, s) != ("Neg", np.uint8)],
)
@pytest.mark.parametrize("target", CODES, ids=lambda t: t.__name__)
def test_integers_keep_their_type_and_wrap(
    kind: str, source: Any, target: Any, make_model: Any, onnxruntime_of: Any
) -> None:
    """First calculated in one type, then cast to another."""
    limits = np.iinfo(source)
    a = np.array([limits.min, limits.max, 7, limits.max, limits.min + 1], source)
    b = np.array([limits.max, 2, limits.max, 3, 5], source)
    inputs = ["a", "b"] if kind in WRAPPING[:4] else ["a"]
    extra = {"to": CODES[source]} if kind == "Cast" else {}
    nodes = [
        node(kind, inputs, "c", **extra),
        node("Cast", ["c"], "y", to=CODES[target]),
    ]
    path = make_model(nodes, {}, {"a": a, "b": b})
    set_output_type(path, CODES[target])
    found = np.asarray(read_graph(path).run({})["y"])
    wanted = onnxruntime_of(path, {})[0]
    assert found.dtype == wanted.dtype == target
    assert found.tolist() == wanted.tolist()


def set_output_type(path: Any, code: int) -> None:
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.elem_type = code
    onnx.save(model, path)


@pytest.mark.parametrize("kind", ["Div", "Mod"])
def test_division_by_zero_is_refused(kind: str, make_model: Any) -> None:
    path = make_model([node(kind, ["one", "zero"], "y")], {}, CONSTANTS)
    with pytest.raises(ModelError, match=f"{kind} 'y' divides an integer by 0"):
        read_graph(path)


def test_known_parts_of_a_dynamic_shape_keep_their_type(make_model: Any) -> None:
    nodes = [
        node("Shape", ["x"], "s"),
        node("Cast", ["s"], "c", to=6),
        node("Gather", ["c", "second"], "n"),
        node("Add", ["z", "n"], "y"),
    ]
    path = make_model(nodes, {"x": ("n", 2), "z": (6, (3,))}, CONSTANTS)
    feeds = {"x": np.ones((5, 2), np.float32), "z": np.arange(3, dtype=np.int32)}
    found = read_graph(path).run(feeds)["y"]
    assert found.dtype is md.int32
    assert found.tolist() == [2, 3, 4]


def test_weights_that_are_moved_before_they_get_a_grid(
    make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [
        node("Reshape", ["w", "cube"], "r"),
        node("Transpose", ["r"], "t", perm=[2, 0, 1]),
        node("Unsqueeze", ["t", "rest"], "u"),
        node("DequantizeLinear", ["u", "scale", "moved"], "d", axis=0),
        node("Conv", ["x", "d"], "y"),
        node("Identity", ["point"], "moved"),
    ]
    constants = {
        **CONSTANTS,
        "w": np.arange(-3, 3, dtype=np.int8),
        "cube": np.array([3, 1, 2]),
        "scale": np.array([0.5, 0.25], np.float32),
        "point": np.array([0, 0], np.int8),
    }
    nodes = [nodes[-1], *nodes[:-1]]
    path = make_model(nodes, {"x": (1, 3, 4, 4)}, constants)
    x = np.random.default_rng(2).standard_normal((1, 3, 4, 4), np.float32)
    found = np.asarray(read_graph(path).run({"x": x})["y"])
    np.testing.assert_allclose(found, onnxruntime_of(path, {"x": x})[0], rtol=1e-5)


SMALLEST = int(np.iinfo(np.int64).min)
ENDS = [SMALLEST, -9, -5, -2, -1, 0, 1, 3, 5, 8, SMALLEST + 1, -(SMALLEST + 1)]


@pytest.mark.parametrize("seed", range(30))
def test_slices_as_onnxruntime_does(
    seed: int, make_model: Any, onnxruntime_of: Any
) -> None:
    """Of an input, and of integers known while reading."""
    rng = np.random.default_rng(seed)
    start, end = (np.array([rng.choice(ENDS)]) for _ in range(2))
    step = np.array([rng.choice([-3, -2, -1, 1, 2])])
    if step < 0:  # there ONNX Runtime takes the largest integer for the smallest
        end = np.minimum(end, 8)
    constants = {**CONSTANTS, "a": start, "b": end, "c": step, "k": np.arange(5)}
    cut = ["a", "b", "zero", "c"]
    nodes = [node("Slice", ["x", *cut], "y"), node("Slice", ["k", *cut], "known")]
    nodes.append(node("Cast", ["known"], "z", to=1))
    path = make_model(nodes, {"x": (5,)}, constants, ("y", "z"))
    x = np.arange(5, dtype=np.float32)
    found = read_graph(path).run({"x": x})
    for name, wanted in zip("yz", onnxruntime_of(path, {"x": x}), strict=True):
        assert np.asarray(found[name]).tolist() == wanted.tolist()


def test_a_dynamic_size_as_a_bound_is_refused(make_model: Any) -> None:
    nodes = [*CHAINS["gather"][:3], node("Slice", ["z", "zero", "n1", "zero"], "y")]
    path = make_model(nodes, {"x": ("n", 2), "z": (8,)}, CONSTANTS)
    with pytest.raises(ModelError, match="'y' needs ends as a constant"):
        read_graph(path)
    nodes = [*CHAINS["gather"][:3], node("Slice", ["rest", "zero", "n1", "zero"], "y")]
    path = make_model(nodes, {"x": ("n", 2)}, CONSTANTS)
    with pytest.raises(ModelError, match="'y' calculates with a dynamic size"):
        read_graph(path)


def test_a_dynamic_shape_as_data_is_refused(make_model: Any) -> None:
    nodes = [node("Shape", ["x"], "s"), node("Cast", ["s"], "y", to=1)]
    with pytest.raises(ModelError, match="'s' depends on a size that is dynamic"):
        read_graph(make_model(nodes, {"x": ("n",)}))
    graph = read_graph(make_model(nodes, {"x": (3,)}))
    assert graph.run({"x": np.zeros(3, np.float32)})["y"].tolist() == [3.0]
    model = load(make_model(nodes, {"x": ("n",)}))
    for size in (3, 5):
        assert np.asarray(model(np.zeros(size, np.float32))).tolist() == [size]


def test_a_size_of_the_data_as_data(make_model: Any, onnxruntime_of: Any) -> None:
    """Detectors keep as many boxes as there are, at most k: a minimum of sizes."""
    nodes = [
        node("NonZero", ["x"], "places"),
        node("Shape", ["places"], "s"),
        node("Slice", ["s", "one", "two"], "n"),
        node("Concat", ["n", "limit"], "all", axis=0),
        node("ReduceMin", ["all"], "k", keepdims=1),
        helper.make_node("TopK", ["x", "k"], ["y", "at"]),
    ]
    known = {"limit": np.array([3])} | CONSTANTS
    path = make_model(nodes, {"x": (6,)}, known)
    for count in (1, 2, 5):
        x = np.zeros(6, np.float32)
        x[:count] = np.arange(1, count + 1)
        wanted = onnxruntime_of(path, {"x": x})[0]
        assert np.asarray(load(path)(x)).tolist() == wanted.tolist()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "?"])
def test_sizes_that_are_not_integers_are_refused(kind: str, make_model: Any) -> None:
    """They would lose a fraction, or their imaginary part with a warning of NumPy."""
    path = make_model([LAST], {"x": (2, 3)}, {"shape": np.array([1, 6], kind)})
    with pytest.raises(ModelError, match=r"reads 'shape' of .* Use one of int64"):
        read_graph(path)


#: Ways in which exporters compute a size by floats and reductions; `s` is (4, 6).
COMPUTED = {
    "float": (
        [
            node("Cast", ["s"], "f", to=1),
            node("Mul", ["f", "factor"], "m"),
            node("Floor", ["m"], "fl"),
            node("Cast", ["fl"], "shape", to=7),
        ],
        [3, 4],
    ),
    "ceil of a quotient": (
        [
            node("Cast", ["s"], "f", to=1),
            node("Div", ["f", "factor"], "m"),
            node("Ceil", ["m"], "fl"),
            node("Cast", ["fl"], "shape", to=7),
        ],
        [6, 8],
    ),
    "extremes": (
        [
            node("Max", ["s", "five"], "a"),
            node("Min", ["s", "five"], "b"),
            node("Sub", ["a", "b"], "shape"),
        ],
        [1, 1],
    ),
    "reductions": (
        [
            node("ReduceProd", ["s"], "a", keepdims=1),
            node("ReduceMax", ["s"], "b", keepdims=1),
            node("Concat", ["a", "b"], "shape", axis=0),
        ],
        [24, 6],
    ),
    "a choice": (
        [
            node("Greater", ["s", "five"], "g"),
            node("Where", ["g", "five", "s"], "shape"),
        ],
        [4, 5],
    ),
    "a clip": ([node("Clip", ["s", "", "last"], "shape")], [4, 5]),
    "a range": (
        [
            node("ReduceMin", ["s"], "n", keepdims=0),
            node("Range", ["second", "n", "first2"], "shape"),
        ],
        [1, 3],
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_sizes_computed_by_any_operator(
    name: str, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes, wanted = COMPUTED[name]
    constants = {
        **CONSTANTS,
        "factor": np.float32(0.75),
        "five": np.array([5]),
        "last": np.array(5),
        "first2": np.array(2),
        "one_": np.float32(1),
    }
    nodes = [
        node("Shape", ["x"], "s"),
        *nodes,
        node("Expand", ["one_", "shape"], "big"),
        node("Mul", ["big", "big"], "y"),
    ]
    path = make_model(nodes, {"x": (4, 6)}, constants)
    feeds = {"x": np.ones((4, 6), np.float32)}
    graph = read_graph(path)
    assert list(graph.specs()["y"].shape) == wanted
    assert graph.run(feeds)["y"].shape == onnxruntime_of(path, feeds)[0].shape


def test_long_chains_of_constants(make_model: Any) -> None:
    """Values are computed one after the other, not by recursion."""
    count = 3000
    chain = [node("Neg", [f"v{i}"], f"v{i + 1}") for i in range(count)]
    nodes = [
        *chain,
        node("Cast", [f"v{count}"], "n", to=7),
        node("Expand", ["x", "n"], "y"),
    ]
    path = make_model(nodes, {"x": (1,)}, {"v0": np.float32([3])})
    assert read_graph(path).specs()["y"].shape == (3,)


def test_values_computed_from_constants_are_limited(make_model: Any) -> None:
    nodes = [
        node("Expand", ["row", "far"], "a"),
        node("ReduceSum", ["a"], "b", keepdims=0),
        node("Cast", ["b"], "n", to=7),
        node("Reshape", ["n", "one"], "shape"),
        node("Expand", ["x", "shape"], "y"),
    ]
    constants = {**CONSTANTS, "row": np.float32([1]), "far": np.array([10**7])}
    path = make_model(nodes, {"x": (1,)}, constants)
    spending = Spending(Budget(elements=10**6))
    with pytest.raises(ModelError, match="computes 10,000,000 elements"):
        read_graph(path, spending=spending)


@pytest.mark.parametrize("given", ["low", "high", "low high"])
def test_bounds_of_clip_that_are_computed(
    given: str, make_model: Any, onnxruntime_of: Any
) -> None:
    """Where the bounds cross, all elements are the upper one."""
    names = [name if name in given else "" for name in ("low", "high")]
    scaled = ["x", *(f"{name}2" if name else "" for name in names)]
    nodes = [
        node("ReduceMax", ["x"], "top", keepdims=0),
        *(node("Mul", [name, "top"], f"{name}2") for name in names if name),
        node("Clip", scaled if scaled[2] else scaled[:2], "y"),
    ]
    bounds = {"low": np.float32(-0.5), "high": np.float32(0.25)}
    path = make_model(nodes, {"x": (2, 3)}, bounds)
    for sign in (1, -1):
        x = sign * np.arange(1, 7, dtype=np.float32).reshape(2, 3)
        found = read_graph(path).run({"x": x})["y"]
        assert found.tolist() == onnxruntime_of(path, {"x": x})[0].tolist()


F32 = np.float32
W4 = np.linspace(-1, 1, 4, dtype=F32)
#: Operators that need some sizes, but not the first one: inputs, options, image.
BATCHED: dict[str, tuple[list[np.ndarray], dict[str, Any], bool]] = {
    "LayerNormalization": ([W4, W4], {}, False),
    "Pad": ([np.array([0, 0, 1, 0, 0, 2])], {"mode": "reflect"}, False),
    "ArgMax": ([], {"axis": 1, "select_last_index": 1}, False),
    "Hardmax": ([], {"axis": 2}, False),
    "DepthToSpace": ([], {"blocksize": 2}, True),
    "SpaceToDepth": ([], {"blocksize": 2}, True),
    "Resize": ([np.zeros(0, F32), F32([1, 1, 2, 1.5])], {}, True),
}
RESIZES = [{}, {"mode": "linear"}, {"mode": "cubic", "cubic_coeff_a": -0.5}]
RESIZES += [{"coordinate_transformation_mode": "asymmetric"}]
CASES = [(kind, {}) for kind in BATCHED] + [("Resize", options) for options in RESIZES]


@pytest.mark.parametrize(("kind", "more"), CASES, ids=str)
def test_a_dynamic_batch_needs_no_sizes(
    kind: str, more: Any, make_model: Any, onnxruntime_of: Any, tmp_path: Any, rng: Any
) -> None:
    """The model loads as one graph, runs at any batch, and can be saved."""
    constants, options, is_image = BATCHED[kind]
    names = [f"c{at}" for at in range(len(constants))]
    nodes = [node(kind, ["x", *names], "r", **options | more)]
    nodes.append(node("Cast", ["r"], "y", to=1))
    sizes = (8, 4, 6) if is_image else (3, 4)
    known = dict(zip(names, constants, strict=True))
    path = make_model(nodes, {"x": ("N", *sizes)}, known, opset=18)
    model = load(path)
    assert isinstance(model, Model)
    model.save(tmp_path / "again.onnx")
    again = load(tmp_path / "again.onnx")
    for batch in (1, 3):
        x = rng.standard_normal((batch, *sizes), F32)
        (wanted,) = onnxruntime_of(path, {"x": x})
        for one in (model, again):
            np.testing.assert_allclose(np.asarray(one(x)), wanted, rtol=1e-4, atol=1e-5)


def test_a_dynamic_size_cannot_be_resized(make_model: Any) -> None:
    scales = F32([1, 1, 2, 2])
    nodes = [node("Resize", ["x", "roi", "s"], "y")]
    known = {"roi": np.zeros(0, F32), "s": scales}
    path = make_model(nodes, {"x": (1, 3, "H", 4)}, known, opset=18)
    with pytest.raises(ModelError, match="resizes an axis of dynamic size"):
        read_graph(path)
    assert load(path)(np.ones((1, 3, 2, 4), F32)).shape == (1, 3, 4, 8)


def test_operands_that_broadcast_are_counted_once(make_model: Any) -> None:
    """A table of relative positions: all operands have the size of the result."""
    places = np.arange(40)
    constants = {"row": places[None], "column": places[:, None], "far": np.array(8)}
    nodes = [
        node("Sub", ["row", "column"], "apart"),
        node("Equal", ["apart", "far"], "is_far"),
        node("Where", ["is_far", "apart", "apart"], "bucket"),
        node("Cast", ["bucket"], "real", to=1),
        node("Add", ["x", "real"], "y"),
    ]
    path = make_model(nodes, {"x": (40, 40)}, constants)
    graph = read_graph(path, spending=Spending(Budget(elements=10**5)))
    x = np.ones((40, 40), np.float32)
    assert (
        np.asarray(graph.run({"x": x})["y"]).tolist()
        == (1 + places[None] - places[:, None]).tolist()
    )
