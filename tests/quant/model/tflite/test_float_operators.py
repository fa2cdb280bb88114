"""Each operator on floats against LiteRT, in rows and behind a convolution."""

from typing import Any

import numpy as np
from support.each import each
from support.tflite_networks import const, file_of, ints, moving

from bench.rivals.tflite_file import Step, Value, model, options_of

Array = np.ndarray[Any, Any]
SHAPE = (1, 4, 6, 4)


def arrays_for(given: list[Value], positive: bool) -> list[Array]:
    rng = np.random.default_rng(len(given))
    found = []
    for value in given:
        if value.data is None:
            x = rng.normal(scale=2.0, size=value.shape).astype(value.dtype)
            found.append(np.abs(x) + np.float32(0.1) if positive else x)
    return found


UNARY = ("ABS", "CEIL", "COS", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU")
UNARY += ("RELU6", "ROUND", "SIN", "SQUARE", "TANH", "ELU", "RELU_N1_TO_1", "SIGN")
UNARY += ("RELU_0_TO_1",)


@each("kind", UNARY)
@each("behind", [False, True])
def test_one_operand(kind: str, behind: bool, agree: Any) -> None:
    given = [moving(*SHAPE)]
    content = file_of(kind, given, None, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))


@each("kind", ["LOG", "SQRT", "RSQRT"])
@each("behind", [False, True])
def test_positive_numbers(kind: str, behind: bool, agree: Any) -> None:
    given = [moving(*SHAPE)]
    content = file_of(kind, given, None, ["float32"], 1, behind)
    agree(content, *arrays_for(given, True))


BINARY = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "MAXIMUM": "MaximumMinimum",
    "MINIMUM": "MaximumMinimum",
    "SQUARED_DIFFERENCE": "SquaredDifference",
    "FLOOR_DIV": "FloorDiv",
    "POW": "Pow",
}


@each("kind", BINARY)
@each("shape", [SHAPE, (4,), (1, 1, 1, 4), (1, 1, 6, 1), (4, 1, 1), (6, 4), (1,), ()])
@each("behind", [False, True])
def test_two_operands(
    kind: str, shape: tuple[int, ...], behind: bool, agree: Any
) -> None:
    rng = np.random.default_rng(4)
    second = const(rng.uniform(0.5, 2.0, shape))
    given = [moving(*SHAPE), second]
    options = options_of(BINARY[kind])
    content = file_of(kind, given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, True))


@each("kind", ["ADD", "SUB", "MUL", "DIV"])
@each("number", [1, 2, 3])
def test_contained_activations(kind: str, number: int, agree: Any) -> None:
    given = [moving(*SHAPE), moving(*SHAPE)]
    options = options_of(BINARY[kind], FusedActivationFunction=number)
    content = file_of(kind, given, options, ["float32"], 1, False)
    agree(content, *(x * 3 for x in arrays_for(given, False)))


@each("kind", ["BITWISE_XOR", "RIGHT_SHIFT"])
@each("dtype", ["int8", "uint8", "int16", "int32"])
def test_bits(kind: str, dtype: str, agree: Any) -> None:
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 5, info.max // 3, info.max - 6], dtype)
    second = const(np.array([0, 1, 2, 3, 4, 7], dtype))
    content = file_of(kind, [Value((6,), dtype=dtype), second], None, [dtype], 1, False)
    agree(content, x)


COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


@each("kind", COMPARISONS)
@each("behind", [False, True])
def test_comparisons(kind: str, behind: bool, agree: Any) -> None:
    given = [moving(*SHAPE), const(np.zeros(SHAPE[-1]))]
    content = file_of(kind, given, None, ["bool"], 1, behind)
    (x,) = arrays_for(given, False)
    agree(content, np.where(np.abs(x) < 1, np.float32(0), x))


