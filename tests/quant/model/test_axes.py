"""Axes and indices of every operator: what ONNX allows, and nothing else."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from onnx import helper

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.quant import onnx_backend
from mdtensor.quant.model.load import load
from mdtensor.quant.model.onnx.axes import (
    normalize_axes,
    normalize_axis,
    normalize_index,
    require_between,
    require_count,
)
from mdtensor.quant.model.onnx.build import Operator

RANK, SHAPE = 3, (2, 3, 4)
X = np.arange(24, dtype=np.float32).reshape(SHAPE)
INTS = np.int64
OP = Operator("Gather", "here", ("x",), ("y",), {}, 17)


def of_size(axis: int) -> int:
    """The size of an axis that may not exist."""
    return SHAPE[axis % RANK]


# For each operator: its attributes and constant inputs with one axis; the operator set.
ATTRIBUTE: dict[str, tuple[Any, Any, int]] = {
    "ArgMax": (lambda a: {"axis": a}, lambda a: {}, 17),
    "ArgMin": (lambda a: {"axis": a, "select_last_index": 1}, lambda a: {}, 17),
    "Concat": (lambda a: {"axis": a}, lambda a: {"z": X}, 17),
    "Gather": (lambda a: {"axis": a}, lambda a: {"i": INTS([0, -1])}, 17),
    "GatherElements": (
        lambda a: {"axis": a},
        lambda a: {"i": np.zeros(SHAPE, INTS)},
        17,
    ),
    "Hardmax": (lambda a: {"axis": a}, lambda a: {}, 17),
    "LayerNormalization": (
        lambda a: {"axis": a},
        lambda a: {"w": np.ones(SHAPE[a % RANK :], np.float32)},
        17,
    ),
    "LogSoftmax": (lambda a: {"axis": a}, lambda a: {}, 17),
    "LpNormalization": (lambda a: {"axis": a}, lambda a: {}, 17),
    "RMSNormalization": (
        lambda a: {"axis": a},
        lambda a: {"w": np.ones(SHAPE[a % RANK :], np.float32)},
        23,
    ),
    "ReduceMean": (lambda a: {"axes": [a]}, lambda a: {}, 17),
    "ReduceSum": (lambda a: {}, lambda a: {"a": INTS([a])}, 17),
    "Resize": (
        lambda a: {"axes": [a], "mode": "nearest"},
        lambda a: {"roi": "", "s": np.float32([2])},
        18,
    ),
    "Slice": (
        lambda a: {},
        lambda a: {"b": INTS([1]), "e": INTS([2]), "a": INTS([a])},
        17,
    ),
    "Softmax": (lambda a: {"axis": a}, lambda a: {}, 17),
    "Split": (
        lambda a: {"axis": a},
        lambda a: {"p": INTS([1, of_size(a) - 1])},
        17,
    ),
    "TopK": (lambda a: {"axis": a}, lambda a: {"k": INTS([1])}, 17),
    "CumSum": (lambda a: {"exclusive": 1}, lambda a: {"a": INTS(a)}, 17),
    "Pad": (
        lambda a: {},
        lambda a: {"p": INTS([1, 0]), "v": np.float32(7), "a": INTS([a])},
        18,
    ),
}
WIDER = {  # the axis counts in the result, which has one more
    "OneHot": (
        lambda a: {"axis": a},
        lambda a: {"d": INTS([4]), "v": np.float32([0, 1])},
        17,
    ),
    "Unsqueeze": (lambda a: {}, lambda a: {"a": INTS([a])}, 17),
}
CASES = [
    *((kind, parts, range(-RANK, RANK)) for kind, parts in ATTRIBUTE.items()),
    *((kind, parts, range(-RANK - 1, RANK + 1)) for kind, parts in WIDER.items()),
    ("Flatten", (lambda a: {"axis": a}, lambda a: {}, 17), range(-RANK, RANK + 1)),
]


@pytest.mark.parametrize(("kind", "parts", "allowed"), CASES, ids=lambda c: str(c)[:20])
def test_every_axis(
    kind: str, parts: Any, allowed: range, make_model: Any, onnxruntime_of: Any
) -> None:
    """Allowed ones give what ONNX Runtime gives; others name the node and the axis."""
    attributes, constants, opset = parts
    for axis in range(-2 * RANK - 2, 2 * RANK + 3):
        given = constants(axis)
        names = ["x", *(n if not isinstance(c, str) else "" for n, c in given.items())]
        outputs = ["y", "more"] if kind in ("Split", "TopK") else ["y"]
        node = helper.make_node(kind, names, outputs, "here", **attributes(axis))
        arrays = {n: c for n, c in given.items() if not isinstance(c, str)}
        path = make_model([node], {"x": SHAPE}, arrays, opset=opset)
        if axis in allowed:
            found = np.asarray(load(path)(X))
            # ONNX Runtime has no OneHot of floats, and of ArgMax the file says float.
            if kind not in ("ArgMax", "ArgMin", "OneHot"):
                wanted = onnxruntime_of(path, {"x": X})[0]
                np.testing.assert_allclose(found, wanted, rtol=1e-5)
            continue
        with pytest.raises(ModelError, match=rf"'here'.*{axis}"):
            load(path)
        with pytest.raises(ModelError, match="'here'"):
            onnx_backend.run_node(node, [X, *arrays.values()], opset_version=opset)


@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("axis", range(-5, 6))
def test_the_axis_of_scales(kind: str, axis: int, make_model: Any) -> None:
    count = of_size(axis)
    node = helper.make_node(kind, ["x", "s"], ["y"], "here", axis=axis)
    end = helper.make_node("DequantizeLinear", ["y", "s"], ["z"], "end", axis=axis)
    constants = {"s": np.full(count, 0.5, np.float32)}
    inputs: dict[str, Any] = {"x": SHAPE}
    nodes, output = [node, end], "z"
    if kind == "DequantizeLinear":
        constants["x"], inputs = np.ones(SHAPE, np.uint8), {}
        nodes, output = [node], "y"
    path = make_model(nodes, inputs, constants, (output,))
    if -RANK <= axis < RANK:
        load(path)
        return
    with pytest.raises(ModelError, match=f"'here' has axis={axis} for a value of rank"):
        load(path)
    x = constants.get("x", X)
    with pytest.raises(ModelError, match=f"has axis={axis} for a value of rank 3"):
        onnx_backend.run_node(node, [x, constants["s"]], opset_version=21)


def test_one_scale_does_not_need_its_axis(make_model: Any) -> None:
    """ONNX ignores the axis then, so files of vectors may state any."""
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=7)
    add = helper.make_node("Add", ["x", "d"], ["y"])
    constants = {"w": np.int8([1, 2]), "s": np.float32(0.5)}
    model = load(make_model([node, add], {"x": (2,)}, constants))
    assert model(np.zeros(2, np.float32)).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("kind", ["Gather", "GatherElements"])
def test_every_index_at_run_time(kind: str, make_model: Any) -> None:
    """Below -size a second wrap would pick an element that nobody asked for."""
    node = helper.make_node(kind, ["e", "i"], ["y"], axis=0)
    numbers = np.arange(5, dtype=np.float32)
    path = make_model([node], {"i": (7, (2,))}, {"e": numbers})
    model = load(path)
    for index in range(-11, 12):
        given = INTS([0, index])
        if -5 <= index < 5:
            assert model(given).tolist() == [0, numbers[index]]
            continue
        with pytest.raises(md.BoundsError, match="Indices go from -5 to 4"):
            model(given)


@pytest.mark.parametrize("kind", ["Gather", "GatherElements"])
@pytest.mark.parametrize("index", [-6, 5, -(2**63), 2**63 - 1])
def test_an_index_in_the_file(kind: str, index: int, make_model: Any) -> None:
    node = helper.make_node(kind, ["x", "i"], ["y"], "here", axis=0)
    path = make_model([node], {"x": (5,)}, {"i": INTS([0, index])})
    with pytest.raises(ModelError, match=f"'here' has index {index} for a value of si"):
        load(path)


@pytest.mark.parametrize("index", [-6, 5, -(2**63), 2**63 - 1])
def test_an_index_of_gather_nd(index: int, make_model: Any) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], "here")
    path = make_model([node], {"x": (2, 5)}, {"i": INTS([[0, 1], [1, index]])})
    with pytest.raises(ModelError, match=f"'here' has index {index} for a value of si"):
        load(path)


@pytest.mark.parametrize("length", [0, 3])
def test_the_length_of_an_index_of_gather_nd(length: int, make_model: Any) -> None:
    node = helper.make_node("GatherND", ["x", "i"], ["y"], "here")
    path = make_model([node], {"x": (2, 5)}, {"i": np.zeros((4, length), INTS)})
    with pytest.raises(ModelError, match=f"index length={length}. Use one from 1 to 2"):
        load(path)


@pytest.mark.parametrize("kind", ["Gather", "GatherND"])
@pytest.mark.parametrize("index", [-6, 5])
def test_an_index_into_an_axis_of_dynamic_size(
    kind: str, index: int, make_model: Any
) -> None:
    """Only a call knows the size; its plan is made with the index outside of it."""
    node = helper.make_node(kind, ["x", "i"], ["y"])
    given = INTS([[index]]) if kind == "GatherND" else INTS(index)
    model = load(make_model([node], {"x": ("n",)}, {"i": given}))
    with pytest.raises(md.MdtensorError, match="outside an axis of size 5"):
        model(np.zeros(5, np.float32))
    longer = np.arange(6, dtype=np.float32)
    assert model(longer).reshape((-1,)).tolist() == [longer[index]]


def test_gather_picks_from_an_axis_of_dynamic_size(make_model: Any) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    model = load(make_model([node], {"x": ("n",), "i": (7, (2,))}))
    x = np.arange(5, dtype=np.float32)
    assert model({"x": x, "i": INTS([-5, 4])}).tolist() == [0, 4]


@pytest.mark.parametrize("count", range(-2, 7))
def test_the_k_of_top_k(count: int, make_model: Any) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["y", "at"], "here")
    path = make_model([node], {"x": (4,)}, {"k": INTS([count])})
    if 0 <= count <= 4:
        assert load(path)(np.arange(4, dtype=np.float32)).shape == (count,)
        return
    with pytest.raises(ModelError, match=f"'here' has k={count}. Use one from 0 to 4"):
        load(path)


@pytest.mark.parametrize("k", [INTS(2), INTS([2, 1]), INTS([[2]])], ids=np.shape)
def test_the_shape_of_the_k_of_top_k(k: Any, make_model: Any) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["y", "at"], "here")
    path = make_model([node], {"x": (4,)}, {"k": k})
    with pytest.raises(ModelError) as caught:
        load(path)
    assert f"has k of shape {np.shape(k)}. Use the shape (1,)" in str(caught.value)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("end", [0, 1])
def test_a_reflected_pad_is_shorter_than_its_axis(
    size: int, end: int, make_model: Any, onnxruntime_of: Any
) -> None:
    x = np.arange(size, dtype=np.float32)
    for width in range(6):
        node = helper.make_node("Pad", ["x", "p"], ["y"], "here", mode="reflect")
        pads = INTS([width, 0] if end == 0 else [0, width])
        path = make_model([node], {"x": (size,)}, {"p": pads}, opset=18)
        if width < size:
            np.testing.assert_array_equal(
                np.asarray(load(path)(x)), onnxruntime_of(path, {"x": x})[0]
            )
            continue
        text = f"pad of axis 0 in mode reflect={width}. Use one from 0 to {size - 1}"
        with pytest.raises(ModelError, match=text):
            load(path)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_a_pad_of_nothing_does_not_run(mode: str, make_model: Any) -> None:
    relu = helper.make_node("Relu", ["x"], ["r"])
    pad = helper.make_node("Pad", ["r", "p"], ["y"], "here", mode=mode)
    model = load(make_model([relu, pad], {"x": SHAPE}, {"p": np.zeros(6, INTS)}))
    assert len(model.plan().nodes) == 1
    assert np.asarray(model(X - 9)).tolist() == np.maximum(X - 9, 0).tolist()


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_an_axis_of_size_0_has_nothing_to_repeat(mode: str, make_model: Any) -> None:
    for width in range(3):
        node = helper.make_node("Pad", ["x", "p"], ["y"], "here", mode=mode)
        pads = {"p": INTS([0, 1, width, 1])}
        path = make_model([node], {"x": (0, 3)}, pads, opset=19)
        x = np.zeros((0, 3), np.float32)
        if width == 0:
            assert load(path)(x).shape == (0, 5)
            continue
        text = f"pad of axis 0 in mode {mode}={width}. Use one from 0 to 0"
        with pytest.raises(ModelError, match=text):
            load(path)(x)


def test_axes_and_indices_are_counted_from_the_front() -> None:
    for size in range(4):
        for number in range(-6, 7):
            exists = -size <= number < size
            for count in (normalize_axis, normalize_index):
                if exists:
                    assert count(OP, number, size) == range(size)[number]
                else:
                    with pytest.raises(
                        ModelError, match=f"Gather 'here' has .*{number}"
                    ):
                        count(OP, number, size)
    assert normalize_axis(OP, 2, 2, past=1) == 2
    assert normalize_axes(OP, (2, -3), 3) == (2, 0)
    with pytest.raises(ModelError, match="names an axis twice"):
        normalize_axes(OP, (1, -2), 3)


def test_counts_and_limits() -> None:
    require_count(OP, (1, 2), 2, "pads")
    with pytest.raises(ModelError, match="has 2 numbers as pads, expected 4"):
        require_count(OP, (1, 2), 4, "pads")
    require_between(OP, 4, 0, 4, "k")
    for value in (-1, 5, float("nan")):
        with pytest.raises(ModelError, match=f"has k={value}. Use one from 0 to 4"):
            require_between(OP, value, 0, 4, "k")


EMPTY = [(0,), (0, 1), (1, 0), (0, 0), (2, 0, 3)]


@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("storage", [np.float32, np.int32])
def test_extremes_along_empty_axes(
    shape: tuple[int, ...],
    kind: str,
    keepdims: int,
    storage: Any,
    make_model: Any,
    onnxruntime_of: Any,
) -> None:
    """Of no elements it is the least or the greatest number; others stay empty."""
    counts = range(1, len(shape) + 1)
    sets = [axes for count in counts for axes in combinations(range(len(shape)), count)]
    given = {f"a{i}": np.array(axes, INTS) for i, axes in enumerate(sets)}
    outputs = tuple(f"y{i}" for i in range(len(sets)))
    nodes = [helper.make_node("Slice", ["x", "starts", "ends"], ["none"])]
    for axes, output in zip(given, outputs, strict=True):
        found = f"{output}.found"
        made = helper.make_node(kind, ["none", axes], [found], keepdims=keepdims)
        nodes += [made, helper.make_node("Cast", [found], [output], to=1)]
    given |= {"starts": np.zeros(len(shape), INTS), "ends": np.array(shape, INTS)}
    x = np.ones([size or 1 for size in shape], storage)
    inputs = {"x": (helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)}
    path = make_model(nodes, inputs, given, outputs, opset=18)
    results: Any = load(path)(x)
    results = results if isinstance(results, tuple) else (results,)
    for ours, wanted in zip(results, onnxruntime_of(path, {"x": x}), strict=True):
        assert ours.shape == wanted.shape
        assert np.asarray(ours).tolist() == wanted.tolist()
