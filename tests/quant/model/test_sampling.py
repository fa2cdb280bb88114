"""Operators that sample images, against ONNX Runtime; and networks around them."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.each import each

from mdtensor.errors import ModelError
from mdtensor.quant import load

RNG = np.random.default_rng(5)
X = RNG.standard_normal((2, 4, 7, 9), np.float32)
BOXES = RNG.uniform(-2, 8, (5, 4)).astype(np.float32)
BOXES[:, 2:] += 9
IMAGES = np.array([0, 1, 1, 0, 1])
ROWS = np.concatenate([IMAGES[:, None], BOXES], axis=1).astype(np.float32)


class Case:
    """A node, its inputs and its operator set."""

    def __init__(self, kind: str, opset: int, *inputs: Any, **attributes: Any):
        self.kind, self.opset, self.inputs = kind, opset, inputs
        self.attributes = attributes

    def __str__(self) -> str:
        return f"{self.kind}-{self.opset} {self.attributes}"


def points(*shape: int) -> Any:
    return RNG.uniform(-1.4, 1.4, shape).astype(np.float32)


CASES = [
    *(
        Case("GridSample", 20, X, points(2, 5, 6, 2), mode=m, padding_mode=p, **corners)
        for m in ("linear", "nearest", "cubic")
        for p in ("zeros", "border", "reflection")
        for corners in ({}, {"align_corners": 1})
    ),
    Case("GridSample", 16, X, points(2, 3, 3, 2), mode="bicubic"),
    Case("GridSample", 20, np.stack([X, -X], -1), points(2, 3, 3, 2, 3)),
    *(
        Case("RoiAlign", 16, X, BOXES, IMAGES, mode=m, sampling_ratio=r, output_width=3)
        for m, r in product(("avg", "max"), (0, 2))
    ),
    Case("RoiAlign", 10, X, BOXES, IMAGES, spatial_scale=0.5, output_height=2),
    Case("MaxRoiPool", 14, X, ROWS, pooled_shape=[3, 2], spatial_scale=0.625),
]


def node_of(case: Case) -> tuple[Any, dict[str, Any]]:
    names = [f"in{i}" for i in range(len(case.inputs))]
    feeds = dict(zip(names, case.inputs, strict=True))
    return helper.make_node(case.kind, names, ["y"], **case.attributes), feeds


@each("case", CASES)
def test_against_onnxruntime(
    case: Case, make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    node, feeds = node_of(case)
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in feeds.items()}
    inputs = {name: (kinds[name], array.shape) for name, array in feeds.items()}
    path = make_model([node], inputs, opset=case.opset)
    (wanted,) = onnxruntime_of(path, feeds)
    model, saved = load(path), tmp_path / "saved.onnx"
    model.save(saved)
    for found in (model(**feeds), load(saved)(**feeds), *onnxruntime_of(saved, feeds)):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=3e-6)


def deformable(**attributes: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a node, its inputs that change, and its constants."""
    groups, apart = attributes.get("group", 1), attributes.get("offset_group", 1)
    w = RNG.standard_normal((6, 4 // groups, 3, 2), np.float32)
    stride, pads = attributes.get("strides", [1, 1]), attributes.get("pads", [0] * 4)
    step = attributes.get("dilations", [1, 1])
    out = [
        (n + pads[i] + pads[i + 2] - (k - 1) * step[i] - 1) // stride[i] + 1
        for i, (n, k) in enumerate(((7, 3), (9, 2)))
    ]
    offset = RNG.uniform(-2, 2, (2, apart * 12, *out)).astype(np.float32)
    mask = RNG.random((2, apart * 6, *out), np.float32)
    names = ["x", "w", "offset", "b", "mask"]
    node = helper.make_node("DeformConv", names, ["y"], **attributes)
    known = {"w": w, "b": RNG.standard_normal(6, np.float32)}
    return node, {"x": X, "offset": offset, "mask": mask}, known


DEFORMABLE: list[dict[str, Any]] = [
    {},
    {"pads": [1, 0, 2, 1], "strides": [2, 1]},
    {"dilations": [2, 3], "group": 2, "offset_group": 4},
]


@each("attributes", DEFORMABLE)
def test_deformable_convolutions(
    attributes: dict[str, Any], make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    node, feeds, known = deformable(**attributes)
    shapes = {name: a.shape for name, a in feeds.items()}
    path = make_model([node], shapes, known, opset=19)
    (wanted,) = ReferenceEvaluator(str(path)).run(None, feeds)
    model = load(path)
    np.testing.assert_allclose(np.asarray(model(**feeds)), wanted, rtol=1e-4, atol=1e-4)
    model.save(tmp_path / "saved.onnx")
    (saved,) = onnxruntime_of(tmp_path / "saved.onnx", feeds)
    np.testing.assert_allclose(saved, wanted, rtol=1e-4, atol=2e-4)
    small = model.quantize(model.calibrate([feeds]))
    operations = {n.operation for n in small.plan().float_nodes}
    assert "grid_sample" in operations and "conv2d" not in operations
    error = np.asarray(small(**feeds)) - wanted
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(wanted)


COLUMNS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"dilations": [1, 2]},
]


@each("attributes", COLUMNS)
def test_columns_become_an_image(
    attributes: dict[str, Any], make_model: Any, onnxruntime_of: Any, tmp_path: Any
) -> None:
    pads, stride = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    step = attributes.get("dilations", [1, 1])
    counts = [
        (n + pads[i] + pads[i + 2] - (k - 1) * step[i] - 1) // stride[i] + 1
        for i, (n, k) in enumerate(((6, 3), (5, 2)))
    ]
    x = RNG.integers(-9, 9, (2, 18, np.prod(counts))).astype(np.float32)
    node = helper.make_node("Col2Im", ["x", "size", "block"], ["y"], **attributes)
    known = {"size": np.array([6, 5]), "block": np.array([3, 2])}
    path = make_model([node], {"x": x.shape}, known, opset=18)
    (wanted,) = onnxruntime_of(path, {"x": x})
    model = load(path)
    model.save(tmp_path / "saved.onnx")
    for one in (model, load(tmp_path / "saved.onnx")):
        assert one(x).tolist() == wanted.tolist()
    (saved,) = onnxruntime_of(tmp_path / "saved.onnx", {"x": x})
    assert saved.tolist() == wanted.tolist()


def test_a_pool_undone(make_model: Any, onnxruntime_of: Any) -> None:
    pool = {"kernel_shape": [2, 3], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["most", "at"], **pool),
        helper.make_node("MaxUnpool", ["most", "at"], ["y"], **pool),
    ]
    x = X[:, :, :6]
    path = make_model(nodes, {"x": x.shape}, opset=12)
    (wanted,) = onnxruntime_of(path, {"x": x})
    found = load(path)(x)
    assert found.tolist() == wanted.tolist()
    assert np.isin(np.asarray(found), [0, *x.reshape(-1)]).all()