@each("padding", [0, 1])
@each("stride", [(1, 1), (2, 1), (2, 3)])
@each("dilation", [(1, 1), (2, 1)])
@each("number", [0, 1, 2, 3])
def test_convolutions(
    padding: int,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    number: int,
    agree: Any,
) -> None:
    if max(stride) > 1 and max(dilation) > 1:
        return  # TensorFlow does not define both
    rng = np.random.default_rng(5)
    fields = {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": number,
    }
    given = [moving(2, 7, 9, 4), const(rng.normal(size=(5, 3, 2, 4)))]
    given.append(const(rng.normal(size=5)))
    options = options_of("Conv2D", **fields)
    content = file_of("CONV_2D", given, options, ["float32"], 1, False)
    agree(content, *arrays_for(given, False))
    given = [moving(2, 7, 9, 4), const(rng.normal(size=(1, 3, 2, 8)))]
    given.append(const(rng.normal(size=8)))
    options = options_of("DepthwiseConv2D", DepthMultiplier=2, **fields)
    content = file_of("DEPTHWISE_CONV_2D", given, options, ["float32"], 2, False)
    agree(content, *arrays_for(given, False))


def test_a_convolution_in_groups(agree: Any) -> None:
    rng = np.random.default_rng(6)
    given = [moving(1, 5, 5, 6), const(rng.normal(size=(4, 3, 3, 3)))]
    given.append(const(rng.normal(size=4)))
    options = options_of("Conv2D", StrideH=1, StrideW=1)
    content = file_of("CONV_2D", given, options, ["float32"], 6, False)
    agree(content, *arrays_for(given, False))


@each("kind", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
@each("padding", [0, 1])
@each("size", [(2, 2), (3, 2), (4, 6)])
@each("stride", [1, 2])
@each("behind", [False, True])
def test_pools(
    kind: str,
    padding: int,
    size: tuple[int, int],
    stride: int,
    behind: bool,
    agree: Any,
) -> None:
    given = [moving(*SHAPE)]
    options = options_of(
        "Pool2D",
        Padding=padding,
        FilterHeight=size[0],
        FilterWidth=size[1],
        StrideH=stride,
        StrideW=stride,
        FusedActivationFunction=1,
    )
    content = file_of(kind, given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))


@each("padding", [0, 1])
@each("stride", [(1, 1), (2, 2), (3, 2)])
@each("kernel", [(2, 2), (3, 4)])
def test_transposed_convolutions(
    padding: int, stride: tuple[int, int], kernel: tuple[int, int], agree: Any
) -> None:
    rng = np.random.default_rng(7)
    pairs = list(zip(SHAPE[1:3], stride, kernel, strict=True))
    sizes = [n * s for n, s, _ in pairs]
    if padding:
        sizes = [(n - 1) * s + k for n, s, k in pairs]
    w = const(rng.normal(size=(5, *kernel, 4)))
    given = [ints(1, *sizes, 5), w, moving(*SHAPE)]
    options = options_of(
        "TransposeConv", Padding=padding, StrideH=stride[0], StrideW=stride[1]
    )
    content = file_of("TRANSPOSE_CONV", given, options, ["float32"], 1, False)
    agree(content, *arrays_for(given, False), atol=5e-5)


@each("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@each("size", [(8, 12), (3, 5), (7, 6), (2, 3)])
@each("how", [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}])
@each("behind", [False, True])
def test_resizing(
    kind: str, size: tuple[int, int], how: dict[str, bool], behind: bool, agree: Any
) -> None:
    name = "ResizeBilinear" if "BILINEAR" in kind else "ResizeNearestNeighbor"
    given = [moving(*SHAPE), ints(*size)]
    content = file_of(kind, given, options_of(name, **how), ["float32"], 3, behind)
    agree(content, *arrays_for(given, False))


