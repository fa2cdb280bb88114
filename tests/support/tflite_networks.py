"""Small TFLite networks: of floats, of codes, and with a variable."""

from typing import Any

import numpy as np

from bench.rivals.tflite_file import Options, Part, Step, Value, file, model, options_of

Array = np.ndarray[Any, Any]
Grid = tuple[float, int]
#: Grids of qint8, scale and zero point.
X, Y = (0.03125, -5), (0.0437, 11)
START = np.float32([[1.0, -2.0, 0.5]])


def const(array: Any) -> Value:
    """A constant; float64 becomes float32."""
    found = np.asarray(array)
    if found.dtype == np.float64:
        found = found.astype(np.float32)
    return Value(found.shape, dtype=found.dtype.name, data=found)


def ints(*numbers: int) -> Value:
    return const(np.array(numbers, np.int32))


def moving(*shape: int) -> Value:
    """A value of float32 that is computed or given."""
    return Value(shape, dtype="float32")


def coded(shape: tuple[int, ...], grid: Grid, dtype: str = "int8") -> Value:
    """A value of codes on a grid of qint8, or on the equal grid of quint8."""
    more = 128 if dtype == "uint8" else 0
    return Value(shape, grid[0], grid[1] + more, dtype=dtype)


def tiny_network() -> bytes:
    """A float network of a convolution, a pool and a linear layer."""
    rng = np.random.default_rng(3)
    values = [
        Value((1, 8, 8, 3), dtype="float32", name="picture"),
        *(const(rng.normal(size=(4, 3, 3, 3))), const(rng.normal(size=4))),
        *(moving(1, 4, 4, 4), moving(1, 2, 2, 4), ints(1, 16), moving(1, 16)),
        *(const(rng.normal(size=(5, 16))), moving(1, 5)),
        Value((1, 5), dtype="float32", name="shares"),
    ]
    conv = options_of("Conv2D", StrideH=2, StrideW=2, FusedActivationFunction=1)
    pool = options_of("Pool2D", FilterHeight=2, FilterWidth=2, StrideH=2, StrideW=2)
    steps = [
        Step("CONV_2D", [0, 1, 2], 3, conv),
        Step("MAX_POOL_2D", [3], 4, pool),
        Step("RESHAPE", [4, 5], 6),
        Step("FULLY_CONNECTED", [6, 7, -1], 8, version=1),
        Step("SOFTMAX", [8], 9, options_of("Softmax", Beta=1.0)),
    ]
    return model(values, steps, [0], [9])


def file_of(
    kind: str,
    given: list[Value],
    options: Any,
    results: list[str],
    version: int = 1,
    behind: bool = False,
) -> bytes:
    """A model of one operator, whose first operand may be behind a convolution."""
    values, steps = list(given), []
    first = next(at for at, value in enumerate(given) if value.data is None)
    inputs = [at for at, value in enumerate(given) if value.data is None]
    operands = list(range(len(given)))
    if behind:
        channels = given[first].shape[-1]
        turned = np.eye(channels)[::-1].reshape(channels, 1, 1, channels) + 0.25
        values += [const(turned), const(np.zeros(channels)), given[first]]
        at = len(values) - 3
        stride = options_of("Conv2D", StrideH=1, StrideW=1)
        steps.append(Step("CONV_2D", [first, at, at + 1], at + 2, stride, version=1))
        operands[first] = at + 2
    ends = range(len(values), len(values) + len(results))
    values += [Value((), dtype=dtype) for dtype in results]
    steps.append(Step(kind, operands, [*ends], options, version))
    return model(values, steps, inputs, [*ends])


def weights(
    shape: tuple[int, ...], axis: int, rng: Any, x_scale: float = X[0]
) -> tuple[Value, Value]:
    """Weights with a scale for each output, and a bias on the grid of the products."""
    scales = rng.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
    codes = rng.integers(-127, 128, shape).astype(np.int8)
    b = rng.integers(-2000, 2000, shape[axis]).astype(np.int32)
    sums = np.float32(x_scale) * scales
    w = Value(shape, scales, 0, axis, data=codes)
    return w, Value(b.shape, sums, 0, dtype="int32", data=b)