@pytest.mark.parametrize(
    ("node", "inputs", "words"),
    [
        (
            helper.make_node("Col2Im", ["x", "s", "b"], ["y"]),
            {"x": (1, 7, 4), "s": [2, 2], "b": [2, 1]},
            "reads 7 rows and 4 columns",
        ),
        (
            helper.make_node("Col2Im", ["x", "s", "b"], ["y"]),
            {"x": (1, 6, 4), "s": [2, 2], "b": [3, 1]},
            r"blocks of \[3, 1\] for an image of \[2, 2\]",
        ),
        (
            helper.make_node("DeformConv", ["x", "w", "o"], ["y"]),
            {"x": (1, 2, 4, 4), "w": (3, 2, 2, 2), "o": (1, 8, 3, 2)},
            r"offsets for \(3, 2\) positions, where the window has \(3, 3\)",
        ),
        (
            helper.make_node("DeformConv", ["x", "w", "o"], ["y"]),
            {"x": (1, 2, 4, 4), "w": (3, 2, 2, 2), "o": (1, 4, 3, 3)},
            r"reads 'o' of shape \(1, 4, 3, 3\)",
        ),
        (
            helper.make_node("GridSample", ["x", "w"], ["y"], mode="cube"),
            {"x": (1, 2, 4, 4), "w": (1, 2, 2, 2)},
            "has mode=cube",
        ),
    ],
)
def test_wrong_nodes(node: Any, inputs: Any, words: str, make_model: Any) -> None:
    known = {name: np.array(n) for name, n in inputs.items() if isinstance(n, list)}
    shapes = {name: n for name, n in inputs.items() if name not in known}
    kinds = {name: (TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    with pytest.raises(ModelError, match=words):
        load(make_model([node], kinds, known, opset=20))


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("image", [(3, 4), (4, 3, 5), (2, 1), (1, 3, 1)], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_grids_of_matrices(
    batch: int, image: tuple[int, ...], aligned: int, make_model: Any, tmp_path: Any
) -> None:
    """A single image, and an axis of one pixel: the definition divides by 0."""
    axes = len(image)
    theta = RNG.standard_normal((batch, axes, axes + 1), np.float32)
    node = helper.make_node("AffineGrid", ["x", "size"], ["y"], align_corners=aligned)
    size = np.array([batch, 2, *image])
    path = make_model([node], {"x": theta.shape}, {"size": size}, opset=20)
    with np.errstate(divide="ignore"):
        (wanted,) = ReferenceEvaluator(str(path)).run(None, {"x": theta})
    model = load(path)
    model.save(tmp_path / "saved.onnx")
    for found in (model(theta), load(tmp_path / "saved.onnx")(theta)):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=2e-6)


def test_grids_that_do_not_fit(make_model: Any) -> None:
    node = helper.make_node("AffineGrid", ["x", "size"], ["y"])
    for shape, size in (
        ((1, 2, 3), [2, 1, 4, 4]),
        ((1, 3, 4), [1, 1, 4, 4]),
        ((1, 2, 3), [1, 1, 4]),
        ((1, 2, 3), [1, 1, -4, 4]),
    ):
        path = make_model([node], {"x": shape}, {"size": np.array(size)}, opset=20)
        with pytest.raises(ModelError, match=r"^AffineGrid 'y' has .*matri"):
            load(path)


@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_aspect_ratio_that_leaves_no_pixel(
    mode: str, antialias: int, make_model: Any, onnxruntime_of: Any
) -> None:
    node = helper.make_node(
        "Resize",
        ["x", "", "", "sizes"],
        ["y"],
        mode=mode,
        antialias=antialias,
        axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
    )
    x = X[:, :, :1, :5]
    path = make_model([node], {"x": x.shape}, {"sizes": np.array([5, 2])}, opset=19)
    (wanted,) = onnxruntime_of(path, {"x": x})
    assert np.asarray(load(path)(x)).shape == wanted.shape == (2, 4, 0, 2)


def test_a_region_outside_without_weights(make_model: Any, onnxruntime_of: Any) -> None:
    node = helper.make_node(
        "Resize",
        ["x", "region", "", "sizes"],
        ["y"],
        mode="cubic",
        exclude_outside=1,
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=3.0,
    )
    region = np.array([0, 0, 5, -9, 1, 1, 7, -5], np.float32)
    constants = {"region": region, "sizes": np.array([2, 4, 3, 2])}
    path = make_model([node], {"x": X.shape}, constants, opset=18)
    (wanted,) = onnxruntime_of(path, {"x": X})
    assert np.asarray(load(path)(X)).tolist() == wanted.tolist()