#: kind, shape, constants after the operand, options, number of results.
MOVES: list[tuple[str, tuple[int, ...], list[Value], Any, int]] = [
    ("RESHAPE", SHAPE, [ints(4, -1)], options_of("Reshape"), 1),
    ("RESHAPE", SHAPE, [ints(1, 6, 4, 4)], options_of("Reshape"), 1),
    ("SQUEEZE", SHAPE, [], options_of("Squeeze"), 1),
    ("SQUEEZE", (2, 3, 4, 5), [], options_of("Squeeze"), 1),
    ("EXPAND_DIMS", (2, 3, 4), [ints(-1)], None, 1),
    ("EXPAND_DIMS", (2, 3, 4), [ints(0)], None, 1),
    ("TRANSPOSE", SHAPE, [ints(0, 3, 1, 2)], None, 1),
    ("TRANSPOSE", SHAPE, [ints(2, 1, 3, 0)], None, 1),
    ("PAD", SHAPE, [const(np.int32([[0, 0], [1, 2], [0, 3], [2, 0]]))], None, 1),
    (
        "PADV2",
        SHAPE,
        [const(np.int32([[0, 0], [1, 2], [0, 3], [2, 0]])), const(np.float32(-1.5))],
        None,
        1,
    ),
    (
        "MIRROR_PAD",
        SHAPE,
        [const(np.int32([[0, 0], [1, 2], [2, 3], [0, 0]]))],
        options_of("MirrorPad", Mode=0),
        1,
    ),
    (
        "MIRROR_PAD",
        SHAPE,
        [const(np.int32([[0, 0], [1, 2], [2, 3], [1, 0]]))],
        options_of("MirrorPad", Mode=1),
        1,
    ),
    ("TILE", SHAPE, [ints(2, 1, 2, 1)], None, 1),
    ("BROADCAST_TO", (3, 1), [ints(2, 3, 4)], None, 1),
    ("DEPTH_TO_SPACE", SHAPE, [], options_of("DepthToSpace", BlockSize=2), 1),
    ("SPACE_TO_DEPTH", SHAPE, [], options_of("SpaceToDepth", BlockSize=2), 1),
    (
        "SPACE_TO_BATCH_ND",
        SHAPE,
        [ints(2, 3), const(np.int32([[0, 2], [3, 0]]))],
        None,
        1,
    ),
    (
        "BATCH_TO_SPACE_ND",
        (6, 2, 3, 2),
        [ints(2, 3), const(np.int32([[0, 1], [2, 0]]))],
        None,
        1,
    ),
    ("SLICE", SHAPE, [ints(0, 1, 2, 0), ints(1, 2, -1, 3)], None, 1),
    ("REVERSE_V2", SHAPE, [ints(1)], None, 1),
    ("GATHER", SHAPE, [ints(2, 0, 2)], options_of("Gather", Axis=2), 1),
    ("GATHER", SHAPE, [ints(3, 0)], options_of("Gather", Axis=-1), 1),
    ("UNPACK", SHAPE, [], options_of("Unpack", Axis=1, Num=4), 4),
    ("SPLIT_V", SHAPE, [ints(1, 3, -1), ints(2)], options_of("SplitV", NumSplits=3), 3),
    ("ZEROS_LIKE", SHAPE, [], None, 1),
]


@each("kind, shape, constants, options, count", MOVES)
@each("behind", [False, True])
def test_moves(
    kind: str,
    shape: tuple[int, ...],
    constants: list[Value],
    options: Any,
    count: int,
    behind: bool,
    agree: Any,
) -> None:
    if behind and len(shape) != 4:
        return
    given = [moving(*shape), *constants]
    version = 2 if kind == "BROADCAST_TO" else 1
    content = file_of(kind, given, options, ["float32"] * count, version, behind)
    agree(content, *arrays_for(given, False))


MASKS = [
    {},
    {"BeginMask": 5, "EndMask": 2},
    {"ShrinkAxisMask": 2},
    {"EndMask": 15, "BeginMask": 8, "ShrinkAxisMask": 1},
]


@each("masks", MASKS)
@each("steps", [(1, 1, 1, 1), (1, 2, 3, 1), (1, 1, -1, 2)])
@each("behind", [False, True])
def test_strided_slices(
    masks: dict[str, int], steps: tuple[int, ...], behind: bool, agree: Any
) -> None:
    begins, ends = [0, 1, 0, 0], [1, 3, 5, -1]
    if steps[2] < 0:
        begins[2], ends[2] = -1, 0
    given = [moving(*SHAPE), ints(*begins), ints(*ends), ints(*steps)]
    options = options_of("StridedSlice", **masks)
    content = file_of("STRIDED_SLICE", given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))


