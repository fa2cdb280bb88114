"""Operators that select elements or join updates, against ONNX Runtime and loops."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.each import each

from mdtensor.errors import BoundsError, ModelError
from mdtensor.quant import DecidedModel, load

RNG = np.random.default_rng(8)
X = RNG.integers(-3, 4, (4, 3, 5)).astype(np.float32)
BOXES = RNG.integers(0, 9, (2, 20, 4)).astype(np.float32)
SCORES = RNG.random((2, 3, 20), np.float32)
FLAGS = np.array([True, False, True, True])
INDEX = np.array([[[2, -1], [0, 2]], [[1, 1], [-2, 0]]])
LIMITS = [np.array([n], t) for n, t in ((7, "i8"), (0.25, "f4"), (0.125, "f4"))]


class Case:
    """A node, its inputs, and how many of them the file fixes, from the last one."""

    def __init__(self, kind: str, *inputs: Any, fixed: int = 0, **attributes: Any):
        self.kind, self.inputs, self.fixed = kind, inputs, fixed
        self.outputs = attributes.pop("outputs", 1)
        # Counts and orders of a number of elements that the data decides have no
        # operator in ONNX.
        is_counted = kind == "Unique" and self.outputs == 4
        self.is_saved = not is_counted and inputs[0].size > 0
        self.attributes = attributes

    def __str__(self) -> str:
        return f"{self.kind} {self.attributes} {self.fixed}"


CASES = [
    Case("NonZero", X),
    Case("NonZero", np.array(3.0, np.float32)),
    *(Case("Compress", X, FLAGS, fixed=n, axis=0) for n in (0, 1)),
    Case("Compress", X, FLAGS[:3], axis=2),
    Case("Compress", X, FLAGS[:3], axis=-2),
    Case("Compress", X, FLAGS),
    *(Case("GatherND", X, INDEX, fixed=n, batch_dims=0) for n in (0, 1)),
    *(Case("GatherND", X[:2], INDEX, fixed=n, batch_dims=1) for n in (0, 1)),
    *(
        Case("GatherND", X, np.array([1, 0, 2][:depth]), fixed=n)
        for depth in (1, 2, 3)
        for n in (0, 1)
    ),
    Case("GatherND", X[:2, :2], INDEX[..., :1], batch_dims=2),
    *(Case("Unique", X, outputs=4, sorted=n) for n in (0, 1)),
    *(Case("Unique", X[:, 0] % 2, outputs=4, axis=a, sorted=1) for a in (0, -1)),
    Case("Unique", np.array([3, 1, 3, -2]), outputs=4, sorted=0),
    Case("Unique", X, outputs=3),
    Case("Unique", X[:0], outputs=3),
    Case("NonMaxSuppression", BOXES, SCORES, *LIMITS, fixed=3),
    Case("NonMaxSuppression", BOXES, SCORES, *LIMITS, fixed=3, center_point_box=1),
    Case("NonMaxSuppression", BOXES, SCORES, *LIMITS[:1], fixed=1),
    *(
        Case("ScatterElements", X, INDEX[:, :, :1] % 3, X[:2, :2, :1], **options)
        for reduction in ("add", "mul", "max", "min")
        for options in ({"reduction": reduction, "axis": 1},)
    ),
    *(
        Case("ScatterND", X[:3, :3], INDEX % 3, X[:2, :2] + 1, **options)
        for reduction in ("add", "mul", "max", "min")
        for options in ({"reduction": reduction, "fixed": n} for n in (0,))
    ),
]


def write(make_model: Any, case: Case) -> tuple[Any, dict[str, Any]]:
    names = [f"in{i}" for i in range(len(case.inputs))]
    outputs = [f"out{i}" for i in range(case.outputs)]
    node = helper.make_node(case.kind, names, outputs, **case.attributes)
    known = dict(zip(names, case.inputs, strict=True))
    fixed = {name: known.pop(name) for name in names[len(names) - case.fixed :]}
    kinds = {
        name: helper.np_dtype_to_tensor_dtype(a.dtype) for name, a in known.items()
    }
    inputs = {name: (kinds[name], array.shape) for name, array in known.items()}
    path = make_model([node], inputs, fixed, tuple(outputs), opset=18)
    return path, known


@each("case", CASES)
def test_against_onnxruntime(
    case: Case, make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    path, feeds = write(make_model, case)
    model = load(path)
    models, saved = [model], tmp_path / "saved.onnx"
    if case.is_saved:
        model.save(saved)
        models.append(load(saved))
    wanted = onnxruntime_of(_typed(path), feeds)
    for one in models:
        found = one(**feeds)
        found = found if isinstance(found, tuple) else (found,)
        for ours, theirs in zip(found, wanted, strict=True):
            assert (ours.shape, ours.tolist()) == (theirs.shape, theirs.tolist())


def _typed(path: Any) -> Any:
    """The file with outputs of the types that ONNX infers."""
    model = onnx.load(path)
    names = [value.name for value in model.graph.output]
    del model.graph.output[:]
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {value.name: value for value in inferred.graph.value_info}
    model.graph.output.extend(known[name] for name in names)
    onnx.save(model, path)
    return path


def test_a_plan_says_what_depends_on_elements(make_model: Any) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["x", "rows"], ["y"]),
    ]
    model = load(make_model(nodes[:2], {"x": (2, 3)}, outputs=("rows",)))
    plan = model.plan()
    assert {node.why for node in plan.nodes} == {
        "a size depends on the elements of the inputs"
    }
    x = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
    for given in (x, 0 * x, x[::-1].copy()):
        assert model(given).tolist() == np.argwhere(given).tolist()
    # GatherND needs the number of rows, which each call counts first.
    model = load(make_model(nodes, {"x": (2, 3)}))
    assert isinstance(model, DecidedModel)
    assert model(x).tolist() == [1, 2, 3] and model(0 * x).tolist() == []


def test_quantized_beside_a_selection(make_model: Any) -> None:
    weights = RNG.standard_normal((6, 5)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["a"]),
        helper.make_node(
            "ScatterElements", ["a", "at", "a"], ["y"], axis=1, reduction="add"
        ),
    ]
    index = RNG.integers(0, 6, (3, 6))
    known = {"w": weights.T.copy(), "at": index}
    model = load(make_model(nodes, {"x": (3, 5)}, known, opset=18))
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    small = model.quantize(model.calibrate([x]))
    assert np.abs(np.asarray(small(x)) - np.asarray(model(x))).max() < 0.2
    assert {"scatter"} == {node.operation for node in small.plan().float_nodes}


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (Case("GatherND", X[:2], INDEX, batch_dims=3), "batch_dims=3"),
        (Case("GatherND", X, INDEX, batch_dims=1), "with batch_dims=1"),
        (Case("GatherND", X, INDEX + 2, fixed=1), "has index 4 for a value of size 4"),
        (Case("Compress", X[:2], FLAGS, fixed=1, axis=0), "its condition=4"),
        (
            Case("ScatterND", X, INDEX[0], X[:2, 0], fixed=2, reduction="sum"),
            "has reduction=sum",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(case: Case, wanted: str, make_model: Any) -> None:
    with pytest.raises(ModelError, match=wanted):
        load(write(make_model, case)[0])


def test_an_index_of_the_data_is_checked(make_model: Any) -> None:
    path, feeds = write(make_model, Case("GatherND", X[:2], INDEX, batch_dims=1))
    model = load(path)
    with pytest.raises(BoundsError, match="outside an axis of size 3"):
        model(**{**feeds, "in1": INDEX + 2})
    path, feeds = write(
        make_model, Case("ScatterND", X, INDEX, X[:2, :2], reduction="add")
    )
    with pytest.raises(BoundsError, match="outside an axis of size 4"):
        load(path)(**{**feeds, "in1": INDEX + 2})


def test_types_of_an_input(make_model: Any) -> None:
    node = helper.make_node("Compress", ["x", "c"], ["y"])
    inputs = {"x": (TensorProto.INT64, (4,)), "c": (TensorProto.BOOL, (4,))}
    model = load(make_model([node], inputs))
    found = model(np.array([5, 6, 7, 8]), FLAGS)
    assert found.tolist() == [5, 7, 8] and found.dtype.name == "int64"
