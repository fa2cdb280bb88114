"""Each operator against ONNX Runtime: as read, and as written again."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from mdtensor.errors import ModelError
from mdtensor.quant.model.load import load
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.onnx.write import write_graph
from mdtensor.quant.model.passes.simplify import simplify

I64 = np.int64


@dataclass
class Case:
    """One operator: its kind, shapes of its inputs, constants, attributes, opset."""

    kind: str
    shapes: tuple[Any, ...] = ((2, 3, 5, 6),)
    constants: tuple[Any, ...] = ()
    opset: int = 17
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = "-".join(f"{k}{v}" for k, v in self.attributes.items())
        return f"{self.kind}-{self.opset}-{shown}"[:60].replace(" ", "")


def case(kind: str, *constants: Any, shapes: Any = None, opset: int = 17, **kw: Any):
    return Case(kind, shapes or ((2, 3, 5, 6),), constants, opset, kw)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


def scales(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


EMPTY = scales()
UNARY = ["Relu", "Sigmoid", "Tanh", "Exp", "Neg", "HardSigmoid", "HardSwish"]
UNARY += ["GlobalAveragePool", "Identity", "Flatten"]
BINARY = ["Add", "Sub", "Mul", "Div"]
BATCH_NORM = (weights(3), weights(3), weights(3), np.abs(weights(3)) + 0.5)
CASES = [
    *(case(kind) for kind in UNARY),
    *(case(kind, weights(3, 1, 1)) for kind in BINARY),
    *(case(kind, shapes=((2, 3), (3,))) for kind in BINARY),
    case("HardSigmoid", alpha=0.3, beta=0.4),
    case("Conv", weights(4, 3, 3, 3)),
    case("Conv", weights(4, 3, 3, 3), weights(4), pads=[1, 0, 2, 1], strides=[2, 1]),
    case("Conv", weights(6, 1, 3, 3), group=3, dilations=[1, 2]),
    case("Conv", weights(4, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", weights(4, 3, 2, 4), auto_pad="SAME_LOWER", strides=[2, 3]),
    case("Conv", weights(4, 3, 3, 3), auto_pad="VALID"),
    case("Gemm", weights(4, 6), shapes=((5, 4),)),
    case("Gemm", weights(6, 4), weights(6), shapes=((5, 4),), transB=1),
    case("Gemm", weights(6, 4), weights(1, 6), shapes=((5, 4),), transB=1),
    case("Gemm", weights(6, 4), weights(5, 1), shapes=((5, 4),), transB=1, beta=0.5),
    case("Gemm", weights(4, 6), weights(6), shapes=((5, 4),), alpha=0.5, beta=2.0),
    case("MatMul", weights(6, 4)),
    case("MatMul", weights(3, 6, 4)),
    case("Clip", opset=10, min=-0.5, max=0.25),
    case("Clip", np.float32(-0.5), np.float32(0.25)),
    case("Clip", np.float32(0)),
    case("Clip", np.float32(0), np.float32(6)),
    case("Clip", np.float32(2), np.float32(1)),
    case("Softmax", opset=11),
    case("Softmax", opset=11, axis=2),
    case("Softmax", opset=11, axis=3),
    case("Softmax"),
    case("Softmax", axis=1),
    case("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    case("MaxPool", kernel_shape=[3, 2], pads=[1, 0, 1, 1]),
    case("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case("MaxPool", kernel_shape=[1, 2], strides=[2, 4], ceil_mode=1),
    case("AveragePool", kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1),
    case("AveragePool", kernel_shape=[2, 3], strides=[2, 1]),
    case("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]),
    case("BatchNormalization", *BATCH_NORM),
    case("BatchNormalization", *BATCH_NORM, epsilon=0.1, opset=13),
    case("ReduceMean"),
    case("ReduceMean", axes=[2, 3]),
    case("ReduceMean", axes=[-1], keepdims=0),
    case("ReduceMean", ints(1, 2), opset=18),
    case("Reshape", ints(2, -1)),
    case("Reshape", ints(0, 0, 30)),
    case("Flatten", axis=2),
    case("Flatten", axis=0),
    case("Flatten", axis=-1),
    case("Transpose"),
    case("Transpose", perm=[0, 2, 3, 1]),
    case("Concat", weights(2, 1, 5, 6), axis=1),
    case("Concat", shapes=((2, 3), (2, 4), (2, 1)), axis=-1),
    case("Pad", opset=10, pads=[0, 0, 1, 2, 0, 0, 0, 1], value=1.5),
    case("Pad", ints(0, 0, 1, 2, 0, 0, 0, 1)),
    case("Pad", ints(0, 0, 1, 2, 0, 0, 0, 1), np.float32(-2)),
    case("Pad", ints(1, 2), np.float32(3), ints(3), opset=18),
    case("Squeeze", shapes=((1, 3, 1),), opset=11, axes=[0]),
    case("Squeeze", ints(-1), shapes=((1, 3, 1),)),
    case("Squeeze", shapes=((1, 3, 1),)),
    case("Unsqueeze", shapes=((3, 4),), opset=11, axes=[0, 3]),
    case("Unsqueeze", ints(-1), shapes=((3, 4),)),
    case("Unsqueeze", ints(1, -1), shapes=((3, 4),)),
    case("Slice", opset=9, starts=[1, 0], ends=[3, -1], axes=[1, 3]),
    case("Slice", ints(0, 1), ints(2, 2**62)),
    case("Slice", ints(-4, 5), ints(-1, -(2**62)), ints(2, 3), ints(2, -2)),
    case("Gather", np.array(1, I64), axis=2),
    case("Gather", np.array(-1, I64), axis=-1),
    case("Dropout", opset=11),
    case("Dropout", np.float32(0.5), np.array(False)),
    case("Cast", to=1),
]


def build(make_model: Any, case: Case) -> tuple[Path, dict[str, Any]]:
    rng = np.random.default_rng(11)
    feeds = {
        f"x{i}": rng.standard_normal(_fixed(shape), np.float32)
        for i, shape in enumerate(case.shapes)
    }
    constants = {f"c{i}": np.asarray(c) for i, c in enumerate(case.constants)}
    node = helper.make_node(
        case.kind, [*feeds, *constants], ["y"], "node", **case.attributes
    )
    shapes = dict(zip(feeds, case.shapes, strict=True))
    return make_model([node], shapes, constants, opset=case.opset), feeds


def _fixed(shape: Any) -> tuple[int, ...]:
    """A shape with 2 for each dynamic size."""
    return tuple(n if isinstance(n, int) else 2 for n in shape)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reads_and_writes_as_onnxruntime_runs(
    case: Case, make_model: Any, onnxruntime_of: Any, tmp_path: Path
) -> None:
    path, feeds = build(make_model, case)
    graph = read_graph(path)
    wanted = onnxruntime_of(path, feeds)[0]
    found = graph.run(feeds)["y"]
    assert found.shape == wanted.shape == graph.specs()["y"].shape
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)
    again = tmp_path / "again.onnx"
    write_graph(graph, again)
    np.testing.assert_allclose(
        onnxruntime_of(again, feeds)[0], wanted, rtol=1e-5, atol=1e-5
    )
    simple = np.asarray(simplify(read_graph(again)).run(feeds)["y"])
    np.testing.assert_allclose(simple, wanted, rtol=1e-5, atol=1e-5)


#: Operators that are read, and not yet written.
READ = [
    *(case(kind) for kind in ("Abs", "Atan", "Ceil", "Cos", "Erf", "Floor", "Round")),
    *(case(kind) for kind in ("Sign", "Sin", "Softplus", "Softsign")),
    *(case(kind, weights(3, 1, 1)) for kind in ("Max", "Min", "Sum", "Mean", "PRelu")),
    *(case(kind, axes=[1, -1]) for kind in ("ReduceL1", "ReduceL2", "ReduceLogSumExp")),
    *(case(kind, axes=[2], keepdims=0) for kind in ("ReduceMax", "ReduceProd")),
    *(case(kind, alpha=0.3) for kind in ("Celu", "Elu", "LeakyRelu", "Selu")),
    *(case(kind, axis=1) for kind in ("Hardmax", "LogSoftmax", "LpNormalization")),
    case("ReduceSum", ints(1), opset=13),
    case("ReduceMean", noop_with_empty_axes=1, opset=18),
    case("Shrink", bias=0.1, lambd=0.4),
    case("ThresholdedRelu", alpha=0.2),
    case("Mod", weights(3, 1, 1), fmod=1),
    case("CumSum", np.array(2, I64), exclusive=1, reverse=1),
    case("Gemm", weights(5, 6), shapes=((5, 4),), transA=1),
    case("ConvTranspose", weights(3, 4, 3, 2), strides=[2, 1], pads=[1, 0, 0, 1]),
    case("GlobalMaxPool"),
    case("GlobalAveragePool", shapes=((2, 3, 9),)),
    case("GlobalAveragePool", shapes=((2, 3, 4, 5, 6),)),
    case("Conv", weights(4, 3, 3), shapes=((2, 3, 9),), pads=[1, 0], strides=[2]),
    case("Conv", weights(4, 3, 2), shapes=((2, 3, 9),), auto_pad="SAME_UPPER"),
    case("MaxPool", shapes=((2, 3, 9),), kernel_shape=[3], pads=[1, 1], strides=[2]),
    case("AveragePool", shapes=((2, 3, 9),), kernel_shape=[3], pads=[0, 1]),
    case("Pad", ints(*[1] * 8), mode="reflect"),
    case("Pad", ints(*[1] * 8), mode="edge"),
    case("Pad", ints(0, -1, -2, 3, 0, 0, 1, -1), opset=18),
    case("Pad", ints(0, 0, -2, 2, 0, 0, 2, -1), mode="reflect", opset=18),
    case("Pad", pads=[0, 0, -1, 0, 0, 0, 2, -3], opset=7),
    case("Pad", ints(-1, 0, 2, -1), np.float32(3), ints(1, -1), opset=18),
    case("Reshape", ints(2, -1), allowzero=1),
    case("Gather", ints(0, -1)),
    case("Gather", np.array([[2, 0], [1, 1]], I64), axis=1),
    case("GatherElements", np.zeros((2, 1, 5, 6), I64), axis=1),
    case("GatherND", np.array([[0, 1], [1, 2]], I64)),
    case("Expand", ints(2, 1, 3, 1, 1)),
    case("Tile", ints(1, 2, 1, 3)),
    case("DepthToSpace", shapes=((1, 8, 2, 3),), blocksize=2, mode="CRD"),
    case("SpaceToDepth", shapes=((1, 2, 4, 6),), blocksize=2),
    case("Trilu", np.array(1, I64), upper=0),
    case("Resize", EMPTY, scales(1, 1, 2, 3)),
    case("Resize", EMPTY, scales(1, 1, 0.5, 1.5), nearest_mode="floor"),
    case("Resize", EMPTY, EMPTY, ints(2, 3, 7, 4), mode="linear"),
    case("Resize", EMPTY, scales(1, 1, 0.6, 2), mode="cubic"),
    case("Resize", EMPTY, EMPTY, ints(9, 4), axes=[3, 2], opset=18),
    case("Resize", scales(1, 1, 0.5, 3), opset=10),
    case("Resize", scales(1, 1, 0.6, 0.7), opset=10),
    case("Upsample", scales(1, 1, 2, 2), opset=9),
    case("Upsample", scales=[1.0, 1.0, 3.0, 2.0], opset=8),
    case("LayerNormalization", weights(6), weights(6)),
    case("InstanceNormalization", weights(3), weights(3)),
    case("MeanVarianceNormalization"),
    case("Swish", opset=24),
    case("Einsum", shapes=((2, 3, 4), (2, 5, 4)), equation="bij,bkj->bik"),
    case("Einsum", shapes=((2, 3, 4, 5), (2, 6, 4, 5)), equation="bqhd,bkhd->bhqk"),
    case("Einsum", shapes=((2, 3, 4), (5, 4, 3)), equation="...ij,kji->k..."),
    case("Einsum", shapes=((3, 4), (5,), (4, 2)), equation="ij,k,jl"),
    case("Einsum", shapes=((2, 3, 4), (6, 3, 5)), equation="abc,dbe->acde"),
    case("Einsum", shapes=((2, 3, 4), (2, 4, 2)), equation="...ij,...jk->...ik"),
    case("Einsum", shapes=((4, 3, 4),), equation="iji->ji"),
    case("LRN", shapes=((2, 7, 3, 3),), size=3),
    case("LRN", shapes=((2, 4, 3, 1),), size=5, alpha=0.2, beta=0.5, bias=2.0),
    case("MaxPool", shapes=((2, 3, 5, 6, 7),), kernel_shape=[2, 3, 2], pads=[1] * 6),
    case(
        "MaxPool",
        shapes=((1, 2, 9, 8),),
        kernel_shape=[3, 2],
        dilations=[2, 3],
        strides=[2, 1],
        ceil_mode=1,
        pads=[1, 0, 2, 1],
    ),
    case(
        "AveragePool", shapes=((1, 2, 4, 5, 6),), kernel_shape=[2] * 3, strides=[2] * 3
    ),
    case(
        "AveragePool",
        shapes=((1, 2, 9, 8),),
        kernel_shape=[3, 2],
        dilations=[2, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        opset=19,
    ),
    case("LpPool", shapes=((1, 2, 5, 6),), kernel_shape=[2, 3], p=3, opset=18),
    case(
        "ConvTranspose", weights(3, 4, 3), shapes=((2, 3, 5),), strides=[2], pads=[1, 0]
    ),
    case(
        "ConvTranspose",
        weights(4, 3, 3, 2, 2),
        weights(6),
        shapes=((2, 4, 3, 4, 3),),
        strides=[2, 1, 3],
        pads=[1, 0, 1, 2, 1, 0],
        group=2,
        output_padding=[1, 0, 2],
        dilations=[2, 1, 1],
    ),
    case("Conv", weights(4, 3, 1, 2, 1), shapes=((2, 3, 4, 5, 6),)),
    case(
        "Conv",
        weights(6, 2, 3, 2, 3),
        weights(6),
        shapes=((2, 4, 5, 6, 7),),
        strides=[2, 1, 2],
        pads=[1, 0, 2, 2, 1, 0],
        group=2,
        dilations=[2, 1, 1],
    ),
    case(
        "Conv",
        weights(3, 1, 3, 3, 3),
        shapes=((2, 3, 5, 6, 7),),
        auto_pad="SAME_UPPER",
        strides=[2, 2, 3],
        group=3,
    ),
    case("ConvTranspose", weights(3, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("ConvTranspose", weights(3, 4, 3, 3), output_shape=[11, 12], strides=[2, 2]),
    case(
        "Resize",
        EMPTY,
        scales(1, 1, 2, 1.5, 0.5),
        shapes=((1, 1, 3, 4, 5),),
        mode="linear",
    ),
    case(
        "Resize", EMPTY, EMPTY, ints(2, 3, 4, 4), mode="linear", antialias=1, opset=18
    ),
    case(
        "Resize",
        EMPTY,
        EMPTY,
        ints(2, 3, 4, 9),
        mode="cubic",
        exclude_outside=1,
        cubic_coeff_a=-0.5,
    ),
    case(
        "Resize",
        EMPTY,
        EMPTY,
        ints(6, 4),
        shapes=((1, 2, 4, 10),),
        mode="linear",
        axes=[2, 3],
        keep_aspect_ratio_policy="not_larger",
        opset=18,
    ),
    # One axis changes its size, and the other is sampled elsewhere.
    case("Resize", EMPTY, scales(1, 1, 0.5, 1.3), shapes=((1, 2, 8, 3),), mode="cubic"),
    case(
        "Resize",
        np.float32([0, 0, 0.2, -0.1, 1, 1, 0.7, 0.8]),
        EMPTY,
        ints(2, 3, 4, 5),
        mode="linear",
        extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
]


@pytest.mark.parametrize("case", READ, ids=str)
def test_reads_as_onnxruntime_does(
    case: Case, make_model: Any, onnxruntime_of: Any
) -> None:
    path, feeds = build(make_model, case)
    graph = read_graph(path)
    wanted, found = onnxruntime_of(path, feeds)[0], graph.run(feeds)["y"]
    assert found.shape == wanted.shape == graph.specs()["y"].shape
    for result in (found, load(path)(**feeds)):
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", READ, ids=str)
def test_what_is_written_is_read_again(
    case: Case, make_model: Any, tmp_path: Path
) -> None:
    path, feeds = build(make_model, case)
    model, again = load(path), tmp_path / "again.onnx"
    model.save(again)
    np.testing.assert_array_equal(load(again)(**feeds), model(**feeds))


@pytest.mark.parametrize(
    "case",
    [
        case("Reshape", ints(0, -1), shapes=(("n", 3, 4, 2),)),
        case("Reshape", ints(2, 0, -1), shapes=((2, "n", 6),)),
        case("Reshape", ints(-1, 0, 3, 2), shapes=((5, "n", 6),)),
    ],
    ids=str,
)
def test_a_dynamic_size_is_kept(
    case: Case, make_model: Any, onnxruntime_of: Any
) -> None:
    path, feeds = build(make_model, case)
    for count in (2, 5):
        x = weights(*(count if n == "n" else n for n in case.shapes[0]))
        (wanted,) = onnxruntime_of(path, feeds | {"x0": x})
        assert np.asarray(load(path)(x)).tolist() == wanted.tolist()


def test_the_places_of_the_largest_elements(
    make_model: Any, onnxruntime_of: Any
) -> None:
    """Of equal elements the first one is meant, in rows or in columns."""
    feeds = {
        "x": np.random.default_rng(3).integers(0, 3, (2, 3, 6, 5)).astype(np.float32)
    }
    for order in (0, 1):
        options = {"kernel_shape": [2, 3], "pads": [1] * 4, "storage_order": order}
        nodes = [
            helper.make_node("MaxPool", ["x"], ["y", "i"], **options),
            helper.make_node("Cast", ["i"], ["at"], to=TensorProto.FLOAT),
        ]
        path = make_model(nodes, {"x": (2, 3, 6, 5)}, {}, ("y", "at"))
        found, wanted = load(path)(feeds), onnxruntime_of(path, feeds)
        assert [x.tolist() for x in found] == [x.tolist() for x in wanted]


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.UINT8])
def test_integers_are_not_interpolated(kind: int, make_model: Any) -> None:
    """Weights rounded to the type of the elements would be 0 and 1."""
    given = {"x": (kind, (1, 2, 4, 4))}
    for options in ({"coordinate_transformation_mode": "asymmetric"}, {"antialias": 1}):
        nodes = [
            helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", **options)
        ]
        path = make_model(nodes, given, {"s": scales(1, 1, 1.5, 2)}, opset=18)
        with pytest.raises(ModelError, match="interpolates between elements of"):
            read_graph(path)


@pytest.mark.parametrize("options", [{"dilations": [2, 2]}, {}, {"ceil_mode": 1}])
def test_a_pool_of_codes_is_one_of_codes(
    options: Any, make_model: Any, onnxruntime_of: Any
) -> None:
    """The padding is below all codes, not the number 0."""
    window = {"kernel_shape": [2, 2], "pads": [1] * 4, **options}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("MaxPool", ["q"], ["p", "i"], **window),
        helper.make_node("Cast", ["i"], ["at"], to=TensorProto.FLOAT),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.05), "z": np.uint8(200)}
    path = make_model(nodes, {"x": (1, 2, 7, 7)}, constants, ("y", "at"))
    feeds = {"x": weights(1, 2, 7, 7) - 4}
    found, wanted = load(path)(feeds), onnxruntime_of(path, feeds)
    assert [x.tolist() for x in found] == [x.tolist() for x in wanted]


def test_parts_of_a_dynamic_batch(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [helper.make_node("Split", ["x", "sizes"], ["a", "y"], axis=-1)]
    sizes = {"sizes": np.array([1, 3], I64)}
    path = make_model(nodes, {"x": ("n", 4)}, sizes, ("a", "y"))
    for count in (1, 3):
        feeds = {"x": weights(count, 4)}
        found, wanted = load(path)(feeds), onnxruntime_of(path, feeds)
        assert [x.tolist() for x in found] == [x.tolist() for x in wanted]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (case("Split", shapes=((5, "n"),), axis=1), "splits an axis of dynamic size"),
        (
            case("Pad", ints(0, -2, 0, -9), shapes=((5, 7),)),
            "removes 11 elements of ax",
        ),
        (case("Reshape", ints(0, -1), shapes=(("n", "m", 3),)), "one unknown size"),
        (case("Reshape", ints(-1, 0), shapes=((3, "n", "m"),)), "one unknown size"),
    ],
    ids=str,
)
def test_sizes_that_are_not_known(wrong: Case, words: str, make_model: Any) -> None:
    with pytest.raises(ModelError, match=words):
        read_graph(build(make_model, wrong)[0])


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceL2", "ReduceL1", "ReduceLogSum"])
@pytest.mark.parametrize("storage", [np.int32, np.int64])
def test_reductions_of_integers_are_integers(
    kind: str, storage: Any, make_model: Any, onnxruntime_of: Any, rng: Any
) -> None:
    """Each result has the type of its elements, and its fraction is cut off."""
    x = rng.integers(-99, 99, (3, 4)).astype(storage)
    if kind == "ReduceLogSum":
        x = abs(x) + 1
    for axes in ({"axes": [1]}, {}):
        nodes = [helper.make_node(kind, ["x"], ["r"], **axes)]
        nodes.append(helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT))
        given = (helper.np_dtype_to_tensor_dtype(np.dtype(storage)), (3, 4))
        path = make_model(nodes, {"x": given}, opset=13)
        found, (wanted,) = np.asarray(load(path)(x)), onnxruntime_of(path, {"x": x})
        assert found.tolist() == wanted.tolist()


def test_every_part_of_a_split(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2, axis=1)]
    nodes.append(helper.make_node("TopK", ["a", "k"], ["y", "places"], largest=0))
    given = {"k": np.array([2], I64)}
    path = make_model(nodes, {"x": (2, 5)}, given, ("y", "b"), opset=18)
    feeds = {"x": weights(2, 5)}
    graph = read_graph(path)
    found, wanted = graph.run(feeds), onnxruntime_of(path, feeds)
    assert [found[n].tolist() for n in ("y", "b")] == [w.tolist() for w in wanted]


REFUSED = [
    (case("Conv", weights(4, 3, 3, 3), auto_pad="ODD"), "auto_pad=ODD"),
    (
        case("Conv", weights(4, 3, 1, 1, 1, 1), shapes=((2, 3, 5, 5, 5, 5),)),
        "slides over 4 axes. Supported are 1 and 2 and 3",
    ),
    (
        case("Conv", weights(4, 3, 3, 1, 1), shapes=((2, 3, 2, 5, 5),)),
        "a window of 3 over 2 elements",
    ),
    (
        case("Conv", weights(4, 3, 3, 1, 1), shapes=((2, 3, "n", 5, 5),)),
        "does not support a dynamic size",
    ),
    (case("Conv", weights(4, 2, 3, 3)), "the image has 3 channels"),
    (
        case("MaxPool", kernel_shape=[2, 2, 2]),
        "slides over 3 axes, and its input has 2",
    ),
    (case("LpPool", kernel_shape=[2]), "slides over 1 axes, and its input has 2"),
    (
        case(
            "MaxPool", shapes=((1, 1, "n", 4),), kernel_shape=[2, 2], dilations=[2, 2]
        ),
        "slides over a dynamic size",
    ),
    (case("Einsum", equation="ij->i"), "the term 'ij' does not fit a value of 4 axes"),
    (case("Einsum", equation="abcd,a"), "has 2 terms for 1 operands"),
    (case("Einsum", equation="abcd->ax"), "label of no operand"),
    (case("Reshape", ints(7, -1)), "180 elements do not fill shape (7, -1)"),
    (case("BatchNormalization", *BATCH_NORM, training_mode=1), "training_mode=1"),
    (case("Dropout", np.float32(0.5), np.array(True)), "is in training mode"),
    (case("Cast", to=22), "has a result of int4, which operator set"),
    (case("Squeeze", shapes=(("n", 1, 3),)), "and a dynamic size may be 1"),
    (case("Transpose", perm=[0, 1]), "has 2 numbers as perm, expected 4"),
    (case("Softmax", axis=9), "has axis=9"),
]


@pytest.mark.parametrize(("case", "words"), REFUSED, ids=lambda x: str(x)[:40])
def test_refuses_by_name(case: Case, words: str, make_model: Any) -> None:
    path, _ = build(make_model, case)
    with pytest.raises(ModelError) as caught:
        read_graph(path)
    assert words in str(caught.value)
    assert "node" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_shape_that_depends_on_data_is_refused(make_model: Any) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], "r")]
    path = make_model(nodes, {"x": (2, 3), "shape": (7, (2,))})
    with pytest.raises(ModelError, match="'r' needs the shape as a constant"):
        read_graph(path)


def test_a_cast_between_integers_wraps(make_model: Any, onnxruntime_of: Any) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=2)]
    nodes.append(helper.make_node("Cast", ["c"], ["y"], to=1))
    path = make_model(nodes, {"x": (6, (4,))})
    feeds = {"x": np.array([100, 257, -1, 2**31 - 2], np.int32)}
    found = read_graph(path).run(feeds)["y"].tolist()
    assert found == onnxruntime_of(path, feeds)[0].tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [("value_float", 1.5), ("value_floats", [1.5, 2.0]), ("value_int", 3)],
)
def test_constants_of_every_kind(name: str, value: Any, make_model: Any) -> None:
    node = helper.make_node("Constant", [], ["y"], **{name: value})
    graph = read_graph(make_model([node], {}))
    assert graph.run({})["y"].tolist() == value


def test_constants_that_are_no_numbers_are_refused(make_model: Any) -> None:
    node = helper.make_node("Constant", [], ["y"], value_string="text")
    with pytest.raises(ModelError, match="has value_string"):
        read_graph(make_model([node], {}))


@pytest.mark.parametrize("source", [1, 6, 11])
def test_what_is_too_large_for_a_float_is_an_infinity(
    source: int, make_model: Any, onnxruntime_of: Any
) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=10)]
    nodes.append(helper.make_node("Cast", ["h"], ["y"], to=1))
    path = make_model(nodes, {"x": (source, (5,))})
    x = np.array([65504, 65519, 65520, -70000, 3])
    x = x.astype(helper.tensor_dtype_to_np_dtype(source))
    found = read_graph(path).run({"x": x})["y"].tolist()
    assert found == [65504, 65504, np.inf, -np.inf, 3]
    assert found == onnxruntime_of(path, {"x": x})[0].tolist()