@each("axis", [0, 1, 2, 3, -1])
@each("behind", [False, True])
def test_joining_and_splitting(axis: int, behind: bool, agree: Any) -> None:
    given = [moving(2, 4, 6, 4), moving(2, 4, 6, 4)]
    options = options_of("Concatenation", Axis=axis)
    content = file_of("CONCATENATION", given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))
    options = options_of("Pack", Axis=axis, ValuesCount=2)
    content = file_of("PACK", given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))
    given = [ints(axis), moving(2, 4, 6, 4)]
    options = options_of("Split", NumSplits=2)
    content = file_of("SPLIT", given, options, ["float32"] * 2, 1, behind)
    agree(content, *arrays_for(given, False))


REDUCTIONS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")


@each("kind", REDUCTIONS)
@each("axes", [(1, 2), (-1,), (0, 3), (2,)])
@each("keeps", [False, True])
@each("behind", [False, True])
def test_reductions(
    kind: str, axes: tuple[int, ...], keeps: bool, behind: bool, agree: Any
) -> None:
    given = [moving(*SHAPE), ints(*axes)]
    options = options_of("Reducer", KeepDims=keeps)
    content = file_of(kind, given, options, ["float32"], 1, behind)
    agree(content, *(x / 2 for x in arrays_for(given, False)), atol=1e-3)


@each("kind", ["ARG_MAX", "ARG_MIN"])
@each("axis", [-1, 1])
@each("behind", [False, True])
def test_places_of_extremes(kind: str, axis: int, behind: bool, agree: Any) -> None:
    given = [moving(*SHAPE), ints(axis)]
    number = 4 if axis == 1 else 2
    name = {4: "int64", 2: "int32"}[number]
    options = options_of(kind.title().replace("_", ""), OutputType=number)
    content = file_of(kind, given, options, [name], 1, behind)
    agree(content, *arrays_for(given, False))


@each("shape", [SHAPE, (3, 5)])
@each("kind", ["SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"])
@each("behind", [False, True])
def test_over_the_last_axis(
    shape: tuple[int, ...], kind: str, behind: bool, agree: Any
) -> None:
    if behind and len(shape) != 4:
        return
    options = {
        "SOFTMAX": options_of("Softmax", Beta=0.75),
        "LOG_SOFTMAX": options_of("LogSoftmax"),
        "L2_NORMALIZATION": options_of("L2Norm"),
    }[kind]
    given = [moving(*shape)]
    content = file_of(kind, given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))


@each("shape, keeps", [((3, 6), False), ((2, 3, 6), True), ((2, 3, 6), False)])
@each("has_bias", [False, True])
@each("number", [0, 3])
def test_linear_layers(
    shape: tuple[int, ...], keeps: bool, has_bias: bool, number: int, agree: Any
) -> None:
    rng = np.random.default_rng(8)
    given = [moving(*shape), const(rng.normal(size=(5, 6)))]
    given += [const(rng.normal(size=5))] * has_bias
    options = options_of(
        "FullyConnected", KeepNumDims=keeps, FusedActivationFunction=number
    )
    content = file_of("FULLY_CONNECTED", given, options, ["float32"], 5, False)
    agree(content, *arrays_for(given, False))


@each("turns", [{}, {"AdjX": True}, {"AdjY": True}, {"AdjX": True, "AdjY": True}])
def test_stacked_products(turns: dict[str, bool], agree: Any) -> None:
    left, right = [2, 3, 4], [2, 4, 5]
    if "AdjX" in turns:
        left[1:] = left[:0:-1]
    if "AdjY" in turns:
        right[1:] = right[:0:-1]
    given = [moving(*left), moving(*right)]
    options = options_of("BatchMatMul", **turns)
    content = file_of("BATCH_MATMUL", given, options, ["float32"], 1, False)
    agree(content, *arrays_for(given, False))


