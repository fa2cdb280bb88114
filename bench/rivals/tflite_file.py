"""TFLite files, written through the schema of the format: values, steps, a graph.

    values = [Value((4,), 0.5), Value((4,), 0.25)]
    model(values, [Step("TANH", [0], 1)], inputs=[0], outputs=[1])

Never write a scale that is no positive normal number: LiteRT ends the process.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6}
TYPES |= {
    "int16": 7,
    "complex64": 8,
    "int8": 9,
    "float64": 10,
    "resource": 13,
    "int4": 17,
}
#: Of operators that have no third version.
VERSIONS = {"HARD_SWISH": 1, "QUANTIZE": 2, "SOFTMAX": 2, "RESHAPE": 1}
#: From a builder to the type and the place of an operator's options.
Options = Callable[[Any], tuple[int, int]]


@dataclass(frozen=True)
class Value:
    """A tensor of the model: its type, its grid, and its elements if it is constant.

    Args:
        name: in the file; by default its number.
        signature: the sizes with -1 for each that may change.
    """

    shape: tuple[int, ...]
    scale: Any = None
    zero: int = 0
    axis: int = 0
    dtype: str = "int8"
    data: Any = None
    name: str = ""
    signature: tuple[int, ...] = ()


@dataclass(frozen=True)
class Step:
    """One operator.

    Args:
        kind: its name in `tflite.BuiltinOperator`.
        inputs: numbers of values, -1 for one that is omitted.
        output: the number of a value, or several.
        options: see `options_of`.
        version: of the operator; 0 for the usual one.
        custom: the options of a custom operator, whose name is `kind`.
    """

    kind: str
    inputs: Sequence[int]
    output: int | Sequence[int]
    options: Options | None = None
    version: int = 0
    custom: bytes | None = None


@dataclass(frozen=True)
class Part:
    """One graph of a file; inputs and outputs are numbers of its values."""

    values: Sequence[Value]
    steps: Sequence[Step]
    inputs: Sequence[int]
    outputs: Sequence[int]


def options_of(kind: str, **fields: Any) -> Options:
    """The options of an operator: `options_of("Pool2D", FilterWidth=3)`."""

    def build(b: Any) -> tuple[int, int]:
        name = f"{kind}Options"
        getattr(tflite, f"{name}Start")(b)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(b, value)
        made = getattr(tflite, f"{name}End")(b)
        return getattr(tflite.BuiltinOptions, name), made

    return build


def model(
    values: Sequence[Value],
    steps: Sequence[Step],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> bytes:
    """The file of one graph; inputs and outputs are numbers of values."""
    return file([Part(values, steps, inputs, outputs)])


def file(parts: Sequence[Part]) -> bytes:
    """The file of several graphs, of which the first is the model."""
    b = flatbuffers.Builder(1024)
    kinds = list(dict.fromkeys(_kind(step) for part in parts for step in part.steps))
    data = [value.data for part in parts for value in part.values]
    buffers = _offsets(b, [_buffer(b, None), *(_buffer(b, one) for one in data)])
    graphs, first = [], 1
    for part in parts:
        graphs.append(_graph(b, part, kinds, first))
        first += len(part.values)
    subgraphs = _offsets(b, graphs)
    codes = _offsets(b, [_code(b, *kind) for kind in kinds])
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, subgraphs)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def _kind(step: Step) -> tuple[str, int, bool]:
    """The name and the version of an operator, and whether it is a custom one."""
    version = step.version or VERSIONS.get(step.kind, 3)
    return step.kind, version, step.custom is not None


def _graph(b: Any, part: Part, kinds: list[Any], first: int) -> int:
    """One graph; the buffer of its first value is number `first`."""
    tensors = [_tensor(b, v, at, first + at) for at, v in enumerate(part.values)]
    listed = _offsets(b, tensors)
    steps = [_operator(b, s, kinds.index(_kind(s))) for s in part.steps]
    operators = _offsets(b, steps)
    entered, left = _ints(b, part.inputs), _ints(b, part.outputs)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, listed)
    tflite.SubGraphAddInputs(b, entered)
    tflite.SubGraphAddOutputs(b, left)
    tflite.SubGraphAddOperators(b, operators)
    return int(tflite.SubGraphEnd(b))


def _code(b: Any, kind: str, version: int, is_custom: bool) -> int:
    code = getattr(tflite.BuiltinOperator, "CUSTOM" if is_custom else kind)
    name = b.CreateString(kind) if is_custom else None
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(b, code)
    tflite.OperatorCodeAddVersion(b, version)
    if name is not None:
        tflite.OperatorCodeAddCustomCode(b, name)
    return int(tflite.OperatorCodeEnd(b))


def _operator(b: Any, step: Step, code: int) -> int:
    outputs = [step.output] if isinstance(step.output, int) else step.output
    given, result = _ints(b, step.inputs), _ints(b, outputs)
    made = step.options(b) if step.options else None
    custom = None
    if step.custom is not None:
        custom = b.CreateNumpyVector(np.frombuffer(step.custom, np.uint8))
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code)
    tflite.OperatorAddInputs(b, given)
    tflite.OperatorAddOutputs(b, result)
    if made:
        tflite.OperatorAddBuiltinOptionsType(b, made[0])
        tflite.OperatorAddBuiltinOptions(b, made[1])
    if custom is not None:
        tflite.OperatorAddCustomOptions(b, custom)
    return int(tflite.OperatorEnd(b))


def _buffer(b: Any, data: Any) -> int:
    at = None if data is None else b.CreateNumpyVector(_bytes(data))
    tflite.BufferStart(b)
    if at is not None:
        tflite.BufferAddData(b, at)
    return tflite.BufferEnd(b)


def _bytes(data: Any) -> Any:
    return np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)


def _tensor(b: Any, value: Value, at: int, buffer: int) -> int:
    name = b.CreateString(value.name or f"t{at}")
    shape = _ints(b, value.shape)
    signature = _ints(b, value.signature) if value.signature else None
    grid = None if value.scale is None else _grid(b, value)
    tflite.TensorStart(b)
    tflite.TensorAddName(b, name)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, TYPES[value.dtype])
    tflite.TensorAddBuffer(b, buffer)
    if grid is not None:
        tflite.TensorAddQuantization(b, grid)
    if signature is not None:
        tflite.TensorAddShapeSignature(b, signature)
    return tflite.TensorEnd(b)


def _grid(b: Any, value: Value) -> int:
    scales = np.atleast_1d(np.asarray(value.scale, np.float32))
    assert (np.isfinite(scales) & (scales >= np.finfo(np.float32).tiny)).all()
    zeros = b.CreateNumpyVector(np.full(scales.shape, value.zero, np.int64))
    steps = b.CreateNumpyVector(scales)
    tflite.QuantizationParametersStart(b)
    tflite.QuantizationParametersAddScale(b, steps)
    tflite.QuantizationParametersAddZeroPoint(b, zeros)
    tflite.QuantizationParametersAddQuantizedDimension(b, value.axis)
    return tflite.QuantizationParametersEnd(b)


def _ints(b: Any, numbers: Iterable[int]) -> int:
    return b.CreateNumpyVector(np.array(list(numbers), np.int32))


def _offsets(b: Any, places: list[int]) -> int:
    b.StartVector(4, len(places), 4)
    for place in reversed(places):
        b.PrependUOffsetTRelative(place)
    return b.EndVector()