def linear_weights(
    shape: tuple[int, int], scale: float, rng: Any, x_scale: float
) -> tuple[Value, Value]:
    """Weights with one scale, and a bias."""
    codes = rng.integers(-127, 128, shape).astype(np.int8)
    b = rng.integers(-500, 500, shape[0]).astype(np.int32)
    sums = float(np.float32(x_scale) * np.float32(scale))
    w = Value(shape, scale, 0, data=codes)
    return w, Value(b.shape, sums, 0, dtype="int32", data=b)


def coded_network(rng: Any) -> bytes:
    """A small network of int8, as the converter of TensorFlow writes it."""
    a, c = (0.0235, -128), (0.05, 4)
    values = [
        *(coded((1, 16, 16, 3), X), *weights((8, 3, 3, 3), 0, rng)),
        *(coded((1, 8, 8, 8), a), *weights((1, 3, 3, 8), 3, rng, a[0])),
        *(coded((1, 8, 8, 8), a), coded((1, 8, 8, 8), c), ints(1, 2)),
        *(coded((1, 8), c), *linear_weights((10, 8), 0.01, rng, c[0])),
        *(coded((1, 10), (0.1, 3)), coded((1, 10), (1 / 256, -128))),
    ]
    conv = options_of("Conv2D", StrideH=2, StrideW=2, FusedActivationFunction=3)
    deep = options_of(
        "DepthwiseConv2D", StrideH=1, StrideW=1, FusedActivationFunction=3
    )
    steps = [
        Step("CONV_2D", [0, 1, 2], 3, conv),
        Step("DEPTHWISE_CONV_2D", [3, 4, 5], 6, deep),
        Step("ADD", [3, 6], 7, options_of("Add"), 2),
        Step("MEAN", [7, 8], 9, options_of("Reducer"), 2),
        Step("FULLY_CONNECTED", [9, 10, 11], 12, options_of("FullyConnected"), 4),
        Step("SOFTMAX", [12], 13, options_of("Softmax", Beta=1.0), 2),
    ]
    return model(values, steps, [0], [13])


def named(name: str) -> Options:
    """The options of VAR_HANDLE."""

    def build(b: Any) -> tuple[int, int]:
        import tflite

        text = b.CreateString(name)
        tflite.VarHandleOptionsStart(b)
        tflite.VarHandleOptionsAddSharedName(b, text)
        made = tflite.VarHandleOptionsEnd(b)
        return tflite.BuiltinOptions.VarHandleOptions, made

    return build


def stream(scale: Any = None, graph: int = 1, extra: Any = ()) -> bytes:
    """y = sum of all x so far, which a variable holds; codes if there is a scale.

    Args:
        graph: the graph that is called once.
        extra: more steps of that graph.
    """
    kind = "float32" if scale is None else "int8"
    start = START if scale is None else np.round(START / scale).astype(np.int8)

    def tensor(**more: Any) -> Value:
        return Value((1, 3), scale, 0, dtype=kind, **more)

    handle = Value((1,), dtype="resource")
    once = options_of("CallOnce", InitSubgraphIndex=graph)
    version = 1 if scale is None else 2
    main = Part(
        [tensor(name="x"), handle, tensor(), tensor(name="y")],
        [
            Step("CALL_ONCE", [], [], once, version=1),
            Step("VAR_HANDLE", [], 1, named("total"), version=1),
            Step("READ_VARIABLE", [1], 2, version=1),
            Step("ADD", [0, 2], 3, options_of("Add"), version=version),
            Step("ASSIGN_VARIABLE", [1, 3], [], version=1),
        ],
        [0],
        [3],
    )
    first = Part(
        [handle, tensor(data=start)],
        [
            Step("VAR_HANDLE", [], 0, named("total"), version=1),
            Step("ASSIGN_VARIABLE", [0, 1], [], version=1),
            *extra,
        ],
        [],
        [],
    )
    return file([main, first])