@each("slopes", [(1, 1, 4), (4,), (1,), (1, 6, 4)])
@each("behind", [False, True])
def test_prelu(slopes: tuple[int, ...], behind: bool, agree: Any) -> None:
    rng = np.random.default_rng(9)
    given = [moving(*SHAPE), const(rng.uniform(-1, 1, slopes))]
    content = file_of("PRELU", given, None, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False))


@each(
    "kind, options",
    [
        ("LEAKY_RELU", options_of("LeakyRelu", Alpha=0.125)),
        ("GELU", options_of("Gelu", Approximate=False)),
        ("GELU", options_of("Gelu", Approximate=True)),
    ],
)
@each("behind", [False, True])
def test_curves_with_options(kind: str, options: Any, behind: bool, agree: Any) -> None:
    given = [moving(*SHAPE)]
    content = file_of(kind, given, options, ["float32"], 1, behind)
    agree(content, *arrays_for(given, False), atol=1e-4)


def test_choices(agree: Any) -> None:
    given = [moving(*SHAPE), const(np.zeros(4)), moving(*SHAPE)]
    x, y = arrays_for(given, False)
    values = [*given, Value((), dtype="bool"), moving()]
    steps = [
        Step("GREATER", [0, 1], 3, version=1),
        Step("SELECT_V2", [3, 0, 2], 4, version=1),
    ]
    agree(model(values, steps, [0, 2], [4]), x, y)


def test_weights_of_float16(agree: Any) -> None:
    rng = np.random.default_rng(10)
    w = rng.normal(size=(5, 3, 3, 4)).astype(np.float16)
    values = [
        moving(*SHAPE),
        const(w),
        Value(w.shape, dtype="float32"),
        const(np.zeros(5)),
        Value((), dtype="float32"),
    ]
    conv = options_of("Conv2D", StrideH=1, StrideW=1)
    steps = [
        Step("DEQUANTIZE", [1], 2),
        Step("CONV_2D", [0, 2, 3], 4, conv, version=1),
    ]
    x = rng.normal(size=SHAPE).astype(np.float32)
    network = agree(model(values, steps, [0], [4]), x)
    assert [node.operation.__name__ for node in network.graph.nodes].count(
        "astype"
    ) == 0


def test_shapes_are_constants(agree: Any) -> None:
    """A reshape to sizes that operators compute from SHAPE."""
    values = [
        moving(*SHAPE),
        Value((4,), dtype="int32"),
        *(ints(1), ints(2), ints(1)),
        Value((), dtype="int32"),
        const(np.int32(-1)),
        Value((2,), dtype="int32"),
        moving(),
    ]
    steps = [
        Step("SHAPE", [0], 1, options_of("Shape", OutType=2), version=1),
        Step(
            "STRIDED_SLICE",
            [1, 2, 3, 4],
            5,
            options_of("StridedSlice", ShrinkAxisMask=1),
            version=1,
        ),
        Step("PACK", [5, 6], 7, options_of("Pack", ValuesCount=2), version=1),
        Step("RESHAPE", [0, 7], 8, options_of("Reshape")),
    ]
    network = agree(
        model(values, steps, [0], [8]), *arrays_for([moving(*SHAPE)], False)
    )
    assert [node.operation.__name__ for node in network.graph.nodes] == ["reshape"]


def test_two_convolutions_are_not_transposed_between(
    tiny: bytes, load_bytes: Any
) -> None:
    """Images stay images: one transpose in front, one behind the last image."""
    kinds = [n.operation.__name__ for n in load_bytes(tiny).graph.nodes]
    assert kinds.count("permute_dims") == 2


