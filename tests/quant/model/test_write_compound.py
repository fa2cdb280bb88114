"""Operations that are written as several operators: ONNX Runtime, and what is read."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import load
from mdtensor.quant.model.model import Model

RNG = np.random.default_rng(5)
#: Zeros of both signs, infinities, NaN, and numbers with and without a rest.
ENDS = np.array([0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf, np.nan, 7, -7, 0.1, 3])
SIGNED = np.meshgrid(np.arange(-20, 21), [n for n in range(-7, 8) if n])
FLOATS = [np.float32, np.float64, np.float16]


def model_of(operation: Any, arrays: Any, options: Any, inputs: Any = ()) -> Model:
    specs = {
        f"x{i}": md.TensorSpec(type(md.asarray(a)), a.shape)
        for i, a in enumerate(arrays)
    }
    node = Node("n", operation, (*specs, *inputs), "y", options)
    return Model(Graph(specs, (node,), {}, ("y",)))


def written(
    folder: Path, onnxruntime_of: Any, model: Model, arrays: Any
) -> tuple[Any, Any, Any]:
    """The results of a model, of its file in ONNX Runtime, and of its file read."""
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    model.save(folder / "m.onnx")
    theirs = onnxruntime_of(folder / "m.onnx", feeds)[0]
    again = load(folder / "m.onnx")
    return np.asarray(model(**feeds)), theirs, np.asarray(again(**feeds))


def same(found: Any, wanted: Any) -> bool:
    """Equal elements, with the signs of zeros; a NaN equals a NaN of any payload."""
    if found.dtype.kind == "f":
        signs = np.signbit(found) == np.signbit(wanted)
        is_one = np.isnan(wanted) | (signs & (found == wanted))
        return found.dtype == wanted.dtype and bool(is_one.all())
    return found.dtype == wanted.dtype and np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_trunc(dtype: Any, tmp_path: Path, onnxruntime_of: Any) -> None:
    rest = np.random.default_rng(6).standard_normal(300) * 5
    array = np.hstack([ENDS, [-0.3, 0.7, -4e4, 3e4], rest])
    array = array.astype(dtype)
    model = model_of(md.trunc, [array], {})
    found, theirs, again = written(tmp_path, onnxruntime_of, model, [array])
    assert same(theirs, found) and same(again, found)
    assert same(found, np.trunc(array))


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_layer_of_integers(
    dtype: Any, has_bias: bool, tmp_path: Path, onnxruntime_of: Any
) -> None:
    shapes = [(3, 4), (5, 4), (5,)][: 2 + has_bias]
    rng = np.random.default_rng(6)
    arrays = [rng.integers(-99, 99, shape).astype(dtype) for shape in shapes]
    model = model_of(md.linear, arrays, {}, () if has_bias else (None,))
    found, theirs, again = written(tmp_path, onnxruntime_of, model, arrays)
    assert same(theirs, found) and same(again, found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", [md.remainder, md.floor_divide, md.copysign])
def test_divisions_of_floats(
    operation: Any, dtype: Any, tmp_path: Path, onnxruntime_of: Any
) -> None:
    ends = np.meshgrid(ENDS, ENDS)
    tenths = [np.round(RNG.standard_normal(300), 1), np.full(300, 0.1)]
    for pair in (ends, tenths, RNG.standard_normal((2, 500)) * 5):
        arrays = [np.asarray(x, dtype) for x in pair]
        model = model_of(operation, arrays, {})
        found, theirs, again = written(tmp_path, onnxruntime_of, model, arrays)
        assert same(again, found)
        np.testing.assert_array_equal(theirs, found)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint8])
@pytest.mark.parametrize("operation", [md.remainder, md.floor_divide])
def test_divisions_of_integers(
    operation: Any, dtype: Any, tmp_path: Path, onnxruntime_of: Any
) -> None:
    arrays = [np.ascontiguousarray(x).astype(dtype) for x in SIGNED]
    model = model_of(operation, arrays, {})
    found, theirs, again = written(tmp_path, onnxruntime_of, model, arrays)
    assert same(again, found) and same(theirs, found)


@pytest.mark.parametrize("operation", [md.isfinite, md.isinf])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
def test_what_is_finite(
    operation: Any, dtype: Any, tmp_path: Path, onnxruntime_of: Any
) -> None:
    numbers = np.arange(-6, 7) if dtype is np.int32 else ENDS
    arrays = [numbers.astype(dtype)]
    model = model_of(operation, arrays, {})
    found, theirs, again = written(tmp_path, onnxruntime_of, model, arrays)
    assert same(again, found) and same(theirs, found)


#: An operation, the shape of its argument, and options; exact in any runtime.
EXACT: list[tuple[Any, tuple[int, ...], dict[str, Any]]] = [
    (md.flip, (2, 3, 4), {}),
    (md.flip, (2, 3, 4), {"axis": (0, -1)}),
    (md.flip, (), {}),
    (md.cumulative_sum, (4, 9), {"axis": -1, "include_initial": True}),
    (md.cumulative_sum, (4,), {"dtype": md.float64}),
    (md.argsort, (4, 9), {}),
    (md.argsort, (4, 9), {"axis": 0, "descending": True}),
    (md.sort, (4, 9), {"descending": True}),
    *((md.interpolate, (2, 3, 9, 7), {"size": size}) for size in [(6, 14), (11, 5)]),
    (md.interpolate, (2, 3, 9, 7), {"scale_factor": (0.5, 1.5)}),
    (md.interpolate, (2, 3, 9, 7), {"size": (4, 13), "mode": "nearest-exact"}),
    *(
        (md.getitem, (4, 5, 6), {"key": key})
        for key in [
            (md.asarray([0, -1]),),
            (slice(None), md.asarray([[1, 2], [3, -4]])),
            (slice(None), slice(None), md.asarray(2)),
            (md.asarray([0, 1]), md.asarray([[2], [1]]), md.asarray([5, 0])),
            (1, md.asarray([2, 3])),
        ]
    ),
]
#: The same; runtimes differ in the order of their sums.
ROUNDED: list[tuple[Any, tuple[int, ...], dict[str, Any]]] = [
    (operation, (2, 5, 7), options)
    for operation in (md.var, md.std)
    for options in (
        {},
        {"axis": 1},
        {"axis": (0, 2), "keepdims": True, "correction": 1.0},
        {"axis": 0, "correction": 2.0},
        {"axis": ()},
    )
]
ROUNDED += [
    (md.interpolate, (2, 3, 9, 7), {"size": (6, 14), "mode": mode, "align_corners": on})
    for mode in ("bilinear", "bicubic")
    for on in (False, True)
]
ROUNDED += [(md.interpolate, (2, 3, 9, 7), {"scale_factor": 2.0, "mode": "bilinear"})]


@pytest.mark.parametrize(("operation", "shape", "options"), EXACT)
def test_elements_that_are_moved(
    operation: Any, shape: Any, options: Any, tmp_path: Path, onnxruntime_of: Any
) -> None:
    arrays = [
        np.asarray(np.round(RNG.standard_normal(shape) * 3), np.float32)
    ]  # with ties
    model = model_of(operation, arrays, options)
    found, theirs, again = written(tmp_path, onnxruntime_of, model, arrays)
    assert again.tobytes() == found.tobytes() and same(theirs, found)


@pytest.mark.parametrize(("operation", "shape", "options"), ROUNDED)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums(
    operation: Any, shape: Any, options: Any, dtype: Any, tmp_path: Path,
    onnxruntime_of: Any,
) -> None:  # fmt: skip
    if operation is md.interpolate and dtype is not np.float32:
        pytest.skip("one type is enough")
    arrays = [RNG.standard_normal(shape).astype(dtype)]
    model = model_of(operation, arrays, options)
    found, theirs, again = written(tmp_path, onnxruntime_of, model, arrays)
    assert same(again, found)
    np.testing.assert_allclose(theirs, found, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("eps", [None, 2.0**-10])
@pytest.mark.parametrize("sizes", [7, (5, 7)])
def test_rms_norm(
    dtype: Any, eps: Any, sizes: Any, tmp_path: Path, onnxruntime_of: Any
) -> None:
    arrays = [RNG.standard_normal((2, 5, 7)).astype(dtype)]
    options = {"normalized_shape": sizes, "eps": eps}
    for inputs in ((None,), ("x1",)):
        given = [*arrays, RNG.standard_normal(sizes).astype(dtype)][
            : 1 + (None not in inputs)
        ]
        model = model_of(md.rms_norm, given, options, () if len(given) > 1 else (None,))
        found, theirs, again = written(tmp_path, onnxruntime_of, model, given)
        assert again.tobytes() == found.tobytes()
        np.testing.assert_allclose(theirs, found, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(
    ("operation", "options", "words"),
    [
        (md.interpolate, {"scale_factor": 0.3}, "float32 does not represent"),
        (md.getitem, {"key": (slice(1, 3), md.asarray([0, 1]))}, "indexes with more"),
        (md.getitem, {"key": (None, md.asarray([0]))}, "indexes with more"),
    ],
)
def test_what_cannot_be_written(
    operation: Any, options: Any, words: str, tmp_path: Path
) -> None:
    model = model_of(operation, [np.ones((2, 3, 9, 7), np.float32)], options)
    with pytest.raises(ModelError, match=words):
        model.save(tmp_path / "m.onnx")


@pytest.mark.parametrize("operation", [md.argsort, md.sort, md.var])
def test_a_size_must_be_known(operation: Any, tmp_path: Path) -> None:
    spec = md.TensorSpec(md.Float32Tensor, (2, -1))
    node = Node("n", operation, ("x",), "y", {"axis": 1})
    with pytest.raises(
        ModelError, match=r"dynamic size\. Load the model with input_sh"
    ):
        Model(Graph({"x": spec}, (node,), {}, ("y",))).save(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "options",
    [
        {"size": (8, 10), "mode": "bilinear"},
        {"size": (7, 9), "mode": "nearest"},
        {"scale_factor": (2, 1.5), "mode": "nearest-exact"},
    ],
)
def test_resized_codes_in_a_runtime_that_optimizes(
    options: Any, tmp_path: Path
) -> None:
    """ONNX Runtime moves channels of codes, and forgets the axes of a Resize then."""
    # Without sums of two products, which that runtime saturates on some CPUs.
    weights = [np.eye(*shape, dtype=np.float32) for shape in ((4, 3), (2, 4))]
    constants = {
        f"w{i}": md.asarray(w.reshape(*w.shape, 1, 1)) for i, w in enumerate(weights)
    }
    nodes = (
        Node("a", md.conv2d, ("x", "w0", None), "a", {}),
        Node("b", md.interpolate, ("a",), "b", options),
        Node("c", md.conv2d, ("b", "w1", None), "y", {}),
    )
    spec = md.TensorSpec(md.Float32Tensor, (2, 3, 4, 5))
    model = Model(Graph({"x": spec}, nodes, constants, ("y",)))
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    small = model.quantize(model.calibrate([x]))
    small.save(path := tmp_path / "m.onnx")
    wanted = np.asarray(small(x))
    assert np.asarray(load(path)(x)).tolist() == wanted.tolist()
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(path), providers=providers)
    (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, atol=0.05 * abs(wanted).max())