@each("padding", [1, 2])
@each("stride", [(2, 2), (3, 2)])
@each("kernel", [(2, 2), (3, 4)])
def test_transposed_convolutions_of_mediapipe(
    padding: int, stride: tuple[int, int], kernel: tuple[int, int], load_bytes: Any
) -> None:
    """Each element of the input adds a scaled filter; the edges are cut for SAME."""
    rng = np.random.default_rng(11)
    w, b = rng.normal(size=(5, *kernel, 4)), rng.normal(size=5)
    custom = np.array([padding, stride[1], stride[0]], "<i4").tobytes()
    values = [moving(*SHAPE), const(w), const(b), moving()]
    kind = "Convolution2DTransposeBias"
    content = model(values, [Step(kind, [0, 1, 2], 3, custom=custom)], [0], [3])
    x = rng.normal(size=SHAPE)
    sizes = [
        (n - 1) * s + k for n, s, k in zip(SHAPE[1:], stride, kernel, strict=False)
    ]
    whole = np.zeros((1, *sizes, 5))
    for i, j in np.ndindex(SHAPE[1:3]):
        place = np.s_[0, i * stride[0] :, j * stride[1] :]
        part = whole[place][: kernel[0], : kernel[1]]
        part += np.einsum("c,ohwc->hwo", x[0, i, j], w.astype("f4"))
    if padding == 1:
        ends = [n * s for n, s in zip(SHAPE[1:], stride, strict=False)]
        cuts = [max(n - m, 0) // 2 for n, m in zip(sizes, ends, strict=False)]
        grown = np.zeros((1, *ends, 5))
        kept = whole[:, cuts[0] : cuts[0] + ends[0], cuts[1] : cuts[1] + ends[1]]
        grown[:, : kept.shape[1], : kept.shape[2]] = kept
        whole = grown
    (found,) = load_bytes(content).graph.run({"t0": x.astype("f4")}).values()
    np.testing.assert_allclose(np.asarray(found), whole + b, rtol=1e-4, atol=1e-4)


@each("lengths", [(1, 8), (1, 16), (4, 8), (8, 4)])
@each("last", ["COMPLEX_ABS", "REAL", "IMAG", "CAST"])
def test_fourier_transforms(lengths: tuple[int, int], last: str, agree: Any) -> None:
    values = [moving(2, lengths[0], 8), ints(*lengths)]
    values += [Value((), dtype="complex64"), Value((), dtype="float32")]
    steps = [Step("RFFT2D", [0, 1], 2, version=1), Step(last, [2], 3, version=1)]
    agree(model(values, steps, [0], [3]), *arrays_for(values[:1], False))


@each("k", [1, 3, 6])
def test_the_largest_elements(k: int, agree: Any) -> None:
    given = [moving(3, 6), ints(k)]
    content = file_of("TOPK_V2", given, None, ["float32", "int32"], 1, False)
    x = np.float32([[1, 3, 3, 2, -1, 0], [0] * 6, [5, 4, 3, 2, 1, 0]])
    agree(content, x)


@each("axis", [-1, 0, 1])
def test_places_of_indices(axis: int, agree: Any) -> None:
    given = [Value((2, 3), dtype="int32"), ints(4), const(np.float32(2.5))]
    given.append(const(np.float32(-1)))
    options = options_of("OneHot", Axis=axis)
    content = file_of("ONE_HOT", given, options, ["float32"], 1, False)
    agree(content, np.int32([[0, 3, 4], [-1, 2, 1]]))


def test_sizes_that_are_computed(agree: Any) -> None:
    """RANGE of RANK and SHAPE gives indices, which GATHER and GATHER_ND take."""
    values = [
        moving(3, 4),
        const(np.int32(0)),
        const(np.int32(1)),
        const(np.int32([[2, 1], [0, 3]])),
    ]
    values += [Value((), dtype="int32"), Value((), dtype="int32")]
    values += [Value((), dtype="float32"), Value((), dtype="float32")]
    steps = [
        Step("RANK", [0], 4, version=1),
        Step("RANGE", [1, 4, 2], 5, version=1),
        Step("GATHER", [0, 5], 6, options_of("Gather"), version=1),
        Step("GATHER_ND", [0, 3], 7, version=1),
    ]
    content = model(values, steps, [0], [6, 7])
    agree(content, *arrays_for(values[:1], False))


def test_rows_of_a_table(agree: Any) -> None:
    table = const(np.arange(12.0).reshape(4, 3))
    given = [Value((3,), dtype="int32"), table]
    content = file_of("EMBEDDING_LOOKUP", given, None, ["float32"], 1, False)
    agree(content, np.int32([3, 0, 3]))
